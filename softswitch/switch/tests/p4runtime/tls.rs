// SPDX-License-Identifier: Apache-2.0
//! The service with TLS, and with certificates of controllers.

use std::path::Path;
use std::process::Command;

use crate::support::{DEVICE, TestSwitch};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use weir_p4runtime::p4::v1::CapabilitiesRequest;
use weir_p4runtime::p4::v1::p4_runtime_client::P4RuntimeClient;
use weir_switch::tls::{TlsError, TlsFiles};

struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        Self { issuer }
    }

    fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// Certificate and key for a name.
    fn certify(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let cert = params.signed_by(&key, &self.issuer).unwrap();
        (cert.pem(), key.serialize_pem())
    }
}

/// A switch whose certificate the authority signed.
async fn switch(folder: &Path, authority: &Authority, mutual: bool) -> TestSwitch {
    let (cert, key) = authority.certify("localhost");
    std::fs::write(folder.join("cert.pem"), cert).unwrap();
    std::fs::write(folder.join("key.pem"), key).unwrap();
    std::fs::write(folder.join("ca.pem"), authority.pem()).unwrap();
    let files = TlsFiles {
        cert: folder.join("cert.pem"),
        key: folder.join("key.pem"),
        ca: mutual.then(|| folder.join("ca.pem")),
    };
    TestSwitch::start_with(Some(files.load().unwrap())).await
}

async fn version(switch: &TestSwitch, tls: ClientTlsConfig) -> Result<String, String> {
    let endpoint = Endpoint::from_shared(format!("https://localhost:{}", switch.address.port()));
    let channel: Channel = endpoint
        .unwrap()
        .tls_config(tls)
        .unwrap()
        .connect()
        .await
        .map_err(|e| format!("{e:?}"))?;
    let request = CapabilitiesRequest { device_id: DEVICE };
    let answer = P4RuntimeClient::new(channel).capabilities(request).await;
    let answer = answer.map_err(|e| format!("{e:?}"))?;
    Ok(answer.into_inner().p4runtime_api_version)
}

fn trusting(authority: &Authority) -> ClientTlsConfig {
    ClientTlsConfig::new().ca_certificate(Certificate::from_pem(authority.pem()))
}

#[tokio::test]
async fn a_controller_that_trusts_the_switchs_authority_connects() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let switch = switch(folder.path(), &authority, false).await;
    assert_eq!(
        version(&switch, trusting(&authority)).await.unwrap(),
        "1.5.0"
    );
    let stranger = Authority::new();
    assert!(version(&switch, trusting(&stranger)).await.is_err());
}

#[tokio::test]
async fn mutual_tls_lets_in_only_controllers_with_a_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let switch = switch(folder.path(), &authority, true).await;
    let with = |authority: &Authority, tls: ClientTlsConfig| {
        let (cert, key) = authority.certify("controller");
        tls.identity(Identity::from_pem(cert, key))
    };
    let good = with(&authority, trusting(&authority));
    assert_eq!(version(&switch, good).await.unwrap(), "1.5.0");
    assert!(version(&switch, trusting(&authority)).await.is_err());
    let foreign = with(&Authority::new(), trusting(&authority));
    assert!(version(&switch, foreign).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_links_client_speaks_tls_and_shows_a_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let switch = switch(folder.path(), &authority, true).await;
    let at = format!("localhost:{}", switch.address.port());
    let file = |name: &str| folder.path().join(name).display().to_string();
    let get = |tls: &[String]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir-switch"));
        command.args(["links", "get", "--at", &at]).args(tls);
        command.output().unwrap()
    };
    let ca = ["--tls-ca".to_owned(), file("ca.pem")];
    let cert = ["--tls-cert".to_owned(), file("cert.pem")];
    let key = ["--tls-key".to_owned(), file("key.pem")];
    let shown = get(&[ca.clone(), cert, key].concat());
    assert!(shown.status.success(), "{shown:?}");
    assert!(shown.stdout.starts_with(b"["), "{shown:?}");
    assert!(!get(&ca).status.success());
    assert!(!get(&[]).status.success());
}

#[tokio::test]
async fn plain_text_is_refused_when_tls_is_on() {
    let folder = tempfile::tempdir().unwrap();
    let switch = switch(folder.path(), &Authority::new(), false).await;
    let plain = P4RuntimeClient::connect(format!("http://{}", switch.address)).await;
    let answered = match plain {
        Ok(mut client) => client
            .capabilities(CapabilitiesRequest { device_id: DEVICE })
            .await
            .is_ok(),
        Err(_) => false,
    };
    assert!(!answered);
}

#[test]
fn a_file_that_is_not_there_is_named_with_its_option() {
    let files = TlsFiles {
        cert: "absent.pem".into(),
        key: "absent.key".into(),
        ca: None,
    };
    let error = files.load().unwrap_err();
    assert!(matches!(
        error,
        TlsError::Read {
            option: "tls-cert",
            ..
        }
    ));
    assert!(error.to_string().contains("absent.pem"), "{error}");
}

#[test]
fn files_that_tls_cannot_use_are_named_before_the_service_starts() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let ((cert, key), (_, other_key)) =
        (authority.certify("localhost"), authority.certify("other"));
    let file = |name: &str, content: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    };
    let (cert, key) = (file("cert.pem", &cert), file("key.pem", &key));
    let other_key = file("other.pem", &other_key);
    let nothing = file("nothing.pem", "no PEM\n");
    let refused = |cert: &Path, key: &Path, ca: Option<&Path>| {
        let files = TlsFiles {
            cert: cert.to_owned(),
            key: key.to_owned(),
            ca: ca.map(Path::to_owned),
        };
        files.load().unwrap_err().to_string()
    };
    for (cert, key) in [(&cert, &other_key), (&nothing, &key), (&cert, &nothing)] {
        let text = refused(cert, key, None);
        let named = format!("{} and {}: ", cert.display(), key.display());
        assert!(text.starts_with(&named), "{text}");
        assert!(!text.contains("transport error"), "{text}");
    }
    let text = refused(&cert, &key, Some(&nothing));
    assert!(text.starts_with(&nothing.display().to_string()), "{text}");
    assert!(!text.contains("transport error"), "{text}");
}
