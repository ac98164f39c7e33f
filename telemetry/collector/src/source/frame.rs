// SPDX-License-Identifier: Apache-2.0
//! Frames in, datagrams to one UDP port out.

use std::net::SocketAddr;

use weir_packet::{LinkType, Packet};

use super::Datagram;

/// A frame as an interface or a capture has it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame<'a> {
    pub(super) link_type: LinkType,
    pub(super) bytes: &'a [u8],
    pub(super) wire_length: u32,
    pub(super) time_ns: i64,
}

/// The UDP datagram to `port` in the frame, if that is what the frame is.
pub(super) fn datagram<'a>(frame: &Frame<'a>, port: u16) -> Option<Datagram<'a>> {
    let wire_length = usize::try_from(frame.wire_length).unwrap_or(usize::MAX);
    let packet = Packet::parse(frame.link_type, frame.bytes, wire_length).ok()?;
    let (ip, udp) = (packet.ip()?, packet.udp()?);
    if udp.dst_port() != port {
        return None;
    }
    Some(Datagram {
        payload: udp.payload(),
        cut: udp.payload().len() < udp.payload_length() || packet.is_fragment(),
        received_ns: frame.time_ns,
        sender: Some(SocketAddr::new(ip.src(), udp.src_port())),
        destination: SocketAddr::new(ip.dst(), port),
    })
}
