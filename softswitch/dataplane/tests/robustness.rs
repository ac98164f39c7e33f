// SPDX-License-Identifier: Apache-2.0
//! Nothing from outside makes the switch panic: random frames, mutated frames, mutated programs.
//! And it accounts for every packet.

use crate::common;

use common::program_json;
use proptest::prelude::*;
use serde_json::Value;
use weir_dataplane::{CloneSession, PortConfig, Program, Replica, Switch, SwitchConfig};

const PROGRAMS: [&str; 3] = ["l2_learning", "ipv4_router", "weir"];

fn exercised(program: Program) -> Switch {
    let mut switch = Switch::new(program, SwitchConfig::default());
    for port in 0..4 {
        switch
            .set_port(port, PortConfig::default(), 0)
            .expect("a valid port");
    }
    let replicas: Vec<Replica> = (0..4).map(|port| Replica { port, instance: 1 }).collect();
    switch
        .insert_multicast_group(1, &replicas)
        .expect("a new group");
    let session = CloneSession {
        replicas,
        truncate_bytes: Some(60),
        class_of_service: 0,
    };
    switch
        .insert_clone_session(0, &session)
        .expect("a new session");
    switch
}

fn drain(switch: &mut Switch) {
    switch.advance(u64::MAX, &mut |_: u32, _: &[u8], _: u64| {});
    switch.drain_digests(|digest| assert!(digest.fields().count() > 0));
}

/// Frames that pass the first checks more often than random bytes.
fn frame() -> impl Strategy<Value = Vec<u8>> {
    let plausible =
        (prop::collection::vec(any::<u8>(), 14..120), 0_usize..5).prop_map(|(mut bytes, kind)| {
            let types = [[8, 0], [0x86, 0xdd], [0x81, 0], [8, 6], [0, 0]];
            bytes[12..14].copy_from_slice(&types[kind]);
            if bytes.len() > 14 {
                bytes[14] = 0x45;
            }
            bytes
        });
    prop_oneof![prop::collection::vec(any::<u8>(), 0..200), plausible]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn garbage_frames_are_forwarded_or_counted(frames in prop::collection::vec((0_u32..6, frame()), 1..40)) {
        for name in PROGRAMS {
            let mut switch = exercised(common::program(name));
            for (port, frame) in &frames {
                switch.receive(*port, frame, 0);
            }
            drain(&mut switch);
            let stats = switch.stats();
            prop_assert_eq!(stats.begun(), stats.ended(), "{:?}", stats);
        }
    }
}

/// Replaces, removes or duplicates one value somewhere in the tree.
fn mutate(value: &mut Value, path: &mut impl Iterator<Item = usize>, with: &Value) {
    let step = path.next().unwrap_or(0);
    match value {
        Value::Array(items) if !items.is_empty() && !step.is_multiple_of(7) => {
            let at = step % items.len();
            match step % 31 {
                1 => drop(items.remove(at)),
                2 => items.push(items[at].clone()),
                _ => mutate(&mut items[at], path, with),
            }
        }
        Value::Object(map) if !map.is_empty() && !step.is_multiple_of(11) => {
            let key = map
                .keys()
                .nth(step % map.len())
                .cloned()
                .unwrap_or_default();
            if step % 29 == 1 {
                map.remove(&key);
            } else if let Some(inner) = map.get_mut(&key) {
                mutate(inner, path, with);
            }
        }
        other => *other = with.clone(),
    }
}

fn replacement() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        prop_oneof![-3_i64..70, any::<i64>()].prop_map(Value::from),
        "(0x[0-9a-f]{1,20}|[a-z_$]{0,9}|\\*|scalars|ethernet|ipv4)".prop_map(Value::from),
        Just(serde_json::json!([])),
        Just(serde_json::json!({"type": "field", "value": ["standard_metadata", "egress_spec"]})),
        Just(serde_json::json!({"type": "hexstr", "value": "0xffffffffffffffffffff"})),
    ]
}

fn mutations() -> impl Strategy<Value = Vec<(Vec<usize>, Value)>> {
    let path = prop::collection::vec(any::<usize>(), 2..9);
    prop::collection::vec((path, replacement()), 1..4)
}

fn frames() -> impl Strategy<Value = Vec<Vec<u8>>> {
    prop::collection::vec(frame(), 1..6)
}

fn mutated_is_refused_or_runs(
    program: &str,
    mutations: &[(Vec<usize>, Value)],
    frames: &[Vec<u8>],
) -> Result<(), TestCaseError> {
    let mut json: Value = serde_json::from_slice(&program_json(program)).expect("JSON");
    for (path, with) in mutations {
        mutate(&mut json, &mut path.iter().copied(), with);
    }
    let bytes = serde_json::to_vec(&json).expect("JSON");
    match Program::from_json(&bytes) {
        Err(error) => prop_assert!(!error.to_string().is_empty()),
        Ok(program) => {
            let mut switch = exercised(program);
            for frame in frames {
                switch.receive(1, frame, 1);
            }
            switch.advance(2, &mut |_: u32, _: &[u8], _: u64| {});
        }
    }
    Ok(())
}

// A test of each program, because tests run side by side.
proptest! {
    #![proptest_config(ProptestConfig { cases: 200, max_shrink_iters: 200, ..ProptestConfig::default() })]
    #[test]
    fn mutated_l2_learning_is_refused_or_runs(mutations in mutations(), frames in frames()) {
        mutated_is_refused_or_runs("l2_learning", &mutations, &frames)?;
    }

    #[test]
    fn mutated_ipv4_router_is_refused_or_runs(mutations in mutations(), frames in frames()) {
        mutated_is_refused_or_runs("ipv4_router", &mutations, &frames)?;
    }

    #[test]
    fn mutated_weir_is_refused_or_runs(mutations in mutations(), frames in frames()) {
        mutated_is_refused_or_runs("weir", &mutations, &frames)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, max_shrink_iters: 200, ..ProptestConfig::default() })]
    #[test]
    fn cut_or_flipped_bytes_are_refused_or_run(which in 0_usize..3, at in any::<prop::sample::Index>(), flip in any::<u8>()) {
        let mut bytes = program_json(PROGRAMS[which]);
        let at = at.index(bytes.len());
        prop_assert!(Program::from_json(&bytes[..at]).is_err());
        bytes[at] ^= flip;
        if let Ok(program) = Program::from_json(&bytes) {
            exercised(program).receive(1, &[0; 64], 0);
        }
    }
}

#[test]
fn foreign_json_is_refused_with_a_reason() {
    let refuse = |text: &str| {
        Program::from_json(text.as_bytes())
            .expect_err("refused")
            .to_string()
    };
    assert!(refuse("").contains("not a BMv2 JSON program"));
    assert!(refuse("[1, 2").contains("not a BMv2 JSON program"));
    assert!(refuse("{\"tables\": []}").contains("missing field"));
    let mut json: Value = serde_json::from_slice(&program_json("ipv4_router")).expect("JSON");
    json["__meta__"]["version"] = serde_json::json!([3, 0]);
    assert!(refuse(&json.to_string()).contains("version 3.0"));
}

#[test]
fn a_program_that_does_not_say_its_version_is_loaded() {
    let mut json: Value = serde_json::from_slice(&program_json("ipv4_router")).expect("JSON");
    let object = json.as_object_mut().expect("an object");
    object.remove("__meta__").expect("the version");
    let program = Program::from_json(json.to_string().as_bytes()).expect("a program");
    assert_eq!(program.info().compiler, "");
    assert!(program.info().table("IngressImpl.route").is_some());
}

#[test]
fn unsupported_constructs_are_refused_by_name() {
    let refuse = |pointer: &str, value: Value| {
        let mut json: Value = serde_json::from_slice(&program_json("ipv4_router")).expect("JSON");
        *json
            .pointer_mut(pointer)
            .unwrap_or_else(|| panic!("{pointer}")) = value;
        Program::from_json(json.to_string().as_bytes())
            .expect_err("refused")
            .to_string()
    };
    let error = refuse(
        "/actions/0/primitives",
        serde_json::json!([{"op": "teleport", "parameters": [1, 2]}]),
    );
    assert!(
        error.contains("actions") && error.contains("\"teleport\""),
        "{error}"
    );
    let error = refuse("/calculations/0/algo", "md5".into());
    assert!(error.contains("hash algorithm \"md5\""), "{error}");
    let error = refuse("/pipelines/0/init_table", "nowhere".into());
    assert!(
        error.contains("next node \"nowhere\" does not exist"),
        "{error}"
    );
    let error = refuse(
        "/parsers/0/parse_states/0/parser_ops/0/op",
        "teleport".into(),
    );
    assert!(
        error.contains("parser state \"start\"") && error.contains("teleport"),
        "{error}"
    );
}

#[test]
fn pipeline_that_loops_is_refused() {
    let mut json: Value = serde_json::from_slice(&program_json("l2_learning")).expect("JSON");
    let start = json["pipelines"][0]["init_table"].clone();
    for table in json["pipelines"][0]["tables"]
        .as_array_mut()
        .expect("tables")
    {
        for next in table["next_tables"]
            .as_object_mut()
            .expect("edges")
            .values_mut()
        {
            *next = start.clone();
        }
    }
    let error = Program::from_json(json.to_string().as_bytes())
        .expect_err("refused")
        .to_string();
    assert!(error.contains("comes back to an earlier node"), "{error}");
}

#[test]
fn frame_beyond_the_maximum_is_counted() {
    let mut switch = exercised(common::program("weir"));
    switch.receive(1, &vec![0; 65_537], 0);
    switch.receive(1, &[], 0);
    assert_eq!((switch.stats().received, switch.stats().oversize), (2, 2));
}

#[test]
fn arrays_that_would_exhaust_memory_are_refused_by_name() {
    for section in ["meter_arrays", "counter_arrays", "register_arrays"] {
        let mut program: Value = serde_json::from_slice(&program_json("weir")).expect("JSON");
        let array = &mut program[section][0];
        array["size"] = Value::from(1_u64 << 40);
        let name = array["name"].to_string();
        let error = Program::from_json(program.to_string().as_bytes()).expect_err("too large");
        let text = error.to_string();
        assert!(text.contains(section) && text.contains(&name), "{text}");
        assert!(text.contains("512 MiB"), "{text}");
    }
}
