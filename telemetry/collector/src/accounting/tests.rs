// SPDX-License-Identifier: Apache-2.0
//! Streams made by hand, and random ones against a reference that knows what was sent.

use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddr};

use proptest::prelude::*;
use weir_report::SEQUENCE_MODULUS;

use super::*;

const LAST: u32 = SEQUENCE_MODULUS - 1;

fn content(of: u32) -> Fingerprint {
    Fingerprint::MIN.saturating_add(of)
}

/// A stream of these numbers, each with different content.
fn stream(sequences: &[u32]) -> Stream {
    let mut stream = Stream::new(sequences[0], content(sequences[0]));
    for &sequence in &sequences[1..] {
        stream.note(sequence, content(sequence));
    }
    stream
}

fn counts(received: u64, lost: u64, reordered: u64, duplicates: u64) -> Counts {
    Counts {
        received,
        lost,
        reordered,
        duplicates,
        restarts: 0,
    }
}

#[test]
fn numbers_in_order_lose_nothing() {
    assert_eq!(stream(&[0, 1, 2, 3]).counts(), counts(4, 0, 0, 0));
}

#[test]
fn a_gap_is_lost_until_it_is_filled() {
    assert_eq!(stream(&[10, 11, 15]).counts(), counts(3, 3, 0, 0));
    assert_eq!(stream(&[10, 11, 15, 13]).counts(), counts(4, 2, 1, 0));
}

#[test]
fn the_wrap_is_no_gap() {
    let stream = stream(&[LAST - 1, LAST, 0, 2]);
    assert_eq!(stream.counts(), counts(4, 1, 0, 0));
    assert_eq!(
        (stream.first_sequence(), stream.last_sequence()),
        (LAST - 1, 2)
    );
}

#[test]
fn what_comes_late_across_the_wrap_is_reordered() {
    assert_eq!(stream(&[LAST - 1, 0, LAST]).counts(), counts(3, 0, 1, 0));
}

#[test]
fn a_late_number_below_the_first_becomes_the_first() {
    let stream = stream(&[2, 0, 3]);
    assert_eq!(stream.counts(), counts(3, 1, 1, 0));
    assert_eq!(stream.first_sequence(), 0);
}

#[test]
fn the_same_content_again_is_a_duplicate() {
    assert_eq!(stream(&[5, 6, 6, 5]).counts(), counts(2, 0, 0, 2));
}

#[test]
fn the_same_number_with_other_content_is_a_restart() {
    let mut stream = stream(&[0, 1, 4]);
    assert_eq!(stream.note(0, content(1000)), Arrival::Restarted);
    assert_eq!(stream.note(1, content(1001)), Arrival::New);
    // Two lost before the restart, none after.
    assert_eq!(
        stream.counts(),
        Counts {
            restarts: 1,
            ..counts(5, 2, 0, 0)
        }
    );
    assert_eq!((stream.first_sequence(), stream.last_sequence()), (0, 1));
}

#[test]
fn a_number_below_the_window_is_a_restart() {
    let mut inside = stream(&[20_000]);
    assert_eq!(
        inside.note(20_000 - REORDERING_WINDOW + 1, content(0)),
        Arrival::Reordered
    );
    let mut below = stream(&[20_000]);
    assert_eq!(
        below.note(20_000 - REORDERING_WINDOW, content(0)),
        Arrival::Restarted
    );
}

#[test]
fn half_the_number_space_may_be_lost_in_a_row() {
    let gap = SEQUENCE_MODULUS / 2 - 1;
    assert_eq!(
        stream(&[7, 7 + gap]).counts(),
        counts(2, u64::from(gap) - 1, 0, 0)
    );
}

#[test]
fn a_jump_over_the_whole_window_forgets_it() {
    let mut stream = stream(&[0, REORDERING_WINDOW * 2]);
    // The slot of 0 is the slot of 8192: it must be empty now.
    assert_eq!(
        stream.note(REORDERING_WINDOW + 1, content(1)),
        Arrival::Reordered
    );
    assert_eq!(
        stream.note(REORDERING_WINDOW * 2, content(REORDERING_WINDOW * 2)),
        Arrival::Duplicate
    );
}

fn key(node_id: u32) -> StreamKey {
    StreamKey {
        node_id,
        hw_id: 0,
        destination: SocketAddr::from((Ipv4Addr::LOCALHOST, 32766)),
    }
}

#[test]
fn streams_are_counted_apart_and_summed() {
    let mut accounting = Accounting::default();
    for (node_id, sequence) in [(1, 0), (2, 100), (1, 1), (2, 103)] {
        assert_eq!(
            accounting.note(key(node_id), sequence, content(sequence)),
            Ok(Arrival::New)
        );
    }
    let lost: Vec<_> = accounting
        .streams()
        .map(|(key, stream)| (key.node_id, stream.counts().lost))
        .collect();
    assert_eq!(lost, [(1, 0), (2, 2)]);
    assert_eq!(accounting.totals(), counts(4, 2, 0, 0));
}

#[test]
fn forged_senders_cannot_take_all_memory() {
    let mut accounting = Accounting::default();
    for node_id in 0..u32::try_from(MAX_STREAMS).expect("small") {
        assert_eq!(
            accounting.note(key(node_id), 0, content(0)),
            Ok(Arrival::New)
        );
    }
    assert_eq!(
        accounting.note(key(u32::MAX), 0, content(0)),
        Err(TooManyStreams)
    );
    // Known streams are still counted.
    assert_eq!(accounting.note(key(0), 1, content(1)), Ok(Arrival::New));
}

#[test]
fn malformed_datagrams_are_counted_by_name() {
    let mut accounting = Accounting::default();
    assert!(accounting.note_malformed("version"));
    assert!(!accounting.note_malformed("version"));
    assert!(accounting.note_malformed("truncated"));
    assert_eq!(
        accounting.malformed().iter().collect::<Vec<_>>(),
        [(&"truncated", &1), (&"version", &2)]
    );
    assert_eq!(accounting.totals(), Counts::default());
}

/// The fate of one datagram on its path.
#[derive(Debug, Clone, Copy)]
struct Fate {
    /// 0 is lost, 2 is duplicated.
    copies: u8,
    /// By how many positions each copy is late.
    delays: [u16; 2],
}

fn fate() -> impl Strategy<Value = Fate> {
    let copies = prop_oneof![2 => Just(0_u8), 10 => Just(1), 2 => Just(2)];
    let delay = || prop_oneof![4 => Just(0_u16), 1 => 0..200_u16, 1 => 0..3000_u16];
    (copies, delay(), delay()).prop_map(|(copies, a, b)| Fate {
        copies,
        delays: [a, b],
    })
}

/// Numbers of the datagrams as they arrive; a copy is delayed by up to 3000 positions, well within the window.
fn arrivals(fates: &[Fate]) -> Vec<u64> {
    let mut timed = Vec::new();
    for (number, fate) in (0_u64..).zip(fates) {
        for delay in fate.delays.iter().take(fate.copies.into()) {
            timed.push((number + u64::from(*delay), number));
        }
    }
    // A stable sort: datagrams that arrive at one time keep their order.
    timed.sort_by_key(|&(time, _)| time);
    timed.into_iter().map(|(_, number)| number).collect()
}

/// The definitions, with unwrapped numbers and sets.
fn reference(arrivals: &[u64]) -> Counts {
    let (mut seen, mut highest, mut reordered, mut duplicates) = (HashSet::new(), None, 0, 0);
    for &number in arrivals {
        if !seen.insert(number) {
            duplicates += 1;
        } else if highest.is_some_and(|highest| number < highest) {
            reordered += 1;
        }
        highest = highest.max(Some(number));
    }
    let received = seen.len() as u64;
    let expected = match (seen.iter().min(), seen.iter().max()) {
        (Some(first), Some(last)) => last - first + 1,
        _ => 0,
    };
    counts(received, expected - received, reordered, duplicates)
}

proptest! {
    // Long histories rather than many: a case takes thousands of datagrams through the window.
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn loss_reordering_and_duplicates_are_counted_exactly(
        fates in prop::collection::vec(fate(), 1..2000),
        start in prop_oneof![Just(0), Just(LAST - 100), 0..SEQUENCE_MODULUS],
    ) {
        let arrivals = arrivals(&fates);
        let mut accounting = Accounting::default();
        let mut stored = 0;
        for &number in &arrivals {
            let number = u32::try_from(number).expect("few");
            let sequence = (start + number) % SEQUENCE_MODULUS;
            let arrival = accounting.note(key(1), sequence, content(number)).expect("one stream");
            prop_assert!(arrival != Arrival::Restarted);
            stored += u64::from(arrival != Arrival::Duplicate);
        }
        let totals = accounting.totals();
        prop_assert_eq!(totals, reference(&arrivals));
        prop_assert_eq!(totals.received, stored);
    }

    #[test]
    fn bursts_of_loss_are_counted_across_many_wraps(
        gaps in prop::collection::vec(1..SEQUENCE_MODULUS / 2, 1..50),
    ) {
        let mut stream = Stream::new(0, content(0));
        let mut sent = 0_u64;
        for &gap in &gaps {
            sent += u64::from(gap);
            let sequence = u32::try_from(sent % u64::from(SEQUENCE_MODULUS)).expect("22 bits");
            prop_assert_eq!(stream.note(sequence, content(gap)), Arrival::New);
        }
        let received = gaps.len() as u64 + 1;
        prop_assert_eq!(stream.counts(), counts(received, sent + 1 - received, 0, 0));
    }

    #[test]
    fn numbers_of_any_kind_keep_the_sum(sequences in prop::collection::vec(any::<u32>(), 1..300)) {
        let mut accounting = Accounting::default();
        for &sequence in &sequences {
            accounting.note(key(1), sequence, content(sequence % 5)).expect("one stream");
        }
        let totals = accounting.totals();
        prop_assert_eq!(totals.received + totals.duplicates, sequences.len() as u64);
    }
}
