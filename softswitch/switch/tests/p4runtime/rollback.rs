// SPDX-License-Identifier: Apache-2.0
//! A batch that is rolled back touches only the entries that it names, and as many cells as a short turn has time for.

use crate::support::{batch_errors, frame, id, running, table_entry, update};
use tonic::Code;
use weir_engine::node::undo::Undo;
use weir_p4runtime::p4::v1::entity::Entity;
use weir_p4runtime::p4::v1::field_match::{FieldMatchType, Ternary};
use weir_p4runtime::p4::v1::update::Type;
use weir_p4runtime::p4::v1::write_request::Atomicity;
use weir_p4runtime::p4::v1::{
    CounterData, CounterEntry, DirectMeterEntry, Index, MeterConfig, MeterCounterData, TableEntry,
};

/// An entry's meter, with its counters by colour in the answer.
fn meter_of(entry: &TableEntry) -> DirectMeterEntry {
    DirectMeterEntry {
        table_entry: Some(TableEntry {
            action: None,
            meter_config: None,
            ..entry.clone()
        }),
        counter_data: Some(MeterCounterData::default()),
        ..DirectMeterEntry::default()
    }
}

#[tokio::test]
async fn the_meters_of_other_entries_keep_their_buckets() {
    let (switch, mut controller, p4info) = running("entities").await;
    let ether_type = FieldMatchType::Ternary(Ternary {
        value: vec![0x88, 0xB5],
        mask: vec![0xFF, 0xFF],
    });
    // The burst is two packets, and all packets come at the same time.
    let metered = TableEntry {
        priority: 10,
        meter_config: Some(MeterConfig {
            cir: 1,
            cburst: 2,
            pir: 1,
            pburst: 2,
            eburst: 0,
        }),
        ..table_entry(&p4info, "classify", &[ether_type], "no_class", &[])
    };
    let of_all_frames = TableEntry {
        priority: 1,
        ..table_entry(&p4info, "classify", &[], "no_class", &[])
    };
    let entries = [&metered, &of_all_frames].map(|e| Entity::TableEntry(e.clone()));
    let inserts = entries.map(|entry| update(Type::Insert, entry));
    controller.write(inserts.into()).await.unwrap();
    let other = DirectMeterEntry {
        counter_data: None,
        ..meter_of(&of_all_frames)
    };
    let change = update(Type::Modify, Entity::DirectMeterEntry(other));
    switch
        .engine
        .call(move |core| {
            let now_ns = core.now_ns;
            let receive = |node: &mut weir_engine::node::Node| {
                for _ in 0..10 {
                    node.receive(1, &frame(0xB, 0xA), now_ns);
                }
                node.catch_up(now_ns);
            };
            receive(&mut core.node);
            let mut undo = Undo::default();
            core.node.write_undoable(&change, &mut undo).unwrap();
            core.node.undo(undo).unwrap();
            receive(&mut core.node);
        })
        .await
        .unwrap();
    let found = controller
        .read(Entity::DirectMeterEntry(meter_of(&metered)))
        .await
        .unwrap();
    let [Entity::DirectMeterEntry(found)] = &found[..] else {
        panic!("{found:?}")
    };
    let green = found.counter_data.as_ref().and_then(|data| data.green);
    assert_eq!(green.map(|green| green.packet_count), Some(2));
}

#[tokio::test]
async fn whole_arrays_of_more_cells_than_a_turn_has_time_for_are_refused() {
    let (switch, mut controller, p4info) = running("entities").await;
    // 64 cells.
    let counter = |index: Option<Index>| {
        let entry = CounterEntry {
            counter_id: id(&p4info, "class_counter"),
            index,
            data: Some(CounterData::default()),
        };
        update(Type::Modify, Entity::CounterEntry(entry))
    };
    for atomicity in [Atomicity::RollbackOnError, Atomicity::DataplaneAtomic] {
        let most = vec![counter(None); 10_000 / 64];
        controller.write_batch(most, atomicity).await.unwrap();
        let more = vec![counter(None); 10_000 / 64 + 1];
        let status = controller.write_batch(more, atomicity).await.unwrap_err();
        let last = batch_errors(&status).pop().unwrap();
        assert_eq!(last.canonical_code, Code::Unimplemented as i32);
        let single = vec![counter(Some(Index { index: 7 })); 10_000];
        controller.write_batch(single, atomicity).await.unwrap();
    }
    let all = vec![counter(None); 200];
    controller.write(all).await.unwrap();
    // The texts of a long batch have no room in its status.
    let whole = counter(None);
    let refused = switch.engine.call(move |core| {
        let mut undo = Undo::default();
        (0..200).find_map(|_| core.node.write_undoable(&whole, &mut undo).err())
    });
    let failure = refused.await.unwrap().unwrap();
    let limit = "at most 10000 cells in all are valid so, and this one makes it 10048";
    assert!(failure.message.contains(limit), "{failure}");
}
