// SPDX-License-Identifier: Apache-2.0
//! Errors of a frame, with the header that they are in.

use std::fmt;

/// The header that was being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Header {
    /// Ethernet II, 14 bytes.
    Ethernet,
    /// One 802.1Q or 802.1ad tag, 4 bytes.
    Vlan,
    /// Linux cooked capture v1, 16 bytes.
    LinuxCookedV1,
    /// Linux cooked capture v2, 20 bytes.
    LinuxCookedV2,
    /// PPP, 1 to 4 bytes.
    Ppp,
    /// The address family of BSD loopback captures, 4 bytes.
    BsdLoopback,
    /// PPPoE of a session, 6 bytes.
    Pppoe,
    /// One MPLS label, 4 bytes.
    Mpls,
    /// IP of unknown version (raw IP captures).
    Ip,
    /// IPv4 with its options.
    Ipv4,
    /// IPv6, 40 bytes.
    Ipv6,
    /// An IPv6 extension header.
    Ipv6Extension,
    /// TCP without its options, 20 bytes.
    Tcp,
    /// UDP, 8 bytes.
    Udp,
}

impl fmt::Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ethernet => "Ethernet",
            Self::Vlan => "VLAN",
            Self::LinuxCookedV1 => "Linux cooked v1",
            Self::LinuxCookedV2 => "Linux cooked v2",
            Self::Ppp => "PPP",
            Self::BsdLoopback => "BSD loopback",
            Self::Pppoe => "PPPoE",
            Self::Mpls => "MPLS",
            Self::Ip => "IP",
            Self::Ipv4 => "IPv4",
            Self::Ipv6 => "IPv6",
            Self::Ipv6Extension => "IPv6 extension",
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
        })
    }
}

/// The reason why a header could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// The capture (or the packet itself) ends inside the header.
    #[error("{header} header is cut: it needs {needed} bytes, {available} are there")]
    Cut {
        /// The header that was being read.
        header: Header,
        /// Bytes the header needs.
        needed: usize,
        /// Bytes available.
        available: usize,
    },
    /// A field of the header has a value that no valid packet has.
    #[error("{header} header is malformed: {field} is {value}, valid is {valid}")]
    Malformed {
        /// The header that was being read.
        header: Header,
        /// The field, by the name its RFC gives it.
        field: &'static str,
        /// The value in the packet.
        value: u32,
        /// The valid values.
        valid: &'static str,
    },
}

/// The first `needed` bytes, or the error that `header` is cut.
#[inline]
pub(crate) fn take(bytes: &[u8], needed: usize, header: Header) -> Result<&[u8], PacketError> {
    bytes.get(..needed).ok_or(PacketError::Cut {
        header,
        needed,
        available: bytes.len(),
    })
}
