// SPDX-License-Identifier: Apache-2.0
//! The Ethernet, IPv4 and UDP headers of a report on the wire.

use std::net::Ipv4Addr;

use crate::encode::WeirReport;
use crate::error::EncodeError;

const IPV4_BYTES: u16 = 20;
const UDP_BYTES: u16 = 8;
const DO_NOT_FRAGMENT: u16 = 0x4000;
const TTL: u8 = 64;
const PROTOCOL_UDP: u8 = 17;

/// Ethernet, IPv4 and UDP fields of a report's frame, as the control plane sets them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outer {
    /// Ethernet source.
    pub src_mac: [u8; 6],
    /// Ethernet destination.
    pub dst_mac: [u8; 6],
    /// The switch.
    pub src: Ipv4Addr,
    /// The collector.
    pub dst: Ipv4Addr,
    /// UDP source port.
    pub src_port: u16,
    /// UDP destination port, [`crate::UDP_PORT`] unless configured.
    pub dst_port: u16,
}

impl Outer {
    /// Appends the whole frame of `report` (without FCS) to `out`.
    ///
    /// The IPv4 datagram is atomic (DF, identification 0: RFC 6864) and UDP has no checksum (RFC 768), because a switch
    /// does not read the payload bytes that it would have to sum.
    ///
    /// # Errors
    /// As [`WeirReport::encode`].
    pub fn encode_frame(
        &self,
        report: &WeirReport<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        let mut payload = Vec::with_capacity(report.encoded_length());
        report.encode(&mut payload)?;
        let max = u64::from(u16::MAX - IPV4_BYTES - UDP_BYTES);
        let too_long = |_| EncodeError {
            field: "bytes of the report",
            value: payload.len() as u64,
            max,
        };
        let udp_length = u16::try_from(payload.len() + usize::from(UDP_BYTES)).map_err(too_long)?;

        out.extend(self.dst_mac);
        out.extend(self.src_mac);
        out.extend([0x08, 0x00]);
        out.extend(self.ipv4_header(udp_length + IPV4_BYTES));
        out.extend(self.src_port.to_be_bytes());
        out.extend(self.dst_port.to_be_bytes());
        out.extend(udp_length.to_be_bytes());
        out.extend([0, 0]);
        out.append(&mut payload);
        Ok(())
    }

    fn ipv4_header(&self, total_length: u16) -> Vec<u8> {
        let mut header = vec![0x45, 0];
        header.extend(total_length.to_be_bytes());
        header.extend([0, 0]);
        header.extend(DO_NOT_FRAGMENT.to_be_bytes());
        header.extend([TTL, PROTOCOL_UDP]);
        let addresses = [self.src.octets(), self.dst.octets()].concat();
        let checksum = internet_checksum(&[&header[..], &addresses].concat());
        header.extend(checksum.to_be_bytes());
        header.extend(addresses);
        header
    }
}

/// RFC 1071: the ones' complement of the ones' complement sum, over a whole number of 16-bit words.
fn internet_checksum(bytes: &[u8]) -> u16 {
    let sum = bytes
        .as_chunks::<2>()
        .0
        .iter()
        .map(|&pair| u32::from(u16::from_be_bytes(pair)))
        .sum::<u32>();
    let folded = (sum & 0xffff) + (sum >> 16);
    let [_, _, high, low] = (!((folded & 0xffff) + (folded >> 16))).to_be_bytes();
    u16::from_be_bytes([high, low])
}
