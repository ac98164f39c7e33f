// SPDX-License-Identifier: Apache-2.0
//! Captures that differ from what the sender did: they begin late, miss packets, hold them twice or out of order, or were
//! taken at the other end. The truth comes from the simulator.

use crate::support;

use std::collections::{HashMap, HashSet};
use std::io::Write;

use support::Random;
use support::frames::Pcap;
use support::simulator::{Config, Run, Simulator, dropped};
use tempfile::NamedTempFile;
use weir_core::infer::{Confidence, Place};
use weir_core::losses::{Losses, read_losses};

const FILE_HEADER: usize = 24;
const RECORD_HEADER: usize = 16;
/// Offsets of IPv4's identification and addresses, and of TCP's sequence number and flags, in the simulator's frames.
const IP_ID: usize = 18;
const SRC: usize = 26;
const SEQ: usize = 38;
const FLAGS: usize = 47;
const SERVER: [u8; 4] = [10, 0, 0, 2];

#[derive(Debug, Clone)]
struct Record {
    time_ns: i64,
    wire_length: u32,
    bytes: Vec<u8>,
}

impl Record {
    fn word(&self, at: usize) -> u32 {
        u32::from_be_bytes(self.bytes[at..at + 4].try_into().expect("a frame"))
    }

    /// Bytes of payload of the server's packets; 0 for the client's.
    fn data(&self) -> u32 {
        let header = u32::from(self.bytes[46] >> 4) * 4;
        let payload = self.wire_length - 34 - header;
        if self.bytes[SRC..SRC + 4] == SERVER {
            payload
        } else {
            0
        }
    }
}

fn records(pcap: &Pcap) -> Vec<Record> {
    let word = |at: usize| u32::from_le_bytes(pcap.0[at..at + 4].try_into().expect("a record"));
    let mut at = FILE_HEADER;
    let mut records = Vec::new();
    while at < pcap.0.len() {
        let length = word(at + 8) as usize;
        let from = at + RECORD_HEADER;
        records.push(Record {
            time_ns: i64::from(word(at)) * 1_000_000_000 + i64::from(word(at + 4)),
            wire_length: word(at + 12),
            bytes: pcap.0[from..from + length].to_vec(),
        });
        at = from + length;
    }
    records
}

fn infer(records: &[Record]) -> Losses {
    let mut pcap = Pcap::default();
    for record in records {
        pcap.add(record.time_ns, &record.bytes, record.wire_length);
    }
    let mut file = NamedTempFile::new().expect("a temporary file");
    file.write_all(&pcap.0).expect("room for it");
    let losses = read_losses(file.path()).expect("a capture");
    let counted: u64 = losses.flows.iter().map(|flow| flow.stats.packets).sum();
    assert_eq!(
        losses.records,
        counted + losses.not_ip,
        "every record is counted once"
    );
    losses
}

fn found(losses: &Losses, place: Place) -> HashSet<(u32, i64)> {
    let of_place = losses.losses.iter().filter(|(_, loss)| loss.place == place);
    of_place.map(|(_, loss)| (loss.seq, loss.sent_ns)).collect()
}

fn run(seed: u64) -> Run {
    Simulator::run(Config {
        seed,
        segments: 6000,
        loss: 0.02,
        ..Config::default()
    })
}

#[test]
fn a_capture_at_the_receiver_shows_what_was_lost_before_it() {
    for reordering in [(0.0, 0), (0.02, 3_000_000)] {
        let run = Simulator::run(Config {
            reordering,
            segments: 6000,
            loss: 0.02,
            ..Config::default()
        });
        let losses = infer(&records(&run.receiver));
        let lost: HashSet<u32> = run
            .transmissions
            .iter()
            .filter(|sent| sent.dropped)
            .map(|sent| sent.seq)
            .collect();
        let holes: HashSet<u32> = found(&losses, Place::Before)
            .iter()
            .map(|(seq, _)| *seq)
            .collect();
        let hits = holes.intersection(&lost).count() as f64;
        let (precision, recall) = (hits / holes.len() as f64, hits / lost.len() as f64);
        println!(
            "{reordering:?}: {} segments lost, precision {precision:.4}, recall {recall:.4}",
            lost.len()
        );
        assert!(lost.len() > 80, "{} lost", lost.len());
        assert!(
            precision >= 0.998 && recall >= 0.98,
            "precision {precision}, recall {recall}"
        );
        assert!(
            found(&losses, Place::Behind).is_empty(),
            "nothing is lost behind the receiver"
        );
        let overtaken: u64 = losses.flows.iter().map(|flow| flow.stats.overtaken).sum();
        assert_eq!(
            overtaken > 0,
            reordering.0 > 0.0,
            "{overtaken} packets came late"
        );
    }
}

#[test]
fn a_capture_that_lost_packets_itself_says_how_many_bytes() {
    let run = run(5);
    let mut random = Random::new(7);
    let all = records(&run.sender);
    let kept: Vec<Record> = all
        .iter()
        .filter(|record| record.data() == 0 || !random.chance(0.02))
        .cloned()
        .collect();
    let seen: HashSet<u32> = kept
        .iter()
        .filter(|record| record.data() > 0)
        .map(|record| record.word(SEQ))
        .collect();
    let mut missed: HashMap<u32, u32> = all
        .iter()
        .filter(|record| record.data() > 0)
        .map(|record| (record.word(SEQ), record.data()))
        .collect();
    missed.retain(|seq, _| !seen.contains(seq));
    let missed: u64 = missed.values().map(|&bytes| u64::from(bytes)).sum();
    assert!(missed > 0);
    let losses = infer(&kept);
    assert_eq!(losses.notes.missed_bytes, missed);
    assert!(
        losses
            .notes
            .lines("a.pcap".as_ref())
            .iter()
            .any(|line| line.contains("lost packets itself"))
    );
    let truth = dropped(&run);
    let wrong: Vec<_> = found(&losses, Place::Behind)
        .difference(&truth)
        .copied()
        .collect();
    assert!(wrong.is_empty(), "none is made up: {wrong:?}");
    assert!(
        infer(&all).notes.lines("a.pcap".as_ref()).is_empty(),
        "of the whole capture there is nothing to say"
    );
}

#[test]
fn a_capture_that_begins_in_the_middle_knows_what_came_after() {
    let run = run(6);
    let all = records(&run.sender);
    let from = all.len() / 3;
    let begin_ns = all[from].time_ns;
    let losses = infer(&all[from..]);
    let truth = dropped(&run);
    let found = found(&losses, Place::Behind);
    assert!(found.is_subset(&truth), "none is made up");
    // Data in flight at the beginning are unknown for a round trip.
    let later: HashSet<_> = truth
        .iter()
        .filter(|(_, sent_ns)| *sent_ns > begin_ns + 200_000_000)
        .copied()
        .collect();
    assert!(later.len() > 40, "{} losses later", later.len());
    let missing: Vec<_> = later.difference(&found).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn packets_that_are_in_the_capture_twice_are_no_retransmissions() {
    let run = run(7);
    let all = records(&run.sender);
    let mut twice = Vec::new();
    for record in &all {
        twice.push(record.clone());
        let mut copy = record.clone();
        copy.time_ns += 2000;
        twice.push(copy);
    }
    let losses = infer(&twice);
    assert_eq!(found(&losses, Place::Behind), dropped(&run));
    let data = all.iter().filter(|record| record.data() > 0).count() as u64;
    assert!(
        losses.notes.copies >= data,
        "{} copies of {data} packets",
        losses.notes.copies
    );
    // Without an identification, as with IPv6: by their time.
    for record in &mut twice {
        record.bytes[IP_ID..IP_ID + 2].fill(0);
    }
    assert_eq!(found(&infer(&twice), Place::Behind), dropped(&run));
}

#[test]
fn records_out_of_order_are_close_to_those_in_order() {
    let run = run(8);
    let mut all = records(&run.sender);
    let mut random = Random::new(9);
    for at in 1..all.len() {
        if random.chance(0.05) {
            all.swap(at - 1, at);
        }
    }
    let (truth, losses) = (dropped(&run), infer(&all));
    let found = found(&losses, Place::Behind);
    let hits = found.intersection(&truth).count() as f64;
    let (precision, recall) = (hits / found.len() as f64, hits / truth.len() as f64);
    println!("precision {precision:.4}, recall {recall:.4}");
    assert!(
        precision >= 0.99 && recall >= 0.99,
        "precision {precision}, recall {recall}"
    );
}

#[test]
fn data_after_the_other_side_has_closed_are_judged_as_before() {
    let run = run(9);
    let mut all = records(&run.sender);
    let middle = (all.len() / 2..all.len())
        .find(|&at| all[at].data() == 0)
        .expect("an acknowledgment");
    let mut fin = all[middle].clone();
    fin.bytes[FLAGS] |= support::frames::FIN;
    all.insert(middle + 1, fin);
    assert_eq!(found(&infer(&all), Place::Behind), dropped(&run));
}

/// The confidence follows from what the receiver reports.
#[test]
fn losses_are_as_certain_as_the_receivers_word() {
    let run = run(10);
    let all = records(&run.sender);
    let shares = |records: &[Record]| {
        let losses = infer(records);
        let of = |confidence| {
            losses
                .losses
                .iter()
                .filter(|(_, loss)| loss.confidence == confidence)
                .count()
        };
        let counts = [Confidence::Low, Confidence::Medium, Confidence::High].map(of);
        println!("low, medium, high: {counts:?}");
        counts
    };
    let [low, _, high] = shares(&all);
    assert!(
        low == 0 && high * 10 > losses_of(&all) * 9,
        "with SACK and timestamps nearly all are certain"
    );
    let cut: Vec<Record> = all
        .iter()
        .map(|record| Record {
            bytes: record.bytes[..record.bytes.len().min(70)].to_vec(),
            ..record.clone()
        })
        .collect();
    let [low, medium, high] = shares(&cut);
    assert!(
        low > 0 && medium + high < low,
        "cut at 70 bytes, SACK blocks are not seen"
    );
}

fn losses_of(records: &[Record]) -> usize {
    infer(records).losses.len()
}

#[test]
fn a_capture_of_one_direction_says_nothing_and_keeps_little() {
    let run = run(11);
    let all = records(&run.sender);
    let data: Vec<Record> = all.into_iter().filter(|record| record.data() > 0).collect();
    let losses = infer(&data);
    assert!(found(&losses, Place::Behind).len() <= dropped(&run).len());
    assert!(
        losses
            .losses
            .iter()
            .all(|(_, loss)| loss.confidence == Confidence::Low)
    );
}
