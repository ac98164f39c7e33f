// SPDX-License-Identifier: Apache-2.0
//! The header before each frame of a packet socket with `PACKET_VNET_HDR`: `struct virtio_net_hdr` (virtio 1.2, section 5.1.6;
//! `linux/virtio_net.h`), in the machine's byte order. It says which checksum and segmentation the sending host offloaded.

/// Bytes of the header.
pub const HEADER_BYTES: usize = 10;
const NEEDS_CSUM: u8 = 1;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
/// Flag beside a type: the first segment may have TCP's CWR.
const GSO_ECN: u8 = 0x80;

/// The part of the header that a receiver has to act on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Offload {
    /// Where the transport's checksum is to be written, if it is.
    pub checksum: Option<ChecksumField>,
    /// How the frame is to be cut into segments; None if it is one.
    pub segments: Option<Segments>,
}

/// The checksum of the frame from `start` to its end belongs at `start + offset`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChecksumField {
    /// First byte of the transport header.
    pub start: usize,
    /// Position of the field in it.
    pub offset: usize,
}

/// The frame is a number of segments with one header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segments {
    /// Their transport.
    pub transport: Transport,
    /// Payload of each segment but the last, in bytes; not 0.
    pub payload_bytes: usize,
}

/// The transport of segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// TCP over IPv4 or IPv6.
    Tcp,
    /// UDP datagrams of equal length.
    Udp,
    /// Any other: such a frame cannot be cut here.
    Unknown,
}

impl Offload {
    /// Reads a header.
    pub fn read(header: [u8; HEADER_BYTES]) -> Self {
        let [
            flags,
            gso_type,
            _,
            _,
            size_0,
            size_1,
            start_0,
            start_1,
            offset_0,
            offset_1,
        ] = header;
        let number = |bytes| usize::from(u16::from_ne_bytes(bytes));
        let checksum = (flags & NEEDS_CSUM != 0).then(|| ChecksumField {
            start: number([start_0, start_1]),
            offset: number([offset_0, offset_1]),
        });
        let payload_bytes = number([size_0, size_1]);
        let transport = match gso_type & !GSO_ECN {
            GSO_TCPV4 | GSO_TCPV6 => Transport::Tcp,
            GSO_UDP_L4 => Transport::Udp,
            _ => Transport::Unknown,
        };
        let segments = (gso_type != 0 && payload_bytes > 0).then_some(Segments {
            transport,
            payload_bytes,
        });
        Self { checksum, segments }
    }
}
