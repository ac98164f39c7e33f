// SPDX-License-Identifier: Apache-2.0
//! Every kind of entity that the switch serves, on a program that has one of each.

use crate::support::{
    Controller, batch_errors, exact, frame, group, id, running, table_entry, update,
};
use tonic::Code;
use weir_p4runtime::p4::config::v1::P4Info;
use weir_p4runtime::p4::v1::entity::Entity;
use weir_p4runtime::p4::v1::field_match::{FieldMatchType, Optional, Range, Ternary};
use weir_p4runtime::p4::v1::stream_message_request::Update as StreamRequest;
use weir_p4runtime::p4::v1::stream_message_response::Update as StreamResponse;
use weir_p4runtime::p4::v1::update::Type;
use weir_p4runtime::p4::v1::{
    self, CounterData, CounterEntry, DirectMeterEntry, FieldMatch, Index, MeterConfig,
    MeterCounterData, MeterEntry, P4Data, PacketMetadata, RegisterEntry, TableEntry, p4_data,
};

const EXPERIMENT: u16 = 0x88B5;

fn ternary(value: &[u8], mask: &[u8]) -> FieldMatchType {
    FieldMatchType::Ternary(Ternary {
        value: value.to_vec(),
        mask: mask.to_vec(),
    })
}

fn range(low: &[u8], high: &[u8]) -> FieldMatchType {
    FieldMatchType::Range(Range {
        low: low.to_vec(),
        high: high.to_vec(),
    })
}

fn optional(value: &[u8]) -> FieldMatchType {
    FieldMatchType::Optional(Optional {
        value: value.to_vec(),
    })
}

/// An entry that assigns class 3 to frames from port 1 with the ethertype for local experiments.
fn classified(p4info: &P4Info) -> TableEntry {
    let matches = [
        ternary(&EXPERIMENT.to_be_bytes(), b"\xff\xff"),
        range(b"\x01", b"\x0f"),
        optional(b"\x01"),
    ];
    TableEntry {
        priority: 10,
        ..table_entry(p4info, "classify", &matches, "set_class", &[b"\x03"])
    }
}

fn index(cell: i64) -> Option<Index> {
    Some(Index { index: cell })
}

fn config(cir: i64, cburst: i64, pir: i64, pburst: i64) -> MeterConfig {
    MeterConfig {
        cir,
        cburst,
        pir,
        pburst,
        eburst: 0,
    }
}

async fn insert(controller: &mut Controller, entities: Vec<Entity>) {
    let updates = entities
        .into_iter()
        .map(|entity| update(Type::Insert, entity))
        .collect();
    controller.write(updates).await.unwrap();
}

async fn modify(controller: &mut Controller, entity: Entity) {
    controller
        .write(vec![update(Type::Modify, entity)])
        .await
        .unwrap();
}

#[tokio::test]
async fn all_kinds_of_matches_are_read_back_as_written() {
    let (_switch, mut controller, p4info) = running("entities").await;
    let entry = Entity::TableEntry(classified(&p4info));
    insert(&mut controller, vec![entry.clone()]).await;
    let query = TableEntry {
        table_id: id(&p4info, "classify"),
        ..TableEntry::default()
    };
    assert_eq!(
        controller.read(Entity::TableEntry(query)).await.unwrap(),
        [entry]
    );
}

#[tokio::test]
async fn a_match_of_anything_is_left_out_and_read_back_so() {
    let (_switch, mut controller, p4info) = running("entities").await;
    let all = TableEntry {
        r#match: Vec::new(),
        ..classified(&p4info)
    };
    insert(&mut controller, vec![Entity::TableEntry(all.clone())]).await;
    let query = TableEntry {
        table_id: all.table_id,
        priority: all.priority,
        ..TableEntry::default()
    };
    assert_eq!(
        controller.read(Entity::TableEntry(query)).await.unwrap(),
        [Entity::TableEntry(all.clone())]
    );
    let with = |field_id, kind: FieldMatchType| {
        let field = FieldMatch {
            field_id,
            field_match_type: Some(kind),
        };
        Entity::TableEntry(TableEntry {
            r#match: vec![field],
            ..all.clone()
        })
    };
    for (entity, text) in [
        (with(1, ternary(b"\x00", b"\x00")), "must be left out"),
        (
            with(1, ternary(b"\x03", b"\x01")),
            "bits set that the mask has not",
        ),
        (
            with(2, range(b"\x00", b"\xff\xff\xff\xff\xff\xff")),
            "must be left out",
        ),
        (
            with(2, range(b"\x05", b"\x04")),
            "the lower bound is above the upper one",
        ),
    ] {
        let (code, message) = controller.refusal(Type::Insert, entity).await;
        assert!(message.contains(text), "{message}");
        assert_eq!(code, Code::InvalidArgument);
    }
    let (_, message) = controller
        .refusal(
            Type::Insert,
            Entity::TableEntry(TableEntry { priority: 0, ..all }),
        )
        .await;
    assert!(
        message.contains("table IngressImpl.classify: priority 0 must be at least 1"),
        "{message}"
    );
}

#[tokio::test]
async fn reads_are_filtered_by_action_and_priority() {
    let (_switch, mut controller, p4info) = running("entities").await;
    let mut entries = Vec::new();
    for priority in 1..=4 {
        let action = if priority % 2 == 0 {
            "set_class"
        } else {
            "no_class"
        };
        let params: &[&[u8]] = if priority % 2 == 0 { &[b"\x01"] } else { &[] };
        let entry = table_entry(
            &p4info,
            "classify",
            &[ternary(b"\x08\x00", b"\xff\xff")],
            action,
            params,
        );
        entries.push(Entity::TableEntry(TableEntry { priority, ..entry }));
    }
    insert(&mut controller, entries.clone()).await;
    let table_id = id(&p4info, "classify");
    let by_priority = TableEntry {
        table_id,
        priority: 3,
        ..TableEntry::default()
    };
    assert_eq!(
        controller
            .read(Entity::TableEntry(by_priority))
            .await
            .unwrap(),
        [entries[2].clone()]
    );
    let action = table_entry(&p4info, "classify", &[], "set_class", &[]).action;
    let by_action = TableEntry {
        table_id,
        action,
        ..TableEntry::default()
    };
    let found = controller
        .read(Entity::TableEntry(by_action))
        .await
        .unwrap();
    assert_eq!(found, [entries[1].clone(), entries[3].clone()]);
}

#[tokio::test]
async fn meters_are_configured_read_back_and_unset() {
    let (_switch, mut controller, p4info) = running("entities").await;
    let meter_id = id(&p4info, "policer");
    let meter = |index, config| {
        Entity::MeterEntry(MeterEntry {
            meter_id,
            index,
            config,
            counter_data: None,
        })
    };
    let configured = meter(index(3), Some(config(125_000, 3_000, 250_000, 6_000)));
    modify(&mut controller, configured.clone()).await;
    assert_eq!(
        controller.read(meter(index(3), None)).await.unwrap(),
        [configured]
    );
    let all = controller.read(meter(None, None)).await.unwrap();
    let set = all
        .iter()
        .filter(|e| matches!(e, Entity::MeterEntry(meter) if meter.config.is_some()))
        .count();
    assert_eq!((all.len(), set), (64, 1));
    modify(&mut controller, meter(index(3), None)).await;
    assert_eq!(
        controller.read(meter(index(3), None)).await.unwrap(),
        [meter(index(3), None)]
    );
    modify(
        &mut controller,
        meter(None, Some(config(1, 2_000, 1, 2_000))),
    )
    .await;
    let last = meter(index(63), Some(config(1, 2_000, 1, 2_000)));
    assert_eq!(
        controller.read(meter(index(63), None)).await.unwrap(),
        [last]
    );

    let with_eburst = MeterConfig {
        eburst: 1,
        ..config(1, 2_000, 1, 2_000)
    };
    let counters = MeterEntry {
        meter_id,
        counter_data: Some(MeterCounterData {
            green: Some(CounterData {
                packet_count: 1,
                byte_count: 0,
            }),
            ..MeterCounterData::default()
        }),
        ..Default::default()
    };
    for (operation, entity, code, text) in [
        (
            Type::Insert,
            meter(index(0), None),
            Code::InvalidArgument,
            "can only be MODIFY'ed",
        ),
        (
            Type::Modify,
            meter(index(64), None),
            Code::OutOfRange,
            "IngressImpl.policer: index 64",
        ),
        (
            Type::Modify,
            meter(index(-1), None),
            Code::InvalidArgument,
            "index -1 is negative",
        ),
        (
            Type::Modify,
            meter(index(0), Some(config(-1, 1, 1, 1))),
            Code::InvalidArgument,
            "cir -1 is negative",
        ),
        (
            Type::Modify,
            meter(index(0), Some(with_eburst)),
            Code::InvalidArgument,
            "eburst 1 must be 0",
        ),
        (
            Type::Modify,
            Entity::MeterEntry(counters),
            Code::InvalidArgument,
            "can only be reset",
        ),
        (
            Type::Modify,
            Entity::MeterEntry(MeterEntry {
                meter_id: 1,
                ..Default::default()
            }),
            Code::InvalidArgument,
            "no meter has id 1",
        ),
    ] {
        let (found, message) = controller.refusal(operation, entity).await;
        assert!(message.contains(text), "{message}");
        assert_eq!(found, code, "{message}");
    }
}

#[tokio::test]
async fn a_direct_meter_is_set_with_its_entry_or_by_itself() {
    let (_switch, mut controller, p4info) = running("entities").await;
    let meter_config = Some(config(10, 5, 20, 8));
    let entry = TableEntry {
        meter_config,
        ..classified(&p4info)
    };
    insert(&mut controller, vec![Entity::TableEntry(entry.clone())]).await;
    let key = TableEntry {
        action: None,
        meter_config: None,
        ..entry.clone()
    };
    let direct = |config| {
        Entity::DirectMeterEntry(DirectMeterEntry {
            table_entry: Some(key.clone()),
            config,
            counter_data: None,
        })
    };
    assert_eq!(
        controller.read(direct(None)).await.unwrap(),
        [direct(meter_config)]
    );
    modify(&mut controller, direct(Some(config(1, 2, 3, 4)))).await;
    let query = TableEntry {
        table_id: key.table_id,
        meter_config,
        ..TableEntry::default()
    };
    let expected = TableEntry {
        meter_config: Some(config(1, 2, 3, 4)),
        ..entry.clone()
    };
    assert_eq!(
        controller.read(Entity::TableEntry(query)).await.unwrap(),
        [Entity::TableEntry(expected)]
    );
    // A MODIFY of the entry without a configuration resets the meter.
    modify(
        &mut controller,
        Entity::TableEntry(TableEntry {
            meter_config: None,
            ..entry
        }),
    )
    .await;
    assert_eq!(controller.read(direct(None)).await.unwrap(), [direct(None)]);
    let absent = Entity::DirectMeterEntry(DirectMeterEntry {
        table_entry: Some(TableEntry {
            priority: 99,
            ..key.clone()
        }),
        ..Default::default()
    });
    assert_eq!(
        controller.refusal(Type::Modify, absent).await.0,
        Code::NotFound
    );
}

#[tokio::test]
async fn counters_count_what_was_classified_and_can_be_set() {
    let (switch, mut controller, p4info) = running("entities").await;
    let entry = Entity::TableEntry(classified(&p4info));
    let forward = table_entry(&p4info, "forward", &[exact(b"\x0b")], "to_port", &[b"\x02"]);
    insert(&mut controller, vec![entry, Entity::TableEntry(forward)]).await;
    for _ in 0..3 {
        switch.receive(1, frame(0xB, 0xA)).await;
    }
    switch.receive(3, frame(0xB, 0xA)).await; // not port 1: class 0
    switch.until_sent(2, 4).await;
    let counter_id = id(&p4info, "class_counter");
    let counter = |index, data| {
        Entity::CounterEntry(CounterEntry {
            counter_id,
            index,
            data,
        })
    };
    let counted = |packets| {
        Some(CounterData {
            packet_count: packets,
            byte_count: packets * 60,
        })
    };
    assert_eq!(
        controller.read(counter(index(3), None)).await.unwrap(),
        [counter(index(3), counted(3))]
    );
    assert_eq!(
        controller.read(counter(index(0), None)).await.unwrap(),
        [counter(index(0), counted(1))]
    );
    assert_eq!(
        controller.read(counter(None, None)).await.unwrap().len(),
        64
    );
    modify(&mut controller, counter(None, counted(0))).await;
    assert_eq!(
        controller.read(counter(index(3), None)).await.unwrap(),
        [counter(index(3), counted(0))]
    );
    assert_eq!(
        controller
            .refusal(Type::Modify, counter(index(64), counted(0)))
            .await
            .0,
        Code::OutOfRange
    );

    let query = TableEntry {
        counter_data: counted(0),
        table_id: id(&p4info, "classify"),
        ..TableEntry::default()
    };
    let found = controller.read(Entity::TableEntry(query)).await.unwrap();
    let Entity::TableEntry(found) = &found[0] else {
        panic!("{found:?}")
    };
    assert_eq!(found.counter_data, counted(3));
}

#[tokio::test]
async fn registers_are_read_and_written() {
    let (switch, mut controller, p4info) = running("entities").await;
    let register_id = id(&p4info, "last_class");
    let data = |value: &[u8]| {
        Some(P4Data {
            data: Some(p4_data::Data::Bitstring(value.to_vec())),
        })
    };
    let register = |index, data| {
        Entity::RegisterEntry(RegisterEntry {
            register_id,
            index,
            data,
        })
    };
    modify(&mut controller, register(index(1), data(b"\x00\x07"))).await;
    assert_eq!(
        controller.read(register(index(1), None)).await.unwrap(),
        [register(index(1), data(b"\x07"))]
    );
    assert_eq!(
        controller.read(register(None, None)).await.unwrap().len(),
        16
    );
    let forward = table_entry(&p4info, "forward", &[exact(b"\x0b")], "to_port", &[b"\x02"]);
    insert(
        &mut controller,
        vec![
            Entity::TableEntry(classified(&p4info)),
            Entity::TableEntry(forward),
        ],
    )
    .await;
    switch.receive(1, frame(0xB, 0xA)).await;
    switch.until_sent(2, 1).await;
    assert_eq!(
        controller.read(register(index(0), None)).await.unwrap(),
        [register(index(0), data(b"\x03"))]
    );
    let (code, message) = controller
        .refusal(Type::Modify, register(index(1), data(b"\x10\x00")))
        .await;
    assert_eq!(code, Code::OutOfRange, "{message}");
    assert!(
        message.contains("register IngressImpl.last_class"),
        "{message}"
    );
    let (_, message) = controller
        .refusal(Type::Modify, register(index(1), None))
        .await;
    assert!(message.contains("the data is missing"), "{message}");
}

#[tokio::test]
async fn const_entries_are_read_and_cannot_be_changed() {
    let (_switch, mut controller, p4info) = running("entities").await;
    let query = TableEntry {
        table_id: id(&p4info, "reserved"),
        ..TableEntry::default()
    };
    let found = controller.read(Entity::TableEntry(query)).await.unwrap();
    let expected = table_entry(
        &p4info,
        "reserved",
        &[exact(b"\x01\x80\xc2\x00\x00\x00")],
        "drop",
        &[],
    );
    assert_eq!(
        found,
        [Entity::TableEntry(TableEntry {
            is_const: true,
            ..expected.clone()
        })]
    );
    for operation in [Type::Modify, Type::Delete] {
        let (code, message) = controller
            .refusal(operation, Entity::TableEntry(expected.clone()))
            .await;
        assert_eq!(code, Code::PermissionDenied, "{message}");
    }
    let another = table_entry(&p4info, "reserved", &[exact(b"\x01")], "drop", &[]);
    assert_eq!(
        controller
            .refusal(Type::Insert, Entity::TableEntry(another))
            .await
            .0,
        Code::PermissionDenied
    );
    let default = table_entry(&p4info, "reserved", &[], "NoAction", &[]);
    let default = Entity::TableEntry(TableEntry {
        is_default_action: true,
        ..default
    });
    assert_eq!(
        controller.refusal(Type::Modify, default).await.0,
        Code::PermissionDenied
    );
}

#[tokio::test]
async fn an_action_for_the_default_entry_only_is_refused_in_an_entry() {
    let (_switch, mut controller, p4info) = running("entities").await;
    let entry = table_entry(&p4info, "forward", &[exact(b"\x01")], "drop", &[]);
    let (code, message) = controller
        .refusal(Type::Insert, Entity::TableEntry(entry))
        .await;
    assert_eq!(code, Code::PermissionDenied);
    assert!(
        message.contains("action IngressImpl.drop cannot be used here"),
        "{message}"
    );
}

#[tokio::test]
async fn packets_carry_their_metadata_both_ways() {
    let (switch, mut controller, p4info) = running("entities").await;
    let to_controller = table_entry(
        &p4info,
        "forward",
        &[exact(b"\x0b")],
        "to_controller",
        &[b"\x05"],
    );
    insert(&mut controller, vec![Entity::TableEntry(to_controller)]).await;
    switch.receive(2, frame(0xB, 0xA)).await;
    let metadata = |metadata_id, value: &[u8]| PacketMetadata {
        metadata_id,
        value: value.to_vec(),
    };
    match controller.next().await {
        Ok(Some(StreamResponse::Packet(packet))) => {
            assert_eq!(
                packet.metadata,
                [metadata(1, b"\x02"), metadata(2, b"\x05")]
            );
            assert_eq!(packet.payload, frame(0xB, 0xA));
        }
        other => panic!("expected a packet-in, got {other:?}"),
    }
    let out = v1::PacketOut {
        payload: frame(0xB, 0xA),
        metadata: vec![metadata(1, b"\x03")],
    };
    controller.send(StreamRequest::Packet(out)).await;
    switch.until_sent(3, 1).await;
    let out = v1::PacketOut {
        payload: frame(0xB, 0xA),
        metadata: Vec::new(),
    };
    controller.send(StreamRequest::Packet(out)).await;
    match controller.next().await {
        Ok(Some(StreamResponse::Error(error))) => {
            assert!(
                error
                    .message
                    .contains("metadata egress_port (id 1): missing"),
                "{}",
                error.message
            );
        }
        other => panic!("expected a stream error, got {other:?}"),
    }
}

#[tokio::test]
async fn clones_and_groups_copy_frames() {
    let (switch, mut controller, p4info) = running("entities").await;
    let replicas = |port: u8| {
        let port_kind = Some(v1::replica::PortKind::Port(vec![port]));
        vec![v1::Replica {
            port_kind,
            instance: 1,
            ..v1::Replica::default()
        }]
    };
    let session = v1::CloneSessionEntry {
        session_id: 5,
        replicas: replicas(3),
        ..Default::default()
    };
    let session = v1::packet_replication_engine_entry::Type::CloneSessionEntry(session);
    let session = Entity::PacketReplicationEngineEntry(v1::PacketReplicationEngineEntry {
        r#type: Some(session),
    });
    let cloned = table_entry(
        &p4info,
        "forward",
        &[exact(b"\x0b")],
        "to_port_and_clone",
        &[b"\x02"],
    );
    let flooded = table_entry(
        &p4info,
        "forward",
        &[exact(b"\x0c")],
        "to_group",
        &[b"\x07"],
    );
    let entities = vec![
        session,
        group(7, &[1, 2]),
        Entity::TableEntry(cloned),
        Entity::TableEntry(flooded),
    ];
    insert(&mut controller, entities).await;
    switch.receive(1, frame(0xB, 0xA)).await;
    switch.until_sent(2, 1).await;
    switch.until_sent(3, 1).await;
    switch.receive(3, frame(0xC, 0xA)).await;
    switch.until_sent(2, 2).await;
    switch.until_sent(1, 1).await;
}

#[tokio::test]
async fn a_batch_of_reads_gives_what_it_can_and_names_the_rest() {
    let (_switch, mut controller, p4info) = running("entities").await;
    let entity = |entity| v1::Entity {
        entity: Some(entity),
    };
    let counter_id = id(&p4info, "class_counter");
    let request = v1::ReadRequest {
        device_id: crate::support::DEVICE,
        entities: vec![
            entity(Entity::CounterEntry(CounterEntry {
                counter_id,
                index: index(1),
                data: None,
            })),
            entity(Entity::CounterEntry(CounterEntry {
                counter_id,
                index: index(64),
                data: None,
            })),
        ],
        ..Default::default()
    };
    let mut responses = controller.client.read(request).await.unwrap().into_inner();
    assert_eq!(
        responses.message().await.unwrap().unwrap().entities.len(),
        1
    );
    let errors = batch_errors(&responses.message().await.unwrap_err());
    let codes: Vec<Code> = errors
        .iter()
        .map(|error| Code::from(error.canonical_code))
        .collect();
    assert_eq!(codes, [Code::Ok, Code::OutOfRange]);
}
