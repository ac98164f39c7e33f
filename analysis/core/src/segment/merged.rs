// SPDX-License-Identifier: Apache-2.0
//! Frames of several segments, as the capturing host's kernel sees them: its card cuts what TCP sends (TSO), and what
//! arrives is joined (GRO, LRO).
//!
//! Bottlenecks see, count and drop the single segments, so a capture is read as if it had these, all at the frame's time.

use rustc_hash::FxHashMap;
use weir_packet::{FlowKey, TcpFlags};

use super::{Segment, TcpSegment};

/// IP packets of at most this length fit an Ethernet frame. No smaller one is taken for several.
const MTU: u32 = 1500;
/// The longest IP packet of Ethernet's jumbo frames.
const JUMBO_MTU: u32 = 9216;
const FIN: u8 = 1;
/// The smallest that Linux takes (`TCP_MIN_SND_MSS`). With less, one frame of a hostile capture would be 65,000 segments.
const LEAST_MSS: u32 = 48;
/// Headers of IPv4 and TCP without options, which an MSS leaves out (RFC 9293 section 3.7.1).
const IPV4_HEADERS: u32 = 40;
const IPV6_HEADERS: u32 = 60;

/// The largest segments of the connections of one capture.
#[derive(Debug, Default)]
pub(crate) struct SegmentSizes {
    /// The MSS of each SYN, by the flow of its sender. It bounds the segments of both directions: the peer may send no
    /// longer ones, and the sender's own fit the same MTU.
    mss_bytes: FxHashMap<FlowKey, u16>,
    /// Frames of several segments so far.
    pub(crate) merged: u64,
}

impl SegmentSizes {
    /// The payload of the segments of which the frame has several; `None` where it is one.
    #[inline]
    pub(crate) fn of_merged(&mut self, frame: &Segment) -> Option<u32> {
        let tcp = frame.tcp.as_ref()?;
        if tcp.flags.syn() {
            self.learn(&frame.key, tcp);
        }
        if frame.ip_length <= MTU {
            return None;
        }
        let most = self.most(frame)?;
        let merged = frame.payload_length > most;
        self.merged += u64::from(merged);
        merged.then_some(most)
    }

    fn learn(&mut self, key: &FlowKey, syn: &TcpSegment) {
        match syn.mss_bytes {
            Some(bytes) => self.mss_bytes.insert(*key, bytes),
            None => self.mss_bytes.remove(key),
        };
    }

    /// The most payload that one segment with these headers has.
    fn most(&self, frame: &Segment) -> Option<u32> {
        let headers = frame.ip_length.checked_sub(frame.payload_length)?;
        let said = [frame.key, frame.key.reversed()];
        let mss = said.iter().filter_map(|key| self.mss_bytes.get(key)).min();
        let mtu = match mss {
            Some(&mss) if frame.key.src.is_ipv4() => u32::from(mss).max(LEAST_MSS) + IPV4_HEADERS,
            Some(&mss) => u32::from(mss).max(LEAST_MSS) + IPV6_HEADERS,
            // Without a SYN, what is too long for any Ethernet has passed one in parts, unless it never left the host.
            None if frame.ip_length > JUMBO_MTU && !frame.key.src.is_loopback() => MTU,
            None => return None,
        };
        mtu.checked_sub(headers).filter(|&most| most > 0)
    }
}

impl Segment {
    /// The segment at `offset` of a frame of several whose payload is cut every `bytes`.
    pub(crate) fn part(&self, offset: u32, bytes: u32) -> Self {
        let payload_length = bytes.min(self.payload_length - offset);
        let others = self.payload_length - payload_length;
        let last = offset + payload_length == self.payload_length;
        let id = match self.id {
            // IPv4 counts up (RFC 6864), unless it is not set; IPv6 has none.
            id if id > 0 && self.key.src.is_ipv4() => (id + offset / bytes) & 0xffff,
            id => id,
        };
        Self {
            wire_length: self.wire_length.saturating_sub(others),
            ip_length: self.ip_length - others,
            payload_length,
            id,
            tcp: self.tcp.map(|tcp| TcpSegment {
                seq: tcp.seq.wrapping_add(offset),
                sequence_length: payload_length + u32::from(tcp.flags.fin() && last),
                flags: TcpFlags(tcp.flags.0 & if last { u8::MAX } else { !FIN }),
                ..tcp
            }),
            ..*self
        }
    }
}
