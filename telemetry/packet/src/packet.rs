// SPDX-License-Identifier: Apache-2.0
//! One frame from its link header to its transport header.

use crate::error::PacketError;
use crate::flow::FlowKey;
use crate::ip::Ip;
use crate::ipv4::Ipv4;
use crate::ipv6::Ipv6;
use crate::link::{ETHER_TYPE_IPV4, ETHER_TYPE_IPV6, Link, LinkType};
use crate::protocol;
use crate::tcp::Tcp;
use crate::udp::Udp;

/// The transport header of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport<'a> {
    /// TCP.
    Tcp(Tcp<'a>),
    /// UDP.
    Udp(Udp<'a>),
}

/// One captured frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    link: Link<'a>,
    ip: Option<Ip<'a>>,
    transport: Result<Option<Transport<'a>>, PacketError>,
}

impl<'a> Packet<'a> {
    /// Reads the headers of a frame from its `captured` bytes; it had `wire_length` bytes on the wire (without FCS).
    ///
    /// `wire_length` matters only where an IP header has no length (segmentation offload). Pass `captured.len()` if it is
    /// not known.
    ///
    /// # Errors
    /// [`PacketError`] when a link or IP header is cut or malformed. With a cut transport header the IP header is still
    /// available; [`Packet::transport_error`] has the error.
    #[inline]
    pub fn parse(
        link_type: LinkType,
        captured: &'a [u8],
        wire_length: usize,
    ) -> Result<Self, PacketError> {
        let link = Link::parse(link_type, captured)?;
        let network = captured.get(link.header_length()..).unwrap_or_default();
        let network_wire_length = wire_length
            .max(captured.len())
            .saturating_sub(link.header_length());
        let ip = match link.ether_type() {
            ETHER_TYPE_IPV4 => Some(Ip::V4(Ipv4::parse(network, network_wire_length)?)),
            ETHER_TYPE_IPV6 => Some(Ip::V6(Ipv6::parse(network, network_wire_length)?)),
            _ => None,
        };
        let transport = ip.as_ref().map_or(Ok(None), parse_transport);
        Ok(Self {
            link,
            ip,
            transport,
        })
    }

    /// The link header.
    #[must_use]
    pub const fn link(&self) -> &Link<'a> {
        &self.link
    }

    /// The IP header; `None` for ARP and all else that is not IP.
    #[must_use]
    pub const fn ip(&self) -> Option<&Ip<'a>> {
        self.ip.as_ref()
    }

    /// The transport header; `None` when it is neither TCP nor UDP, is in another fragment, or could not be read.
    #[must_use]
    #[inline]
    pub fn transport(&self) -> Option<&Transport<'a>> {
        self.transport.as_ref().ok()?.as_ref()
    }

    /// The reason why the transport header could not be read.
    #[must_use]
    pub fn transport_error(&self) -> Option<PacketError> {
        self.transport.err()
    }

    /// The TCP header, if that is the transport.
    #[must_use]
    #[inline]
    pub fn tcp(&self) -> Option<&Tcp<'a>> {
        match self.transport() {
            Some(Transport::Tcp(tcp)) => Some(tcp),
            _ => None,
        }
    }

    /// The UDP header, if that is the transport.
    #[must_use]
    #[inline]
    pub fn udp(&self) -> Option<&Udp<'a>> {
        match self.transport() {
            Some(Transport::Udp(udp)) => Some(udp),
            _ => None,
        }
    }

    /// Source and destination port of TCP or UDP.
    #[must_use]
    #[inline]
    pub fn ports(&self) -> Option<(u16, u16)> {
        match self.transport()? {
            Transport::Tcp(tcp) => Some((tcp.src_port(), tcp.dst_port())),
            Transport::Udp(udp) => Some((udp.src_port(), udp.dst_port())),
        }
    }

    /// Whether the frame carries a fragment of a larger IP packet.
    #[must_use]
    #[inline]
    pub fn is_fragment(&self) -> bool {
        self.ip.is_some_and(|ip| ip.is_fragment())
    }

    /// The 5-tuple. `None` without IP, and where TCP or UDP ports exist but are not captured (a later fragment, a header
    /// that was cut): a key with ports 0 would name another flow.
    #[must_use]
    #[inline]
    pub fn flow(&self) -> Option<FlowKey> {
        let ip = self.ip?;
        let protocol = ip.protocol();
        let (src_port, dst_port) = match self.ports() {
            Some(ports) => ports,
            None if matches!(protocol, protocol::TCP | protocol::UDP) => return None,
            None => (0, 0),
        };
        Some(FlowKey {
            src: ip.src(),
            dst: ip.dst(),
            src_port,
            dst_port,
            protocol,
        })
    }
}

#[inline]
fn parse_transport<'a>(ip: &Ip<'a>) -> Result<Option<Transport<'a>>, PacketError> {
    if ip.fragment_offset_bytes() != 0 {
        return Ok(None);
    }
    match ip.protocol() {
        protocol::TCP => Ok(Some(Transport::Tcp(Tcp::parse(
            ip.payload(),
            ip.payload_length(),
        )?))),
        protocol::UDP => Ok(Some(Transport::Udp(Udp::parse(
            ip.payload(),
            ip.payload_length(),
        )?))),
        _ => Ok(None),
    }
}
