// SPDX-License-Identifier: Apache-2.0
//! Frames that need not wait on a link, first in, first out. A few processor instructions for each, because every frame
//! of an ideal link passes here.

use crate::packet::Packet;
use crate::ports::Port;

#[derive(Debug, Default)]
pub(super) struct Ready {
    /// None: taken, or not added yet.
    frames: Vec<(u64, Option<Box<Packet>>)>,
    /// Where the next frame is taken, and where the next is added.
    first: usize,
    end: usize,
}

/// After so many frames were taken from the start, and after each multiple, the others move up if they are half of all.
const MOST_TAKEN: usize = 1_024;

impl Ready {
    /// Adds a frame that arrived at `at_ns`, not before the last one.
    #[inline(always)]
    pub(super) fn push(&mut self, at_ns: u64, packet: Box<Packet>) {
        match self.frames.get_mut(self.end) {
            Some((at, free)) => {
                *at = at_ns;
                // It is None, so that nothing has to be dropped.
                std::mem::forget(free.replace(packet));
            }
            None => self.frames.push((at_ns, Some(packet))),
        }
        self.end += 1;
    }

    /// When the first frame arrived.
    #[inline(always)]
    pub(super) fn first_ns(&self) -> Option<u64> {
        let first = self.frames.get(self.first)?;
        (self.first < self.end).then_some(first.0)
    }

    /// Takes the first frame.
    #[inline(always)]
    pub(super) fn pop(&mut self) -> Option<(u64, Box<Packet>)> {
        let (at_ns, packet) = self.frames.get_mut(self.first)?;
        let (at_ns, packet) = (*at_ns, packet.take()?);
        self.first += 1;
        if self.first == self.end {
            (self.first, self.end) = (0, 0);
        } else if self.first.is_multiple_of(MOST_TAKEN) && self.first >= self.end / 2 {
            self.move_up();
        }
        Some((at_ns, packet))
    }

    #[cold]
    fn move_up(&mut self) {
        self.frames.truncate(self.end);
        self.frames.drain(..self.first);
        (self.first, self.end) = (0, self.frames.len());
    }

    /// Removes the frames of a port; returns their number.
    pub(super) fn remove(&mut self, port: Port) -> u64 {
        self.move_up();
        let before = self.frames.len();
        let stays = |packet: &Option<Box<Packet>>| {
            packet
                .as_ref()
                .is_some_and(|packet| packet.egress_port != port)
        };
        self.frames.retain(|(_, packet)| stays(packet));
        self.end = self.frames.len();
        (before - self.frames.len()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(port: Port) -> Box<Packet> {
        let mut packet = Box::<Packet>::default();
        packet.egress_port = port;
        packet
    }

    #[test]
    fn frames_leave_in_order_however_many_wait() {
        let mut ready = Ready::default();
        let (mut added, mut taken) = (0, 0);
        for round in 0..50 {
            for _ in 0..100 {
                ready.push(added, frame(1));
                added += 1;
            }
            // More and more wait in the first rounds, fewer and fewer in the last.
            for _ in 0..if round < 25 { 40 } else { 160 } {
                assert_eq!(ready.first_ns(), Some(taken));
                assert_eq!(ready.pop().map(|(at_ns, _)| at_ns), Some(taken));
                taken += 1;
            }
            assert!(ready.end as u64 <= 2 * (added - taken) + MOST_TAKEN as u64);
        }
        assert_eq!((added, taken), (5_000, 5_000));
        assert!(ready.pop().is_none() && ready.end == 0);
    }

    #[test]
    fn the_frames_of_a_port_are_removed() {
        let mut ready = Ready::default();
        for at_ns in 0..6 {
            ready.push(at_ns, frame(1 + at_ns as Port % 2));
        }
        ready.pop();
        assert_eq!(ready.remove(1), 2);
        let left = std::iter::from_fn(|| ready.pop());
        assert!(left.map(|(at_ns, _)| at_ns).eq([1, 3, 5]));
    }
}
