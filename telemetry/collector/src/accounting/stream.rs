// SPDX-License-Identifier: Apache-2.0
//! One stream of numbered datagrams.

use std::num::NonZeroU32;

use weir_report::SEQUENCE_MODULUS;

/// Numbers below the highest that are remembered one by one, to tell duplicates from late arrivals.
///
/// A power of two, so that a number's slot in the window is the same after the wrap.
pub const REORDERING_WINDOW: u32 = 8192;

/// A hash of a datagram's content: distinguishes a duplicate from a number that a restarted switch uses again.
pub type Fingerprint = NonZeroU32;

/// The position of a datagram in its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// The highest number so far (a gap before it counts as lost until it is filled).
    New,
    /// A number below the highest that had not arrived yet.
    Reordered,
    /// A number that arrived before, with the same content. Not to be stored again.
    Duplicate,
    /// The first datagram after the switch restarted its numbers.
    Restarted,
}

/// The counts of a stream, or a sum of them. Units are datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Distinct datagrams.
    pub received: u64,
    /// Numbers between the first and the highest that did not arrive.
    pub lost: u64,
    /// Distinct datagrams that arrived after a higher number.
    pub reordered: u64,
    /// Datagrams that arrived again.
    pub duplicates: u64,
    /// Times the switch restarted its numbers.
    pub restarts: u64,
}

impl Counts {
    /// The sum of both.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            received: self.received + other.received,
            lost: self.lost + other.lost,
            reordered: self.reordered + other.reordered,
            duplicates: self.duplicates + other.duplicates,
            restarts: self.restarts + other.restarts,
        }
    }
}

/// The account of one stream.
#[derive(Debug, Clone)]
pub struct Stream {
    /// Counts up to the last restart.
    past: Counts,
    /// First number of all, before any restart.
    first_sequence: u32,
    run: Run,
}

impl Stream {
    /// A stream with its first datagram.
    #[must_use]
    pub fn new(sequence: u32, fingerprint: Fingerprint) -> Self {
        let run = Run::new(sequence, fingerprint);
        Self {
            past: Counts::default(),
            first_sequence: run.first_sequence(),
            run,
        }
    }

    /// Counts the next datagram.
    pub fn note(&mut self, sequence: u32, fingerprint: Fingerprint) -> Arrival {
        match self.run.note(sequence, fingerprint) {
            Some(arrival) => {
                if self.past.restarts == 0 {
                    self.first_sequence = self.run.first_sequence();
                }
                arrival
            }
            None => {
                self.past = self.past.plus(self.run.counts());
                self.past.restarts += 1;
                self.run = Run::new(sequence, fingerprint);
                Arrival::Restarted
            }
        }
    }

    /// The counts up to now, over all restarts.
    #[must_use]
    pub const fn counts(&self) -> Counts {
        self.past.plus(self.run.counts())
    }

    /// The lowest number of the first run.
    #[must_use]
    pub const fn first_sequence(&self) -> u32 {
        self.first_sequence
    }

    /// The highest number of the current run.
    #[must_use]
    pub const fn last_sequence(&self) -> u32 {
        wrapped(self.run.highest)
    }
}

/// The datagrams between two restarts. Numbers are unwrapped: they continue where the 22 bits wrap.
#[derive(Debug, Clone)]
struct Run {
    first: u64,
    highest: u64,
    received: u64,
    reordered: u64,
    duplicates: u64,
    /// Fingerprints of the last numbers, at `number % REORDERING_WINDOW`; `None` for a number that did not arrive.
    window: Box<[Option<Fingerprint>]>,
}

impl Run {
    fn new(sequence: u32, fingerprint: Fingerprint) -> Self {
        // Room below: a late datagram may precede the first.
        let first = (1 << 40) + u64::from(sequence % SEQUENCE_MODULUS);
        let window = vec![None; REORDERING_WINDOW as usize].into_boxed_slice();
        let mut run = Self {
            first,
            highest: first,
            received: 1,
            reordered: 0,
            duplicates: 0,
            window,
        };
        *run.slot(first) = Some(fingerprint);
        run
    }

    /// Counts a datagram; `None` when it cannot belong to this run.
    fn note(&mut self, sequence: u32, fingerprint: Fingerprint) -> Option<Arrival> {
        let ahead = sequence.wrapping_sub(wrapped(self.highest)) % SEQUENCE_MODULUS;
        if ahead != 0 && ahead < SEQUENCE_MODULUS / 2 {
            self.advance(ahead);
            *self.slot(self.highest) = Some(fingerprint);
            self.received += 1;
            return Some(Arrival::New);
        }
        let distance = (SEQUENCE_MODULUS - ahead) % SEQUENCE_MODULUS;
        if distance >= REORDERING_WINDOW {
            return None;
        }
        let number = self.highest - u64::from(distance);
        match *self.slot(number) {
            None => {
                *self.slot(number) = Some(fingerprint);
                self.first = self.first.min(number);
                self.received += 1;
                self.reordered += 1;
                Some(Arrival::Reordered)
            }
            Some(before) if before == fingerprint => {
                self.duplicates += 1;
                Some(Arrival::Duplicate)
            }
            Some(_) => None,
        }
    }

    /// Advances the highest number and forgets the numbers that leave the window.
    fn advance(&mut self, by: u32) {
        for step in 1..=u64::from(by.min(REORDERING_WINDOW)) {
            *self.slot(self.highest + step) = None;
        }
        self.highest += u64::from(by);
        if by > REORDERING_WINDOW {
            self.window.fill(None);
        }
    }

    fn slot(&mut self, number: u64) -> &mut Option<Fingerprint> {
        let at = usize::try_from(number % u64::from(REORDERING_WINDOW)).unwrap_or(0);
        &mut self.window[at]
    }

    const fn first_sequence(&self) -> u32 {
        wrapped(self.first)
    }

    const fn counts(&self) -> Counts {
        Counts {
            received: self.received,
            lost: self.highest - self.first + 1 - self.received,
            reordered: self.reordered,
            duplicates: self.duplicates,
            restarts: 0,
        }
    }
}

/// The 22 bits of a number that are on the wire.
#[allow(clippy::cast_possible_truncation, reason = "the remainder has 22 bits")]
const fn wrapped(number: u64) -> u32 {
    (number % SEQUENCE_MODULUS as u64) as u32
}
