// SPDX-License-Identifier: Apache-2.0
//! The log of each packet's path, in the words of bmv2's log. The library only collects lines; its owner writes them.

use crate::info::ProgramInfo;
use crate::packet::Packet;
use std::collections::VecDeque;
use std::fmt::Write;

/// Level of a line, as bmv2 has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Details: tables applied, actions, bytes parsed.
    Trace,
    /// The path: parser states, headers, hits and misses, copies, drops, transmissions.
    Debug,
    /// Dumped frames, messages of the program.
    Info,
    /// Parser errors, wrong checksums.
    Error,
}

/// What is logged of each packet. The interpreter runs the program then, so a log changes the speed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathLogConfig {
    /// The least level.
    pub level: LogLevel,
    /// Bytes of each received and sent frame to log.
    pub dump_bytes: usize,
}

/// Lines kept until they are drained; a batch of frames whose copies need more loses the rest, counted.
const MAX_LINES: usize = 1 << 17;
/// Bytes of them.
const MAX_BYTES: usize = 32 << 20;
/// Packets whose copies are numbered at a time.
const NUMBERED: usize = 4_096;

/// The lines that the owner has not drained.
#[derive(Debug)]
pub(crate) struct PathLog {
    config: PathLogConfig,
    pub info: ProgramInfo,
    heads: VecDeque<(LogLevel, usize)>,
    text: String,
    lost: u64,
    packets: u64,
    /// By packet number modulo their count: the packet, and the number of its last copy.
    copies: Vec<(u64, u32)>,
}

impl PathLog {
    pub(crate) fn new(config: PathLogConfig, info: &ProgramInfo) -> Self {
        Self {
            config,
            info: info.clone(),
            heads: VecDeque::new(),
            text: String::new(),
            lost: 0,
            packets: 0,
            copies: vec![(0, 0); NUMBERED],
        }
    }

    /// The same log for another program: packets are numbered on.
    pub(crate) fn with_program(self, info: &ProgramInfo) -> Self {
        Self {
            info: info.clone(),
            ..self
        }
    }

    /// Whether lines of this level are kept.
    pub(crate) fn has(&self, level: LogLevel) -> bool {
        level >= self.config.level
    }

    /// Adds a line that is not about one packet, or one that a packet's number does not precede.
    pub(crate) fn line(&mut self, level: LogLevel, write: impl FnOnce(&ProgramInfo, &mut String)) {
        if !self.has(level) {
            return;
        }
        if self.heads.len() >= MAX_LINES || self.text.len() >= MAX_BYTES {
            self.lost += 1;
            return;
        }
        let before = self.text.len();
        write(&self.info, &mut self.text);
        self.heads.push_back((level, self.text.len() - before));
    }

    /// Adds a line about a packet: bmv2's form is `[packet.copy] [cxt 0] text`.
    pub(crate) fn packet(
        &mut self,
        level: LogLevel,
        packet: &Packet,
        write: impl FnOnce(&ProgramInfo, &mut String),
    ) {
        let (number, copy) = packet.log_number;
        self.line(level, |info, out| {
            // Writing to a string does not fail.
            let _ = write!(out, "[{number}.{copy}] [cxt 0] ");
            write(info, out);
        });
    }

    /// Numbers a received packet and says that it is there.
    pub(crate) fn received(&mut self, packet: &mut Packet) {
        self.begin(packet);
        self.dump("Received", packet.ingress_port, packet.original());
        self.processing(packet);
    }

    /// Says that ingress of a packet begins.
    pub(crate) fn processing(&mut self, packet: &Packet) {
        self.packet(LogLevel::Debug, packet, |_, out| {
            let port = packet.ingress_port;
            let _ = write!(out, "Processing packet received on port {port}");
        });
    }

    /// Numbers a received packet.
    fn begin(&mut self, packet: &mut Packet) {
        packet.log_number = (self.packets, 0);
        if let Some(slot) = self.slot(self.packets) {
            *slot = (packet.log_number.0, 0);
        }
        self.packets += 1;
    }

    /// Numbers a copy, which has the number of its original.
    pub(crate) fn begin_copy(&mut self, packet: &mut Packet) {
        let (number, copy) = packet.log_number;
        if let Some(slot) = self.slot(number) {
            let last = if slot.0 == number { slot.1 } else { copy };
            *slot = (number, last + 1);
            packet.log_number = *slot;
        }
    }

    fn slot(&mut self, number: u64) -> Option<&mut (u64, u32)> {
        self.copies.get_mut(number as usize % NUMBERED)
    }

    /// Logs the first bytes of a frame, if that was asked for.
    pub(crate) fn dump(&mut self, verb: &str, port: u32, frame: &[u8]) {
        let most = self.config.dump_bytes;
        if most > 0 {
            self.line(LogLevel::Info, |_, out| {
                let _ = write!(
                    out,
                    "{verb} packet of length {} on port {port}: ",
                    frame.len()
                );
                hex(out, frame.iter().take(most));
            });
        }
    }

    pub(crate) fn drain(&mut self, mut receive: impl FnMut(LogLevel, &str)) {
        let mut rest = self.text.as_str();
        for (level, length) in self.heads.drain(..) {
            let (text, tail) = rest.split_at_checked(length).unwrap_or((rest, ""));
            rest = tail;
            receive(level, text);
        }
        self.text.clear();
        if self.lost > 0 {
            receive(
                LogLevel::Error,
                &format!("{} lines of the log were lost", self.lost),
            );
            self.lost = 0;
        }
    }
}

/// Writes bytes in hexadecimal.
pub(crate) fn hex<'a>(out: &mut String, bytes: impl Iterator<Item = &'a u8>) {
    for byte in bytes {
        let _ = write!(out, "{byte:02x}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: PathLogConfig = PathLogConfig {
        level: LogLevel::Debug,
        dump_bytes: 2,
    };

    fn lines(log: &mut PathLog) -> Vec<String> {
        let mut lines = Vec::new();
        log.drain(|_, text| lines.push(text.to_owned()));
        lines
    }

    #[test]
    fn packets_and_their_copies_are_numbered() {
        let mut log = PathLog::new(CONFIG, &ProgramInfo::default());
        let (mut first, mut second) = (Packet::default(), Packet::default());
        log.begin(&mut first);
        log.begin(&mut second);
        let mut copy = second.clone();
        log.begin_copy(&mut copy);
        log.begin_copy(&mut second);
        let mut say = |packet: &Packet| log.packet(LogLevel::Debug, packet, |_, out| out.push('x'));
        say(&first);
        say(&copy);
        say(&second);
        let expected = ["[0.0] [cxt 0] x", "[1.1] [cxt 0] x", "[1.2] [cxt 0] x"];
        assert_eq!(lines(&mut log), expected);
    }

    #[test]
    fn lines_below_the_level_are_not_written_and_what_does_not_fit_is_counted() {
        let mut log = PathLog::new(CONFIG, &ProgramInfo::default());
        log.line(LogLevel::Trace, |_, _| panic!("below the level"));
        for _ in 0..MAX_LINES + 2 {
            log.line(LogLevel::Debug, |_, _| {});
        }
        let lines = lines(&mut log);
        assert_eq!(lines.len(), MAX_LINES + 1);
        assert_eq!(lines.last().unwrap(), "2 lines of the log were lost");
    }

    #[test]
    fn a_dump_has_the_frames_length_and_its_first_bytes() {
        let mut log = PathLog::new(CONFIG, &ProgramInfo::default());
        log.dump("Received", 3, &[0xab, 1, 2]);
        assert_eq!(
            lines(&mut log),
            ["Received packet of length 3 on port 3: ab01"]
        );
    }
}
