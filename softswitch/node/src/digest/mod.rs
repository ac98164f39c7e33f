// SPDX-License-Identifier: Apache-2.0
//! Digests: `DigestEntry` and the lists that are sent to the controller.
//!
//! The specification ("DigestEntry") requires distinct messages per list and a cache of messages that were sent and not
//! yet acknowledged, so that a new host does not flood the channel before the controller has learned it.

pub mod learn;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};

use weir_p4runtime::p4::v1;
use weir_p4runtime::p4::v1::digest_entry::Config;

use super::failure::Failure;
use super::pipeline::DigestView;
use super::write::Operation;
use super::{Node, parts};

/// Longest list, also when the controller sets no limit.
const MAX_LIST_SIZE: usize = 4096;
/// Most cached messages; beyond that the oldest list is dropped from the cache, which the specification allows.
const MAX_CACHED: usize = 1 << 18;

type Values = Vec<Vec<u8>>;

/// A digest list that is ready to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadyList {
    /// Number that the acknowledgement refers to.
    pub list_id: u64,
    /// The values of each message.
    pub messages: Vec<Values>,
}

impl ReadyList {
    /// The P4Runtime message for the list, with time stamp `now_ns`.
    #[inline]
    pub fn message(&self, view: &DigestView, now_ns: u64) -> v1::DigestList {
        v1::DigestList {
            digest_id: view.p4info_id,
            list_id: self.list_id,
            data: self
                .messages
                .iter()
                .map(|values| view.shape.data(values))
                .collect(),
            timestamp: i64::try_from(now_ns).unwrap_or(i64::MAX),
        }
    }
}

/// The buffer and the cache of one digest. Time is an argument, in ns.
#[derive(Debug)]
pub struct DigestQueue {
    config: Config,
    max_timeout_ns: u64,
    ack_timeout_ns: u64,
    max_list_size: usize,
    buffer: Vec<Values>,
    buffered_since_ns: u64,
    /// Messages in the buffer (None) or in a list that is not acknowledged (its id).
    known: HashMap<Values, Option<u64>>,
    sent: VecDeque<SentList>,
    next_list_id: u64,
}

#[derive(Debug)]
struct SentList {
    list_id: u64,
    sent_ns: u64,
    messages: Vec<Values>,
}

impl DigestQueue {
    /// An empty queue.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a negative time or size.
    pub fn new(config: Config, place: &str) -> Result<Self, Failure> {
        let number = |name: &str, value: i64| {
            u64::try_from(value)
                .map_err(|_| Failure::invalid(format!("{place}: {name} {value} is negative")))
        };
        let max_list_size = number("max_list_size", i64::from(config.max_list_size))?;
        let max_list_size = usize::try_from(max_list_size)
            .unwrap_or(MAX_LIST_SIZE)
            .min(MAX_LIST_SIZE);
        Ok(Self {
            max_timeout_ns: number("max_timeout_ns", config.max_timeout_ns)?,
            ack_timeout_ns: number("ack_timeout_ns", config.ack_timeout_ns)?,
            max_list_size: if max_list_size == 0 {
                MAX_LIST_SIZE
            } else {
                max_list_size
            },
            config,
            buffer: Vec::new(),
            buffered_since_ns: 0,
            known: HashMap::new(),
            sent: VecDeque::new(),
            next_list_id: 1,
        })
    }

    /// Changes the settings; buffer and cache stay.
    pub fn reconfigure(&mut self, config: Config, place: &str) -> Result<(), Failure> {
        let Self {
            config,
            max_timeout_ns,
            ack_timeout_ns,
            max_list_size,
            ..
        } = Self::new(config, place)?;
        self.config = config;
        self.max_timeout_ns = max_timeout_ns;
        self.ack_timeout_ns = ack_timeout_ns;
        self.max_list_size = max_list_size;
        Ok(())
    }

    /// The settings as the controller wrote them.
    pub fn config(&self) -> Config {
        self.config
    }

    /// Adds a message of the dataplane; returns the list when it is complete.
    #[inline]
    pub fn offer(&mut self, values: Values, now_ns: u64) -> Option<ReadyList> {
        self.forget_expired(now_ns);
        if self.known.contains_key(&values) {
            return None;
        }
        if self.buffer.is_empty() {
            self.buffered_since_ns = now_ns;
        }
        self.known.insert(values.clone(), None);
        self.buffer.push(values);
        let full = self.buffer.len() >= self.max_list_size || self.max_timeout_ns == 0;
        full.then(|| self.flush(now_ns))
    }

    /// Time by which the buffer must be sent; None when it is empty.
    #[inline]
    pub fn due_ns(&self) -> Option<u64> {
        (!self.buffer.is_empty())
            .then(|| self.buffered_since_ns.saturating_add(self.max_timeout_ns))
    }

    /// The buffer as a list, if it is due.
    #[inline]
    pub fn take_due(&mut self, now_ns: u64) -> Option<ReadyList> {
        self.due_ns()
            .is_some_and(|due_ns| due_ns <= now_ns)
            .then(|| self.flush(now_ns))
    }

    /// Handles the acknowledgement of a list: its messages may be sent again.
    pub fn acknowledge(&mut self, list_id: u64) {
        if let Some(at) = self.sent.iter().position(|list| list.list_id == list_id)
            && let Some(list) = self.sent.remove(at)
        {
            self.forget(&list);
        }
    }

    /// Handles the acknowledgement of some messages of a list, by their number in it.
    pub fn acknowledge_some(&mut self, list_id: u64, numbers: &[i32]) {
        let Some(at) = self.sent.iter().position(|list| list.list_id == list_id) else {
            return;
        };
        let messages = &self.sent[at].messages;
        let is_open = |known: &HashMap<_, _>, values| known.get(values) == Some(&Some(list_id));
        for number in numbers {
            let values = usize::try_from(*number).ok();
            if let Some(values) = values.and_then(|at| messages.get(at))
                && is_open(&self.known, values)
            {
                self.known.remove(values);
            }
        }
        // The limit of the cache counts messages, so a list without any would stay until its acknowledgement is overdue.
        if !messages.iter().any(|values| is_open(&self.known, values)) {
            self.sent.remove(at);
        }
    }

    #[inline]
    fn flush(&mut self, now_ns: u64) -> ReadyList {
        let list = ReadyList {
            list_id: self.next_list_id,
            messages: std::mem::take(&mut self.buffer),
        };
        self.next_list_id += 1;
        if self.ack_timeout_ns == 0 {
            // A timeout of 0 means no cache.
            for values in &list.messages {
                self.known.remove(values);
            }
            return list;
        }
        for values in &list.messages {
            self.known.insert(values.clone(), Some(list.list_id));
        }
        self.sent.push_back(SentList {
            list_id: list.list_id,
            sent_ns: now_ns,
            messages: list.messages.clone(),
        });
        while self.known.len() > MAX_CACHED
            && let Some(oldest) = self.sent.pop_front()
        {
            self.forget(&oldest);
        }
        list
    }

    #[inline]
    fn forget_expired(&mut self, now_ns: u64) {
        while let Some(list) = self.sent.front()
            && now_ns.saturating_sub(list.sent_ns) >= self.ack_timeout_ns
            && let Some(list) = self.sent.pop_front()
        {
            self.forget(&list);
        }
    }

    #[inline]
    fn forget(&mut self, list: &SentList) {
        for values in &list.messages {
            // One that was acknowledged alone may be in a later list.
            if self.known.get(values) == Some(&Some(list.list_id)) {
                self.known.remove(values);
            }
        }
    }
}

impl Node {
    pub(super) fn write_digest(
        &mut self,
        operation: Operation,
        entry: &v1::DigestEntry,
    ) -> Result<(), Failure> {
        let (pipeline, _) = parts(&self.pipeline, &mut self.switch)?;
        let view = pipeline.digest(entry.digest_id)?;
        let place = format!("digest {}", view.name);
        let config = entry.config.unwrap_or_default();
        match (operation, self.digests.get_mut(&entry.digest_id)) {
            (Operation::Insert, None) => {
                self.digests
                    .insert(entry.digest_id, DigestQueue::new(config, &place)?);
            }
            (Operation::Insert, Some(_)) => {
                let message = format!("{place}: its digest entry exists; MODIFY changes it");
                return Err(Failure::new(tonic::Code::AlreadyExists, message));
            }
            (Operation::Modify, Some(queue)) => queue.reconfigure(config, &place)?,
            (Operation::Delete, Some(_)) => {
                self.digests.remove(&entry.digest_id);
            }
            (Operation::Modify | Operation::Delete, None) => {
                return Err(Failure::not_found(format!(
                    "{place}: it has no digest entry; INSERT makes one"
                )));
            }
        }
        Ok(())
    }
}
