// SPDX-License-Identifier: Apache-2.0
//! Calls as clients make them, on a switch without interfaces.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use weir_dataplane::{MeterConfig, PortConfig, Program, Switch, SwitchConfig};
use weir_engine::engine::{Core, Stopped};
use weir_engine::node::digest::learn::Samples;
use weir_engine::node::publish::Event;
use weir_engine::node::{Node, NodeConfig, Notification, Output};
use weir_ports::{Interface, OpenError};
use weir_thrift::wire::{Kind, Message, Struct, Type, Value};
use weir_thrift::{Backend, Identity, State, answer};

struct Local {
    state: State,
    core: Core,
}

impl Backend for Local {
    fn run<R: Send + 'static>(
        &mut self,
        operation: impl FnOnce(&mut State, &mut Core) -> R + Send + 'static,
    ) -> Result<R, Stopped> {
        Ok(operation(&mut self.state, &mut self.core))
    }

    fn open(&mut self, number: u32, name: &str) -> Result<Interface, OpenError> {
        unreachable!("no test opens {name} as port {number}")
    }
}

const MIXTURE: &[u8] = include_bytes!("../../programs/mixture.json");

fn started(json: Option<&[u8]>) -> Local {
    let mut node = Node::new(NodeConfig {
        switch: SwitchConfig::default(),
        one_of_several: false,
        cpu_port: Some(510),
        ports: BTreeMap::from([(1, PortConfig::default()), (2, PortConfig::default())]),
    });
    if let Some(json) = json {
        let program = Program::from_json(json).expect("the program");
        node.run_source(program, json.to_vec(), 0)
            .expect("a running program");
    }
    Local {
        state: State::default(),
        core: Core {
            node,
            interfaces: Vec::new(),
            trunk: None,
            now_ns: 0,
            notifications_lost: std::sync::Arc::default(),
        },
    }
}

impl Local {
    fn call(&mut self, name: &str, arguments: Vec<(i16, Value)>) -> Message {
        let call = Message {
            kind: Kind::Call,
            name: name.to_owned(),
            sequence: 3,
            body: Struct(arguments),
        };
        let reply = answer(call, &Identity::default(), self).expect("a reply to a call");
        assert_eq!(reply.sequence, 3);
        reply
    }

    fn done(&mut self, name: &str, arguments: Vec<(i16, Value)>) -> Option<Value> {
        let reply = self.call(name, arguments);
        assert_eq!(reply.kind, Kind::Reply, "{reply:?}");
        assert_eq!(reply.body.get(1), None, "{reply:?}");
        reply.body.get(0).cloned()
    }

    /// The code of the exception that the method declares.
    fn code(&mut self, name: &str, arguments: Vec<(i16, Value)>) -> i32 {
        let reply = self.call(name, arguments);
        match reply.body.get(1) {
            Some(Value::Struct(exception)) => match exception.get(1) {
                Some(Value::I32(code)) => *code,
                code => panic!("{code:?}"),
            },
            _ => panic!("{reply:?}"),
        }
    }

    fn switch(&self) -> &Switch {
        self.core.node.switch().expect("a program")
    }
}

fn text(value: &str) -> Value {
    Value::Binary(value.as_bytes().to_vec())
}

fn fields(fields: Vec<(i16, Value)>) -> Value {
    Value::Struct(Struct(fields))
}

fn lpm(prefix: [u8; 4], length: i32) -> Value {
    let value = fields(vec![
        (1, Value::Binary(prefix.to_vec())),
        (2, Value::I32(length)),
    ]);
    let param = fields(vec![(1, Value::I32(1)), (3, value)]);
    Value::List(Type::Struct, vec![param])
}

fn route(prefix: [u8; 4], length: i32, port: u16) -> Vec<(i16, Value)> {
    let data = Value::List(
        Type::Binary,
        vec![Value::Binary(port.to_be_bytes().to_vec())],
    );
    vec![
        (1, Value::I32(0)),
        (2, text("IngressImpl.route")),
        (3, lpm(prefix, length)),
        (4, text("IngressImpl.to_port")),
        (5, data),
        (6, fields(vec![(1, Value::I32(0))])),
    ]
}

fn of(name: &str, rest: Vec<(i16, Value)>) -> Vec<(i16, Value)> {
    [(1, Value::I32(0)), (2, text(name))]
        .into_iter()
        .chain(rest)
        .collect()
}

#[test]
fn entries_have_the_lowest_free_numbers_and_a_used_number_has_expired_when_it_returns() {
    let mut switch = started(Some(MIXTURE));
    let add = "standard:bm_mt_add_entry";
    for (number, prefix) in (0..).zip([[10, 0, 0, 0], [20, 0, 0, 0], [30, 0, 0, 0]]) {
        assert_eq!(
            switch.done(add, route(prefix, 8, 1)),
            Some(Value::I32(number))
        );
    }
    let entry = |handle| of("IngressImpl.route", vec![(3, Value::I32(handle))]);
    switch.done("standard:bm_mt_delete_entry", entry(1));
    assert_eq!(switch.code("standard:bm_mt_get_entry", entry(1)), 2); // INVALID_HANDLE
    let again = switch.done(add, route([40, 0, 0, 0], 8, 1));
    assert_eq!(again, Some(Value::I32((1 << 24) + 1)));
    assert_eq!(switch.code("standard:bm_mt_get_entry", entry(1)), 3); // EXPIRED_HANDLE
    let count = switch.done(
        "standard:bm_mt_get_num_entries",
        of("IngressImpl.route", vec![]),
    );
    assert_eq!(count, Some(Value::I64(3)));
}

#[test]
fn a_key_twice_or_of_another_width_and_an_action_of_another_table_are_refused_with_bmv2_s_codes() {
    let mut switch = started(Some(MIXTURE));
    let add = "standard:bm_mt_add_entry";
    switch.done(add, route([10, 0, 0, 0], 8, 1));
    // Bits beyond the prefix do not count.
    assert_eq!(switch.code(add, route([10, 1, 2, 3], 8, 2)), 17); // DUPLICATE_ENTRY
    assert_eq!(switch.code(add, route([10, 0, 0, 0], 33, 1)), 18); // BAD_MATCH_KEY
    let mut other = route([20, 0, 0, 0], 8, 1);
    other[3].1 = text("IngressImpl.push");
    assert_eq!(switch.code(add, other), 8); // INVALID_ACTION_NAME
    let mut other = route([20, 0, 0, 0], 8, 1);
    other[1].1 = text("IngressImpl.balance");
    assert_eq!(switch.code(add, other), 9); // WRONG_TABLE_TYPE
    let mut other = route([20, 0, 0, 0], 8, 1);
    other[1].1 = text("nothing");
    assert_eq!(switch.code(add, other), 7); // INVALID_TABLE_NAME
}

#[test]
fn entries_that_were_not_written_through_thrift_get_numbers_too() {
    let mut switch = started(Some(MIXTURE));
    let route_table = switch
        .switch()
        .info()
        .table("IngressImpl.route")
        .expect("the table");
    let action = switch
        .switch()
        .info()
        .table_action(route_table, "IngressImpl.drop");
    let entry = |octet| weir_dataplane::TableEntry {
        key: vec![weir_dataplane::KeyMatch::Lpm {
            value: vec![octet, 0, 0, 0],
            prefix_len: 8,
        }],
        priority: 0,
        action: weir_dataplane::ActionCall {
            action: action.expect("the action"),
            args: vec![],
        },
    };
    let node = &mut switch.core.node;
    let plane = node.switch_mut().expect("a program");
    let first = plane
        .insert_entry(route_table, &entry(1))
        .expect("an entry");
    let added = switch.done("standard:bm_mt_add_entry", route([10, 0, 0, 0], 8, 1));
    assert_eq!(added, Some(Value::I32(1)));
    // Another entry in the first one's place is another entry.
    let plane = switch.core.node.switch_mut().expect("a program");
    plane.delete_entry(route_table, first).expect("deleted");
    plane
        .insert_entry(route_table, &entry(2))
        .expect("an entry");
    let get = of("IngressImpl.route", vec![(3, Value::I32(0))]);
    assert_eq!(switch.code("standard:bm_mt_get_entry", get), 3); // EXPIRED_HANDLE
    let Some(Value::List(_, entries)) = switch.done(
        "standard:bm_mt_get_entries",
        of("IngressImpl.route", vec![]),
    ) else {
        panic!("a list")
    };
    assert_eq!(entries.len(), 2);
}

#[test]
fn a_table_of_many_entries_is_read_whole() {
    let mut switch = started(Some(MIXTURE));
    for at in 0..200_u8 {
        switch.done("standard:bm_mt_add_entry", route([at, 0, 0, 0], 8, 1));
        switch.done("standard:bm_mt_add_entry", route([at, 1, 0, 0], 16, 1));
    }
    let entries = switch.done(
        "standard:bm_mt_get_entries",
        of("IngressImpl.route", vec![]),
    );
    assert!(matches!(entries, Some(Value::List(_, entries)) if entries.len() == 400));
}

#[test]
fn a_meter_array_is_configured_in_units_per_microsecond() {
    let mut switch = started(Some(MIXTURE));
    let rate = |rate, burst| fields(vec![(1, Value::Double(rate)), (2, Value::I32(burst))]);
    let rates = Value::List(Type::Struct, vec![rate(0.5, 10), rate(1.5, 20)]);
    switch.done(
        "standard:bm_meter_array_set_rates",
        of("IngressImpl.policer", vec![(3, rates)]),
    );
    let policer = switch
        .switch()
        .info()
        .meter("IngressImpl.policer")
        .expect("the meter");
    assert_eq!(
        switch.switch().meter(policer, 255),
        Ok(Some(MeterConfig::TwoRateThreeColour {
            cir: 500_000,
            cbs: 10,
            pir: 1_500_000,
            pbs: 20
        }))
    );
}

/// As p4-learning's example of direct meters sets them.
#[test]
fn setting_the_array_of_a_direct_meter_sets_the_entries_of_its_table() {
    let mut switch = started(Some(MIXTURE));
    let name = "IngressImpl.special";
    let table = switch.switch().info().table(name).expect("the table");
    let bytes = |bytes: &[u8]| Value::Binary(bytes.to_vec());
    let exact = fields(vec![
        (1, Value::I32(0)),
        (2, fields(vec![(1, bytes(&[7]))])),
    ]);
    let both = fields(vec![(1, bytes(&[0, 1])), (2, bytes(&[1, 255]))]);
    let ternary = fields(vec![(1, Value::I32(2)), (4, both)]);
    let entry = vec![
        (3, Value::List(Type::Struct, vec![exact, ternary])),
        (4, text("IngressImpl.pass")),
        (5, Value::List(Type::Binary, vec![])),
        (6, fields(vec![(1, Value::I32(5))])),
    ];
    switch.done("standard:bm_mt_add_entry", of(name, entry));
    let rate = |rate| fields(vec![(1, Value::Double(rate)), (2, Value::I32(1))]);
    let rates = Value::List(Type::Struct, vec![rate(0.000_000_5), rate(0.000_01)]);
    switch.done(
        "standard:bm_meter_array_set_rates",
        of("IngressImpl.entry_meter", vec![(3, rates)]),
    );
    let [entry] = switch.switch().entries(table).expect("a table")[..] else {
        panic!("one entry");
    };
    let expected = MeterConfig::TwoMicroRatesThreeColour {
        cir: 500_000,
        cbs: 1,
        pir: 10_000_000,
        pbs: 1,
    };
    let found = switch.switch().direct_meter(table, entry);
    assert_eq!(found, Ok(Some(expected)));
}

#[test]
fn a_mirroring_session_to_a_group_follows_the_group() {
    let mut switch = started(Some(MIXTURE));
    let numbered = |numbers: &[i32]| -> Vec<(i16, Value)> {
        (1..)
            .zip(numbers)
            .map(|(id, number)| (id, Value::I32(*number)))
            .collect()
    };
    switch.done("simple_pre_lag:bm_mc_mgrp_create", numbered(&[0, 7]));
    let session = fields(vec![(2, Value::I32(7))]);
    switch.done(
        "simple_switch:mirroring_session_add",
        vec![(1, Value::I32(5)), (2, session)],
    );
    let node = vec![
        (1, Value::I32(0)),
        (2, Value::I32(3)),
        (3, text("110")),
        (4, text("")),
    ];
    switch.done("simple_pre_lag:bm_mc_node_create", node);
    switch.done("simple_pre_lag:bm_mc_node_associate", numbered(&[0, 7, 0]));
    let copies = |switch: &Local| {
        let mut sessions = switch.switch().clone_sessions();
        let (_, session) = sessions.find(|(id, _)| *id == 5).expect("the session");
        session
            .replicas
            .iter()
            .map(|r| (r.port, r.instance))
            .collect::<Vec<_>>()
    };
    assert_eq!(copies(&switch), [(1, 3), (2, 3)]);
    switch.done("simple_pre_lag:bm_mc_node_destroy", numbered(&[0, 0]));
    assert_eq!(copies(&switch), []);
    // State but sessions is emptied.
    switch.done("standard:bm_reset_state", vec![]);
    assert_eq!(switch.switch().multicast_groups().count(), 0);
    assert_eq!(switch.switch().clone_sessions().count(), 1);
}

#[test]
fn a_queue_rate_is_set_on_all_queues_of_a_port_and_refused_for_another_port() {
    let mut switch = started(Some(MIXTURE));
    let rate = |port| vec![(1, Value::I32(port)), (2, Value::I64(100))];
    assert_eq!(
        switch.done("simple_switch:set_egress_queue_rate", rate(1)),
        Some(Value::I32(0))
    );
    let queues = switch.core.node.link(1).expect("the port").queues;
    assert!(queues.iter().all(|queue| queue.rate_pps == Some(100)));
    assert_eq!(
        switch.done("simple_switch:set_egress_queue_rate", rate(9)),
        Some(Value::I32(1))
    );
}

#[test]
fn a_loaded_program_runs_after_the_swap_and_the_services_forget_the_old_one_s_objects() {
    let mut switch = started(Some(MIXTURE));
    switch.done("standard:bm_mt_add_entry", route([10, 0, 0, 0], 8, 1));
    assert_eq!(switch.code("standard:bm_swap_configs", vec![]), 3); // NO_ONGOING_SWAP
    let router = include_bytes!("../../programs/ipv4_router.json");
    let config = vec![(1, Value::Binary(router.to_vec()))];
    switch.done("standard:bm_load_new_config", config);
    assert_eq!(
        switch.done("standard:bm_get_config", vec![]),
        Some(Value::Binary(MIXTURE.to_vec()))
    );
    switch.done("standard:bm_swap_configs", vec![]);
    assert_eq!(
        switch.done("standard:bm_get_config", vec![]),
        Some(Value::Binary(router.to_vec()))
    );
    // Both programs have the first table, only the old one the second.
    let count = "standard:bm_mt_get_num_entries";
    assert_eq!(
        switch.done(count, of("IngressImpl.route", vec![])),
        Some(Value::I64(0))
    );
    assert_eq!(switch.code(count, of("IngressImpl.balance", vec![])), 7); // INVALID_TABLE_NAME
}

#[test]
fn what_is_no_call_of_these_services_is_refused_in_words() {
    let mut switch = started(None);
    let refused = |switch: &mut Local, name: &str, arguments| {
        let reply = switch.call(name, arguments);
        assert_eq!(reply.kind, Kind::Exception);
        match reply.body.get(1) {
            Some(Value::Binary(text)) => String::from_utf8_lossy(text).into_owned(),
            text => panic!("{text:?}"),
        }
    };
    let text = refused(&mut switch, "standard:fly", vec![]);
    assert_eq!(text, "service standard has no method fly");
    let text = refused(&mut switch, "bm_get_config", vec![]);
    assert!(text.contains("names no service"), "{text}");
    let wrong = of("IngressImpl.route", vec![(3, Value::Bool(true))]);
    switch = started(Some(MIXTURE));
    let text = refused(&mut switch, "standard:bm_mt_get_entry", wrong);
    assert_eq!(text, "field 3 is of type Bool, it must be an i32");
}

#[test]
fn a_switch_without_a_program_has_no_tables_and_empty_json() {
    let mut switch = started(None);
    let get = of("IngressImpl.route", vec![]);
    assert_eq!(switch.code("standard:bm_mt_get_num_entries", get), 7);
    assert_eq!(
        switch.done("standard:bm_get_config", vec![]),
        Some(Value::Binary(vec![]))
    );
}

#[test]
fn digests_are_published_once_until_they_are_acknowledged() {
    let mut local = started(Some(include_bytes!("../../programs/l2_learning.json")));
    let published = Arc::<Mutex<Vec<Samples>>>::default();
    let seen = Arc::clone(&published);
    let publish = move |event: Event<'_>| {
        if let Event::Learned(list) = event {
            seen.lock().expect("the lists").push(list);
        }
    };
    local.core.node.publish(Box::new(publish));
    let arguments = |list: i32, number: i32| {
        let number = Value::I32(number);
        vec![(1, Value::I32(0)), (2, Value::I32(list)), (3, number)]
    };
    let acknowledge = |list: i32, buffer: u64, samples: Vec<i32>| {
        let samples = samples.into_iter().map(Value::I32).collect();
        vec![
            (1, Value::I32(0)),
            (2, Value::I32(list)),
            (3, Value::I64(buffer.cast_signed())),
            (4, Value::List(Type::I32, samples)),
        ]
    };
    local.done("standard:bm_learning_set_buffer_size", arguments(1, 1));
    let hear = |local: &mut Local| {
        let mut frame = [0xff; 60];
        frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 7]);
        local.core.node.receive(2, &frame, 0);
        local.core.node.advance(0, &mut Nowhere);
        published.lock().expect("the lists").pop()
    };
    let first = hear(&mut local).expect("a list");
    // The source's address, and the port in two bytes.
    assert_eq!(
        (first.list, first.samples),
        (1, vec![vec![2, 0, 0, 0, 0, 7, 0, 2]])
    );
    assert_eq!(hear(&mut local), None);
    local.done(
        "standard:bm_learning_ack_buffer",
        acknowledge(1, first.buffer, vec![]),
    );
    let second = hear(&mut local).expect("a list after the acknowledgement");
    local.done(
        "standard:bm_learning_ack",
        acknowledge(1, second.buffer, vec![0]),
    );
    assert!(hear(&mut local).is_some());

    assert_eq!(
        local.code("standard:bm_learning_ack_buffer", acknowledge(9, 0, vec![])),
        1
    );
    assert_eq!(
        local.code("standard:bm_learning_set_timeout", arguments(9, 5)),
        1
    );
    assert_eq!(
        local.code("standard:bm_learning_set_timeout", arguments(1, -1)),
        3
    );
    local.done("standard:bm_learning_set_timeout", arguments(1, 0));
}

/// Output that nobody looks at.
struct Nowhere;

impl Output for Nowhere {
    fn transmit(&mut self, _: u32, _: &[u8], _: u64) {}

    fn notify(&mut self, _: Notification, _: u64) {}
}
