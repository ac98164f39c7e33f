// SPDX-License-Identifier: Apache-2.0
//! The findings of the inference: verdicts, losses and their causes, round-trip times, delivery rates.

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
/// *number* of losses of a range is certain. *Which* of its transmissions were lost is known from an echoed timestamp, from
/// later data that the receiver had before the range was sent again, or from time alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Confidence {
    /// The receiver's reports of duplicates are not known: it did not agree to SACK, or the capture has cut options. A
    /// spurious retransmission would look like a loss. Before the capture: only the order of packets indicates a loss.
    Low,
    /// The number is certain, the transmission was identified by its time. Before the capture: by the IP identification.
    Medium,
    /// Number and transmission are certain, from the receiver's reports: data sent later had arrived before the range was
    /// sent again, or an echoed timestamp identified the one that arrived. Before the capture: by the sender's timestamp.
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
    /// It passed the capture but did not arrive.
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
    /// When the lost transmission was sent; before the capture: when the next packet after it passed.
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

/// The final judgement of one transmission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It arrived.
    Delivered {
        /// It is a retransmission of data that had arrived already.
        spurious: bool,
    },
    /// It did not arrive.
    Lost {
        /// Where, when and how it was detected.
        loss: Loss,
        /// It is a retransmission of data that had arrived already.
        spurious: bool,
    },
    /// The capture ends too early to tell, or the packet is a probe that is not acknowledged as data.
    Unknown,
}

/// One round-trip time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RttSample {
    /// When the acknowledgment was captured.
    pub time_ns: i64,
    /// Time since the transmission that it acknowledges.
    pub rtt_ns: i64,
}

/// The rate of one acknowledgment that newly delivers data, cumulatively or selectively.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeliveryRate {
    /// When the acknowledgment was captured.
    pub time_ns: i64,
    /// Payload delivered since the youngest transmission that it acknowledges was sent, duplicates not counted.
    pub delivered_bytes: u64,
    /// How long that took: the longer of the send interval and the ACK interval.
    pub interval_ns: i64,
    /// That transmission was a retransmission, so which one arrived is inferred.
    pub retransmission: bool,
}

impl DeliveryRate {
    /// Bits of payload per second.
    pub fn bits_per_second(&self) -> f64 {
        self.delivered_bytes as f64 * 8e9 / self.interval_ns as f64
    }
}

/// Receives the findings of the inference, each as soon as it is certain.
pub trait Sink {
    /// Whether delivery rates are computed.
    const DELIVERY_RATES: bool = false;
    /// The verdict on the transmission that was announced with this `tag`; once per transmission.
    fn verdict(&mut self, tag: u64, verdict: Verdict);
    /// A loss before the capture.
    fn before(&mut self, loss: Loss);
    /// A packet that reached the capture late because others had overtaken it.
    fn overtaken(&mut self);
    /// The transmission with this `tag` is a second copy of a packet in the capture; its verdict is unknown.
    fn copy(&mut self, tag: u64);
    /// Bytes that were acknowledged but are not in the capture.
    fn missed(&mut self, bytes: u64);
    /// A round-trip time, in order of time.
    fn rtt(&mut self, sample: RttSample);
    /// A delivery rate, in order of time.
    fn delivery_rate(&mut self, _sample: DeliveryRate) {}
}
