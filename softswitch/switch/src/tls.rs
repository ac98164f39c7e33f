// SPDX-License-Identifier: Apache-2.0
//! TLS: the switch's certificate, and with a CA of the controllers also theirs.

use std::io;
use std::path::{Path, PathBuf};

use tonic::transport::{Certificate, Identity, ServerTlsConfig};

/// Why the service cannot use TLS as asked.
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
    /// A certificate that is no PEM, or that does not belong to its key.
    #[error("--tls-cert, --tls-key, --tls-ca: {0}")]
    Invalid(#[from] tonic::transport::Error),
}

/// PEM files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The switch's certificate, with intermediate ones after it.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// What signs the certificates that controllers must show; None lets in controllers without one.
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

/// Reads the file that an option names.
pub(crate) fn read(option: &'static str, path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|error| TlsError::Read {
        option,
        path: path.to_owned(),
        error,
    })
}
