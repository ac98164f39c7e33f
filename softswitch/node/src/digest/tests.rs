// SPDX-License-Identifier: Apache-2.0
use super::*;

fn queue(max_list_size: i32, max_timeout_ns: i64, ack_timeout_ns: i64) -> DigestQueue {
    DigestQueue::new(
        Config {
            max_timeout_ns,
            max_list_size,
            ack_timeout_ns,
        },
        "digest d",
    )
    .unwrap()
}

fn message(byte: u8) -> Values {
    vec![vec![byte]]
}

fn messages(list: Option<ReadyList>) -> Option<Vec<Values>> {
    list.map(|list| list.messages)
}

#[test]
fn a_list_is_sent_when_it_holds_max_list_size_distinct_messages() {
    let mut queue = queue(2, 1_000, 1_000);
    assert_eq!(queue.offer(message(1), 0), None);
    assert_eq!(
        queue.offer(message(1), 1),
        None,
        "a duplicate does not fill the list"
    );
    assert_eq!(
        messages(queue.offer(message(2), 2)),
        Some(vec![message(1), message(2)])
    );
    assert_eq!(queue.due_ns(), None);
}

#[test]
fn a_list_is_sent_max_timeout_after_its_first_message() {
    let mut queue = queue(10, 1_000, 1_000);
    assert_eq!(queue.offer(message(1), 500), None);
    assert_eq!(queue.offer(message(2), 900), None);
    assert_eq!(queue.due_ns(), Some(1_500));
    assert_eq!(queue.take_due(1_499), None);
    assert_eq!(
        messages(queue.take_due(1_500)),
        Some(vec![message(1), message(2)])
    );
}

#[test]
fn without_a_timeout_every_new_message_is_sent_at_once() {
    let mut queue = queue(10, 0, 1_000);
    assert_eq!(messages(queue.offer(message(1), 0)), Some(vec![message(1)]));
    assert_eq!(
        queue.offer(message(1), 1),
        None,
        "it waits for its acknowledgement"
    );
}

#[test]
fn an_acknowledged_message_may_come_again() {
    let mut queue = queue(1, 0, 1_000);
    let list = queue.offer(message(1), 0).unwrap();
    queue.acknowledge(list.list_id + 1);
    assert_eq!(
        queue.offer(message(1), 1),
        None,
        "another list was acknowledged"
    );
    queue.acknowledge(list.list_id);
    assert_eq!(messages(queue.offer(message(1), 2)), Some(vec![message(1)]));
}

#[test]
fn a_message_comes_again_when_its_acknowledgement_is_overdue() {
    let mut queue = queue(1, 0, 1_000);
    queue.offer(message(1), 100).unwrap();
    assert_eq!(queue.offer(message(1), 1_099), None);
    assert!(queue.offer(message(1), 1_100).is_some());
}

#[test]
fn without_an_acknowledgement_timeout_nothing_is_held_back() {
    let mut queue = queue(1, 0, 0);
    assert!(queue.offer(message(1), 0).is_some());
    assert!(queue.offer(message(1), 0).is_some());
}

#[test]
fn the_cache_is_bounded_when_nobody_acknowledges() {
    let mut queue = queue(1, 0, i64::MAX);
    for number in 0..u32::try_from(MAX_CACHED).unwrap() + 10 {
        queue.offer(vec![number.to_be_bytes().to_vec()], 0);
    }
    assert!(queue.known.len() <= MAX_CACHED);
}

#[test]
fn negative_settings_are_refused_by_name() {
    let config = Config {
        max_timeout_ns: -1,
        ..Config::default()
    };
    let failure = DigestQueue::new(config, "digest d").unwrap_err();
    assert_eq!(failure.message, "digest d: max_timeout_ns -1 is negative");
}

#[test]
fn lists_whose_messages_were_all_acknowledged_are_not_kept() {
    let mut queue = queue(1, 1_000, i64::MAX);
    for number in 0..10_000_u32 {
        let list = queue.offer(vec![number.to_be_bytes().to_vec()], 0).unwrap();
        queue.acknowledge_some(list.list_id, &[0]);
    }
    assert!(queue.known.is_empty());
    assert!(
        queue.sent.len() < 100,
        "{} lists are kept",
        queue.sent.len()
    );
}
