// SPDX-License-Identifier: Apache-2.0
//! Controllers that race for mastership: after one is notified as primary, its predecessors can change nothing.

use crate::support::{
    Controller, DEVICE, TestSwitch, exact, role, running, table_entry, uint128, update,
};
use tonic::Code;
use weir_p4runtime::p4::config::v1::P4Info;
use weir_p4runtime::p4::v1::entity::Entity;
use weir_p4runtime::p4::v1::update::Type;
use weir_p4runtime::p4::v1::{self, Role, TableEntry, WriteRequest};

/// Takeovers of one race.
const TAKEOVERS: u128 = 25;
/// Writes that a controller tries after it has lost mastership.
const LATE_WRITES: u32 = 5;

/// The entry that all controllers write, with a port that identifies the writer.
fn claim(p4info: &P4Info, key: u8, writer: u128) -> Entity {
    let port = [1 + u8::try_from(writer % 200).unwrap()];
    let fields = [exact(&[key])];
    Entity::TableEntry(table_entry(p4info, "forward", &fields, "to_port", &[&port]))
}

async fn told(controller: &mut Controller) {
    while controller.arbitration().await != Code::Ok {}
}

/// Writes as fast as possible until refused, then a few times more; returns the number of accepted writes.
async fn write_until_refused(mut controller: Controller, entity: Entity) -> u32 {
    let (mut let_in, mut refused) = (0, 0);
    while refused < LATE_WRITES {
        match controller
            .write(vec![update(Type::Modify, entity.clone())])
            .await
        {
            Ok(()) => {
                assert_eq!(refused, 0, "a primary that has lost was let in again");
                let_in += 1;
            }
            Err(status) => {
                assert_eq!(status.code(), Code::PermissionDenied, "{status:?}");
                refused += 1;
            }
        }
    }
    let_in
}

/// Controllers take over a role in turn, each from a predecessor that keeps writing.
async fn race(switch: &TestSwitch, p4info: &P4Info, role: Option<Role>, key: u8) -> u32 {
    let mut writers = Vec::new();
    for election_id in 2..2 + TAKEOVERS {
        let mut controller = Controller::connect_as(switch, election_id, role.clone()).await;
        told(&mut controller).await;
        let mine = claim(p4info, key, election_id);
        controller
            .write(vec![update(Type::Modify, mine.clone())])
            .await
            .unwrap();
        let mut client = switch.client().await;
        // The previous primary keeps writing; none of its writes may take effect any more.
        for _ in 0..3 {
            let found = crate::support::read_as(&mut client, String::new(), mine_key(&mine))
                .await
                .unwrap();
            assert_eq!(
                found.as_slice(),
                std::slice::from_ref(&mine),
                "somebody else's write was let in"
            );
        }
        writers.push(tokio::spawn(write_until_refused(controller, mine)));
    }
    let mut last = Controller::connect_as(switch, 2 + TAKEOVERS, role).await;
    told(&mut last).await;
    let mut let_in = 0;
    for writer in writers {
        let_in += writer.await.unwrap();
    }
    let_in
}

/// The query for an entry.
fn mine_key(entity: &Entity) -> Entity {
    match entity {
        Entity::TableEntry(entry) => Entity::TableEntry(TableEntry {
            action: None,
            ..entry.clone()
        }),
        other => other.clone(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn once_a_controller_is_told_that_it_is_primary_nobody_before_it_writes() {
    let (switch, mut first, p4info) = running("entities").await;
    let keys = [0x11, 0x12, 0x13];
    let mut initial = Vec::new();
    for key in keys {
        initial.push(update(Type::Insert, claim(&p4info, key, 0)));
    }
    first.write(initial).await.unwrap();
    drop(first);
    // The races of two roles and of the default role run at the same time, independently.
    let (one, two) = (
        role(&p4info, "one", "forward", false),
        role(&p4info, "two", "forward", false),
    );
    let (a, b, c) = tokio::join!(
        race(&switch, &p4info, None, keys[0]),
        race(&switch, &p4info, Some(one), keys[1]),
        race(&switch, &p4info, Some(two), keys[2]),
    );
    println!(
        "{TAKEOVERS} takeovers each, {a}, {b} and {c} writes of primaries that were about to lose"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_controllers_that_arrive_at_once_the_highest_id_is_primary_and_the_only_one() {
    let (switch, first, p4info) = running("entities").await;
    drop(first);
    for role in [None, Some(role(&p4info, "one", "forward", false))] {
        let mut controllers = Vec::new();
        let mut arriving = tokio::task::JoinSet::new();
        for id in 10..22 {
            let (address, role) = (switch.address, role.clone());
            arriving.spawn(async move { Controller::connect_at(address, id, role).await });
        }
        while let Some(arrived) = arriving.join_next().await {
            controllers.push(arrived.unwrap());
        }
        controllers.sort_by_key(|controller| controller.election_id);
        let mut highest = controllers.pop().unwrap();
        told(&mut highest).await;
        for controller in &mut controllers {
            let entity = claim(&p4info, 0x21, controller.election_id);
            let refused = controller.write(vec![update(Type::Insert, entity)]).await;
            assert_eq!(refused.unwrap_err().code(), Code::PermissionDenied);
        }
        let entity = claim(&p4info, 0x21, 9);
        highest
            .write(vec![update(Type::Insert, entity.clone())])
            .await
            .unwrap();
        highest
            .write(vec![update(Type::Delete, entity)])
            .await
            .unwrap();
    }
}

/// Holds the dataplane thread up in the middle of a write, once it has carried out the first update, until a message is sent.
async fn hold_up(switch: &TestSwitch, first_update: Entity) -> std::sync::mpsc::Sender<()> {
    let (finish, finished) = std::sync::mpsc::channel::<()>();
    let (started, mut begun) = tokio::sync::mpsc::channel(1);
    let (engine, query) = (switch.engine.clone(), mine_key(&first_update));
    let finished = std::sync::Arc::new(std::sync::Mutex::new(finished));
    tokio::spawn(async move {
        loop {
            let (started, finished) = (started.clone(), finished.clone());
            let entity = v1::Entity {
                entity: Some(query.clone()),
            };
            let looked = engine.call(move |core| {
                let mut plan = core.node.plan_read(&entity).unwrap();
                let found = core.node.read_some(&mut plan, 1).unwrap();
                if !found.is_empty() {
                    started.try_send(()).unwrap();
                    let _ = finished.lock().unwrap().recv();
                }
                !found.is_empty()
            });
            if looked.await.unwrap() {
                return;
            }
        }
    });
    begun.recv().await.unwrap();
    finish
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn who_was_overtaken_while_a_write_was_finished_is_not_told_last_that_it_is_primary() {
    let (switch, mut first, p4info) = running("entities").await;
    let entity = claim(&p4info, 0x31, 1);
    // Far more than one turn of the dataplane thread.
    let mut updates = vec![update(Type::Insert, entity.clone())];
    updates.resize(5_000, update(Type::Modify, entity.clone()));
    let request = WriteRequest {
        device_id: DEVICE,
        election_id: Some(uint128(1)),
        updates,
        ..WriteRequest::default()
    };
    let mut client = first.client.clone();
    let writing = tokio::spawn(async move { client.write(request).await });
    let finish = hold_up(&switch, entity).await;
    let mut second = Controller::connect_as(&switch, 2, None).await;
    assert_eq!(first.arbitration().await, Code::AlreadyExists);
    let mut third = Controller::connect_as(&switch, 3, None).await;
    assert_eq!(first.arbitration().await, Code::AlreadyExists);
    assert_eq!(second.arbitration().await, Code::AlreadyExists);
    finish.send(()).unwrap();
    writing.await.unwrap().unwrap();
    assert_eq!(third.arbitration().await, Code::Ok);
    // The next message answers this request; no earlier one is left.
    second.arbitrate(2).await;
    assert_eq!(second.arbitration().await, Code::AlreadyExists);
}
