// SPDX-License-Identifier: Apache-2.0
//! One capture in, the bytes that its ACKs acknowledge out: the arrivals of a flow whose data took another path.

use std::collections::HashMap;
use std::path::Path;

use weir_capture::CaptureError;
use weir_packet::FlowKey;

use crate::infer::ranges::Ranges;
use crate::infer::sequence::{origin, unwrap};
use crate::transport::{TcpNumbers, TransportScan};

/// Bytes that an ACK is the first to acknowledge, cumulatively or selectively.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acknowledged {
    /// Capture time of the ACK in nanoseconds since 1970.
    pub time_ns: i64,
    /// The flow of the data, not of its ACKs.
    pub key: FlowKey,
    /// Sequence number of the first byte. The numbers of a later connection on the same ports continue those before.
    pub seq: u32,
    /// Number of bytes.
    pub length: u32,
}

/// The acknowledged bytes of every flow whose ACKs `path` contains, in the order of the file.
///
/// Bytes below a flow's first acknowledgment number are left out: they may have arrived long before. A later connection
/// on the same ports begins with a SYN of its receiver that has another number than the SYN before. RST segments are
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
            let Some(tcp) = packet.tcp.filter(|tcp| !tcp.reset) else {
                continue;
            };
            let key = acknowledged_by(&packet.key);
            receivers.entry(key).or_default().take(&tcp, &mut fresh);
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

/// The flow of the data that a flow's packets acknowledge.
fn acknowledged_by(key: &FlowKey) -> FlowKey {
    FlowKey {
        src: key.dst,
        dst: key.src,
        src_port: key.dst_port,
        dst_port: key.src_port,
        protocol: key.protocol,
    }
}

/// The bytes that one receiver has acknowledged so far.
#[derive(Debug, Default)]
struct Receiver {
    /// Sequence number of its last SYN.
    syn: Option<u32>,
    /// The cumulative acknowledgment; `None` before the first one.
    edge: Option<u64>,
    ranges: Ranges,
    /// Whether the next acknowledgment is the first one of a later connection.
    anew: bool,
    /// The number added to this connection's numbers, modulo 2³², so that they continue those before.
    shift: u32,
}

impl Receiver {
    /// Appends the bytes that are acknowledged for the first time to `fresh`, the cumulatively acknowledged ones first.
    fn take(&mut self, tcp: &TcpNumbers, fresh: &mut Vec<(u64, u64)>) {
        if tcp.syn && self.syn.replace(tcp.seq) != Some(tcp.seq) {
            self.anew = self.edge.is_some();
        }
        let Some(ack) = tcp.ack else { return };
        if std::mem::take(&mut self.anew) {
            // The numbers of a connection begin anywhere: on from those before, they would show data that nobody sent.
            let reached = self.ranges.end().max(self.edge);
            self.shift = reached.map_or(0, |reached| (reached as u32).wrapping_sub(ack));
            self.edge = reached;
            self.ranges = Ranges::default();
        }
        let shift = self.shift;
        let unwrapped = |number: u32, near| unwrap(number.wrapping_add(shift), near);
        let edge = *self.edge.get_or_insert_with(|| origin(ack));
        let reached = unwrapped(ack, edge).max(edge);
        self.ranges.insert(edge, reached, fresh);
        self.edge = Some(reached);
        for block in tcp.sack.as_slice() {
            let (start, end) = (
                unwrapped(block.start, reached),
                unwrapped(block.end, reached),
            );
            self.ranges.insert(start.max(reached), end, fresh);
        }
        self.ranges.drop_below(reached);
    }
}
