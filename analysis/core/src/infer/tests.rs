// SPDX-License-Identifier: Apache-2.0
//! One scenario per test, each with its timeline; times in ms, sequence numbers in segments of 1000 bytes.
//! The expected verdicts follow from the timeline alone; the comments describe what the network did.

use weir_packet::{LinkType, SackBlocks};

use super::{
    Acknowledgment, Cause, Confidence, DeliveryRate, Loss, Place, RttSample, Sender, Sent, Sink,
    Verdict,
};
use crate::segment::Segment;

const MS: i64 = 1_000_000;
const SEGMENT: u32 = 1000;

#[derive(Default)]
struct Found {
    verdicts: Vec<(u64, Verdict)>,
    rtts: Vec<RttSample>,
    before: Vec<Loss>,
    overtaken: u64,
    missed: u64,
    copies: u64,
    rates: Vec<DeliveryRate>,
}

impl Sink for Found {
    const DELIVERY_RATES: bool = true;

    fn verdict(&mut self, tag: u64, verdict: Verdict) {
        self.verdicts.push((tag, verdict));
    }

    fn before(&mut self, loss: Loss) {
        self.before.push(loss);
    }

    fn overtaken(&mut self) {
        self.overtaken += 1;
    }

    fn copy(&mut self, _tag: u64) {
        self.copies += 1;
    }

    fn missed(&mut self, bytes: u64) {
        self.missed += bytes;
    }

    fn rtt(&mut self, sample: RttSample) {
        self.rtts.push(sample);
    }

    fn delivery_rate(&mut self, sample: DeliveryRate) {
        self.rates.push(sample);
    }
}

/// A connection of 20 ms round-trip time, timestamps in ms.
struct Timeline {
    sender: Sender,
    found: Found,
    tag: u64,
    timestamps: bool,
    window: u16,
    end_ms: i64,
}

impl Timeline {
    fn new() -> Self {
        let mut sender = Sender::default();
        sender.expect_dsack();
        Self {
            sender,
            found: Found::default(),
            tag: 0,
            timestamps: true,
            window: 500,
            end_ms: 0,
        }
    }

    /// Sends `segments` (first, after last) at `ms`, one transmission each; tags count from 0.
    fn send(&mut self, ms: i64, segments: std::ops::Range<u32>) -> &mut Self {
        for segment in segments {
            self.send_bytes(ms, segment * SEGMENT, SEGMENT);
        }
        self
    }

    fn send_bytes(&mut self, ms: i64, seq: u32, length: u32) -> &mut Self {
        let sent = Sent {
            tag: self.tag,
            time_ns: ms * MS,
            seq,
            sequence_length: length,
            payload_length: length,
            syn: false,
            fin: false,
            tsval: self.timestamps.then_some(ms as u32),
            ip_id: 0,
        };
        self.tag += 1;
        self.end_ms = self.end_ms.max(ms);
        self.sender.on_send(&sent, &mut self.found);
        self
    }

    /// An ACK for all below segment `ack`, echoing `echo`, with SACK blocks in segments.
    fn ack(&mut self, ms: i64, ack: u32, echo: i64, sack: &[(u32, u32)]) -> &mut Self {
        let scaled: Vec<(u32, u32)> = sack
            .iter()
            .map(|&(a, b)| (a * SEGMENT, b * SEGMENT))
            .collect();
        self.ack_bytes(ms, ack * SEGMENT, echo, &scaled)
    }

    fn ack_bytes(&mut self, ms: i64, ack: u32, echo: i64, sack: &[(u32, u32)]) -> &mut Self {
        let acknowledgment = Acknowledgment {
            time_ns: ms * MS,
            ack,
            window: self.window,
            tsecr: self.timestamps.then_some(echo as u32),
            sack: &blocks(sack),
            options_cut: false,
            with_data: false,
        };
        self.end_ms = self.end_ms.max(ms);
        self.sender.on_ack(&acknowledgment, &mut self.found);
        self
    }

    /// Ends the capture 5 s later; returns the losses (tag, cause, detection in ms) and the tags that stay unknown.
    fn end(&mut self) -> (Vec<(u64, Cause, i64)>, Vec<u64>) {
        self.end_at(self.end_ms + 5000)
    }

    fn end_at(&mut self, ms: i64) -> (Vec<(u64, Cause, i64)>, Vec<u64>) {
        self.sender.finish(ms * MS, &mut self.found);
        self.found.verdicts.sort_by_key(|(tag, _)| *tag);
        let tags: Vec<u64> = self.found.verdicts.iter().map(|(tag, _)| *tag).collect();
        assert_eq!(
            tags,
            (0..self.tag).collect::<Vec<_>>(),
            "one verdict per transmission"
        );
        let lost = |&(tag, verdict): &(u64, Verdict)| match verdict {
            Verdict::Lost { loss, .. } => Some((tag, loss.cause, loss.detected_ns / MS)),
            _ => None,
        };
        let unknown =
            |&(tag, verdict): &(u64, Verdict)| (verdict == Verdict::Unknown).then_some(tag);
        let verdicts = &self.found.verdicts;
        (
            verdicts.iter().filter_map(lost).collect(),
            verdicts.iter().filter_map(unknown).collect(),
        )
    }

    /// Delivery rates: time in ms, bytes, interval in ms, whether of a retransmission.
    fn rates(&self) -> Vec<(i64, u64, i64, bool)> {
        let sample = |rate: &DeliveryRate| {
            let (bytes, interval_ms) = (rate.delivered_bytes, rate.interval_ns / MS);
            (rate.time_ns / MS, bytes, interval_ms, rate.retransmission)
        };
        self.found.rates.iter().map(sample).collect()
    }

    fn spurious(&self) -> Vec<u64> {
        let is = |verdict| {
            matches!(
                verdict,
                Verdict::Delivered { spurious: true } | Verdict::Lost { spurious: true, .. }
            )
        };
        self.found
            .verdicts
            .iter()
            .filter(|(_, verdict)| is(*verdict))
            .map(|(tag, _)| *tag)
            .collect()
    }
}

/// SACK blocks can only be read, so a frame with them is written first.
fn blocks(blocks: &[(u32, u32)]) -> SackBlocks {
    let mut options = vec![1, 1, 5, 2 + 8 * blocks.len() as u8];
    for (start, end) in blocks {
        options.extend(start.to_be_bytes());
        options.extend(end.to_be_bytes());
    }
    let mut packet = vec![
        0x45,
        0,
        0,
        40 + options.len() as u8,
        0,
        0,
        0,
        0,
        64,
        6,
        0,
        0,
    ];
    packet.extend([10, 0, 0, 1, 10, 0, 0, 2]);
    packet.extend([0; 12]);
    packet.extend([
        (((20 + options.len()) / 4) << 4) as u8,
        16,
        0,
        0,
        0,
        0,
        0,
        0,
    ]);
    packet.extend(options);
    let length = packet.len() as u32;
    let segment = Segment::parse(LinkType::RawIp, &packet, length).and_then(|segment| segment.tcp);
    segment.expect("a TCP segment").sack
}

#[test]
fn nothing_is_lost_when_everything_is_acknowledged() {
    let mut line = Timeline::new();
    line.send(0, 0..4).ack(20, 2, 0, &[]).ack(20, 4, 0, &[]);
    assert_eq!(line.end(), (vec![], vec![]));
    assert_eq!(line.found.rtts.len(), 2);
    assert!(
        line.found
            .rtts
            .iter()
            .all(|sample| sample.rtt_ns == 20 * MS)
    );
}

#[test]
fn a_lost_original_is_attributed_to_its_own_send_time() {
    let mut line = Timeline::new();
    // Segment 1 (tag 1) is dropped, sent again at 21 and acknowledged at 41.
    line.send(0, 0..4)
        .ack(20, 1, 0, &[])
        .ack(21, 1, 0, &[(2, 4)]);
    line.send(21, 1..2).ack(41, 4, 21, &[]);
    assert_eq!(line.end(), (vec![(1, Cause::FastRetransmit, 21)], vec![]));
    let first = line.found.verdicts.iter().find(|(tag, _)| *tag == 1);
    let loss = Loss {
        sent_ns: 0,
        detected_ns: 21 * MS,
        seq: 1000,
        length: 1000,
        cause: Cause::FastRetransmit,
        place: Place::Behind,
        confidence: Confidence::High,
    };
    assert_eq!(
        first,
        Some(&(
            1,
            Verdict::Lost {
                loss,
                spurious: false
            }
        ))
    );
}

#[test]
fn a_lost_retransmission_is_a_loss_of_its_own() {
    let mut line = Timeline::new();
    // Segment 1 is dropped at 0 (tag 1) and again at 21 (tag 4); the third transmission at 45 (tag 6) arrives.
    line.send(0, 0..4).ack(20, 1, 0, &[(2, 4)]);
    line.send(21, 1..2).send(22, 4..5).ack(42, 1, 0, &[(2, 5)]);
    line.send(45, 1..2).ack(65, 5, 45, &[]);
    let lost = vec![
        (1, Cause::FastRetransmit, 21),
        (4, Cause::LostRetransmission, 45),
    ];
    assert_eq!(line.end(), (lost, vec![]));
}

#[test]
fn a_retransmission_acknowledged_too_soon_is_spurious_and_a_dsack_says_it_arrived() {
    let mut line = Timeline::new();
    // Segment 1 is only late: its ACK at 25 is 4 ms after it was sent again (tag 4), whose DSACK comes at 41.
    line.send(0, 0..4).ack(20, 1, 0, &[(2, 4)]);
    line.send(21, 1..2)
        .ack(25, 4, 0, &[])
        .ack(41, 4, 0, &[(1, 2)]);
    assert_eq!(line.end(), (vec![], vec![]));
    assert_eq!(line.spurious(), [4]);
}

#[test]
fn a_spurious_retransmission_without_dsack_was_lost() {
    let mut line = Timeline::new();
    // As before, but the retransmission (tag 4) is dropped: no DSACK comes. It was due 25 ms (the round-trip time of
    // the late original, by its echo) after 21.
    line.send(0, 0..4).ack(20, 1, 0, &[(2, 4)]);
    line.send(21, 1..2).ack(25, 4, 0, &[]);
    assert_eq!(
        line.end(),
        (vec![(4, Cause::LostRetransmission, 46)], vec![])
    );
    assert_eq!(line.spurious(), [4]);
}

#[test]
fn without_sack_a_spurious_retransmission_stays_unknown() {
    let mut line = Timeline::new();
    line.sender = Sender::default();
    // The receiver reports no duplicates, so the missing DSACK for tag 4 proves nothing.
    line.send(0, 0..4)
        .ack(20, 1, 0, &[])
        .send(21, 1..2)
        .ack(25, 4, 0, &[]);
    assert_eq!(line.end(), (vec![], vec![4]));
}

#[test]
fn the_echoed_timestamp_singles_out_the_original_whatever_the_delay() {
    let mut line = Timeline::new();
    // A delay spike: the original (tag 1, sent at 30) arrives so late that the ACK at 275 comes 25 ms after the
    // timeout's retransmission (tag 2, sent at 250). The echo says 30. The DSACK for tag 2 comes at 500.
    line.send(0, 0..1).ack(20, 1, 0, &[]);
    line.send(30, 1..2)
        .send(250, 1..2)
        .ack(275, 2, 30, &[])
        .ack(500, 2, 30, &[(1, 2)]);
    assert_eq!(line.end(), (vec![], vec![]));
    assert_eq!(line.spurious(), [2]);
}

#[test]
fn a_timeout_is_told_from_a_fast_retransmission() {
    let mut line = Timeline::new();
    // All of 1..4 (tags 1 to 3) are dropped; the timeout fires at 350 with no ACK in between.
    line.send(0, 0..1).ack(20, 1, 0, &[]).send(30, 1..4);
    line.send(350, 1..2)
        .ack(370, 2, 350, &[])
        .send(371, 2..4)
        .ack(391, 4, 371, &[]);
    let lost = vec![
        (1, Cause::Rto, 350),
        (2, Cause::Rto, 371),
        (3, Cause::Rto, 371),
    ];
    assert_eq!(line.end(), (lost, vec![]));
}

#[test]
fn a_tail_loss_probe_repairs_a_tail() {
    let mut line = Timeline::new();
    // The last segment (tag 2) is dropped; the probe (tag 3) goes out two round trips later.
    line.send(0, 0..3)
        .ack(20, 2, 0, &[])
        .send(60, 2..3)
        .ack(80, 3, 60, &[]);
    assert_eq!(line.end(), (vec![(2, Cause::Tail, 60)], vec![]));
}

#[test]
fn a_tail_never_acknowledged_is_lost_only_if_something_later_arrived() {
    let mut line = Timeline::new();
    // Segment 1 is dropped, 2 arrives, 3 may be in flight when the capture ends. Never repaired: detected when its ACK was due.
    line.send(0, 0..3).ack(20, 1, 0, &[(2, 3)]).send(21, 3..4);
    assert_eq!(line.end_at(30), (vec![(1, Cause::Tail, 20)], vec![3]));
}

#[test]
fn a_retransmission_in_flight_at_the_end_is_unknown() {
    let mut line = Timeline::new();
    line.send(0, 0..3).ack(20, 1, 0, &[(2, 3)]).send(21, 1..2);
    assert_eq!(
        line.end_at(30),
        (vec![(1, Cause::FastRetransmit, 21)], vec![3])
    );
}

#[test]
fn a_tail_missing_in_a_later_ack_is_lost() {
    let mut line = Timeline::new();
    // Segment 1 (tag 1) and its retransmission (tag 2) are dropped. At 400 the receiver closes its side: its ACK
    // holds no SACK block, so nothing sent 40 ms before had arrived. The segment sent at 390 (tag 3) may be in flight.
    line.send(0, 0..1)
        .ack(20, 1, 0, &[])
        .send(30, 1..2)
        .send(250, 1..2)
        .send(390, 2..3)
        .ack(400, 1, 0, &[]);
    let lost = vec![(1, Cause::Rto, 250), (2, Cause::LostRetransmission, 270)];
    assert_eq!(line.end_at(405), (lost, vec![3]));
}

#[test]
fn a_retransmission_may_coalesce_segments() {
    let mut line = Timeline::new();
    // 1 and 2 (tags 1, 2) are dropped and sent again as one segment of 2000 bytes (tag 4).
    line.send(0, 0..4).ack(20, 1, 0, &[(3, 4)]);
    line.send_bytes(21, 1000, 2000).ack(41, 4, 21, &[]);
    let lost = vec![
        (1, Cause::FastRetransmit, 21),
        (2, Cause::FastRetransmit, 21),
    ];
    assert_eq!(line.end(), (lost, vec![]));
}

#[test]
fn a_retransmission_may_split_a_segment() {
    let mut line = Timeline::new();
    // Segment 1 is dropped and sent again in halves (tags 3, 4), of which the first is dropped, and again (tag 5).
    line.send(0, 0..3).ack(20, 1, 0, &[(2, 3)]);
    line.send_bytes(21, 1000, 500)
        .send_bytes(21, 1500, 500)
        .ack_bytes(41, 1000, 0, &[(1500, 3000)]);
    line.send_bytes(42, 1000, 500).ack_bytes(62, 3000, 42, &[]);
    let lost = vec![
        (1, Cause::FastRetransmit, 21),
        (3, Cause::LostRetransmission, 42),
    ];
    assert_eq!(line.end(), (lost, vec![]));
}

#[test]
fn a_retransmission_may_carry_new_data_behind_the_old() {
    let mut line = Timeline::new();
    line.send(0, 0..2).ack(20, 1, 0, &[]);
    // Segment 1 was dropped; its retransmission (tag 2) also holds the first byte range of segment 2.
    line.send_bytes(300, 1000, 1500)
        .ack_bytes(320, 2500, 300, &[]);
    assert_eq!(line.end(), (vec![(1, Cause::Rto, 300)], vec![]));
    assert_eq!(line.spurious(), [] as [u64; 0]);
}

#[test]
fn a_dsack_of_the_first_arrival_corrects_the_choice() {
    let mut line = Timeline::new();
    // Both transmissions of segment 1 arrive: the first ACK is about one of them, the DSACK about the other.
    line.send(0, 0..4).ack(20, 1, 0, &[(2, 4)]).send(21, 1..2);
    line.ack(41, 4, 0, &[]).ack(42, 4, 0, &[(1, 2)]);
    assert_eq!(line.end(), (vec![], vec![]));
}

#[test]
fn losses_are_known_without_timestamps_too() {
    let mut line = Timeline::new();
    line.timestamps = false;
    line.send(0, 0..4).ack(20, 1, 0, &[(2, 4)]);
    line.send(21, 1..2).send(22, 4..5).ack(42, 1, 0, &[(2, 5)]);
    line.send(45, 1..2).ack(65, 5, 0, &[]);
    let lost = vec![
        (1, Cause::FastRetransmit, 21),
        (4, Cause::LostRetransmission, 45),
    ];
    assert_eq!(line.end(), (lost, vec![]));
}

#[test]
fn duplicate_acks_without_sack_are_evidence() {
    let mut line = Timeline::new();
    line.sender = Sender::default();
    line.send(0, 0..5).ack(20, 1, 0, &[]);
    line.ack(20, 1, 0, &[])
        .ack(20, 1, 0, &[])
        .ack(20, 1, 0, &[]);
    line.send(21, 1..2).ack(41, 5, 21, &[]);
    assert_eq!(line.end(), (vec![(1, Cause::FastRetransmit, 21)], vec![]));
}

#[test]
fn keepalives_are_not_data() {
    let mut line = Timeline::new();
    // A keepalive (tag 1) repeats the last byte acknowledged; the answer is a plain ACK.
    line.send(0, 0..1)
        .ack(20, 1, 0, &[])
        .send_bytes(60_000, 999, 1)
        .ack(60_020, 1, 0, &[]);
    assert_eq!(line.end(), (vec![], vec![1]));
}

#[test]
fn window_probes_are_not_losses() {
    let mut line = Timeline::new();
    line.window = 0;
    line.send(0, 0..1).ack(20, 1, 0, &[]);
    // One byte (tag 1) into a closed window is refused; when the window opens it is sent again with the rest.
    line.send_bytes(220, 1000, 1).ack(240, 1, 0, &[]);
    line.window = 500;
    line.ack(300, 1, 0, &[])
        .send(301, 1..2)
        .ack(321, 2, 301, &[]);
    assert_eq!(line.end(), (vec![], vec![1]));
}

#[test]
fn a_window_probe_that_is_taken_was_captured() {
    let mut line = Timeline::new();
    line.window = 0;
    line.send(0, 0..1).ack(20, 1, 0, &[]);
    line.send_bytes(220, 1000, 1).ack(240, 1, 0, &[]);
    line.window = 500;
    line.send_bytes(440, 1000, 1)
        .ack_bytes(460, 1001, 440, &[])
        .send_bytes(461, 1001, 1000)
        .ack_bytes(481, 2001, 461, &[]);
    assert_eq!(line.end().0, vec![]);
    assert_eq!(line.found.missed, 0);
}

/// A SYN with 500 bytes (TCP Fast Open), of which its SYN-ACK acknowledges all below `taken`; then the rest is sent.
fn after_a_syn_with_data(taken: u32) -> Timeline {
    let mut line = Timeline::new();
    let syn = Sent {
        tag: 0,
        time_ns: 0,
        seq: 0,
        sequence_length: 501,
        payload_length: 500,
        syn: true,
        fin: false,
        tsval: Some(0),
        ip_id: 1,
    };
    line.tag = 1;
    line.sender.on_send(&syn, &mut line.found);
    line.ack_bytes(20, taken, 0, &[]);
    if taken < 501 {
        line.send_bytes(21, taken, 501 - taken)
            .ack_bytes(41, 501, 21, &[]);
    }
    line.send_bytes(50, 501, 1000).ack_bytes(70, 1501, 50, &[]);
    line
}

#[test]
fn data_in_a_syn_that_the_receiver_does_not_take_is_not_lost() {
    for taken in [1, 200, 501] {
        let mut line = after_a_syn_with_data(taken);
        assert_eq!(line.end(), (vec![], vec![]), "{taken}");
        assert_eq!(line.spurious(), vec![], "{taken}");
        assert_eq!(line.found.missed, 0, "{taken}");
    }
}

#[test]
fn a_new_connection_on_the_same_ports_starts_afresh() {
    let mut line = Timeline::new();
    line.send(0, 0..2).ack(20, 1, 0, &[]);
    let syn = Sent {
        tag: 2,
        time_ns: 100 * MS,
        seq: 500,
        sequence_length: 1,
        payload_length: 0,
        syn: true,
        fin: false,
        tsval: Some(100),
        ip_id: 0,
    };
    line.sender.on_send(&syn, &mut line.found);
    line.tag = 3;
    line.sender.expect_dsack();
    line.ack_bytes(120, 501, 100, &[])
        .send_bytes(121, 501, 1000)
        .ack_bytes(141, 1501, 121, &[]);
    // Segment 1 of the old connection (tag 1) was never acknowledged, and nothing later arrived.
    assert_eq!(line.end(), (vec![], vec![1]));
}

#[test]
fn a_capture_that_begins_in_mid_connection_judges_what_it_saw() {
    let mut line = Timeline::new();
    // The first packet captured is 5; 3 and 4 were sent before, and 3 is repaired in the capture (tag 2): its original is
    // not there to be judged lost.
    line.send(0, 5..7)
        .ack(1, 3, 0, &[(4, 5)])
        .send(2, 3..4)
        .ack(22, 7, 2, &[]);
    assert_eq!(line.end(), (vec![], vec![]));
}

#[test]
fn acknowledgments_of_data_that_the_capture_missed_do_no_harm() {
    let mut line = Timeline::new();
    line.send(0, 0..2)
        .ack(20, 9, 0, &[])
        .send(21, 9..10)
        .ack(41, 10, 21, &[]);
    assert_eq!(line.end(), (vec![], vec![]));
}

#[test]
fn round_trip_times_of_repeated_data_are_not_taken() {
    let mut line = Timeline::new();
    line.timestamps = false;
    line.send(0, 0..1).send(300, 0..1).ack(320, 1, 0, &[]);
    line.end();
    assert_eq!(line.found.rtts, [], "Karn's rule");
}

#[test]
fn a_delivery_rate_spans_what_was_delivered_since_its_segment_was_sent() {
    let mut line = Timeline::new();
    line.send(0, 0..2).send(5, 2..4).ack(20, 2, 0, &[]);
    line.send(20, 4..6).ack(25, 4, 5, &[]).ack(40, 6, 20, &[]);
    // The last: segment 5 was sent at 20, when 2000 bytes had been delivered. 4000 more in 20 ms: 1.6 Mbit/s.
    let expected = [
        (20, 2000, 20, false),
        (25, 4000, 25, false),
        (40, 4000, 20, false),
    ];
    assert_eq!(line.rates(), expected);
    let last = line.found.rates.last().map(DeliveryRate::bits_per_second);
    assert_eq!(last, Some(1_600_000.0));
}

#[test]
fn acknowledgments_that_come_together_do_not_pass_for_a_rate() {
    let mut line = Timeline::new();
    line.send(0, 0..1).ack(20, 1, 0, &[]);
    line.send(20, 1..2).send(30, 2..3).send(40, 3..4);
    line.send(50, 4..5);
    line.ack(60, 2, 20, &[])
        .ack(60, 3, 30, &[])
        .ack(60, 4, 40, &[]);
    line.send(75, 5..6).ack(85, 6, 75, &[]);
    // The last: sent 35 ms after segment 3, the youngest delivered by then, and acknowledged 25 ms after it.
    let expected = [
        (20, 1000, 20, false),
        (60, 1000, 40, false),
        (60, 2000, 40, false),
        (60, 3000, 40, false),
        (85, 2000, 35, false),
    ];
    assert_eq!(line.rates(), expected);
}

#[test]
fn selective_acknowledgments_deliver_once_and_duplicates_deliver_nothing() {
    let mut line = Timeline::new();
    // Segment 1 is lost, 2 and 3 are SACKed; sent again at 21. The DSACK at 45 delivers nothing.
    line.send(0, 0..4)
        .ack(20, 1, 0, &[])
        .ack(21, 1, 0, &[(2, 4)]);
    line.send(21, 1..2)
        .ack(41, 4, 21, &[])
        .ack(45, 4, 21, &[(1, 2)]);
    let expected = [
        (20, 1000, 20, false),
        (21, 3000, 21, false),
        (41, 1000, 21, true),
    ];
    assert_eq!(line.rates(), expected);
}

#[test]
fn what_the_capture_missed_was_delivered_all_the_same() {
    let mut line = Timeline::new();
    line.send(0, 0..2).send(0, 3..4).ack(20, 4, 0, &[]);
    assert_eq!(line.rates(), [(20, 4000, 20, false)]);
}

#[test]
fn neither_syn_nor_fin_is_delivered_data() {
    let mut line = Timeline::new();
    let mut sent = Sent {
        tag: 0,
        time_ns: 0,
        seq: 0,
        sequence_length: 1,
        payload_length: 0,
        syn: true,
        fin: false,
        tsval: Some(0),
        ip_id: 0,
    };
    line.sender.on_send(&sent, &mut line.found);
    line.ack_bytes(20, 1, 0, &[]);
    sent = Sent {
        tag: 1,
        time_ns: 20 * MS,
        seq: 1,
        sequence_length: SEGMENT + 1,
        payload_length: SEGMENT,
        syn: false,
        fin: true,
        ..sent
    };
    line.sender.on_send(&sent, &mut line.found);
    line.ack_bytes(40, SEGMENT + 2, 20, &[]);
    assert_eq!(line.rates(), [(40, 1000, 20, false)]);
}

#[test]
fn without_selective_acknowledgments_no_rate_spans_the_filling_of_a_hole() {
    let mut line = Timeline::new();
    line.sender = Sender::default();
    // Segment 1 is lost, 2 and 3 arrive at 10; no ACK reports that before 41.
    line.send(0, 0..4).ack(20, 1, 0, &[]).ack(21, 1, 0, &[]);
    line.send(21, 1..2).send(30, 4..5);
    line.ack(41, 4, 21, &[]).send(41, 5..6);
    line.ack(50, 5, 30, &[]).ack(61, 6, 41, &[]);
    // Segment 5 was sent when 4000 bytes had been delivered, until 41, of which segment 3 was the youngest sent: at 21.
    let expected = [(20, 1000, 20, false), (61, 2000, 20, false)];
    assert_eq!(line.rates(), expected);
}
