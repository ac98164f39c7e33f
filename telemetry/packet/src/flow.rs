// SPDX-License-Identifier: Apache-2.0
//! The directed 5-tuple.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// Addresses, ports and protocol of one direction of a conversation.
///
/// Protocols without ports (ICMP, …) have both ports 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowKey {
    /// Source address.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// IP protocol number, after IPv6 extension headers.
    pub protocol: u8,
}

impl FlowKey {
    /// The same conversation seen from the other end.
    #[must_use]
    #[inline]
    pub const fn reversed(self) -> Self {
        Self {
            src: self.dst,
            dst: self.src,
            src_port: self.dst_port,
            dst_port: self.src_port,
            ..self
        }
    }
}

impl fmt::Display for FlowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let src = SocketAddr::new(self.src, self.src_port);
        let dst = SocketAddr::new(self.dst, self.dst_port);
        write!(f, "{src} > {dst} protocol {}", self.protocol)
    }
}
