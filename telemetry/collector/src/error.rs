// SPDX-License-Identifier: Apache-2.0
//! The collector's errors: each names the operation and its object.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use weir_capture::CaptureError;

use crate::storage::StorageError;

/// Why the collector did not start, or did not end well.
#[derive(Debug, thiserror::Error)]
pub enum CollectorError {
    /// The socket could not be bound.
    #[error("cannot listen on {address}: {source}{}", listen_hint(.source))]
    Listen {
        /// The address of `--listen`.
        address: SocketAddr,
        /// The kernel's error.
        source: io::Error,
    },
    /// The socket failed while it was in use.
    #[error("cannot {what} on {address}: {source}")]
    Socket {
        /// The operation.
        what: &'static str,
        /// The socket's address.
        address: SocketAddr,
        /// The kernel's error.
        source: io::Error,
    },
    /// The interface could not be opened, or was deleted.
    #[error("cannot receive on interface {name}: {source}{}", interface_hint(.source))]
    Interface {
        /// The interface of `--interface`.
        name: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The capture of `--read` is damaged. The reports before the damage are stored.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// The metrics cannot be served.
    #[error("cannot serve metrics on {address}: {source}{}", listen_hint(.source))]
    Metrics {
        /// The address of `--metrics`.
        address: SocketAddr,
        /// The kernel's error.
        source: io::Error,
    },
    /// Signals or timers could not be set up.
    #[error("cannot {what}: {source}")]
    System {
        /// The operation.
        what: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// A Parquet file could not be written or recovered.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// A small file (accounting, ready file) could not be written.
    #[error("cannot write {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// The accounts could not be put in JSON.
    #[error("cannot put the accounts in JSON: {0}")]
    Json(#[from] serde_json::Error),
}

fn listen_hint(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::AddrInUse => "; another program uses it, give another port or stop it",
        io::ErrorKind::AddrNotAvailable => {
            "; give an address of this host, or 0.0.0.0 for all of them"
        }
        io::ErrorKind::PermissionDenied => "; ports below 1024 need privileges",
        _ => "",
    }
}

fn interface_hint(source: &io::Error) -> &'static str {
    match source.raw_os_error() {
        Some(libc::ENODEV) => "; `ip link` lists those of this network namespace",
        Some(libc::ENETDOWN) => "; it is gone, what came before is stored",
        Some(libc::EPERM) => "; it needs CAP_NET_RAW, or use --listen",
        _ => "",
    }
}
