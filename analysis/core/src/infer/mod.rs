// SPDX-License-Identifier: Apache-2.0
//! Which of a TCP sender's transmissions arrived and which were lost, from a capture at the sender.
//!
//! The sender's capture holds every transmission and every acknowledgment. A range of bytes that was sent once and
//! acknowledged arrived. Where a range was sent N times, its first acknowledgment proves the arrival of one of them,
//! and every DSACK (RFC 2883) that of one more; the rest were lost:
//!
//! - *Which one* arrived first is told by the echoed timestamp where it applies (RFC 3522; RFC 7323 section 4.3: the
//!   segment that carried the byte at the acknowledgment's old value), else by time: the transmission whose age at the
//!   acknowledgment is nearest to the round-trip time, not younger than 0.9 of the shortest, and not older than
//!   transmissions that are known to have arrived before (the network keeps order, mostly).
//! - *How many* arrived must wait for a DSACK to come back, so a range that was sent more than once is judged some
//!   round trips after its last transmission.
//!
//! - `sender`: one direction of one connection; transmissions in, then `acknowledging`, then `settling`, verdicts out
//! - `captured`: what `sender` takes in
//! - `outstanding`: the ranges of the sequence space that are not settled, and who carried them
//! - `cause`: why a range was sent again
//! - `holes`: data that never passed the capture, or passed it late
//! - `choose`: which of several transmissions an acknowledgment is about
//! - `delivery`: at which rate data arrived
//! - `ranges`: what SACK blocks have covered already
//! - `sequence`: 32-bit sequence numbers as 64-bit ones

mod captured;
mod cause;
mod choose;
mod delivery;
mod holes;
mod outstanding;
mod ranges;
mod sender;
mod sequence;

#[cfg(test)]
mod tests;

pub use captured::{Acknowledgment, Sent};
pub use delivery::DeliveryRate;
pub use sender::Sender;

/// How the sender came to repair a loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// An original whose loss was evident, by SACK or duplicate ACKs, when it was sent again.
    FastRetransmit,
    /// An original that was sent again without such evidence, after a retransmission timeout (RFC 6298).
    Rto,
    /// A retransmission that was lost in its turn.
    LostRetransmission,
    /// An original at the end of the data: repaired by a tail loss probe (RFC 8985 section 7), or never.
    Tail,
}

impl Cause {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 4] = [
        Self::FastRetransmit,
        Self::Rto,
        Self::LostRetransmission,
        Self::Tail,
    ];

    /// The name in result tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FastRetransmit => "fast_retransmit",
            Self::Rto => "rto",
            Self::LostRetransmission => "lost_retransmission",
            Self::Tail => "tail",
        }
    }
}

/// How well a loss is corroborated.
///
/// Where the receiver reports duplicates (it agreed to SACK, RFC 2018 and 2883) and the capture has its reports whole, the
/// *number* of losses of a range is certain. *Which* of its transmissions were lost is told by an echoed timestamp, by
/// later data that the receiver had before the range was sent again, or by time alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Confidence {
    /// The receiver's reports of duplicates are not known: it did not agree to SACK, or the capture has cut options. A
    /// spurious retransmission would pass for a loss. Before the capture: only the order of packets speaks for a loss.
    Low,
    /// The number is certain, the transmission was singled out by its time. Before the capture: by the IP identification.
    Medium,
    /// Number and transmission are certain, by the receiver's word: data sent later had arrived before the range was sent
    /// again, or an echoed timestamp singled out the one that arrived. Before the capture: by the sender's timestamp.
    High,
}

impl Confidence {
    /// The name in result tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// On which side of the capture a transmission was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// It passed the capture, and did not arrive.
    Behind,
    /// It never passed the capture: the hole that it left was filled later.
    Before,
}

impl Place {
    /// The name in result tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Behind => "behind",
            Self::Before => "before",
        }
    }
}

/// A transmission that was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loss {
    /// When the lost transmission was sent; before the capture: when the packet behind it passed.
    pub sent_ns: i64,
    /// When its range was sent again; the last acknowledgment's time when it never was.
    pub detected_ns: i64,
    /// Its sequence number, as on the wire (before the capture: that of the packet that filled the hole).
    pub seq: u32,
    /// Its payload in bytes.
    pub length: u32,
    /// How it was repaired.
    pub cause: Cause,
    /// On which side of the capture.
    pub place: Place,
    /// How well this is corroborated.
    pub confidence: Confidence,
}

/// What is known about one transmission in the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It arrived.
    Delivered {
        /// It is a retransmission of data that had arrived already.
        spurious: bool,
    },
    /// It did not arrive.
    Lost {
        /// Where, when and how it was noticed.
        loss: Loss,
        /// It is a retransmission of data that had arrived already.
        spurious: bool,
    },
    /// The capture ends before this could be known, or the packet is a probe that is not acknowledged as data.
    Unknown,
}

/// One round-trip time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RttSample {
    /// When the acknowledgment was captured.
    pub time_ns: i64,
    /// Its distance from the transmission that it acknowledges.
    pub rtt_ns: i64,
}

/// Takes what the inference finds, as soon as it is certain.
pub trait Sink {
    /// Whether delivery rates are wanted; where not, nothing is done for them.
    const DELIVERY_RATES: bool = false;
    /// The verdict on the transmission that was announced with this `tag`; once per transmission.
    fn verdict(&mut self, tag: u64, verdict: Verdict);
    /// A loss before the capture.
    fn before(&mut self, loss: Loss);
    /// A packet that came late because others had overtaken it before the capture.
    fn overtaken(&mut self);
    /// A packet that is in the capture a second time.
    fn copy(&mut self);
    /// Bytes that were acknowledged and are not in the capture.
    fn missed(&mut self, bytes: u64);
    /// A round-trip time, in order of time.
    fn rtt(&mut self, sample: RttSample);
    /// A delivery rate, in order of time.
    fn delivery_rate(&mut self, _sample: DeliveryRate) {}
}
