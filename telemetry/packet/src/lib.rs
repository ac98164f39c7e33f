// SPDX-License-Identifier: Apache-2.0
//! Header views over one captured frame, which may be cut at the capture's snap length.
//!
//! ```
//! use weir_packet::{LinkType, Packet, Transport};
//!
//! # let captured = weir_packet::doc_frame();
//! let packet = Packet::parse(LinkType::Ethernet, &captured, 1514)?;
//! if let Some(Transport::Tcp(tcp)) = packet.transport() {
//!     // The length comes from the IP header: the capture may hold fewer bytes than the packet had.
//!     assert_eq!(tcp.payload_length(), 1460);
//! }
//! # Ok::<(), weir_packet::PacketError>(())
//! ```
//!
//! # Layout
//!
//! - `packet`: [`Packet`], the entry point: link, then IP, then transport
//! - `link`: [`LinkType`], Ethernet, VLAN tags, Linux cooked captures
//! - `ipv4`, `ipv6`, `ip`: the network headers and what both have in common
//! - `tcp`, `tcp_options`, `udp`: the transport headers
//! - [`protocol`]: the IP protocol numbers that are told apart
//! - `flow`: [`FlowKey`], the directed 5-tuple
//! - `error`: [`PacketError`], which names the header that was cut or wrong

mod bytes;
mod error;
mod flow;
mod ip;
mod ipv4;
mod ipv6;
mod link;
mod packet;
pub mod protocol;
mod tcp;
mod tcp_options;
mod udp;

pub use error::{Header, PacketError};
pub use flow::FlowKey;
pub use ip::Ip;
pub use ipv4::Ipv4;
pub use ipv6::Ipv6;
pub use link::{Link, LinkType, UnsupportedLinkType, VlanIds};
pub use packet::{Packet, Transport};
pub use tcp::{Tcp, TcpFlags};
pub use tcp_options::{OptionsEnd, SackBlock, SackBlocks, TcpOptions, Timestamps, sequence_before};
pub use udp::Udp;

/// The frame of the example above: 54 captured bytes of a TCP segment with 1460 bytes of payload.
#[doc(hidden)]
#[must_use]
pub fn doc_frame() -> [u8; 54] {
    let mut frame = [0; 54];
    frame[12..14].copy_from_slice(&[0x08, 0x00]);
    frame[14..18].copy_from_slice(&[0x45, 0x00, 0x05, 0xdc]);
    frame[23] = protocol::TCP;
    frame[46] = 0x50;
    frame
}
