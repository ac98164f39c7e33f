// SPDX-License-Identifier: Apache-2.0
//! TLS: the switch's certificate, and with a CA (mutual TLS) also the controllers'.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};

use tonic::transport::{Certificate, Identity, Server, ServerTlsConfig};

/// The reason why TLS cannot be used as configured.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("--{option}: cannot read {path}: {error}", path = path.display())]
    Read {
        /// The option that names it.
        option: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's reason.
        error: io::Error,
    },
    /// The certificate or the key is not PEM, or they do not go together.
    #[error("{cert} and {key}: {reason}; valid: a certificate and its private key, in PEM",
            cert = cert.display(), key = key.display())]
    Identity {
        /// The certificate's file.
        cert: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// The error of the TLS library.
        reason: String,
    },
    /// The authority of controllers is no certificate.
    #[error("{ca}: {reason}; valid: the certificate of an authority, in PEM", ca = ca.display())]
    Authority {
        /// Its file.
        ca: PathBuf,
        /// The error of the TLS library.
        reason: String,
    },
}

/// PEM files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The switch's certificate, followed by intermediate ones.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The CA of the certificates that controllers must present; None admits controllers without a certificate.
    pub ca: Option<PathBuf>,
}

impl TlsFiles {
    /// Reads the files and builds the TLS configuration once, so that an error shows before the service is announced.
    ///
    /// # Errors
    /// [`TlsError`], with the option or the file.
    pub fn load(&self) -> Result<ServerTlsConfig, TlsError> {
        let identity =
            Identity::from_pem(read("tls-cert", &self.cert)?, read("tls-key", &self.key)?);
        let config = ServerTlsConfig::new().identity(identity);
        check(&config).map_err(|reason| TlsError::Identity {
            cert: self.cert.clone(),
            key: self.key.clone(),
            reason,
        })?;
        let Some(ca) = &self.ca else {
            return Ok(config);
        };
        let config = config.client_ca_root(Certificate::from_pem(read("tls-ca", ca)?));
        check(&config).map_err(|reason| TlsError::Authority {
            ca: ca.clone(),
            reason,
        })?;
        Ok(config)
    }
}

/// The reason why a server cannot use the configuration; tonic's own text does not have it.
fn check(config: &ServerTlsConfig) -> Result<(), String> {
    let Err(error) = Server::builder().tls_config(config.clone()) else {
        return Ok(());
    };
    let mut reason: &dyn Error = &error;
    while let Some(source) = reason.source() {
        reason = source;
    }
    Err(reason.to_string())
}

/// Reads the file named by an option.
pub(crate) fn read(option: &'static str, path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|error| TlsError::Read {
        option,
        path: path.to_owned(),
        error,
    })
}
