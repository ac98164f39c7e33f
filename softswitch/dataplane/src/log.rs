// SPDX-License-Identifier: Apache-2.0
//! Log events of a program: `log_msg`, and false `assert` and `assume`. The library only collects them; its owner logs.

use std::collections::VecDeque;
use weir_program::LogKind;

/// One log event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogEvent<'a> {
    /// Its kind.
    pub kind: LogKind,
    /// Time of the packet that caused it, ns.
    pub time_ns: u64,
    /// The message with its values, or file and line of the false statement.
    pub text: &'a str,
}

/// Events kept until they are drained; a program that logs every packet must not fill memory.
const MAX_EVENTS: usize = 4_096;
/// Bytes of their texts.
const MAX_BYTES: usize = 1 << 20;

/// Events that the owner has not drained, with their texts in one buffer.
#[derive(Debug, Default)]
pub(crate) struct LogQueue {
    heads: VecDeque<(LogKind, u64, usize)>,
    text: String,
}

impl LogQueue {
    /// Appends an event whose text `write` adds; false if the queue is full.
    pub(crate) fn push(
        &mut self,
        kind: LogKind,
        time_ns: u64,
        write: impl FnOnce(&mut String),
    ) -> bool {
        if self.heads.len() >= MAX_EVENTS || self.text.len() >= MAX_BYTES {
            return false;
        }
        let before = self.text.len();
        write(&mut self.text);
        self.heads
            .push_back((kind, time_ns, self.text.len() - before));
        true
    }

    pub(crate) fn drain(&mut self, mut receive: impl FnMut(LogEvent<'_>)) {
        let mut rest = self.text.as_str();
        for (kind, time_ns, length) in self.heads.drain(..) {
            let (text, tail) = rest.split_at_checked(length).unwrap_or((rest, ""));
            rest = tail;
            receive(LogEvent {
                kind,
                time_ns,
                text,
            });
        }
        self.text.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_out_in_order_and_beyond_the_limit_are_refused() {
        let mut queue = LogQueue::default();
        for i in 0..MAX_EVENTS {
            assert!(queue.push(LogKind::Message, 7, |text| text.push_str(&i.to_string())));
        }
        assert!(!queue.push(LogKind::Assert, 8, |_| panic!("not written")));
        let mut texts = Vec::new();
        queue.drain(|event| texts.push(event.text.to_owned()));
        assert_eq!((texts.len(), texts[11].as_str()), (MAX_EVENTS, "11"));
        assert!(queue.push(LogKind::Assert, 8, |text| text.push('x')));
    }
}
