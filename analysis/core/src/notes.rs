// SPDX-License-Identifier: Apache-2.0
//! Warnings about a capture, for the reader of the result that comes from it.

use std::path::Path;

use weir_capture::{CaptureReader, Source};

use crate::tracker::Flow;

/// Defects of a capture that leave it usable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Notes {
    /// The file ends inside a record.
    pub truncated: bool,
    /// Records of a capture that has no IP packet at all.
    pub without_ip: u64,
    /// Records without a time in the file.
    pub untimed: u64,
    /// Packets that the capture lost, by its own statistics.
    pub dropped: u64,
    /// Frames that were read as the several segments that they hold.
    pub merged: u64,
    /// Bytes that were acknowledged but are not in the capture.
    pub missed_bytes: u64,
    /// Data packets that are in the capture twice.
    pub copies: u64,
    /// Flows with `missed_bytes`.
    pub missed_flows: u64,
}

impl Notes {
    /// The notes on a capture that was read to its end, with `merged` frames, and on its flows.
    pub fn new<'a>(
        reader: &CaptureReader<Source>,
        merged: u64,
        flows: impl IntoIterator<Item = &'a Flow>,
    ) -> Self {
        let mut notes = Self {
            truncated: reader.truncated(),
            untimed: reader.untimed(),
            dropped: reader.dropped(),
            merged,
            ..Self::default()
        };
        for flow in flows {
            notes.missed_bytes = notes.missed_bytes.saturating_add(flow.stats.missed_bytes);
            notes.copies += flow.stats.copies;
            notes.missed_flows += u64::from(flow.stats.missed_bytes > 0);
        }
        notes
    }

    /// One sentence for each note that applies.
    pub fn lines(&self, path: &Path) -> Vec<String> {
        let file = path.display();
        let mut lines = Vec::new();
        if self.truncated {
            lines.push(format!(
                "{file}: the file ends inside a record; what came before is used"
            ));
        }
        if self.without_ip > 0 {
            let (count, plural) = (self.without_ip, if self.without_ip == 1 { "" } else { "s" });
            lines.push(format!(
                "{file}: {count} record{plural}, none of them an IP packet; valid: IPv4 or IPv6 behind the link header, VLAN \
                 tags, PPPoE or MPLS labels (not in other tunnels)"
            ));
        }
        if self.untimed > 0 {
            lines.push(format!(
                "{file}: {} packets have no time (Simple Packet Blocks) and are given that of the packet before: round-trip \
                 times and causes there mean nothing",
                self.untimed
            ));
        }
        if self.dropped > 0 {
            lines.push(format!(
                "{file}: the capture lost {} packets, by its own statistics",
                self.dropped
            ));
        }
        if self.copies > 0 {
            lines.push(format!(
                "{file}: {} data packets are in the capture twice; the copies are not taken for retransmissions",
                self.copies
            ));
        }
        if self.merged > 0 {
            lines.push(format!(
                "{file}: {} frames hold several segments (TSO or GRO of the host that captured) and are read as these, all at \
                 the frame's time",
                self.merged
            ));
        }
        if self.missed_bytes > 0 {
            lines.push(format!(
                "{file}: {} bytes of {} flows were acknowledged and are not in the capture, which lost packets itself or \
                 began after they were sent: losses among them are not known",
                self.missed_bytes, self.missed_flows
            ));
        }
        lines
    }
}
