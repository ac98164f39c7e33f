// SPDX-License-Identifier: Apache-2.0
//! The reasons why a port cannot be opened.

use std::io;

use super::xdp::XdpError;

/// The reason why a port cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// No interface has this name.
    #[error(
        "interface `{interface}` does not exist in this network namespace; `ip link` lists those that do"
    )]
    Missing {
        /// Its name.
        interface: String,
    },
    /// The kernel refused.
    #[error("cannot open interface `{interface}`: {error}{hint}")]
    Refused {
        /// Its name.
        interface: String,
        /// The kernel's reason.
        error: io::Error,
        /// How to fix it, or empty.
        hint: &'static str,
    },
    /// It cannot be received from through AF_XDP.
    #[error("cannot receive from interface `{interface}` through AF_XDP (receive=xdp): {error}")]
    Xdp {
        /// Its name.
        interface: String,
        /// Why not, and what to do.
        error: XdpError,
    },
}

impl OpenError {
    /// The kernel's refusal to open an interface.
    pub(crate) fn new(interface: &str, error: io::Error) -> Self {
        let interface = interface.to_owned();
        match error.raw_os_error() {
            Some(libc::ENODEV) => Self::Missing { interface },
            Some(libc::EPERM | libc::EACCES) => Self::Refused {
                interface,
                error,
                hint: "; packet sockets need CAP_NET_RAW: run as root or in a user and network namespace \
                       (`unshare --user --map-root-user --net`)",
            },
            Some(libc::EMFILE) => Self::Refused {
                interface,
                error,
                hint: "; each port has several, and several for each forwarding thread: allow more (`ulimit -n`)",
            },
            _ => Self::Refused {
                interface,
                error,
                hint: "",
            },
        }
    }

    /// A failure to receive through AF_XDP.
    pub(crate) fn of_xdp(interface: &str, error: XdpError) -> Self {
        let interface = interface.to_owned();
        if error.is_interface_gone() {
            return Self::Missing { interface };
        }
        Self::Xdp { interface, error }
    }
}
