// SPDX-License-Identifier: Apache-2.0
//! The P4Runtime service over loopback, with the two test programs, without interfaces.

use crate::support::{
    CPU_PORT, Controller, DEVICE, TestSwitch, batch_errors, config, exact, frame, group, id,
    running, table_entry, uint128, update,
};
use http::uri::PathAndQuery;
use tonic::client::Grpc;
use tonic::transport::Endpoint;
use tonic::{Code, Request};
use tonic_prost::ProstCodec;
use weir_p4runtime::p4::config::v1::P4Info;
use weir_p4runtime::p4::v1::entity::Entity;
use weir_p4runtime::p4::v1::field_match::{FieldMatchType, Lpm, Ternary};
use weir_p4runtime::p4::v1::get_forwarding_pipeline_config_request::ResponseType;
use weir_p4runtime::p4::v1::packet_replication_engine_entry::Type as Replication;
use weir_p4runtime::p4::v1::replica::PortKind;
use weir_p4runtime::p4::v1::set_forwarding_pipeline_config_request::Action as PipelineAction;
use weir_p4runtime::p4::v1::stream_message_request::Update as StreamRequest;
use weir_p4runtime::p4::v1::stream_message_response::Update as StreamResponse;
use weir_p4runtime::p4::v1::update::Type;
use weir_p4runtime::p4::v1::{
    self, CounterData, DirectCounterEntry, ForwardingPipelineConfig, PacketReplicationEngineEntry,
    Replica, TableEntry,
};

fn lpm(value: &[u8], prefix_len: i32) -> FieldMatchType {
    FieldMatchType::Lpm(Lpm {
        value: value.to_vec(),
        prefix_len,
    })
}

#[tokio::test]
async fn without_a_pipeline_reads_and_writes_are_failed_preconditions() {
    let switch = TestSwitch::start().await;
    let mut controller = Controller::primary(&switch).await;
    let status = controller
        .write(vec![update(Type::Insert, group(1, &[1]))])
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    let status = controller
        .read(Entity::TableEntry(TableEntry::default()))
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    let request = v1::GetForwardingPipelineConfigRequest {
        device_id: DEVICE,
        ..Default::default()
    };
    let answer = controller
        .client
        .get_forwarding_pipeline_config(request)
        .await
        .unwrap();
    assert_eq!(answer.into_inner().config, None);
}

#[tokio::test]
async fn only_the_primary_sets_the_pipeline_and_writes() {
    let (switch, _primary, _) = running("l2_learning").await;
    let mut backup = Controller::connect(&switch, 0).await;
    assert_eq!(backup.arbitration().await, Code::AlreadyExists);
    let status = backup.write(Vec::new()).await.unwrap_err();
    assert_eq!(status.code(), Code::PermissionDenied);
    let status = backup
        .set_pipeline(PipelineAction::Verify, Some(config("l2_learning")))
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::PermissionDenied);
    let found = backup.read(Entity::TableEntry(TableEntry::default())).await;
    assert_eq!(found.unwrap(), Vec::new(), "everybody may read");
}

#[tokio::test]
async fn a_backup_takes_over_when_the_primary_dies() {
    let (switch, primary, _) = running("l2_learning").await;
    let mut backup = Controller::connect(&switch, 0).await;
    assert_eq!(backup.arbitration().await, Code::AlreadyExists);
    drop(primary);
    assert_eq!(backup.arbitration().await, Code::NotFound);
    backup.arbitrate(2).await;
    assert_eq!(backup.arbitration().await, Code::Ok);
    backup
        .write(vec![update(Type::Insert, group(1, &[1]))])
        .await
        .unwrap();
}

#[tokio::test]
async fn the_pipeline_is_read_back_in_the_parts_asked_for() {
    let (_switch, mut controller, _) = running("l2_learning").await;
    let written = config("l2_learning");
    for (response_type, expected) in [
        (ResponseType::All, written.clone()),
        (
            ResponseType::CookieOnly,
            ForwardingPipelineConfig {
                cookie: written.cookie,
                ..Default::default()
            },
        ),
        (
            ResponseType::P4infoAndCookie,
            ForwardingPipelineConfig {
                p4_device_config: Vec::new(),
                ..written.clone()
            },
        ),
        (
            ResponseType::DeviceConfigAndCookie,
            ForwardingPipelineConfig {
                p4info: None,
                ..written.clone()
            },
        ),
    ] {
        let request = v1::GetForwardingPipelineConfigRequest {
            device_id: DEVICE,
            response_type: response_type as i32,
        };
        let answer = controller
            .client
            .get_forwarding_pipeline_config(request)
            .await
            .unwrap()
            .into_inner();
        assert!(answer.config == Some(expected), "{response_type:?}");
    }
}

#[tokio::test]
async fn a_p4info_that_does_not_describe_the_program_is_refused_by_object() {
    let switch = TestSwitch::start().await;
    let mut controller = Controller::primary(&switch).await;
    let mut refusal = async |change: fn(&mut P4Info)| {
        let mut config = config("l2_learning");
        change(config.p4info.as_mut().unwrap());
        let status = controller
            .set_pipeline(PipelineAction::Verify, Some(config))
            .await
            .unwrap_err();
        (status.code(), status.message().to_owned())
    };
    let (code, text) = refusal(|p4info| {
        p4info.tables[0].preamble.as_mut().unwrap().name = "IngressImpl.sink".into()
    })
    .await;
    assert_eq!(code, Code::InvalidArgument);
    assert!(
        text.contains("table IngressImpl.sink is not in the program"),
        "{text}"
    );
    assert!(
        text.contains("IngressImpl.source"),
        "names what there is: {text}"
    );

    let (_, text) = refusal(|p4info| p4info.tables[0].match_fields[0].bitwidth = 47).await;
    assert!(
        text.contains(
            "match field hdr.ethernet.src: the width in bits is 47, in the program it is 48"
        ),
        "{text}"
    );

    let (_, text) = refusal(|p4info| p4info.actions[2].params[0].bitwidth = 8).await;
    assert!(
        text.contains("action IngressImpl.forward: parameter port: the width"),
        "{text}"
    );

    let (_, text) =
        refusal(|p4info| p4info.digests[0].preamble.as_mut().unwrap().name = "moved_t".into())
            .await;
    assert!(
        text.contains("digest moved_t is not in the program; its digests are learn_t"),
        "{text}"
    );

    let (_, text) = refusal(|p4info| drop(p4info.tables[0].match_fields.pop())).await;
    assert!(
        text.contains("the number of match fields is 1, in the program it is 2"),
        "{text}"
    );
}

#[tokio::test]
async fn what_is_no_program_is_refused_and_the_running_one_stays() {
    let (_switch, mut controller, p4info) = running("l2_learning").await;
    controller
        .write(vec![update(Type::Insert, group(1, &[1, 2]))])
        .await
        .unwrap();
    for (device_config, expected) in [
        (&b"P4"[..], "not a BMv2 JSON program"),
        (b"{}", "p4_device_config"),
        (b"", "p4_device_config is empty"),
    ] {
        let config = ForwardingPipelineConfig {
            p4info: Some(p4info.clone()),
            p4_device_config: device_config.to_vec(),
            cookie: None,
        };
        let status = controller
            .set_pipeline(PipelineAction::VerifyAndCommit, Some(config))
            .await
            .unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{}", status.message());
        assert!(status.message().contains(expected), "{}", status.message());
    }
    let groups = controller.read(group(0, &[])).await.unwrap();
    assert_eq!(groups.len(), 1, "state and program are as before");
}

#[tokio::test]
async fn a_saved_pipeline_is_committed_later_and_only_once() {
    let switch = TestSwitch::start().await;
    let mut controller = Controller::primary(&switch).await;
    let status = controller
        .set_pipeline(PipelineAction::Commit, None)
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
    controller
        .set_pipeline(PipelineAction::VerifyAndSave, Some(config("l2_learning")))
        .await
        .unwrap();
    controller
        .write(vec![update(Type::Insert, group(1, &[1]))])
        .await
        .unwrap();
    let refused = controller.refusal(Type::Insert, group(1, &[1])).await;
    assert_eq!(refused.0, Code::AlreadyExists);
    assert_eq!(controller.read(group(0, &[])).await.unwrap().len(), 1);
    let no_frame_sees_it = switch
        .engine
        .call(|core| core.node.pipeline().is_none())
        .await;
    assert!(no_frame_sees_it.unwrap());
    controller
        .set_pipeline(PipelineAction::Commit, None)
        .await
        .unwrap();
    assert_eq!(
        controller.read(group(0, &[])).await.unwrap().len(),
        1,
        "what was written since the config was saved is replayed"
    );
    let status = controller
        .set_pipeline(PipelineAction::Commit, None)
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
}

fn learned(p4info: &P4Info) -> Entity {
    Entity::TableEntry(table_entry(
        p4info,
        "destination",
        &[exact(b"\x07")],
        "forward",
        &[b"\x01"],
    ))
}

#[tokio::test]
async fn reconciling_to_another_version_of_a_program_keeps_its_state() {
    let (_switch, mut controller, p4info) = running("l2_learning").await;
    controller
        .write(vec![
            update(Type::Insert, group(1, &[1, 2])),
            update(Type::Insert, learned(&p4info)),
        ])
        .await
        .unwrap();
    // Another program that has all objects with state.
    let mut next = config("l2_learning");
    next.p4_device_config.push(b'\n');
    next.cookie = None;
    controller
        .set_pipeline(PipelineAction::ReconcileAndCommit, Some(next))
        .await
        .unwrap();
    assert_eq!(controller.read(group(0, &[])).await.unwrap().len(), 1);
    let entries = controller.read(Entity::TableEntry(TableEntry::default()));
    assert_eq!(entries.await.unwrap(), [learned(&p4info)]);
}

#[tokio::test]
async fn reconciling_keeps_the_state_of_the_same_program_and_refuses_one_that_cannot_take_it() {
    let (_switch, mut controller, p4info) = running("l2_learning").await;
    controller
        .write(vec![
            update(Type::Insert, group(1, &[1])),
            update(Type::Insert, learned(&p4info)),
        ])
        .await
        .unwrap();
    let same = config("l2_learning");
    controller
        .set_pipeline(PipelineAction::ReconcileAndCommit, Some(same))
        .await
        .unwrap();
    assert_eq!(controller.read(group(0, &[])).await.unwrap().len(), 1);
    let other = config("ipv4_router");
    let status = controller
        .set_pipeline(PipelineAction::ReconcileAndCommit, Some(other))
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    controller
        .set_pipeline(PipelineAction::VerifyAndCommit, Some(config("l2_learning")))
        .await
        .unwrap();
    assert_eq!(
        controller.read(group(0, &[])).await.unwrap().len(),
        0,
        "a commit clears the state"
    );
}

#[tokio::test]
async fn an_entry_is_read_back_as_written_in_canonical_form() {
    let (_switch, mut controller, p4info) = running("l2_learning").await;
    let mut written = table_entry(
        &p4info,
        "destination",
        &[exact(b"\x00\x00\x00\x00\x00\x07")],
        "forward",
        &[b"\x00\x02"],
    );
    written.metadata = b"mine".to_vec();
    written.controller_metadata = 5;
    controller
        .write(vec![update(
            Type::Insert,
            Entity::TableEntry(written.clone()),
        )])
        .await
        .unwrap();

    let mut expected = table_entry(
        &p4info,
        "destination",
        &[exact(b"\x07")],
        "forward",
        &[b"\x02"],
    );
    expected.metadata = b"mine".to_vec();
    expected.controller_metadata = 5;
    let all = controller
        .read(Entity::TableEntry(TableEntry::default()))
        .await
        .unwrap();
    assert_eq!(all, [Entity::TableEntry(expected.clone())]);

    let changed = table_entry(
        &p4info,
        "destination",
        &[exact(b"\x07")],
        "forward",
        &[b"\x03"],
    );
    controller
        .write(vec![update(
            Type::Modify,
            Entity::TableEntry(changed.clone()),
        )])
        .await
        .unwrap();
    let one = TableEntry {
        r#match: changed.r#match.clone(),
        table_id: changed.table_id,
        ..TableEntry::default()
    };
    assert_eq!(
        controller
            .read(Entity::TableEntry(one.clone()))
            .await
            .unwrap(),
        [Entity::TableEntry(changed)]
    );

    controller
        .write(vec![update(Type::Delete, Entity::TableEntry(one.clone()))])
        .await
        .unwrap();
    assert_eq!(controller.read(Entity::TableEntry(one)).await.unwrap(), []);
}

#[tokio::test]
async fn each_update_of_a_batch_fails_or_succeeds_by_itself() {
    let (_switch, mut controller, p4info) = running("l2_learning").await;
    let entry = |mac: u8| {
        Entity::TableEntry(table_entry(
            &p4info,
            "destination",
            &[exact(&[mac])],
            "forward",
            &[b"\x01"],
        ))
    };
    let batch = vec![
        update(Type::Insert, entry(1)),
        update(Type::Insert, entry(1)),
        update(Type::Modify, entry(2)),
        update(Type::Delete, entry(3)),
        update(Type::Insert, entry(4)),
    ];
    let errors = batch_errors(&controller.write(batch).await.unwrap_err());
    let codes: Vec<Code> = errors
        .iter()
        .map(|error| Code::from(error.canonical_code))
        .collect();
    assert_eq!(
        codes,
        [
            Code::Ok,
            Code::AlreadyExists,
            Code::NotFound,
            Code::NotFound,
            Code::Ok
        ]
    );
    assert!(
        errors[2].message.contains("IngressImpl.destination"),
        "{}",
        errors[2].message
    );
    assert_eq!(
        controller
            .read(Entity::TableEntry(TableEntry::default()))
            .await
            .unwrap()
            .len(),
        2
    );
}

#[tokio::test]
async fn bad_entries_are_refused_by_table_and_field() {
    let (_switch, mut controller, p4info) = running("ipv4_router").await;
    let good = table_entry(
        &p4info,
        "route",
        &[lpm(b"\x0a\x00\x00\x00", 8)],
        "set_next_hop",
        &[b"\x01"],
    );
    let with = |change: &dyn Fn(&mut TableEntry)| {
        let mut entry = good.clone();
        change(&mut entry);
        Entity::TableEntry(entry)
    };
    let matched =
        |m: FieldMatchType| with(&move |e| e.r#match[0].field_match_type = Some(m.clone()));
    for (entity, code, text) in [
        (
            with(&|e| e.table_id = 5),
            Code::InvalidArgument,
            "no table has id 5",
        ),
        (
            with(&|e| e.priority = 1),
            Code::InvalidArgument,
            "priority 1 must be 0",
        ),
        (
            with(&|e| e.is_const = true),
            Code::InvalidArgument,
            "is_const",
        ),
        (
            with(&|e| e.idle_timeout_ns = 1),
            Code::InvalidArgument,
            "idle timeout",
        ),
        (
            with(&|e| e.action = None),
            Code::InvalidArgument,
            "has no action",
        ),
        (
            with(&|e| e.r#match[0].field_id = 9),
            Code::InvalidArgument,
            "no match field has id 9",
        ),
        (
            with(&|e| e.r#match.push(e.r#match[0].clone())),
            Code::InvalidArgument,
            "given twice",
        ),
        (
            with(&|e| e.meter_config = Some(v1::MeterConfig::default())),
            Code::InvalidArgument,
            "no direct meter",
        ),
        (
            matched(lpm(b"\x0a\x00\x00\x01", 8)),
            Code::InvalidArgument,
            "beyond the prefix of 8",
        ),
        (
            matched(lpm(b"\x0a\x00\x00\x00", 33)),
            Code::InvalidArgument,
            "prefix length 33 is not between 1 and 32",
        ),
        (
            matched(lpm(b"\x00", 0)),
            Code::InvalidArgument,
            "must be left out",
        ),
        (
            matched(lpm(b"", 8)),
            Code::OutOfRange,
            "match field hdr.ipv4.dst: the value is empty",
        ),
        (
            matched(lpm(b"\x01\x0a\x00\x00\x00", 8)),
            Code::OutOfRange,
            "needs 33 bits, it has 32",
        ),
        (
            matched(exact(b"\x0a")),
            Code::InvalidArgument,
            "the field is matched lpm, the match that was given is exact",
        ),
        (
            matched(FieldMatchType::Ternary(Ternary {
                value: vec![1],
                mask: vec![1],
            })),
            Code::InvalidArgument,
            "the match that was given is ternary",
        ),
    ] {
        let (found, message) = controller.refusal(Type::Insert, entity).await;
        assert!(message.contains(text), "expected `{text}`, got `{message}`");
        assert_eq!(found, code, "{message}");
    }
    let wide = table_entry(
        &p4info,
        "route",
        &[lpm(b"\x0a\x00\x00\x00", 8)],
        "set_next_hop",
        &[b"\x01\x00\x00"],
    );
    let (code, message) = controller
        .refusal(Type::Insert, Entity::TableEntry(wide))
        .await;
    assert_eq!(code, Code::OutOfRange);
    assert!(
        message.contains("action IngressImpl.set_next_hop: parameter next_hop"),
        "{message}"
    );
    let foreign = table_entry(
        &p4info,
        "route",
        &[lpm(b"\x0a\x00\x00\x00", 8)],
        "rewrite",
        &[b"\x01", b"\x01", b"\x01"],
    );
    let (_, message) = controller
        .refusal(Type::Insert, Entity::TableEntry(foreign))
        .await;
    assert!(
        message.contains("action IngressImpl.rewrite cannot be used here"),
        "{message}"
    );
    let missing = TableEntry {
        r#match: Vec::new(),
        ..table_entry(&p4info, "next_hop", &[], "drop", &[])
    };
    let (_, message) = controller
        .refusal(Type::Insert, Entity::TableEntry(missing))
        .await;
    assert!(
        message.contains("match field meta.next_hop: an exact match cannot be left out"),
        "{message}"
    );
    assert_eq!(
        controller
            .read(Entity::TableEntry(TableEntry::default()))
            .await
            .unwrap(),
        []
    );
}

#[tokio::test]
async fn the_default_entry_is_modified_reset_and_read() {
    let (_switch, mut controller, p4info) = running("l2_learning").await;
    let query = TableEntry {
        table_id: id(&p4info, "destination"),
        is_default_action: true,
        ..TableEntry::default()
    };
    let default = |action: &str, params: &[&[u8]]| TableEntry {
        is_default_action: true,
        ..table_entry(&p4info, "destination", &[], action, params)
    };
    let read = Entity::TableEntry(query.clone());
    assert_eq!(
        controller.read(read.clone()).await.unwrap(),
        [Entity::TableEntry(default("flood", &[]))]
    );
    let changed = Entity::TableEntry(default("forward", &[b"\x02"]));
    let (code, _) = controller.refusal(Type::Insert, changed.clone()).await;
    assert_eq!(code, Code::InvalidArgument);
    controller
        .write(vec![update(Type::Modify, changed.clone())])
        .await
        .unwrap();
    assert_eq!(controller.read(read.clone()).await.unwrap(), [changed]);
    controller
        .write(vec![update(Type::Modify, Entity::TableEntry(query))])
        .await
        .unwrap();
    assert_eq!(
        controller.read(read).await.unwrap(),
        [Entity::TableEntry(default("flood", &[]))]
    );
}

#[tokio::test]
async fn groups_and_sessions_are_read_back_and_checked() {
    let (_switch, mut controller, _) = running("l2_learning").await;
    controller
        .write(vec![update(Type::Insert, group(1, &[1, 2, 3]))])
        .await
        .unwrap();
    let found = controller.read(group(0, &[])).await.unwrap();
    let Entity::PacketReplicationEngineEntry(entry) = &found[0] else {
        panic!("{found:?}")
    };
    let Some(Replication::MulticastGroupEntry(entry)) = &entry.r#type else {
        panic!("{found:?}")
    };
    assert_eq!(entry.metadata, [9]);
    let ports: Vec<_> = entry
        .replicas
        .iter()
        .map(|replica| replica.port_kind.clone().unwrap())
        .collect();
    assert_eq!(
        ports,
        [1, 2, 3].map(|port: u8| PortKind::Port(vec![port])),
        "ports in canonical form"
    );

    for (entity, code, text) in [
        (group(1, &[1]), Code::AlreadyExists, "exists"),
        (group(0, &[1]), Code::InvalidArgument, "must not be 0"),
        (
            group(2, &[9]),
            Code::InvalidArgument,
            "no port 9; its ports are 1, 2, 3 and the CPU port 510",
        ),
        (group(2, &[1, 1]), Code::InvalidArgument, "given twice"),
    ] {
        let (found, message) = controller.refusal(Type::Insert, entity).await;
        assert!(message.contains(text), "{message}");
        assert_eq!(found, code, "{message}");
    }
    let session = |packet_length_bytes| {
        let port_kind = Some(PortKind::Port(vec![1, 254]));
        let session = v1::CloneSessionEntry {
            session_id: 7,
            replicas: vec![Replica {
                port_kind,
                ..Replica::default()
            }],
            packet_length_bytes,
            ..Default::default()
        };
        Entity::PacketReplicationEngineEntry(PacketReplicationEngineEntry {
            r#type: Some(Replication::CloneSessionEntry(session)),
        })
    };
    controller
        .write(vec![update(Type::Insert, session(128))])
        .await
        .unwrap();
    controller
        .write(vec![update(Type::Modify, session(64))])
        .await
        .unwrap();
    assert_eq!(controller.read(session(0)).await.unwrap(), [session(64)]);
    let (_, message) = controller.refusal(Type::Modify, session(-1)).await;
    assert!(
        message.contains("packet_length_bytes -1 is negative"),
        "{message}"
    );
    controller
        .write(vec![update(Type::Delete, session(0))])
        .await
        .unwrap();
    assert_eq!(controller.read(session(0)).await.unwrap(), []);
}

#[tokio::test]
async fn a_packet_out_is_flooded_and_a_frame_to_the_cpu_port_is_a_packet_in() {
    let (switch, mut controller, p4info) = running("l2_learning").await;
    let to_cpu = table_entry(
        &p4info,
        "destination",
        &[exact(b"\x07")],
        "forward",
        &[b"\x01\xfe"],
    );
    controller
        .write(vec![
            update(Type::Insert, group(1, &[1, 2, 3])),
            update(Type::Insert, Entity::TableEntry(to_cpu)),
        ])
        .await
        .unwrap();
    // The program never sends a frame back to its ingress port; a packet-out comes from the CPU port.
    let out = v1::PacketOut {
        payload: frame(0xFFFF_FFFF_FFFF, 5),
        metadata: Vec::new(),
    };
    controller.send(StreamRequest::Packet(out)).await;
    switch.receive(2, frame(7, 6)).await;
    match controller.next().await {
        Ok(Some(StreamResponse::Packet(packet))) => assert_eq!(packet.payload, frame(7, 6)),
        other => panic!("expected a packet-in, got {other:?}"),
    }
    // The packet-out took another path; wait until it has left through all ports.
    switch.until_sent(3, 1).await;
    assert_eq!(
        [
            switch.sent(1).await,
            switch.sent(2).await,
            switch.sent(3).await
        ],
        [1, 1, 1]
    );
}

#[tokio::test]
async fn bad_stream_messages_are_answered_and_the_stream_stays() {
    let (switch, mut controller, _) = running("l2_learning").await;
    let metadata = vec![v1::PacketMetadata {
        metadata_id: 1,
        value: vec![1],
    }];
    controller
        .send(StreamRequest::Packet(v1::PacketOut {
            payload: vec![0; 60],
            metadata,
        }))
        .await;
    controller
        .send(StreamRequest::DigestAck(v1::DigestListAck {
            digest_id: 3,
            list_id: 1,
        }))
        .await;
    controller
        .send(StreamRequest::Other(Default::default()))
        .await;
    let mut codes = Vec::new();
    for _ in 0..3 {
        match controller.next().await {
            Ok(Some(StreamResponse::Error(error))) => codes.push(Code::from(error.canonical_code)),
            other => panic!("expected a stream error, got {other:?}"),
        }
    }
    assert_eq!(
        codes,
        [
            Code::InvalidArgument,
            Code::InvalidArgument,
            Code::Unimplemented
        ]
    );
    let mut backup = Controller::connect(&switch, 0).await;
    assert_eq!(backup.arbitration().await, Code::AlreadyExists);
    backup
        .send(StreamRequest::Packet(v1::PacketOut {
            payload: vec![0; 60],
            metadata: Vec::new(),
        }))
        .await;
    match backup.next().await {
        Ok(Some(StreamResponse::Error(error))) => {
            assert_eq!(Code::from(error.canonical_code), Code::PermissionDenied);
        }
        other => panic!("expected a stream error, got {other:?}"),
    }
}

#[tokio::test]
async fn digests_come_in_lists_once_until_they_are_acknowledged() {
    let (switch, mut controller, p4info) = running("l2_learning").await;
    let digest_id = id(&p4info, "learn_t");
    let entry = |max_list_size| {
        let config = v1::digest_entry::Config {
            max_timeout_ns: 60_000_000_000,
            max_list_size,
            ack_timeout_ns: 60_000_000_000,
        };
        Entity::DigestEntry(v1::DigestEntry {
            digest_id,
            config: Some(config),
        })
    };
    let (code, _) = controller.refusal(Type::Modify, entry(2)).await;
    assert_eq!(code, Code::NotFound);
    controller
        .write(vec![update(Type::Insert, entry(2))])
        .await
        .unwrap();
    assert_eq!(controller.read(entry(0)).await.unwrap(), [entry(2)]);

    for source in [0xA1, 0xA1, 0xA2] {
        switch.receive(1, frame(9, source)).await;
    }
    let list = match controller.next().await {
        Ok(Some(StreamResponse::Digest(list))) => list,
        other => panic!("expected a digest list, got {other:?}"),
    };
    let member = |value: &[u8]| v1::P4Data {
        data: Some(v1::p4_data::Data::Bitstring(value.to_vec())),
    };
    let message = |source: u8| v1::P4Data {
        data: Some(v1::p4_data::Data::Struct(v1::P4StructLike {
            members: vec![member(&[source]), member(&[1])],
        })),
    };
    assert_eq!(
        (list.digest_id, &list.data),
        (digest_id, &vec![message(0xA1), message(0xA2)])
    );

    // A1 and A2 are not acknowledged and stay in the cache, so the next list has A3 and A4.
    for source in [0xA1, 0xA3, 0xA2, 0xA4] {
        switch.receive(1, frame(9, source)).await;
    }
    match controller.next().await {
        Ok(Some(StreamResponse::Digest(list))) => {
            assert_eq!(list.data, [message(0xA3), message(0xA4)])
        }
        other => panic!("expected a digest list, got {other:?}"),
    }
    controller
        .send(StreamRequest::DigestAck(v1::DigestListAck {
            digest_id,
            list_id: list.list_id,
        }))
        .await;
    // The acknowledgement has been handled when a message sent after it has been answered.
    controller
        .send(StreamRequest::Other(Default::default()))
        .await;
    assert!(matches!(
        controller.next().await,
        Ok(Some(StreamResponse::Error(_)))
    ));
    for source in [0xA1, 0xA2] {
        switch.receive(1, frame(9, source)).await;
    }
    match controller.next().await {
        Ok(Some(StreamResponse::Digest(list))) => {
            assert_eq!(list.data, [message(0xA1), message(0xA2)])
        }
        other => panic!("expected a digest list, got {other:?}"),
    }
}

#[tokio::test]
async fn direct_counters_are_written_with_the_entry_and_read_on_request() {
    let (_switch, mut controller, p4info) = running("ipv4_router").await;
    let key = lpm(b"\x0a\x00\x00\x00", 8);
    let mut entry = table_entry(&p4info, "route", &[key], "set_next_hop", &[b"\x01"]);
    entry.counter_data = Some(CounterData {
        packet_count: 3,
        byte_count: 300,
    });
    controller
        .write(vec![update(
            Type::Insert,
            Entity::TableEntry(entry.clone()),
        )])
        .await
        .unwrap();
    let query = TableEntry {
        counter_data: Some(CounterData::default()),
        ..TableEntry::default()
    };
    let found = controller.read(Entity::TableEntry(query)).await.unwrap();
    assert_eq!(found, [Entity::TableEntry(entry.clone())]);

    let table_entry = Some(TableEntry {
        action: None,
        counter_data: None,
        ..entry
    });
    let counter = |packet_count| {
        let data = Some(CounterData {
            packet_count,
            byte_count: 0,
        });
        Entity::DirectCounterEntry(DirectCounterEntry {
            table_entry: table_entry.clone(),
            data,
        })
    };
    controller
        .write(vec![update(Type::Modify, counter(8))])
        .await
        .unwrap();
    assert_eq!(controller.read(counter(0)).await.unwrap(), [counter(8)]);
    let (code, _) = controller.refusal(Type::Insert, counter(8)).await;
    assert_eq!(code, Code::InvalidArgument);
    let (_, message) = controller.refusal(Type::Modify, counter(-8)).await;
    assert!(message.contains("cannot be negative"), "{message}");
}

#[tokio::test]
async fn another_service_and_an_unknown_method_are_unimplemented() {
    let switch = TestSwitch::start().await;
    for path in [
        "/grpc.health.v1.Health/Check",
        "/p4.v1.P4Runtime/Delete",
        "/weir.links.v1.Links/Delete",
        "/",
    ] {
        let channel = Endpoint::from_shared(format!("http://{}", switch.address)).unwrap();
        let mut client = Grpc::new(channel.connect().await.unwrap());
        client.ready().await.unwrap();
        let request = Request::new(v1::WriteRequest::default());
        let codec = ProstCodec::<v1::WriteRequest, v1::WriteResponse>::default();
        let answer = client.unary(request, PathAndQuery::from_static(path), codec);
        assert_eq!(
            answer.await.unwrap_err().code(),
            Code::Unimplemented,
            "{path}"
        );
    }
}

#[tokio::test]
async fn what_is_not_there_is_unimplemented_by_name() {
    let (_switch, mut controller, _) = running("l2_learning").await;
    for (entity, name) in [(Entity::ExternEntry(Default::default()), "ExternEntry")] {
        let (code, message) = controller.refusal(Type::Insert, entity.clone()).await;
        assert_eq!(code, Code::Unimplemented);
        assert!(message.starts_with(name), "{message}");
        assert_eq!(
            controller.read(entity).await.unwrap(),
            [],
            "a query for all finds none"
        );
    }
    let request = v1::WriteRequest {
        device_id: DEVICE,
        election_id: Some(uint128(1)),
        role: "router".into(),
        ..Default::default()
    };
    let status = controller.client.write(request).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
    assert!(
        status.message().contains("role router"),
        "{}",
        status.message()
    );
}

#[tokio::test]
async fn malformed_requests_are_refused_and_the_switch_keeps_running() {
    let (switch, mut controller, _) = running("l2_learning").await;
    let empty = |kind: i32| v1::Update {
        r#type: kind,
        entity: None,
    };
    let unset = v1::Update {
        r#type: 1,
        entity: Some(v1::Entity { entity: None }),
    };
    let errors = batch_errors(
        &controller
            .write(vec![empty(0), empty(1), empty(99), unset])
            .await
            .unwrap_err(),
    );
    assert!(
        errors
            .iter()
            .all(|error| error.canonical_code == Code::InvalidArgument as i32),
        "{errors:?}"
    );
    let untyped =
        Entity::PacketReplicationEngineEntry(PacketReplicationEngineEntry { r#type: None });
    assert_eq!(
        controller.refusal(Type::Insert, untyped).await.0,
        Code::InvalidArgument
    );

    let mut client = switch.client().await;
    let read = v1::ReadRequest {
        device_id: 2,
        ..Default::default()
    };
    assert_eq!(client.read(read).await.unwrap_err().code(), Code::NotFound);
    let read = v1::ReadRequest {
        device_id: DEVICE,
        entities: vec![v1::Entity { entity: None }],
        ..Default::default()
    };
    let status = client
        .read(read)
        .await
        .unwrap()
        .into_inner()
        .message()
        .await
        .unwrap_err();
    assert_eq!(
        batch_errors(&status)[0].canonical_code,
        Code::InvalidArgument as i32
    );
    let pipeline = v1::SetForwardingPipelineConfigRequest {
        device_id: DEVICE,
        election_id: Some(uint128(1)),
        action: 42,
        ..Default::default()
    };
    assert_eq!(
        client
            .set_forwarding_pipeline_config(pipeline)
            .await
            .unwrap_err()
            .code(),
        Code::InvalidArgument
    );
    switch.receive(1, Vec::new()).await;
    switch.receive(1, vec![0; 5]).await;
    switch.receive(CPU_PORT, vec![0xFF; 3]).await;
    controller
        .write(vec![update(Type::Insert, group(1, &[1]))])
        .await
        .unwrap();
}

#[tokio::test]
async fn capabilities_tell_the_version() {
    let switch = TestSwitch::start().await;
    let mut client = switch.client().await;
    let answer = client
        .capabilities(v1::CapabilitiesRequest::default())
        .await
        .unwrap()
        .into_inner();
    assert_eq!(answer.p4runtime_api_version, "1.5.0");
    let unknown = v1::CapabilitiesRequest { device_id: 9 };
    assert_eq!(
        client.capabilities(unknown).await.unwrap_err().code(),
        Code::NotFound
    );
}
