// SPDX-License-Identifier: Apache-2.0
//! One capture in, the bytes that its ACKs acknowledge out: the arrivals of a flow whose data took another path.

use std::collections::HashMap;
use std::path::Path;

use weir_capture::CaptureError;
use weir_packet::FlowKey;

use crate::infer::ranges::Ranges;
use crate::infer::sequence::{origin, unwrap};
use crate::transport::{TransportPacket, TransportScan};

/// Bytes that an ACK is the first to acknowledge, cumulatively or selectively.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acknowledged {
    /// Capture time of the ACK in nanoseconds since 1970.
    pub time_ns: i64,
    /// The flow of the data, not of its ACKs.
    pub key: FlowKey,
    /// Sequence number of the first byte.
    pub seq: u32,
    /// Number of bytes.
    pub length: u32,
}

/// The acknowledged bytes of every flow whose ACKs `path` contains, in the order of the file.
///
/// Bytes below a flow's first acknowledgment number are left out: they may have arrived long before. RST segments are
/// ignored. A file that ends inside a record is read up to it: the join, which finds such flows, warns of it.
///
/// # Errors
/// As [`TransportScan::open`] and [`TransportScan::step`].
pub fn read_acknowledged(path: &Path) -> Result<Vec<Acknowledged>, CaptureError> {
    let mut scan = TransportScan::open(path)?.cut();
    let mut receivers: HashMap<FlowKey, Receiver> = HashMap::new();
    let (mut packets, mut fresh, mut found) = (Vec::new(), Vec::new(), Vec::new());
    loop {
        let more = scan.step(&mut packets)?;
        for packet in packets.drain(..) {
            let Some((ack, key)) = acknowledges(&packet) else {
                continue;
            };
            let receiver = receivers.entry(key).or_insert_with(|| Receiver {
                edge: origin(ack),
                ranges: Ranges::default(),
            });
            receiver.take(ack, &packet, &mut fresh);
            found.extend(
                fresh
                    .drain(..)
                    .map(|(start, end): (u64, u64)| Acknowledged {
                        time_ns: packet.time_ns,
                        key,
                        seq: start as u32,
                        length: (end - start) as u32,
                    }),
            );
        }
        if !more {
            return Ok(found);
        }
    }
}

/// The acknowledgment number, and the flow of the acknowledged data.
fn acknowledges(packet: &TransportPacket) -> Option<(u32, FlowKey)> {
    let ack = packet.tcp.filter(|tcp| !tcp.reset)?.ack?;
    let key = FlowKey {
        src: packet.key.dst,
        dst: packet.key.src,
        src_port: packet.key.dst_port,
        dst_port: packet.key.src_port,
        protocol: packet.key.protocol,
    };
    Some((ack, key))
}

/// The bytes that one receiver has acknowledged so far.
#[derive(Debug)]
struct Receiver {
    /// The cumulative acknowledgment.
    edge: u64,
    ranges: Ranges,
}

impl Receiver {
    /// Appends the bytes that are acknowledged for the first time to `fresh`, the cumulatively acknowledged ones first.
    fn take(&mut self, ack: u32, packet: &TransportPacket, fresh: &mut Vec<(u64, u64)>) {
        let ack = unwrap(ack, self.edge);
        if ack > self.edge {
            self.ranges.insert(self.edge, ack, fresh);
            self.edge = ack;
        }
        for block in packet.tcp.iter().flat_map(|tcp| tcp.sack.as_slice()) {
            let (start, end) = (unwrap(block.start, self.edge), unwrap(block.end, self.edge));
            self.ranges.insert(start.max(self.edge), end, fresh);
        }
        self.ranges.drop_below(self.edge);
    }
}
