// SPDX-License-Identifier: Apache-2.0
//! Builds captures as bytes: pcap or pcapng, little-endian, Ethernet, microseconds.

/// A capture that frames are added to.
pub struct CaptureFile {
    pub bytes: Vec<u8>,
    pub pcapng: bool,
}

impl CaptureFile {
    /// A capture without frames.
    pub fn new(pcapng: bool) -> Self {
        let mut file = Self {
            bytes: Vec::new(),
            pcapng,
        };
        if pcapng {
            file.words(&[0x0a0d_0d0a, 28, 0x1a2b_3c4d, 1, usize::MAX, usize::MAX, 28]);
            file.words(&[1, 20, 1, 0, 20]);
        } else {
            file.words(&[0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 1]);
        }
        file
    }

    /// Adds the captured bytes of a frame that has `wire` bytes.
    pub fn add(&mut self, time_us: usize, frame: &[u8], wire: usize) {
        if self.pcapng {
            let length = 32 + frame.len().next_multiple_of(4);
            self.block(&[6, length, 0, 0, time_us, frame.len(), wire], frame);
        } else {
            self.words(&[time_us / 1_000_000, time_us % 1_000_000, frame.len(), wire]);
            self.bytes.extend(frame);
        }
    }

    /// Adds a whole frame as a Simple Packet Block (pcapng only).
    pub fn add_simple(&mut self, frame: &[u8]) {
        let length = 16 + frame.len().next_multiple_of(4);
        self.block(&[3, length, frame.len()], frame);
    }

    fn block(&mut self, head: &[usize], frame: &[u8]) {
        self.words(head);
        self.bytes.extend(frame);
        let padding = frame.len().next_multiple_of(4) - frame.len();
        self.bytes.resize(self.bytes.len() + padding, 0);
        self.words(&head[1..2]);
    }

    fn words(&mut self, values: &[usize]) {
        for value in values {
            self.bytes.extend((*value as u32).to_le_bytes());
        }
    }
}
