// SPDX-License-Identifier: Apache-2.0
//! Action profiles, idle timeouts, value sets, translated types, initial entries, counters by colour and backups.

use std::time::Instant;

use crate::support::{
    Controller, PATIENCE, TestSwitch, config, exact, frame, group, id, running, table_entry, update,
};
use tonic::Code;
use weir_p4runtime::p4::config::v1::P4Info;
use weir_p4runtime::p4::v1::action_profile_action::WatchKind as ActionWatch;
use weir_p4runtime::p4::v1::action_profile_action_set::ActionSelectionMode;
use weir_p4runtime::p4::v1::action_profile_group::{Member, member::WatchKind};
use weir_p4runtime::p4::v1::entity::Entity;
use weir_p4runtime::p4::v1::field_match::{FieldMatchType, Lpm, Ternary};
use weir_p4runtime::p4::v1::packet_replication_engine_entry::Type as Replication;
use weir_p4runtime::p4::v1::set_forwarding_pipeline_config_request::Action as PipelineAction;
use weir_p4runtime::p4::v1::stream_message_response::Update as StreamResponse;
use weir_p4runtime::p4::v1::table_action::Type as ActionType;
use weir_p4runtime::p4::v1::update::Type;
use weir_p4runtime::p4::v1::{
    self, Action, ActionProfileAction, ActionProfileActionSet, ActionProfileGroup,
    ActionProfileMember, BackupReplica, CounterData, DirectCounterEntry, FieldMatch,
    MeterCounterData, MeterEntry, TableAction, TableEntry, ValueSetEntry, ValueSetMember, action,
};

fn call(p4info: &P4Info, action: &str, params: &[u8]) -> Action {
    let params = (1..).zip(params).map(|(id, value)| action::Param {
        param_id: id,
        value: vec![*value],
    });
    Action {
        action_id: id(p4info, action),
        params: params.collect(),
    }
}

/// A member of the selector that sends through a port.
fn member(p4info: &P4Info, member_id: u32, port: u8) -> Entity {
    Entity::ActionProfileMember(ActionProfileMember {
        action_profile_id: id(p4info, "paths"),
        member_id,
        action: Some(call(p4info, "set_port", &[port])),
    })
}

fn watched(member_id: u32, weight: i32, port: &[u8]) -> Member {
    Member {
        member_id,
        weight,
        watch_kind: (!port.is_empty()).then(|| WatchKind::WatchPort(port.to_vec())),
    }
}

fn paths(p4info: &P4Info, group_id: u32, max_size: i32, members: &[Member]) -> Entity {
    Entity::ActionProfileGroup(ActionProfileGroup {
        action_profile_id: id(p4info, "paths"),
        group_id,
        members: members.to_vec(),
        max_size,
    })
}

/// All frames take this route.
fn route(p4info: &P4Info, action: ActionType) -> Entity {
    Entity::TableEntry(TableEntry {
        table_id: id(p4info, "route"),
        r#match: vec![FieldMatch {
            field_id: 1,
            field_match_type: Some(FieldMatchType::Lpm(Lpm {
                value: b"\x02\x00\x00\x00\x00\x00".to_vec(),
                prefix_len: 8,
            })),
        }],
        action: Some(TableAction {
            r#type: Some(action),
        }),
        ..TableEntry::default()
    })
}

fn one_shot(p4info: &P4Info, actions: &[(u8, i32, &[u8])]) -> ActionProfileActionSet {
    let actions = actions
        .iter()
        .map(|(port, weight, watch)| ActionProfileAction {
            action: Some(call(p4info, "set_port", &[*port])),
            weight: *weight,
            watch_kind: (!watch.is_empty()).then(|| ActionWatch::WatchPort(watch.to_vec())),
        });
    ActionProfileActionSet {
        action_profile_actions: actions.collect(),
        ..ActionProfileActionSet::default()
    }
}

const DESTINATION: u64 = 0x0200_0000_0001;

/// The port through which a frame leaves; fails unless it leaves through exactly one.
async fn leaves(switch: &TestSwitch, source: u64) -> u32 {
    leaves_from(switch, 0, source).await
}

/// As [`leaves`], where one of several threads receives the frame.
async fn leaves_from(switch: &TestSwitch, thread: usize, source: u64) -> u32 {
    let mut before = [0; 4];
    for port in 1..=3 {
        before[port as usize] = switch.sent(port).await;
    }
    switch
        .receive_on(thread, 1, frame(DESTINATION, source))
        .await;
    let asked = Instant::now();
    while asked.elapsed() < PATIENCE {
        for port in 1..=3 {
            if switch.sent(port).await > before[port as usize] {
                return port;
            }
        }
    }
    panic!("the frame has left through no port");
}

async fn accept(controller: &mut Controller, operation: Type, entities: &[Entity]) {
    for entity in entities {
        controller
            .write(vec![update(operation, entity.clone())])
            .await
            .unwrap_or_else(|status| panic!("{status:?}"));
    }
}

async fn port_up(switch: &TestSwitch, port: u32, up: bool) {
    let changed = switch
        .engine
        .call(move |core| core.node.set_port_up(port, up));
    changed.await.unwrap().unwrap();
}

#[tokio::test]
async fn members_groups_and_their_entries_are_read_back_as_written_and_forward() {
    let (switch, mut controller, p4info) = running("features").await;
    let entities = [
        member(&p4info, 1, 2),
        member(&p4info, 2, 3),
        paths(&p4info, 1, 8, &[watched(1, 1, b""), watched(2, 3, b"\x03")]),
        route(&p4info, ActionType::ActionProfileGroupId(1)),
    ];
    accept(&mut controller, Type::Insert, &entities).await;
    let all = [
        Entity::ActionProfileMember(ActionProfileMember::default()),
        Entity::ActionProfileGroup(ActionProfileGroup::default()),
    ];
    let found = controller.read(all[0].clone()).await.unwrap();
    assert_eq!(found, entities[..2]);
    let found = controller.read(all[1].clone()).await.unwrap();
    assert_eq!(found, entities[2..3]);
    let of_table = Entity::TableEntry(TableEntry {
        table_id: id(&p4info, "route"),
        ..TableEntry::default()
    });
    assert_eq!(controller.read(of_table).await.unwrap(), entities[3..]);
    assert!([2, 3].contains(&leaves(&switch, 5).await));
    accept(
        &mut controller,
        Type::Modify,
        &[
            member(&p4info, 1, 1),
            route(&p4info, ActionType::ActionProfileMemberId(1)),
        ],
    )
    .await;
    assert_eq!(leaves(&switch, 5).await, 1);
}

#[tokio::test]
async fn wrong_members_and_groups_are_refused_with_the_codes_of_the_specification() {
    let (_switch, mut controller, p4info) = running("features").await;
    accept(
        &mut controller,
        Type::Insert,
        &[
            member(&p4info, 1, 2),
            paths(&p4info, 1, 4, &[watched(1, 1, b"")]),
            route(&p4info, ActionType::ActionProfileGroupId(1)),
        ],
    )
    .await;
    let no_action = Entity::ActionProfileMember(ActionProfileMember {
        action_profile_id: id(&p4info, "paths"),
        member_id: 7,
        action: None,
    });
    let without_selector = Entity::ActionProfileGroup(ActionProfileGroup {
        action_profile_id: id(&p4info, "hops"),
        group_id: 1,
        ..ActionProfileGroup::default()
    });
    let set = ActionType::ActionProfileActionSet(one_shot(&p4info, &[(1, 1, b"")]));
    for (operation, entity, code, text) in [
        (
            Type::Insert,
            member(&p4info, 1, 2),
            Code::AlreadyExists,
            "member 1",
        ),
        (
            Type::Insert,
            member(&p4info, 0, 2),
            Code::InvalidArgument,
            "must not be 0",
        ),
        (
            Type::Insert,
            no_action,
            Code::InvalidArgument,
            "action is missing",
        ),
        (
            Type::Modify,
            member(&p4info, 9, 2),
            Code::NotFound,
            "member 9",
        ),
        (
            Type::Delete,
            member(&p4info, 9, 2),
            Code::NotFound,
            "member 9",
        ),
        (
            Type::Delete,
            member(&p4info, 1, 2),
            Code::FailedPrecondition,
            "in use",
        ),
        (
            Type::Insert,
            paths(&p4info, 1, 4, &[]),
            Code::AlreadyExists,
            "group 1",
        ),
        (
            Type::Insert,
            paths(&p4info, 2, 4, &[watched(9, 1, b"")]),
            Code::NotFound,
            "member 9",
        ),
        (
            Type::Insert,
            paths(&p4info, 2, 4, &[watched(1, 1, b""), watched(1, 1, b"")]),
            Code::InvalidArgument,
            "given twice",
        ),
        (
            Type::Insert,
            paths(&p4info, 2, 4, &[watched(1, 0, b"")]),
            Code::InvalidArgument,
            "weight 0",
        ),
        (
            Type::Insert,
            paths(&p4info, 2, 9, &[]),
            Code::InvalidArgument,
            "max_group_size",
        ),
        (
            Type::Insert,
            paths(&p4info, 2, 4, &[watched(1, 5, b"")]),
            Code::ResourceExhausted,
            "max_size of 4",
        ),
        (
            Type::Insert,
            paths(&p4info, 2, 4, &[watched(1, 1, b"\x09")]),
            Code::InvalidArgument,
            "no port 9",
        ),
        (
            Type::Modify,
            paths(&p4info, 1, 5, &[]),
            Code::InvalidArgument,
            "cannot be changed",
        ),
        (
            Type::Delete,
            paths(&p4info, 1, 0, &[]),
            Code::FailedPrecondition,
            "in use",
        ),
        (
            Type::Insert,
            without_selector,
            Code::InvalidArgument,
            "no selector",
        ),
        (
            Type::Modify,
            route(&p4info, ActionType::ActionProfileGroupId(5)),
            Code::NotFound,
            "group 5",
        ),
        (
            Type::Modify,
            route(&p4info, ActionType::Action(call(&p4info, "set_port", &[1]))),
            Code::InvalidArgument,
            "action profile",
        ),
        (
            Type::Modify,
            route(&p4info, set),
            Code::InvalidArgument,
            "programmed with members and groups",
        ),
    ] {
        let (found, message) = controller.refusal(operation, entity).await;
        assert_eq!(found, code, "{message}");
        assert!(message.contains(text), "expected `{text}` in `{message}`");
    }
}

#[tokio::test]
async fn a_selector_takes_groups_up_to_its_size_and_a_profile_members() {
    let (_switch, mut controller, p4info) = running("features").await;
    accept(&mut controller, Type::Insert, &[member(&p4info, 1, 2)]).await;
    for group in 1..=4 {
        let group = paths(&p4info, group, 8, &[watched(1, 8, b"")]);
        accept(&mut controller, Type::Insert, &[group]).await;
    }
    let fifth = paths(&p4info, 5, 8, &[watched(1, 1, b"")]);
    let (code, message) = controller.refusal(Type::Insert, fifth).await;
    assert_eq!(code, Code::ResourceExhausted, "{message}");
    let hop = |member_id| {
        Entity::ActionProfileMember(ActionProfileMember {
            action_profile_id: id(&p4info, "hops"),
            member_id,
            action: Some(call(&p4info, "set_hop", &[1])),
        })
    };
    for number in 1..=16 {
        accept(&mut controller, Type::Insert, &[hop(number)]).await;
    }
    let (code, message) = controller.refusal(Type::Insert, hop(17)).await;
    assert_eq!(code, Code::ResourceExhausted, "{message}");
}

#[tokio::test]
async fn forwarding_threads_select_alike_by_hash_and_not_at_random() {
    let mut config = config("features");
    // Without the idle timeouts, for which several threads are refused.
    let mut json: serde_json::Value = serde_json::from_slice(&config.p4_device_config).unwrap();
    for pipeline in json["pipelines"].as_array_mut().unwrap() {
        for table in pipeline["tables"].as_array_mut().unwrap() {
            table["support_timeout"] = false.into();
        }
    }
    config.p4_device_config = serde_json::to_vec(&json).unwrap();
    let mut p4info = config.p4info.take().unwrap();
    for table in &mut p4info.tables {
        table.idle_timeout_behavior = 0;
    }
    config.p4info = Some(p4info.clone());
    let switch = TestSwitch::start_on(2, None).await;
    let mut controller = Controller::primary(&switch).await;
    let set = controller.set_pipeline(PipelineAction::VerifyAndCommit, Some(config));
    set.await.unwrap();

    let mut set = one_shot(&p4info, &[(1, 1, b""), (2, 2, b""), (3, 1, b"")]);
    set.action_selection_mode = ActionSelectionMode::Random as i32;
    let entry = route(&p4info, ActionType::ActionProfileActionSet(set.clone()));
    let (code, message) = controller.refusal(Type::Insert, entry).await;
    assert_eq!(code, Code::InvalidArgument, "{message}");
    assert!(
        message.contains("packets share the sequence of random numbers"),
        "{message}"
    );
    set.action_selection_mode = ActionSelectionMode::Hash as i32;
    let entry = route(&p4info, ActionType::ActionProfileActionSet(set));
    accept(&mut controller, Type::Insert, &[entry]).await;
    let mut used = [false; 4];
    for source in 1..=20 {
        let port = leaves_from(&switch, 0, source).await;
        assert_eq!(leaves_from(&switch, 1, source).await, port);
        used[port as usize] = true;
    }
    assert!(used.iter().filter(|used| **used).count() > 1, "{used:?}");
}

#[tokio::test]
async fn a_one_shot_set_is_read_back_as_written_and_leaves_nothing_behind() {
    let (switch, mut controller, p4info) = running("features").await;
    let mut set = one_shot(&p4info, &[(2, 1, b""), (2, 1, b""), (3, 2, b"\x03")]);
    set.action_selection_mode = ActionSelectionMode::Random as i32;
    let entry = route(&p4info, ActionType::ActionProfileActionSet(set));
    accept(&mut controller, Type::Insert, std::slice::from_ref(&entry)).await;
    let all = Entity::TableEntry(TableEntry {
        table_id: id(&p4info, "route"),
        ..TableEntry::default()
    });
    assert_eq!(
        controller.read(all).await.unwrap(),
        std::slice::from_ref(&entry)
    );
    assert!([2, 3].contains(&leaves(&switch, 5).await));
    let other = one_shot(&p4info, &[(1, 1, b"")]);
    let other = route(&p4info, ActionType::ActionProfileActionSet(other));
    accept(&mut controller, Type::Modify, std::slice::from_ref(&other)).await;
    assert_eq!(leaves(&switch, 5).await, 1);
    let (code, message) = controller
        .refusal(Type::Insert, member(&p4info, 1, 1))
        .await;
    assert_eq!(code, Code::InvalidArgument, "{message}");
    let members = Entity::ActionProfileMember(ActionProfileMember::default());
    assert_eq!(controller.read(members).await.unwrap(), []);
    accept(&mut controller, Type::Delete, &[other]).await;
    // Members and groups of the sets are removed: the profile accepts members again.
    accept(&mut controller, Type::Insert, &[member(&p4info, 1, 1)]).await;
}

#[tokio::test]
async fn a_one_shot_set_that_is_too_large_or_half_wrong_changes_nothing() {
    let (_switch, mut controller, p4info) = running("features").await;
    for (set, code) in [
        (one_shot(&p4info, &[(1, 9, b"")]), Code::InvalidArgument),
        (
            one_shot(&p4info, &[(1, 1, b""), (1, 0, b"")]),
            Code::InvalidArgument,
        ),
        (one_shot(&p4info, &[(1, 1, b"\x09")]), Code::InvalidArgument),
    ] {
        let entry = route(&p4info, ActionType::ActionProfileActionSet(set));
        let (found, message) = controller.refusal(Type::Insert, entry).await;
        assert_eq!(found, code, "{message}");
    }
    let entries = Entity::TableEntry(TableEntry {
        table_id: id(&p4info, "route"),
        ..TableEntry::default()
    });
    assert_eq!(controller.read(entries).await.unwrap(), []);
    accept(&mut controller, Type::Insert, &[member(&p4info, 1, 1)]).await;
}

#[tokio::test]
async fn a_member_whose_watch_port_is_down_is_not_selected() {
    let (switch, mut controller, p4info) = running("features").await;
    let set = one_shot(&p4info, &[(2, 1, b"\x02"), (3, 1, b"\x03")]);
    let entry = route(&p4info, ActionType::ActionProfileActionSet(set));
    accept(&mut controller, Type::Insert, &[entry]).await;
    port_up(&switch, 2, false).await;
    for source in 0..8 {
        assert_eq!(leaves(&switch, source).await, 3);
    }
    port_up(&switch, 2, true).await;
    port_up(&switch, 3, false).await;
    assert_eq!(leaves(&switch, 5).await, 2);
}

#[tokio::test]
async fn a_replica_goes_to_the_first_backup_that_is_up() {
    let (switch, mut controller, _) = running("features").await;
    let Entity::PacketReplicationEngineEntry(mut entry) = group(1, &[1]) else {
        unreachable!()
    };
    let Some(Replication::MulticastGroupEntry(multicast)) = &mut entry.r#type else {
        unreachable!()
    };
    multicast.replicas[0].port_kind = Some(v1::replica::PortKind::Port(b"\x01".to_vec()));
    multicast.replicas[0].backup_replicas = vec![
        BackupReplica {
            port: b"\x02".to_vec(),
            instance: 7,
        },
        BackupReplica {
            port: b"\x03".to_vec(),
            instance: 8,
        },
    ];
    let written = Entity::PacketReplicationEngineEntry(entry.clone());
    accept(
        &mut controller,
        Type::Insert,
        std::slice::from_ref(&written),
    )
    .await;
    assert_eq!(controller.read(group(0, &[])).await.unwrap(), [written]);
    let replicas = async |switch: &TestSwitch| {
        let ports = switch.engine.call(|core| core.node.multicast_ports(1));
        ports.await.unwrap()
    };
    assert_eq!(replicas(&switch).await, [1]);
    port_up(&switch, 1, false).await;
    port_up(&switch, 2, false).await;
    assert_eq!(replicas(&switch).await, [3]);
    port_up(&switch, 3, false).await;
    assert_eq!(replicas(&switch).await, [0_u32; 0]);
    port_up(&switch, 1, true).await;
    assert_eq!(replicas(&switch).await, [1]);
    if let Some(Replication::MulticastGroupEntry(multicast)) = &mut entry.r#type {
        multicast.replicas[0].backup_replicas[0].port = b"\x01".to_vec();
    }
    let same_port = Entity::PacketReplicationEngineEntry(entry);
    let (code, message) = controller.refusal(Type::Modify, same_port).await;
    assert_eq!(code, Code::InvalidArgument, "{message}");
}

fn learned(p4info: &P4Info, source: u8, idle_timeout_ns: i64) -> TableEntry {
    TableEntry {
        idle_timeout_ns,
        controller_metadata: 5,
        metadata: b"note".to_vec(),
        ..table_entry(p4info, "learned", &[exact(&[source])], "NoAction", &[])
    }
}

#[tokio::test]
async fn an_idle_entry_is_told_to_the_primary_and_reads_tell_the_time_since_its_last_hit() {
    let (_switch, mut controller, p4info) = running("features").await;
    let entry = learned(&p4info, 9, 5_000_000);
    let forever = learned(&p4info, 8, 0);
    accept(
        &mut controller,
        Type::Insert,
        &[
            Entity::TableEntry(forever.clone()),
            Entity::TableEntry(entry.clone()),
        ],
    )
    .await;
    for _ in 0..2 {
        let Ok(Some(StreamResponse::IdleTimeoutNotification(idle))) = controller.next().await
        else {
            panic!("expected an idle notification");
        };
        let [found] = &idle.table_entry[..] else {
            panic!("{idle:?}")
        };
        let expected = TableEntry {
            action: None,
            ..entry.clone()
        };
        assert_eq!(*found, expected);
        assert!(
            idle.timestamp > 1_600_000_000_000_000_000,
            "since the epoch"
        );
    }
    let query = Entity::TableEntry(TableEntry {
        table_id: entry.table_id,
        r#match: forever.r#match.clone(),
        time_since_last_hit: Some(Default::default()),
        ..TableEntry::default()
    });
    let found = controller.read(query).await.unwrap();
    let [Entity::TableEntry(found)] = &found[..] else {
        panic!("{found:?}")
    };
    // The other entry was inserted later; 5 ms passed twice since then without a hit of this one.
    let elapsed_ns = found.time_since_last_hit.unwrap().elapsed_ns;
    assert!(elapsed_ns >= 10_000_000, "{elapsed_ns}");
    assert_eq!(found.idle_timeout_ns, 0);
}

#[tokio::test]
async fn idle_timeouts_are_refused_where_the_table_has_none() {
    let (_switch, mut controller, p4info) = running("features").await;
    let other = TableEntry {
        idle_timeout_ns: 5,
        ..table_entry(&p4info, "by_port", &[exact(&[1])], "NoAction", &[])
    };
    let told = TableEntry {
        time_since_last_hit: Some(Default::default()),
        ..learned(&p4info, 1, 0)
    };
    let negative = learned(&p4info, 1, -1);
    for (entry, text) in [
        // Tests that were written for bmv2 compare these two as a whole.
        (
            other,
            "idle_timeout_ns must be set to 0 for tables which do not support idle timeout",
        ),
        (
            told,
            "has_time_since_last_hit must not be set in WriteRequest",
        ),
        (negative, "negative"),
    ] {
        let (code, message) = controller
            .refusal(Type::Insert, Entity::TableEntry(entry))
            .await;
        assert_eq!(code, Code::InvalidArgument);
        assert!(message.contains(text), "{message}");
    }
}

fn tagged(p4info: &P4Info, types: &[u16]) -> Entity {
    let members = types.iter().map(|ether_type| ValueSetMember {
        r#match: vec![FieldMatch {
            field_id: 1,
            field_match_type: Some(exact(&ether_type.to_be_bytes())),
        }],
    });
    Entity::ValueSetEntry(ValueSetEntry {
        value_set_id: id(p4info, "tagged_types"),
        members: members.collect(),
    })
}

#[tokio::test]
async fn value_sets_are_replaced_read_back_and_bounded() {
    let (_switch, mut controller, p4info) = running("features").await;
    let all = Entity::ValueSetEntry(ValueSetEntry::default());
    assert_eq!(
        controller.read(all.clone()).await.unwrap(),
        [tagged(&p4info, &[])]
    );
    let two = tagged(&p4info, &[0x88B5, 0x88B6]);
    accept(&mut controller, Type::Modify, std::slice::from_ref(&two)).await;
    assert_eq!(
        controller.read(all.clone()).await.unwrap(),
        std::slice::from_ref(&two)
    );
    for (operation, entity, code) in [
        (Type::Insert, tagged(&p4info, &[1]), Code::InvalidArgument),
        (Type::Delete, tagged(&p4info, &[1]), Code::InvalidArgument),
        (
            Type::Modify,
            tagged(&p4info, &[0x8801; 2]),
            Code::AlreadyExists,
        ),
        (
            Type::Modify,
            tagged(&p4info, &[0x8801, 0x8802, 0x8803, 0x8804, 0x8805]),
            Code::ResourceExhausted,
        ),
    ] {
        let (found, message) = controller.refusal(operation, entity).await;
        assert_eq!(found, code, "{message}");
    }
    assert_eq!(controller.read(all).await.unwrap(), [two]);
}

#[tokio::test]
async fn a_translated_number_is_the_same_number_and_must_fit_the_program() {
    let (switch, mut controller, p4info) = running("features").await;
    let entry = |port: &[u8]| {
        Entity::TableEntry(table_entry(
            &p4info,
            "by_port",
            &[exact(b"\x01")],
            "set_translated",
            &[port],
        ))
    };
    // 32 bits for the controller, 9 in the program.
    let (code, message) = controller.refusal(Type::Insert, entry(b"\x02\x00")).await;
    assert_eq!(code, Code::OutOfRange, "{message}");
    accept(&mut controller, Type::Insert, &[entry(b"\x03")]).await;
    assert_eq!(leaves(&switch, 5).await, 3);
}

#[tokio::test]
async fn initial_entries_can_be_changed_unless_they_are_const() {
    let (_switch, mut controller, p4info) = running("features").await;
    let all = Entity::TableEntry(TableEntry {
        table_id: id(&p4info, "initial"),
        ..TableEntry::default()
    });
    let found = controller.read(all.clone()).await.unwrap();
    assert_eq!(found.len(), 2);
    let source = FieldMatchType::Ternary(Ternary {
        value: b"\x77".to_vec(),
        mask: b"\xFF".to_vec(),
    });
    let more = TableEntry {
        priority: 9,
        ..table_entry(&p4info, "initial", &[source], "set_port", &[b"\x01"])
    };
    accept(&mut controller, Type::Insert, &[Entity::TableEntry(more)]).await;
    accept(&mut controller, Type::Delete, &found[..1]).await;
    assert_eq!(controller.read(all).await.unwrap().len(), 2);
}

#[tokio::test]
async fn packets_meet_initial_entries_as_they_were_changed_and_a_new_pipeline_restores_them() {
    let (switch, mut controller, p4info) = running("features").await;
    let all = Entity::TableEntry(TableEntry {
        table_id: id(&p4info, "initial"),
        ..TableEntry::default()
    });
    let as_compiled = controller.read(all.clone()).await.unwrap();
    let entry = |found: &Entity| match found {
        Entity::TableEntry(entry) => entry.clone(),
        other => panic!("{other:?}"),
    };
    // Initial entries have priority in the program's order: the first wins although the second matches too.
    let priorities: Vec<i32> = as_compiled.iter().map(|e| entry(e).priority).collect();
    assert_eq!(priorities, [2, 1]);
    let (one, two) = (0xE1, 0xE5);
    for source in [one, two] {
        switch.receive(3, frame(DESTINATION, source)).await;
    }
    switch.until_sent(1, 1).await;
    switch.until_sent(2, 1).await;
    // Without the entry of higher priority the other one matches, which sends to another port.
    let moved = TableEntry {
        action: table_entry(&p4info, "initial", &[], "set_port", &[b"\x03"]).action,
        ..entry(&as_compiled[1])
    };
    accept(&mut controller, Type::Delete, &as_compiled[..1]).await;
    accept(
        &mut controller,
        Type::Modify,
        &[Entity::TableEntry(moved.clone())],
    )
    .await;
    assert_eq!(
        controller.read(all.clone()).await.unwrap(),
        [Entity::TableEntry(moved)]
    );
    switch.receive(2, frame(DESTINATION, one)).await;
    switch.until_sent(3, 1).await;
    assert_eq!(
        (
            switch.sent(1).await,
            switch.sent(2).await,
            switch.sent(3).await
        ),
        (1, 1, 1)
    );
    controller
        .set_pipeline(PipelineAction::VerifyAndCommit, Some(config("features")))
        .await
        .unwrap();
    assert_eq!(controller.read(all).await.unwrap(), as_compiled);
}

#[tokio::test]
async fn the_default_entrys_direct_counter_is_read_and_written() {
    let (switch, mut controller, p4info) = running("features").await;
    let key = TableEntry {
        table_id: id(&p4info, "learned"),
        is_default_action: true,
        ..TableEntry::default()
    };
    let counter = |packets| {
        let data = CounterData {
            packet_count: packets,
            byte_count: packets * 60,
        };
        Entity::DirectCounterEntry(DirectCounterEntry {
            table_entry: Some(key.clone()),
            data: Some(data),
        })
    };
    switch.receive(1, frame(DESTINATION, 5)).await;
    assert_eq!(controller.read(counter(0)).await.unwrap(), [counter(1)]);
    accept(&mut controller, Type::Modify, &[counter(7)]).await;
    assert_eq!(controller.read(counter(0)).await.unwrap(), [counter(7)]);
    let with_entry = Entity::TableEntry(TableEntry {
        counter_data: Some(CounterData::default()),
        ..key
    });
    let found = controller.read(with_entry).await.unwrap();
    let [Entity::TableEntry(found)] = &found[..] else {
        panic!("{found:?}")
    };
    assert_eq!(found.counter_data.unwrap().packet_count, 7);
}

#[tokio::test]
async fn meters_count_by_colour_and_are_reset() {
    let (switch, mut controller, p4info) = running("entities").await;
    switch.receive(2, frame(0xB, 0xA)).await;
    let cell = |counter_data| {
        Entity::MeterEntry(MeterEntry {
            meter_id: id(&p4info, "policer"),
            index: Some(v1::Index { index: 0 }),
            config: None,
            counter_data,
        })
    };
    let counted = |packets| {
        let zero = Some(CounterData::default());
        Some(MeterCounterData {
            green: Some(CounterData {
                packet_count: packets,
                byte_count: packets * 60,
            }),
            yellow: zero,
            red: zero,
        })
    };
    let query = cell(counted(0));
    assert_eq!(
        controller.read(query.clone()).await.unwrap(),
        [cell(counted(1))]
    );
    assert_eq!(controller.read(cell(None)).await.unwrap(), [cell(None)]);
    accept(&mut controller, Type::Modify, &[cell(None)]).await;
    assert_eq!(
        controller.read(query.clone()).await.unwrap(),
        [cell(counted(1))]
    );
    accept(&mut controller, Type::Modify, std::slice::from_ref(&query)).await;
    assert_eq!(controller.read(query).await.unwrap(), [cell(counted(0))]);
}

#[tokio::test]
async fn a_modification_without_an_action_keeps_the_one_there_is() {
    let (switch, mut controller, p4info) = running("entities").await;
    let entry = table_entry(&p4info, "forward", &[exact(b"\x0B")], "to_port", &[b"\x02"]);
    accept(
        &mut controller,
        Type::Insert,
        &[Entity::TableEntry(entry.clone())],
    )
    .await;
    let noted = TableEntry {
        controller_metadata: 3,
        ..entry
    };
    let unset = TableEntry {
        action: None,
        ..noted.clone()
    };
    accept(&mut controller, Type::Modify, &[Entity::TableEntry(unset)]).await;
    let all = Entity::TableEntry(TableEntry {
        table_id: noted.table_id,
        ..TableEntry::default()
    });
    assert_eq!(
        controller.read(all).await.unwrap(),
        [Entity::TableEntry(noted)]
    );
    switch.receive(1, frame(0xB, 0xA)).await;
    switch.until_sent(2, 1).await;
}

#[tokio::test]
async fn a_clone_session_truncates_and_has_a_class_of_service() {
    let (switch, mut controller, p4info) = running("entities").await;
    let session = |packet_length_bytes, class_of_service| {
        let replica = v1::Replica {
            instance: 1,
            port_kind: Some(v1::replica::PortKind::Port(b"\x03".to_vec())),
            ..v1::Replica::default()
        };
        let entry = v1::CloneSessionEntry {
            session_id: 5,
            replicas: vec![replica],
            class_of_service,
            packet_length_bytes,
        };
        Entity::PacketReplicationEngineEntry(v1::PacketReplicationEngineEntry {
            r#type: Some(Replication::CloneSessionEntry(entry)),
        })
    };
    let (code, message) = controller.refusal(Type::Insert, session(0, 8)).await;
    assert_eq!(code, Code::InvalidArgument, "{message}");
    let forward = table_entry(
        &p4info,
        "forward",
        &[exact(b"\x0B")],
        "to_port_and_clone",
        &[b"\x02"],
    );
    let entities = [session(20, 3), Entity::TableEntry(forward)];
    accept(&mut controller, Type::Insert, &entities).await;
    assert_eq!(
        controller.read(session(0, 0)).await.unwrap(),
        [session(20, 3)]
    );
    switch.receive(1, frame(0xB, 0xA)).await;
    switch.until_sent(3, 1).await;
    let stats = switch.engine.call(|core| core.node.port_stats(3)).await;
    assert_eq!(stats.unwrap().tx_bytes, 20);
}
