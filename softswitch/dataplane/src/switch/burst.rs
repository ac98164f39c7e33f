// SPDX-License-Identifier: Apache-2.0
//! Frames that are taken in together, so that what one of them waits for from memory comes while others are worked on.

use super::Switch;
use crate::exec::packet::Packet;
use crate::ports::Port;

/// Packets under way at the same time: enough for memory to answer, few enough for the first cache.
const PACKETS: usize = 4;

/// Takes frames in, a few at a time; see [`Switch::burst`]. What was taken in and waits is finished when this is dropped.
#[derive(Debug)]
pub struct Burst<'a> {
    switch: &'a mut Switch,
    waiting: [Option<Box<Packet>>; PACKETS],
    len: usize,
    now_ns: u64,
    /// The program's packets can wait for each other.
    pauses: bool,
}

impl Switch {
    /// Begins to take frames in. As many calls of [`Switch::receive`] would have the same effects in the same order; the
    /// time until the packets are worked on is what is shorter.
    pub fn burst(&mut self) -> Burst<'_> {
        Burst {
            waiting: Default::default(),
            len: 0,
            now_ns: self.now_ns,
            pauses: self.native.as_ref().is_some_and(|native| native.pauses()),
            switch: self,
        }
    }
}

impl Burst<'_> {
    /// As [`Switch::receive`].
    #[inline]
    pub fn receive(&mut self, port: Port, frame: &[u8], now_ns: u64) {
        let switch = &mut *self.switch;
        self.now_ns = self.now_ns.max(now_ns);
        if !self.pauses || frame.is_empty() || frame.len() > switch.config.max_frame_bytes {
            self.settle();
            self.switch.receive(port, frame, now_ns);
            return;
        }
        switch.externs.stats.received += 1;
        switch.tm.count_received(port, frame.len());
        let packet = switch.begin(port, frame, self.now_ns);
        if let Some(place) = self.waiting.get_mut(self.len) {
            *place = Some(packet);
        }
        self.len += 1;
        if self.len == PACKETS {
            self.settle();
        }
    }

    /// Finishes what waits, in the order of arrival.
    fn settle(&mut self) {
        for packet in self.waiting.iter_mut().take(self.len) {
            if let Some(packet) = packet.take() {
                self.switch.go_on(packet);
            }
        }
        self.len = 0;
    }
}

impl Drop for Burst<'_> {
    fn drop(&mut self) {
        self.settle();
    }
}
