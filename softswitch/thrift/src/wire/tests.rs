// SPDX-License-Identifier: Apache-2.0
use proptest::prelude::*;

use super::*;

/// `simple_switch:get_time_elapsed_us`, call number 0, without arguments, as Apache's Python library writes it.
const CALL: &[u8] =
    b"\x80\x01\x00\x01\x00\x00\x00\x21simple_switch:get_time_elapsed_us\x00\x00\x00\x00\x00";

fn call(body: Struct) -> Message {
    Message {
        kind: Kind::Call,
        name: "standard:bm_mt_get_entry".to_owned(),
        sequence: 7,
        body,
    }
}

fn failure(bytes: &[u8], limits: Limits) -> String {
    read(&mut &*bytes, limits).unwrap_err().to_string()
}

#[test]
fn a_call_of_another_library_is_read() {
    let message = read(&mut &*CALL, Limits::default()).unwrap().unwrap();
    assert_eq!(message.kind, Kind::Call);
    assert_eq!(message.name, "simple_switch:get_time_elapsed_us");
    assert_eq!(message.body, Struct::default());
    assert_eq!(write(&message), CALL);
}

#[test]
fn a_stream_that_ends_between_messages_has_none() {
    assert!(read(&mut &b""[..], Limits::default()).unwrap().is_none());
}

#[test]
fn a_truncated_message_is_an_error_wherever_it_ends() {
    for end in 1..CALL.len() {
        assert!(read(&mut &CALL[..end], Limits::default()).is_err(), "{end}");
    }
}

#[test]
fn a_frame_and_an_http_request_are_refused_at_their_first_word() {
    for bytes in [
        &b"\x00\x00\x00\x20\x80\x01\x00\x01"[..],
        b"GET / HTTP/1.1\r\n",
    ] {
        let failure = failure(bytes, Limits::default());
        assert!(failure.contains("strict binary protocol"), "{failure}");
    }
}

#[test]
fn an_announced_length_that_does_not_arrive_costs_no_memory() {
    let mut bytes = CALL[..4].to_vec();
    bytes.extend(0x7fff_ffff_u32.to_be_bytes());
    bytes.extend(b"short");
    assert_eq!(
        failure(&bytes, Limits::default()),
        "the message has more than 33554432 bytes"
    );
}

#[test]
fn nesting_beyond_the_limit_is_refused() {
    let nested = |levels: usize| {
        let mut value = Value::I32(1);
        for _ in 0..levels {
            value = Value::Struct(Struct(vec![(1, value)]));
        }
        write(&call(Struct(vec![(1, value)])))
    };
    assert!(read(&mut nested(16).as_slice(), Limits::default()).is_ok());
    assert_eq!(
        failure(&nested(17), Limits::default()),
        "the message has more than 16 containers within each other"
    );
}

#[test]
fn a_list_of_more_values_than_the_limit_is_refused() {
    let values = Value::List(Type::Bool, vec![Value::Bool(true); 100]);
    let bytes = write(&call(Struct(vec![(1, values)])));
    let limits = Limits {
        values: 100,
        ..Limits::default()
    };
    assert_eq!(
        failure(&bytes, limits),
        "the message has more than 100 values"
    );
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::Bool),
        any::<i8>().prop_map(Value::I8),
        any::<i16>().prop_map(Value::I16),
        any::<i32>().prop_map(Value::I32),
        any::<i64>().prop_map(Value::I64),
        (-1e9..1e9).prop_map(Value::Double),
        prop::collection::vec(any::<u8>(), 0..20).prop_map(Value::Binary),
    ];
    leaf.prop_recursive(4, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec((any::<i16>(), inner.clone()), 0..8)
                .prop_map(|fields| Value::Struct(Struct(fields))),
            prop::collection::vec(any::<i64>().prop_map(Value::I64), 1..8)
                .prop_map(|elements| Value::List(Type::I64, elements)),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(fields in prop::collection::vec((any::<i16>(), values()), 0..8)) {
        let message = call(Struct(fields));
        let bytes = write(&message);
        prop_assert_eq!(read(&mut bytes.as_slice(), Limits::default()).unwrap(), Some(message));
    }

    #[test]
    fn any_bytes_are_a_message_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200), header: bool) {
        let mut given = if header { CALL[..CALL.len() - 1].to_vec() } else { Vec::new() };
        given.extend(bytes);
        let _ = read(&mut given.as_slice(), Limits::default());
    }
}
