// SPDX-License-Identifier: Apache-2.0
//! The rate at which data were delivered (draft-cheng-iccrg-delivery-rate-estimation-02, as in Linux's `tcp_rate.c`).
//!
//! When a transmission is sent, the delivery state of that time is stored with it. When it arrives, the data delivered
//! since then are divided by the longer of two intervals, that of their sending and that of their acknowledgments, so
//! that neither a burst of data nor a burst of acknowledgments inflates the rate.
//!
//! Two differences from the sender's own estimate: a capture cannot see that the application had nothing to send, so a
//! sample may be the application's rate, a lower bound of the path's. And where the kernel assumes that the last
//! transmission of a range arrived, this uses the one that the inference chose.

use super::findings::DeliveryRate;
use super::outstanding::Transmission;

/// The delivery state at one moment.
#[derive(Debug, Clone, Copy, Default)]
struct State {
    delivered_bytes: u64,
    /// When the last of them were acknowledged, or when data were last sent with nothing in flight.
    delivered_ns: i64,
    /// When the youngest transmission among them was sent, or when data were last sent with nothing in flight.
    first_sent_ns: i64,
    /// Number of acknowledgments of data that may have arrived long before.
    late_news: u64,
}

/// The estimator of one direction of one connection.
#[derive(Debug, Default)]
pub(super) struct Delivery {
    now: State,
    /// The state when the transmission in each slot was sent.
    at_sending: Vec<State>,
}

impl Delivery {
    /// Notes a transmission; `idle`: nothing was in flight before it.
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

    /// Processes an acknowledgment of `bytes` > 0. `newest` is the youngest transmission that it proves to have arrived.
    /// `late`: some of the data may have arrived before earlier acknowledgments that did not report it.
    ///
    /// There is no sample when the interval is below the shortest RTT, because `newest` is then not the transmission that
    /// was acknowledged; and none when a late acknowledgment lies within it, because its data would be counted as
    /// delivered since.
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
