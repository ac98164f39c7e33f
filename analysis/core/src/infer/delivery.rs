// SPDX-License-Identifier: Apache-2.0
//! At which rate data were delivered (draft-cheng-iccrg-delivery-rate-estimation-02, as in Linux's `tcp_rate.c`).
//!
//! Each transmission remembers what had been delivered, and when, at the time it was sent. When it arrives, the data
//! delivered since then took at least as long as they took to be sent, and as their acknowledgments took to come: the
//! longer of the two is the interval, so that neither a burst of data nor one of acknowledgments passes for a rate.
//!
//! Unlike the sender itself, a capture cannot see that the application had nothing to send: then the sample is the
//! application's rate, a lower bound of the path's. And while the kernel takes the last transmission of a range for the one
//! that arrived, here it is the one that the inference singled out.

use super::outstanding::Transmission;

/// The rate of one acknowledgment that newly delivers data, cumulatively or selectively.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeliveryRate {
    /// When the acknowledgment was captured.
    pub time_ns: i64,
    /// Payload delivered since the youngest transmission that it acknowledges was sent, duplicates not counted.
    pub delivered_bytes: u64,
    /// How long that took: the longer of the times of sending and of acknowledging.
    pub interval_ns: i64,
    /// That transmission was a retransmission: which one arrived is a matter of inference.
    pub retransmission: bool,
}

impl DeliveryRate {
    /// Bits of payload per second.
    pub fn bits_per_second(&self) -> f64 {
        self.delivered_bytes as f64 * 8e9 / self.interval_ns as f64
    }
}

/// What had been delivered at some time.
#[derive(Debug, Clone, Copy, Default)]
struct State {
    delivered_bytes: u64,
    /// When the last of them were acknowledged, or data were sent with none in flight.
    delivered_ns: i64,
    /// When the youngest of these was sent; or as above.
    first_sent_ns: i64,
    /// How often data were acknowledged that may have arrived long before.
    late_news: u64,
}

/// The estimator of one direction of one connection.
#[derive(Debug, Default)]
pub(super) struct Delivery {
    now: State,
    /// As it was when the transmission in each slot was sent.
    at_sending: Vec<State>,
}

impl Delivery {
    /// A transmission is sent; `idle`: nothing is in flight before it.
    pub(super) fn on_send(&mut self, slot: u32, sent_ns: i64, idle: bool) {
        if idle {
            self.now.delivered_ns = sent_ns;
            self.now.first_sent_ns = sent_ns;
        }
        let slot = slot as usize;
        if slot >= self.at_sending.len() {
            self.at_sending.resize(slot + 1, State::default());
        }
        self.at_sending[slot] = self.now;
    }

    /// An acknowledgment delivers `bytes`, not 0; `newest`: the youngest transmission that it proves to have arrived;
    /// `late`: some of the data may have arrived before earlier acknowledgments, which did not show it.
    ///
    /// No sample is shorter than the shortest round trip: such a one is about another transmission than it seems. None
    /// spans late news, which would pass for data that were delivered since.
    pub(super) fn on_ack(
        &mut self,
        time_ns: i64,
        bytes: u64,
        late: bool,
        newest: Option<(u32, &Transmission)>,
        min_rtt_ns: Option<i64>,
    ) -> Option<DeliveryRate> {
        self.now.delivered_bytes += bytes;
        self.now.delivered_ns = time_ns;
        self.now.late_news += u64::from(late);
        let (slot, newest) = newest?;
        self.now.first_sent_ns = newest.sent_ns;
        let before = self.at_sending.get(slot as usize)?;
        let send_ns = newest.sent_ns - before.first_sent_ns;
        let ack_ns = time_ns - before.delivered_ns;
        let interval_ns = send_ns.max(ack_ns);
        min_rtt_ns
            .filter(|&shortest_ns| interval_ns >= shortest_ns)
            .filter(|_| before.late_news == self.now.late_news)
            .map(|_| DeliveryRate {
                time_ns,
                delivered_bytes: self.now.delivered_bytes - before.delivered_bytes,
                interval_ns,
                retransmission: newest.retransmission,
            })
    }
}
