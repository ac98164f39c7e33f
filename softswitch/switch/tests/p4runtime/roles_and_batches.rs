// SPDX-License-Identifier: Apache-2.0
//! The access of roles, and batches that are carried out as a whole or not at all.

use crate::support::{
    CPU_PORT, Controller, batch_errors, config, exact, frame, group, id, role, running,
    table_entry, update,
};
use prost::Message;
use tonic::Code;
use weir_p4runtime::p4::config::v1::P4Info;
use weir_p4runtime::p4::v1::entity::Entity;
use weir_p4runtime::p4::v1::set_forwarding_pipeline_config_request::Action as PipelineAction;
use weir_p4runtime::p4::v1::stream_message_request::Update as StreamRequest;
use weir_p4runtime::p4::v1::stream_message_response::Update as StreamResponse;
use weir_p4runtime::p4::v1::update::Type;
use weir_p4runtime::p4::v1::write_request::Atomicity;
use weir_p4runtime::p4::v1::{
    CounterData, DirectCounterEntry, Index, MeterConfig, MeterEntry, PacketOut, TableEntry,
};

fn forward(p4info: &P4Info, destination: u8, port: u8) -> Entity {
    Entity::TableEntry(table_entry(
        p4info,
        "forward",
        &[exact(&[destination])],
        "to_port",
        &[&[port]],
    ))
}

fn entries(p4info: &P4Info) -> Entity {
    Entity::TableEntry(TableEntry {
        table_id: id(p4info, "forward"),
        ..TableEntry::default()
    })
}

#[tokio::test]
async fn a_role_writes_what_its_config_lists_beside_the_default_roles_primary() {
    let (switch, mut primary, p4info) = running("entities").await;
    let role = role(&p4info, "forwarder", "forward", true);
    let mut forwarder = Controller::connect_as(&switch, 1, Some(role.clone())).await;
    match forwarder.next().await {
        Ok(Some(StreamResponse::Arbitration(update))) => {
            assert_eq!(update.role, Some(role));
            assert_eq!(update.status.unwrap().code, Code::Ok as i32);
        }
        other => panic!("{other:?}"),
    }
    let entry = forward(&p4info, 0xB, 2);
    forwarder
        .write(vec![update(Type::Insert, entry.clone())])
        .await
        .unwrap();
    let foreign = Entity::MeterEntry(MeterEntry {
        meter_id: id(&p4info, "policer"),
        ..MeterEntry::default()
    });
    for foreign in [foreign.clone(), group(1, &[1])] {
        let (code, message) = forwarder.refusal(Type::Modify, foreign).await;
        assert_eq!(code, Code::PermissionDenied);
        assert!(message.contains("role forwarder"), "{message}");
    }
    let status = forwarder
        .set_pipeline(PipelineAction::Verify, Some(config("entities")))
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::PermissionDenied);
    primary
        .write(vec![update(Type::Modify, foreign)])
        .await
        .unwrap();
    // A read with the role returns only the role's objects.
    let all = Entity::TableEntry(TableEntry::default());
    assert_eq!(forwarder.read(all.clone()).await.unwrap(), [entry]);
    assert_eq!(primary.read(all).await.unwrap().len(), 2);
}

#[tokio::test]
async fn packets_reach_the_primaries_of_roles_that_have_them() {
    let (switch, mut primary, p4info) = running("entities").await;
    let hearing = role(&p4info, "forwarder", "forward", true);
    let mut hearing = Controller::connect_as(&switch, 1, Some(hearing)).await;
    assert_eq!(hearing.arbitration().await, Code::Ok);
    let deaf = role(&p4info, "deaf", "forward", false);
    let mut deaf = Controller::connect_as(&switch, 1, Some(deaf)).await;
    assert_eq!(deaf.arbitration().await, Code::Ok);
    let up = Entity::TableEntry(table_entry(
        &p4info,
        "forward",
        &[exact(b"\x0B")],
        "to_controller",
        &[b"\x01"],
    ));
    primary.write(vec![update(Type::Insert, up)]).await.unwrap();
    switch.receive(1, frame(0xB, 0xA)).await;
    for controller in [&mut primary, &mut hearing] {
        let message = controller.next().await;
        assert!(matches!(message, Ok(Some(StreamResponse::Packet(_)))));
    }
    // The next message of the controller without packet-ins is the refusal of its packet-out.
    deaf.send(StreamRequest::Packet(PacketOut::default())).await;
    match deaf.next().await {
        Ok(Some(StreamResponse::Error(error))) => {
            assert_eq!(error.canonical_code, Code::PermissionDenied as i32);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(switch.sent(CPU_PORT).await, 1);
}

#[tokio::test]
async fn a_batch_that_fails_is_rolled_back_in_both_atomic_modes() {
    let (_switch, mut controller, p4info) = running("entities").await;
    let policer = |cell, cir| {
        Entity::MeterEntry(MeterEntry {
            meter_id: id(&p4info, "policer"),
            index: Some(Index { index: cell }),
            config: Some(MeterConfig {
                cir,
                cburst: 2_000,
                pir: cir,
                pburst: 2_000,
                eburst: 0,
            }),
            counter_data: None,
        })
    };
    controller
        .write(vec![
            update(Type::Insert, forward(&p4info, 1, 1)),
            update(Type::Insert, forward(&p4info, 2, 2)),
            update(Type::Modify, policer(3, 1_000)),
            update(Type::Insert, group(1, &[1, 2])),
        ])
        .await
        .unwrap();
    let before = (
        controller.read(entries(&p4info)).await.unwrap(),
        controller.read(policer(3, 0)).await.unwrap(),
        controller.read(group(0, &[])).await.unwrap(),
    );
    let batch = |last: Entity| {
        vec![
            update(Type::Delete, forward(&p4info, 1, 1)),
            update(Type::Modify, forward(&p4info, 2, 3)),
            update(Type::Insert, forward(&p4info, 3, 3)),
            update(Type::Modify, policer(3, 9_000)),
            update(Type::Delete, group(1, &[])),
            update(Type::Insert, group(2, &[3])),
            update(Type::Insert, last),
        ]
    };
    for atomicity in [Atomicity::RollbackOnError, Atomicity::DataplaneAtomic] {
        let status = controller
            .write_batch(batch(forward(&p4info, 3, 1)), atomicity)
            .await
            .unwrap_err();
        let codes: Vec<i32> = batch_errors(&status)
            .iter()
            .map(|error| error.canonical_code)
            .collect();
        let aborted = [Code::Aborted as i32; 6];
        assert_eq!(codes[..6], aborted);
        assert_eq!(codes[6], Code::AlreadyExists as i32);
        let mut found = controller.read(entries(&p4info)).await.unwrap();
        // A deleted entry that is restored counts as the newest.
        found.sort_by_key(|entity| match entity {
            Entity::TableEntry(entry) => entry.encode_to_vec(),
            _ => Vec::new(),
        });
        assert_eq!(found, before.0);
        assert_eq!(controller.read(policer(3, 0)).await.unwrap(), before.1);
        assert_eq!(controller.read(group(0, &[])).await.unwrap(), before.2);
        controller
            .write_batch(batch(forward(&p4info, 4, 1)), atomicity)
            .await
            .unwrap();
        assert_eq!(controller.read(entries(&p4info)).await.unwrap().len(), 3);
        controller
            .write(vec![
                update(Type::Insert, forward(&p4info, 1, 1)),
                update(Type::Modify, forward(&p4info, 2, 2)),
                update(Type::Delete, forward(&p4info, 3, 3)),
                update(Type::Delete, forward(&p4info, 4, 1)),
                update(Type::Modify, policer(3, 1_000)),
                update(Type::Insert, group(1, &[1, 2])),
                update(Type::Delete, group(2, &[])),
            ])
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn a_deleted_entry_comes_back_with_its_counter() {
    let (switch, mut controller, p4info) = running("features").await;
    let entry = table_entry(&p4info, "learned", &[exact(b"\x0A")], "NoAction", &[]);
    controller
        .write(vec![update(
            Type::Insert,
            Entity::TableEntry(entry.clone()),
        )])
        .await
        .unwrap();
    switch.receive(1, frame(0xB, 0xA)).await;
    let status = controller
        .write_batch(
            vec![
                update(Type::Delete, Entity::TableEntry(entry.clone())),
                update(Type::Delete, Entity::TableEntry(entry.clone())),
            ],
            Atomicity::RollbackOnError,
        )
        .await
        .unwrap_err();
    assert_eq!(
        batch_errors(&status)[1].canonical_code,
        Code::NotFound as i32
    );
    let counter = Entity::DirectCounterEntry(DirectCounterEntry {
        table_entry: Some(TableEntry {
            action: None,
            ..entry
        }),
        data: None,
    });
    let found = controller.read(counter).await.unwrap();
    let [Entity::DirectCounterEntry(found)] = &found[..] else {
        panic!("{found:?}")
    };
    let expected = CounterData {
        packet_count: 1,
        byte_count: 60,
    };
    assert_eq!(found.data, Some(expected));
}
