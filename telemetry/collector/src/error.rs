// SPDX-License-Identifier: Apache-2.0
//! What can go wrong, each with what was tried and on what.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use arrow::error::ArrowError;
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
        /// What the kernel says.
        source: io::Error,
    },
    /// The socket failed while it was in use.
    #[error("cannot {what} on {address}: {source}")]
    Socket {
        /// What was tried.
        what: &'static str,
        /// The socket's address.
        address: SocketAddr,
        /// What the kernel says.
        source: io::Error,
    },
    /// The interface could not be opened, or went away.
    #[error("cannot receive on interface {name}: {source}{}", interface_hint(.source))]
    Interface {
        /// The interface of `--interface`.
        name: String,
        /// What the kernel says.
        source: io::Error,
    },
    /// The capture of `--read`. What came before the damage is stored.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// The metrics cannot be served.
    #[error("cannot serve metrics on {address}: {source}{}", listen_hint(.source))]
    Metrics {
        /// The address of `--metrics`.
        address: SocketAddr,
        /// What the kernel says.
        source: io::Error,
    },
    /// Signals or timers could not be set up.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the kernel says.
        source: io::Error,
    },
    /// The Parquet file.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// A small file (accounting, ready file).
    #[error("cannot write {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the kernel says.
        source: io::Error,
    },
    /// Rows could not be put in columns.
    #[error("cannot put the reports in columns: {0}")]
    Columns(#[from] ArrowError),
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
