// SPDX-License-Identifier: Apache-2.0
//! The reasons why an interface cannot be received from through AF_XDP.

use std::io;

/// `ENOTSUPP` of the kernel, which some drivers return; missing from libc.
const ENOTSUPP: i32 = 524;

/// Why an interface cannot be received from through AF_XDP; the text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum XdpError {
    /// The process may not load an XDP program, or not pin the memory of frames.
    #[error(
        "the kernel refuses this user an XDP program or the memory for its frames ({error}): run as the machine's root, \
         or with CAP_BPF, CAP_NET_ADMIN, CAP_NET_RAW and CAP_IPC_LOCK, and not in a user namespace"
    )]
    NotPermitted {
        /// The kernel's reason.
        error: io::Error,
    },
    /// The driver cannot run XDP programs.
    #[error(
        "its driver has no native XDP; without receive=xdp the port receives through a packet ring"
    )]
    NoDriverSupport,
    /// Another program has the interface.
    #[error(
        "another XDP program is attached to it: `ip -details link show` names it, `ip link set dev INTERFACE xdp off` \
         detaches it unless it belongs to a running process"
    )]
    OtherProgram,
    /// Another socket has a queue.
    #[error("another AF_XDP socket has its receive queue {queue}; end the program that uses it")]
    QueueInUse {
        /// The queue.
        queue: u32,
    },
    /// More receive queues than a port has sockets.
    #[error(
        "it has {queues} receive queues, and a port reads at most {most}: `ethtool -L INTERFACE combined {most}`"
    )]
    TooManyQueues {
        /// Those of the interface.
        queues: u32,
        /// Those of a port.
        most: u32,
    },
    /// Frames that fit no chunk.
    #[error(
        "its MTU of {mtu_bytes} bytes is too large for AF_XDP: `ip link set dev INTERFACE mtu {most_bytes}`"
    )]
    MtuTooLarge {
        /// That of the interface.
        mtu_bytes: usize,
        /// The largest that works.
        most_bytes: usize,
    },
    /// The driver refused the program for a reason that it does not tell.
    #[error(
        "its driver refuses an XDP program ({error}): the MTU is too large for its XDP, it has fewer queues than the \
         other end of a veth sends through, or the kernel is older than Linux 5.9"
    )]
    DriverRefused {
        /// The kernel's reason.
        error: io::Error,
    },
    /// Another failure.
    #[error("{step}: {error}")]
    Kernel {
        /// What failed.
        step: &'static str,
        /// The kernel's reason.
        error: io::Error,
    },
}

impl XdpError {
    /// A failure of a step for which privileges are needed.
    pub(super) fn at(step: &'static str) -> impl Fn(io::Error) -> Self {
        move |error| match error.raw_os_error() {
            // ENOBUFS: more memory than may be pinned.
            Some(libc::EPERM | libc::EACCES | libc::ENOBUFS) => Self::NotPermitted { error },
            _ => Self::Kernel { step, error },
        }
    }

    /// A failure to attach the program.
    pub(super) fn of_attaching(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::EBUSY | libc::EEXIST) => Self::OtherProgram,
            Some(libc::EOPNOTSUPP | ENOTSUPP) => Self::NoDriverSupport,
            Some(libc::EINVAL | libc::ERANGE | libc::ENOSPC) => Self::DriverRefused { error },
            _ => Self::at("attaching the XDP program")(error),
        }
    }

    /// A failure to bind the socket of a queue.
    pub(super) fn of_binding(queue: u32, error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::EBUSY) => Self::QueueInUse { queue },
            _ => Self::at("binding an AF_XDP socket")(error),
        }
    }

    /// Whether the interface has disappeared meanwhile.
    pub fn is_interface_gone(&self) -> bool {
        matches!(self, Self::Kernel { error, .. } | Self::DriverRefused { error }
            if matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ENXIO)))
    }
}
