// SPDX-License-Identifier: Apache-2.0
//! All flows of one capture: their counters, and the inference of each TCP direction.

use std::hash::{Hash, Hasher};
use std::net::IpAddr;

use rustc_hash::FxHashMap;
use weir_packet::FlowKey;

use crate::infer::{
    Acknowledgment, Cause, DeliveryRate, Loss, RttSample, Sender, Sent, Sink, Verdict,
};
use crate::segment::{Segment, TcpSegment};

/// Often enough that finished senders are few compared with active ones.
const PACKETS_BETWEEN_SWEEPS: u32 = 1 << 17;

/// A 5-tuple as words: faster to hash and to compare.
#[derive(Debug, Clone, Copy, Eq)]
struct Words([u64; 5]);

impl PartialEq for Words {
    /// Avoids the `memcmp` call of an array comparison.
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        let differences = self.0.iter().zip(other.0).map(|(a, b)| a ^ b);
        differences.fold(0, |all, one| all | one) == 0
    }
}

impl Hash for Words {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        for word in self.0 {
            state.write_u64(word);
        }
    }
}

impl Words {
    fn of(key: &FlowKey) -> Self {
        let [src, dst] = [key.src, key.dst].map(|address| match address {
            IpAddr::V4(address) => u128::from(u32::from(address)),
            IpAddr::V6(address) => u128::from(address),
        });
        let ports = u64::from(key.src_port) << 16 | u64::from(key.dst_port);
        let rest = u64::from(key.src.is_ipv6()) << 40 | u64::from(key.protocol) << 32 | ports;
        Self([
            (src >> 64) as u64,
            src as u64,
            (dst >> 64) as u64,
            dst as u64,
            rest,
        ])
    }
}

/// Counters of one directed flow, as captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FlowStats {
    /// Packets.
    pub packets: u64,
    /// Bytes of frames without FCS.
    pub bytes: u64,
    /// Bytes after the transport headers.
    pub payload_bytes: u64,
    /// Capture time of the first packet.
    pub first_ns: i64,
    /// Capture time of the last packet.
    pub last_ns: i64,
    /// Shortest round-trip time.
    pub min_rtt_ns: Option<i64>,
    /// Sum of all round-trip times.
    pub rtt_sum_ns: i128,
    /// Number of round-trip times.
    pub rtt_count: u64,
    /// Transmissions of sequence numbers that were sent before.
    pub retransmissions: u64,
    /// Retransmissions of data that had arrived.
    pub spurious: u64,
    /// Transmissions that were lost.
    pub losses: u64,
    /// Of those, by cause, in the order of [`Cause::ALL`].
    pub losses_by_cause: [u64; Cause::ALL.len()],
    /// Transmissions that were lost before they reached the capture; not among `losses`.
    pub losses_before: u64,
    /// Packets that others had overtaken before they reached the capture.
    pub overtaken: u64,
    /// Data packets that are in the capture a second time; not judged.
    pub copies: u64,
    /// Bytes that were acknowledged but are not in the capture: the capture lost packets.
    pub missed_bytes: u64,
    /// Acknowledgments of this flow's data whose options the capture has cut.
    pub cut_acknowledgments: u64,
}

impl FlowStats {
    /// Mean round-trip time.
    pub fn mean_rtt_ns(&self) -> Option<f64> {
        (self.rtt_count > 0).then(|| self.rtt_sum_ns as f64 / self.rtt_count as f64)
    }
}

/// One directed flow.
#[derive(Debug)]
pub struct Flow {
    /// Its 5-tuple.
    pub key: FlowKey,
    /// Its counters.
    pub stats: FlowStats,
    reverse: Option<u32>,
    offered_sack: bool,
    sender: Option<Box<Sender>>,
}

/// Receives the findings of a [`Tracker`], per flow.
pub trait FlowSink {
    /// Whether delivery rates are computed.
    const DELIVERY_RATES: bool = false;
    /// The verdict on the packet announced with `tag`; once for each packet that takes sequence space.
    fn verdict(&mut self, flow: u32, tag: u64, verdict: Verdict);
    /// A loss before the capture.
    fn before(&mut self, _flow: u32, _loss: Loss) {}
    /// The packet announced with `tag` is in the capture a second time.
    fn copy(&mut self, _flow: u32, _tag: u64) {}
    /// A round-trip time of the flow whose data was acknowledged.
    fn rtt(&mut self, flow: u32, sample: RttSample);
    /// A delivery rate of the flow whose data was acknowledged.
    fn delivery_rate(&mut self, _flow: u32, _sample: DeliveryRate) {}
}

/// The flows of one capture, numbered in order of their first packet.
#[derive(Debug, Default)]
pub struct Tracker {
    flows: Vec<Flow>,
    index: FxHashMap<Words, u32>,
    /// Flows with a sender.
    senders: Vec<u32>,
    /// Packets until the next search for senders whose connection is over.
    until_sweep: u32,
    last_ns: i64,
}

impl Tracker {
    /// The flows seen until now.
    pub fn flows(&self) -> &[Flow] {
        &self.flows
    }

    /// The flows, after the capture was read.
    pub fn into_flows(self) -> Vec<Flow> {
        self.flows
    }

    /// Processes one packet; returns its flow and whether it is a retransmission. Without a `tag` the packet is counted
    /// and its acknowledgment is read, but its own data is not judged.
    pub fn packet(
        &mut self,
        time_ns: i64,
        segment: &Segment,
        tag: Option<u64>,
        sink: &mut impl FlowSink,
    ) -> (u32, bool) {
        self.last_ns = self.last_ns.max(time_ns);
        if self.until_sweep == 0 {
            self.sweep(sink);
        }
        self.until_sweep -= 1;
        let flow = self.flow(&segment.key);
        let stats = &mut self.flows[flow as usize].stats;
        if stats.packets == 0 {
            stats.first_ns = time_ns;
        }
        stats.packets += 1;
        stats.bytes += u64::from(segment.wire_length);
        stats.payload_bytes += u64::from(segment.payload_length);
        stats.last_ns = time_ns;
        let Some(tcp) = &segment.tcp else {
            return (flow, false);
        };
        let mut retransmission = false;
        if let Some(tag) = tag
            && tcp.sequence_length > 0
        {
            retransmission = self.send(flow, time_ns, segment, tcp, tag, sink);
        }
        if tcp.flags.syn() {
            // After `send`, which may have begun a new connection on the same ports.
            self.handshake(flow, tcp);
        }
        if tcp.flags.ack() {
            self.acknowledge(flow, time_ns, segment, tcp, sink);
        }
        (flow, retransmission)
    }

    fn send(
        &mut self,
        flow: u32,
        time_ns: i64,
        segment: &Segment,
        tcp: &TcpSegment,
        tag: u64,
        sink: &mut impl FlowSink,
    ) -> bool {
        let Flow { stats, sender, .. } = &mut self.flows[flow as usize];
        let sent = Sent {
            tag,
            time_ns,
            seq: tcp.seq,
            sequence_length: tcp.sequence_length,
            payload_length: segment.payload_length,
            syn: tcp.flags.syn(),
            fin: tcp.flags.fin(),
            tsval: tcp.timestamps.map(|timestamps| timestamps.value),
            // In IPv6 packets `id` is a checksum, which does not count up.
            ip_id: if segment.key.src.is_ipv4() {
                segment.id
            } else {
                0
            },
        };
        let sender = sender.get_or_insert_with(|| {
            self.senders.push(flow);
            Box::default()
        });
        let retransmission = sender.on_send(&sent, &mut Counting { flow, stats, sink });
        stats.retransmissions += u64::from(retransmission);
        retransmission
    }

    fn acknowledge(
        &mut self,
        flow: u32,
        time_ns: i64,
        segment: &Segment,
        tcp: &TcpSegment,
        sink: &mut impl FlowSink,
    ) {
        let Some(data) = self.reverse(flow, &segment.key) else {
            return;
        };
        let Flow { stats, sender, .. } = &mut self.flows[data as usize];
        let Some(sender) = sender else { return };
        stats.cut_acknowledgments += u64::from(tcp.options_cut);
        let acknowledgment = Acknowledgment {
            time_ns,
            ack: tcp.ack,
            window: tcp.window,
            tsecr: tcp.timestamps.map(|timestamps| timestamps.echo_reply),
            sack: &tcp.sack,
            options_cut: tcp.options_cut,
            with_data: tcp.sequence_length > 0,
        };
        sender.on_ack(
            &acknowledgment,
            &mut Counting {
                flow: data,
                stats,
                sink,
            },
        );
    }

    /// SACK is used when both SYN segments permit it (RFC 2018 section 2).
    fn handshake(&mut self, flow: u32, tcp: &TcpSegment) {
        self.flows[flow as usize].offered_sack = tcp.sack_permitted;
        if !(tcp.flags.ack() && tcp.sack_permitted) {
            return;
        }
        let key = self.flows[flow as usize].key;
        let Some(opener) = self.reverse(flow, &key) else {
            return;
        };
        if !self.flows[opener as usize].offered_sack {
            return;
        }
        for flow in [flow, opener] {
            if let Some(sender) = &mut self.flows[flow as usize].sender {
                sender.expect_dsack();
            }
        }
    }

    fn reverse(&mut self, flow: u32, key: &FlowKey) -> Option<u32> {
        if let Some(reverse) = self.flows[flow as usize].reverse {
            return Some(reverse);
        }
        let reverse = self.index.get(&Words::of(&key.reversed())).copied()?;
        self.flows[flow as usize].reverse = Some(reverse);
        Some(reverse)
    }

    fn flow(&mut self, key: &FlowKey) -> u32 {
        let words = Words::of(key);
        match self.index.get(&words) {
            Some(&flow) => flow,
            None => self.open(key, words),
        }
    }

    fn open(&mut self, key: &FlowKey, words: Words) -> u32 {
        // 2³² flows would need more memory than any machine has.
        let flow = self.flows.len() as u32;
        self.flows.push(Flow {
            key: *key,
            stats: FlowStats::default(),
            reverse: None,
            offered_sack: false,
            sender: None,
        });
        self.index.insert(words, flow);
        flow
    }

    /// Drops the senders whose connection is over.
    fn sweep(&mut self, sink: &mut impl FlowSink) {
        self.until_sweep = PACKETS_BETWEEN_SWEEPS;
        let (flows, now_ns) = (&mut self.flows, self.last_ns);
        self.senders.retain(|&flow| {
            let Flow { stats, sender, .. } = &mut flows[flow as usize];
            let over = sender.as_ref().is_none_or(|sender| sender.is_over(now_ns));
            if over && let Some(mut sender) = sender.take() {
                sender.finish(now_ns, &mut Counting { flow, stats, sink });
            }
            !over
        });
    }

    /// Judges the remaining transmissions at the end of the capture.
    pub fn finish(&mut self, sink: &mut impl FlowSink) {
        for (flow, Flow { stats, sender, .. }) in (0..).zip(&mut self.flows) {
            if let Some(mut sender) = sender.take() {
                sender.finish(self.last_ns, &mut Counting { flow, stats, sink });
            }
        }
    }
}

/// Counts the findings on their way to the sink.
struct Counting<'a, S> {
    flow: u32,
    stats: &'a mut FlowStats,
    sink: &'a mut S,
}

impl<S: FlowSink> Sink for Counting<'_, S> {
    const DELIVERY_RATES: bool = S::DELIVERY_RATES;

    fn verdict(&mut self, tag: u64, verdict: Verdict) {
        match verdict {
            Verdict::Delivered { spurious } => self.stats.spurious += u64::from(spurious),
            Verdict::Lost { loss, spurious } => {
                self.stats.spurious += u64::from(spurious);
                self.stats.losses += 1;
                self.stats.losses_by_cause[loss.cause as usize] += 1;
            }
            Verdict::Unknown => {}
        }
        self.sink.verdict(self.flow, tag, verdict);
    }

    fn before(&mut self, loss: Loss) {
        self.stats.losses_before += 1;
        self.sink.before(self.flow, loss);
    }

    fn overtaken(&mut self) {
        self.stats.overtaken += 1;
    }

    fn copy(&mut self, tag: u64) {
        self.stats.copies += 1;
        self.sink.copy(self.flow, tag);
    }

    fn missed(&mut self, bytes: u64) {
        self.stats.missed_bytes = self.stats.missed_bytes.saturating_add(bytes);
    }

    fn rtt(&mut self, sample: RttSample) {
        let stats = &mut *self.stats;
        stats.min_rtt_ns = Some(
            stats
                .min_rtt_ns
                .map_or(sample.rtt_ns, |min| min.min(sample.rtt_ns)),
        );
        stats.rtt_sum_ns += i128::from(sample.rtt_ns);
        stats.rtt_count += 1;
        self.sink.rtt(self.flow, sample);
    }

    fn delivery_rate(&mut self, sample: DeliveryRate) {
        self.sink.delivery_rate(self.flow, sample);
    }
}
