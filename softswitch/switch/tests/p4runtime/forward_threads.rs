// SPDX-License-Identifier: Apache-2.0
//! A switch with several forwarding threads is one switch to its controllers.

use tonic::Code;
use weir_links::v1::links_client::LinksClient;
use weir_links::v1::{Link, SetRequest};
use weir_p4runtime::p4::config::v1::P4Info;
use weir_p4runtime::p4::v1::entity::Entity;
use weir_p4runtime::p4::v1::field_match::{FieldMatchType, Lpm};
use weir_p4runtime::p4::v1::set_forwarding_pipeline_config_request::Action as PipelineAction;
use weir_p4runtime::p4::v1::update::Type;
use weir_p4runtime::p4::v1::write_request::Atomicity;
use weir_p4runtime::p4::v1::{CounterData, TableEntry};
use weir_switch::service::admission::Limits;

use crate::support::{Controller, TestSwitch, config, exact, table_entry, update};

const THREADS: usize = 3;

/// The route to 10.N.0.0/16, through next hop 1.
fn route(p4info: &P4Info, network: u8) -> TableEntry {
    let key = FieldMatchType::Lpm(Lpm {
        value: vec![10, network, 0, 0],
        prefix_len: 16,
    });
    table_entry(p4info, "route", &[key], "set_next_hop", &[b"\x01"])
}

/// Next hop 1 is behind port 2.
fn next_hop(p4info: &P4Info) -> TableEntry {
    let params: [&[u8]; 3] = [b"\x02", b"\x0a", b"\x0b"];
    table_entry(p4info, "next_hop", &[exact(b"\x01")], "rewrite", &params)
}

/// An IPv4 packet without payload to 10.N.0.1, 34 bytes.
fn packet(network: u8) -> Vec<u8> {
    let mut ip = [
        0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 10, network, 0, 1,
    ];
    let words = ip
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
    let sum: u32 = words.sum();
    let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
    [&[0; 12][..], &[8, 0], &ip].concat()
}

async fn routing() -> (TestSwitch, Controller, P4Info) {
    routing_within(Limits::default()).await
}

async fn routing_within(limits: Limits) -> (TestSwitch, Controller, P4Info) {
    let switch = TestSwitch::start_within(limits, THREADS, None).await;
    let mut controller = Controller::primary(&switch).await;
    let router = config("ipv4_router");
    let p4info = router.p4info.clone().unwrap();
    let set = controller.set_pipeline(PipelineAction::VerifyAndCommit, Some(router));
    set.await.unwrap();
    (switch, controller, p4info)
}

fn inserts(entries: impl IntoIterator<Item = TableEntry>) -> Vec<weir_p4runtime::p4::v1::Update> {
    let entries = entries.into_iter();
    entries
        .map(|entry| update(Type::Insert, Entity::TableEntry(entry)))
        .collect()
}

/// The counts of each route, by the second byte of its network.
async fn counts(controller: &mut Controller, p4info: &P4Info) -> Vec<(u8, i64, i64)> {
    let query = TableEntry {
        table_id: route(p4info, 0).table_id,
        counter_data: Some(CounterData::default()),
        ..TableEntry::default()
    };
    let found = controller.read(Entity::TableEntry(query)).await.unwrap();
    let mut counts: Vec<_> = found
        .into_iter()
        .map(|entity| {
            let Entity::TableEntry(entry) = entity else {
                panic!("{entity:?} is no table entry");
            };
            let Some(FieldMatchType::Lpm(key)) = &entry.r#match[0].field_match_type else {
                panic!("{entry:?} has another key");
            };
            let data = entry.counter_data.unwrap();
            (key.value[1], data.packet_count, data.byte_count)
        })
        .collect();
    counts.sort_unstable();
    counts
}

#[tokio::test]
async fn each_thread_has_all_entries_and_their_counters_add_up() {
    let (switch, mut controller, p4info) = routing().await;
    let entries = [next_hop(&p4info), route(&p4info, 1), route(&p4info, 2)];
    controller.write(inserts(entries)).await.unwrap();
    for thread in 0..THREADS {
        for _ in 0..=thread {
            switch.receive_on(thread, 1, packet(1)).await;
        }
        switch.receive_on(thread, 3, packet(2)).await;
        switch.receive_on(thread, 3, packet(9)).await;
    }
    switch.until_sent(2, 9).await;
    assert_eq!(
        counts(&mut controller, &p4info).await,
        [(1, 6, 6 * 34), (2, 3, 3 * 34)]
    );

    let mut reset = route(&p4info, 1);
    reset.counter_data = Some(CounterData {
        packet_count: 100,
        byte_count: 7,
    });
    let modify = update(Type::Modify, Entity::TableEntry(reset));
    controller.write(vec![modify]).await.unwrap();
    switch.receive_on(2, 1, packet(1)).await;
    switch.until_sent(2, 10).await;
    assert_eq!(
        counts(&mut controller, &p4info).await,
        [(1, 101, 41), (2, 3, 3 * 34)]
    );
}

#[tokio::test]
async fn counters_add_up_after_a_batch_was_taken_back() {
    let (switch, mut controller, p4info) = routing().await;
    controller
        .write(inserts([next_hop(&p4info), route(&p4info, 1)]))
        .await
        .unwrap();
    // Only the first thread ever has these, before the last one, which exists, ends the batch.
    let batch = inserts([3, 4, 5, 1].map(|network| route(&p4info, network)));
    let refused = controller
        .write_batch(batch, Atomicity::RollbackOnError)
        .await;
    refused.expect_err("an entry was inserted twice");
    let batch = inserts([8, 7, 6].map(|network| route(&p4info, network)));
    controller
        .write_batch(batch, Atomicity::DataplaneAtomic)
        .await
        .unwrap();
    for thread in 0..THREADS {
        for network in 6..=8 {
            for _ in 0..network {
                switch.receive_on(thread, 1, packet(network)).await;
            }
        }
    }
    switch.until_sent(2, 63).await;
    let expected = [(1, 0, 0), (6, 18, 612), (7, 21, 714), (8, 24, 816)];
    assert_eq!(counts(&mut controller, &p4info).await, expected);
}

#[tokio::test]
async fn a_read_takes_room_for_each_entity_once() {
    let limits = Limits {
        entities: 10,
        ..Limits::default()
    };
    let (_switch, mut controller, p4info) = routing_within(limits).await;
    let routes = (1..=9).map(|network| route(&p4info, network));
    controller
        .write(inserts([next_hop(&p4info)].into_iter().chain(routes)))
        .await
        .unwrap();
    assert_eq!(counts(&mut controller, &p4info).await.len(), 9);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn links_that_several_clients_set_at_once_are_the_same_on_all_threads() {
    let switch = TestSwitch::start_on(THREADS, None).await;
    let mut clients = Vec::new();
    for delay_ns in 1..=4_u64 {
        let at = format!("http://{}", switch.address);
        let mut client = LinksClient::connect(at).await.unwrap();
        clients.push(tokio::spawn(async move {
            for round in 0..100 {
                let link = Link {
                    delay_ns: 1_000 * round + delay_ns,
                    ..Link::default()
                };
                let request = SetRequest {
                    number: 1,
                    link: Some(link),
                };
                client.set(request).await.unwrap();
            }
        }));
    }
    while clients.iter().any(|client| !client.is_finished()) {
        let delays = switch
            .engine
            .call_each(|core| core.node.link(1).unwrap().delay_ns);
        let delays = delays.await.unwrap();
        assert!(delays.iter().all(|delay| *delay == delays[0]), "{delays:?}");
    }
    for client in clients {
        client.await.unwrap();
    }
}

#[tokio::test]
async fn a_saved_program_and_a_new_one_reach_all_threads() {
    let (switch, mut controller, p4info) = routing().await;
    let save = controller.set_pipeline(PipelineAction::VerifyAndSave, Some(config("ipv4_router")));
    save.await.unwrap();
    controller
        .write(inserts([next_hop(&p4info), route(&p4info, 1)]))
        .await
        .unwrap();
    switch.receive_on(1, 1, packet(1)).await;
    controller
        .set_pipeline(PipelineAction::Commit, None)
        .await
        .unwrap();
    for thread in 0..THREADS {
        switch.receive_on(thread, 1, packet(1)).await;
    }
    switch.until_sent(2, 3).await;
    assert_eq!(counts(&mut controller, &p4info).await, [(1, 3, 102)]);
    let reconcile = controller.set_pipeline(
        PipelineAction::ReconcileAndCommit,
        Some(config("ipv4_router")),
    );
    reconcile.await.unwrap();
    assert_eq!(counts(&mut controller, &p4info).await, [(1, 3, 102)]);
}

#[tokio::test]
async fn programs_whose_packets_share_state_are_refused_by_its_name() {
    let switch = TestSwitch::start_on(2, None).await;
    let mut controller = Controller::primary(&switch).await;
    for (program, state) in [
        ("mixture", "register IngressImpl.seen"),
        ("l2_learning", "digest learn_t"),
        ("entities", "register"),
        ("features", "the idle times of table IngressImpl."),
    ] {
        for action in [PipelineAction::Verify, PipelineAction::VerifyAndCommit] {
            let refused = controller.set_pipeline(action, Some(config(program))).await;
            let status = refused.expect_err(program);
            assert_eq!(status.code(), Code::InvalidArgument, "{program}");
            let message = status.message();
            assert!(
                message.contains(&format!("packets share {state}"))
                    && message.contains("--forward-threads"),
                "{program}: {message}"
            );
        }
    }
    let router =
        controller.set_pipeline(PipelineAction::VerifyAndCommit, Some(config("ipv4_router")));
    router.await.unwrap();
}
