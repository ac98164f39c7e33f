// SPDX-License-Identifier: Apache-2.0
//! The address of a switch on the command line, and the connection to it.

use std::path::PathBuf;

use clap::Args;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

use crate::tls::{TlsError, read};

/// Where the switch is.
#[derive(Debug, Args)]
pub struct At {
    /// Address of the switch's P4Runtime service, or of the wire's; with TLS the host as its certificate names it.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9559")]
    at: String,

    /// Use TLS; the PEM file has the authority that signed the switch's certificate.
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,

    /// PEM certificate to show to a switch that asks for one.
    #[arg(long, value_name = "FILE", requires_all = ["tls_key", "tls_ca"])]
    tls_cert: Option<PathBuf>,

    /// Private key of that certificate.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
}

/// The reason why the switch cannot be reached.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Nothing answers.
    #[error("--at: nothing answers at {at}: {error}")]
    Unreachable {
        /// The address.
        at: String,
        /// The transport's reason.
        error: tonic::transport::Error,
    },
    /// A TLS file.
    #[error("{0}")]
    Tls(#[from] TlsError),
}

impl At {
    /// Connects to the switch.
    pub(super) async fn connect(&self) -> Result<Channel, ConnectError> {
        let unreachable = |error| ConnectError::Unreachable {
            at: self.at.clone(),
            error,
        };
        let endpoint = match self.tls()? {
            None => Endpoint::from_shared(format!("http://{}", self.at)),
            Some(tls) => Endpoint::from_shared(format!("https://{}", self.at))
                .and_then(|endpoint| endpoint.tls_config(tls)),
        };
        endpoint
            .map_err(unreachable)?
            .connect()
            .await
            .map_err(unreachable)
    }

    fn tls(&self) -> Result<Option<ClientTlsConfig>, ConnectError> {
        let Some(ca) = &self.tls_ca else {
            return Ok(None);
        };
        let trusting = ClientTlsConfig::new();
        let trusting = trusting.ca_certificate(Certificate::from_pem(read("tls-ca", ca)?));
        Ok(Some(
            match self.tls_cert.as_ref().zip(self.tls_key.as_ref()) {
                None => trusting,
                Some((cert, key)) => trusting.identity(Identity::from_pem(
                    read("tls-cert", cert)?,
                    read("tls-key", key)?,
                )),
            },
        ))
    }
}
