// SPDX-License-Identifier: Apache-2.0
//! Bursts: the first part of several frames runs before the rest of any, so that the memory accesses of one frame
//! overlap with the work on the others.

use super::Switch;
use crate::packet::Packet;
use crate::ports::Port;

/// Packets that are paused at the same time: enough to hide a memory access, few enough for the first-level cache.
const PACKETS: usize = 4;

/// Receives frames a few at a time; see [`Switch::burst`]. Dropping it runs the rest of the frames that are paused.
#[derive(Debug)]
pub struct Burst<'a> {
    switch: &'a mut Switch,
    paused: [Option<Box<Packet>>; PACKETS],
    len: usize,
    now_ns: u64,
    /// The program can pause in ingress.
    may_pause: bool,
}

impl Switch {
    /// Begins a burst of received frames. The effects and their order are those of one call of [`Switch::receive`] per
    /// frame; only the time that the frames take is shorter.
    pub fn burst(&mut self) -> Burst<'_> {
        Burst {
            paused: Default::default(),
            len: 0,
            now_ns: self.now_ns,
            may_pause: self.native.as_ref().is_some_and(|code| code.may_pause()),
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
        if !self.may_pause || frame.is_empty() || frame.len() > switch.config.max_frame_bytes {
            self.resume();
            self.switch.receive(port, frame, now_ns);
            return;
        }
        switch.externs.stats.received += 1;
        switch.tm.count_received(port, frame.len());
        let packet = switch.start_in_burst(port, frame, self.now_ns);
        if let Some(slot) = self.paused.get_mut(self.len) {
            // It is None, so that nothing has to be dropped.
            std::mem::forget(slot.replace(packet));
        }
        self.len += 1;
        if self.len == PACKETS {
            self.resume();
        }
    }

    /// Runs the rest of the paused frames, in the order in which they were received.
    fn resume(&mut self) {
        for packet in self.paused.iter_mut().take(self.len) {
            if let Some(packet) = packet.take() {
                self.switch.resume(packet);
            }
        }
        self.len = 0;
    }
}

impl Drop for Burst<'_> {
    fn drop(&mut self) {
        self.resume();
    }
}
