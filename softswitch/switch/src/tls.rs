// SPDX-License-Identifier: Apache-2.0
//! TLS: the switch's certificate, and with a CA (mutual TLS) also the controllers'.

use std::io;
use std::path::{Path, PathBuf};

use tonic::transport::{Certificate, Identity, ServerTlsConfig};

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
    /// A certificate is not PEM, or does not match its key.
    #[error("--tls-cert, --tls-key, --tls-ca: {0}")]
    Invalid(#[from] tonic::transport::Error),
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
    /// Reads the files.
    ///
    /// # Errors
    /// [`TlsError::Read`], with the option and the file.
    pub fn load(&self) -> Result<ServerTlsConfig, TlsError> {
        let identity =
            Identity::from_pem(read("tls-cert", &self.cert)?, read("tls-key", &self.key)?);
        let config = ServerTlsConfig::new().identity(identity);
        Ok(match &self.ca {
            Some(ca) => config.client_ca_root(Certificate::from_pem(read("tls-ca", ca)?)),
            None => config,
        })
    }
}

/// Reads the file named by an option.
pub(crate) fn read(option: &'static str, path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|error| TlsError::Read {
        option,
        path: path.to_owned(),
        error,
    })
}
