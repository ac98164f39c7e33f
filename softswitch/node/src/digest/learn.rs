// SPDX-License-Identifier: Apache-2.0
//! Digests for subscribers of bmv2's notifications, which call them learning: lists of samples as bytes, for the digests that
//! no P4Runtime controller has asked for.

use std::collections::BTreeMap;

use weir_dataplane::{DigestId, ProgramInfo};
use weir_p4runtime::p4::v1::digest_entry::Config;

use super::{DigestQueue, ReadyList};
use crate::publish::{Event, Publish};

/// Samples of a list, and the time after which fewer are sent, as bmv2 has them.
const DEFAULT_SAMPLES: i32 = 16;
const DEFAULT_TIMEOUT_NS: i64 = 1_000_000_000;
/// A sample is sent again only after it was acknowledged.
const ACKNOWLEDGED_NS: i64 = i64::MAX;

/// Samples for the subscribers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Samples {
    /// The list's number in the JSON.
    pub list: i32,
    /// Number that the acknowledgement refers to.
    pub buffer: u64,
    /// The fields of each sample, one after the other, each in whole bytes.
    pub samples: Vec<Vec<u8>>,
}

/// The lists that are published.
pub(crate) struct Learning {
    publish: Publish,
    lists: BTreeMap<DigestId, List>,
}

struct List {
    number: i32,
    config: Config,
    queue: DigestQueue,
}

impl List {
    fn new(number: i32) -> Option<Self> {
        let config = Config {
            max_timeout_ns: DEFAULT_TIMEOUT_NS,
            max_list_size: DEFAULT_SAMPLES,
            ack_timeout_ns: ACKNOWLEDGED_NS,
        };
        let queue = DigestQueue::new(config, "learning").ok()?;
        Some(Self {
            number,
            config,
            queue,
        })
    }

    /// Changes the settings; false if they are not valid.
    fn configure(&mut self, config: Config) -> bool {
        self.config = config;
        self.queue.reconfigure(config, "learning").is_ok()
    }

    fn samples(&self, list: ReadyList) -> Samples {
        Samples {
            list: self.number,
            buffer: list.list_id,
            samples: list.messages.iter().map(|fields| fields.concat()).collect(),
        }
    }
}

impl Learning {
    pub(crate) fn new(publish: Publish) -> Self {
        Self {
            publish,
            lists: BTreeMap::new(),
        }
    }

    /// Tells the subscribers of something else.
    pub(crate) fn publish(&mut self, event: Event<'_>) {
        (self.publish)(event);
    }

    /// Begins with the lists of a program, all of them empty.
    pub(crate) fn begin(&mut self, program: &ProgramInfo) {
        let lists = (0..).map(DigestId).zip(&program.digests);
        let list = |(id, digest): (DigestId, &weir_dataplane::DigestInfo)| {
            Some((id, List::new(digest.list_id)?))
        };
        self.lists = lists.filter_map(list).collect();
    }

    /// Adds a sample; false if the program has no such list.
    pub(crate) fn offer(&mut self, id: DigestId, fields: Vec<Vec<u8>>, now_ns: u64) -> bool {
        let Some(list) = self.lists.get_mut(&id) else {
            return false;
        };
        if let Some(ready) = list.queue.offer(fields, now_ns) {
            (self.publish)(Event::Learned(list.samples(ready)));
        }
        true
    }

    /// Time by which a list must be sent.
    pub(crate) fn due_ns(&self) -> Option<u64> {
        self.lists
            .values()
            .filter_map(|list| list.queue.due_ns())
            .min()
    }

    /// Sends the lists that are due.
    pub(crate) fn send_due(&mut self, now_ns: u64) {
        for list in self.lists.values_mut() {
            if let Some(ready) = list.queue.take_due(now_ns) {
                (self.publish)(Event::Learned(list.samples(ready)));
            }
        }
    }

    fn list(&mut self, number: i32) -> Option<&mut List> {
        self.lists.values_mut().find(|list| list.number == number)
    }

    /// Handles the acknowledgement of a buffer, or of some of its samples: they may be sent again. False for a list that the
    /// program does not have.
    pub(crate) fn acknowledge(&mut self, list: i32, buffer: u64, samples: Option<&[i32]>) -> bool {
        let Some(list) = self.list(list) else {
            return false;
        };
        match samples {
            None => list.queue.acknowledge(buffer),
            Some(samples) => list.queue.acknowledge_some(buffer, samples),
        }
        true
    }

    /// Sets the samples of a buffer, or the time after which fewer are sent (0: never). None for a list that the program does
    /// not have, false for a negative number.
    pub(crate) fn configure(
        &mut self,
        list: i32,
        samples: Option<i32>,
        timeout_ms: Option<i32>,
    ) -> Option<bool> {
        let list = self.list(list)?;
        let timeout_ns = timeout_ms.map(|ms| match ms {
            0 => i64::MAX,
            ms => i64::from(ms).saturating_mul(1_000_000),
        });
        let config = Config {
            max_list_size: samples.map_or(list.config.max_list_size, |samples| {
                // 0 is no limit in P4Runtime.
                if samples == 0 { 1 } else { samples }
            }),
            max_timeout_ns: timeout_ns.unwrap_or(list.config.max_timeout_ns),
            ..list.config
        };
        Some(list.configure(config))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    const ID: DigestId = DigestId(0);
    const MS: u64 = 1_000_000;

    fn learning() -> (Learning, Arc<Mutex<Vec<Samples>>>) {
        let published = Arc::<Mutex<Vec<Samples>>>::default();
        let seen = Arc::clone(&published);
        let mut learning = Learning::new(Box::new(move |event| {
            if let Event::Learned(list) = event {
                seen.lock().unwrap().push(list);
            }
        }));
        let digest = weir_dataplane::DigestInfo {
            name: "learn_t".to_owned(),
            list_id: 3,
            fields: Vec::new(),
        };
        learning.begin(&ProgramInfo {
            digests: vec![digest],
            ..ProgramInfo::default()
        });
        (learning, published)
    }

    fn sample(number: u8) -> Vec<Vec<u8>> {
        vec![vec![0, number], vec![7]]
    }

    #[test]
    fn a_list_is_sent_when_it_is_full_or_a_second_old() {
        let (mut learning, published) = learning();
        (0..17).for_each(|number| assert!(learning.offer(ID, sample(number), 0)));
        let first = published.lock().unwrap().pop().unwrap();
        assert_eq!((first.list, first.samples.len()), (3, 16));
        assert_eq!(first.samples[15], [0, 15, 7]);
        assert_eq!(learning.due_ns(), Some(1_000 * MS));
        learning.send_due(999 * MS);
        assert!(published.lock().unwrap().is_empty());
        learning.send_due(1_000 * MS);
        let second = published.lock().unwrap().pop().unwrap();
        assert_eq!(second.samples, [[0, 16, 7]]);
        assert_ne!(second.buffer, first.buffer);
        assert!(!learning.offer(DigestId(1), sample(0), 0));
    }

    #[test]
    fn a_sample_is_sent_again_only_after_its_acknowledgement() {
        let (mut learning, published) = learning();
        assert_eq!(learning.configure(3, Some(2), None), Some(true));
        let offer = |learning: &mut Learning, numbers: [u8; 2]| {
            for number in numbers {
                learning.offer(ID, sample(number), 0);
            }
            published.lock().unwrap().pop()
        };
        let list = offer(&mut learning, [1, 2]).unwrap();
        assert_eq!(offer(&mut learning, [1, 2]), None);
        assert!(learning.acknowledge(3, list.buffer, Some(&[1, 9, -1])));
        let again = offer(&mut learning, [2, 3]).unwrap();
        assert_eq!(again.samples, [[0, 2, 7], [0, 3, 7]]);
        assert!(learning.acknowledge(3, list.buffer, None));
        assert!(learning.acknowledge(3, again.buffer, None));
        assert_eq!(
            offer(&mut learning, [1, 3]).unwrap().samples,
            [[0, 1, 7], [0, 3, 7]]
        );
        assert!(!learning.acknowledge(4, 0, None));
    }

    #[test]
    fn a_timeout_of_zero_is_none_and_negative_numbers_are_refused() {
        let (mut learning, published) = learning();
        assert_eq!(learning.configure(3, None, Some(0)), Some(true));
        learning.offer(ID, sample(1), 0);
        learning.send_due(u64::MAX >> 2);
        assert!(published.lock().unwrap().is_empty());
        assert_eq!(learning.configure(3, Some(-1), None), Some(false));
        assert_eq!(learning.configure(2, Some(1), None), None);
    }
}
