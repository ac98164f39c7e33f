// SPDX-License-Identifier: Apache-2.0
//! The `Read` RPC.

use std::collections::HashMap;
use std::pin::Pin;
use std::task::{Context, Poll};

use prost::Message;
use tokio::sync::OwnedSemaphorePermit;
use tokio_stream::Stream;
use tonic::Status;
use weir_p4runtime::p4::v1::entity::Entity as Kind;
use weir_p4runtime::p4::v1::{CounterData, Entity, ReadRequest, ReadResponse};

use super::admission::Room;
use super::role::{self, Access};
use super::rpc_status;
use super::shared::Shared;
use super::target::Target;
use weir_engine::node::failure::Failure;

/// Entities read between two batches of frames.
const ENTITIES_PER_TURN: usize = 128;
/// Entities per message: well below the 4 MB that clients accept.
const ENTITIES_PER_RESPONSE: usize = 1024;

/// Most entities of one request, about 1 GB: enough for a million table entries.
const MAX_ENTITIES: usize = 1_250_000;

/// Carries out a `Read`. All entities are collected before the first response is sent, so a slow reader does not block
/// writers.
pub async fn read(shared: &Shared, request: ReadRequest) -> Result<Responses, Status> {
    shared.check_device(request.device_id)?;
    let role = role::name(&request.role, 0);
    let access = shared.clients().arbitration.access(&role)?.clone();
    let control = shared.control.read().await;
    let target = control.target(&shared.engine);
    if !target.call(|node| node.pipeline().is_some()).await? {
        return Err(Failure::no_pipeline().into());
    }
    let mut room = shared.admission.room();
    let mut entities = Vec::new();
    let mut outcomes = Vec::with_capacity(request.entities.len());
    for query in request.entities {
        outcomes.push(read_one(&target, query, &mut entities, &mut room).await?);
    }
    drop(control);
    if access != Access::Full {
        // A client with a role sees only the role's objects.
        entities.retain(|entity| access.covers(entity));
    }
    let mut responses = Vec::new();
    let mut entities = entities.into_iter();
    loop {
        let entities: Vec<Entity> = entities.by_ref().take(ENTITIES_PER_RESPONSE).collect();
        if entities.is_empty() {
            break;
        }
        let kept = room.split(entities.len());
        responses.push((Ok(ReadResponse { entities }), kept));
    }
    // The entities that could be read are sent; the final status reports the failed queries.
    if let Err(status) = rpc_status::of_batch(&outcomes, "queries") {
        responses.push((Err(status), None));
    }
    Ok(Responses(responses.into_iter()))
}

/// The responses of a read; the budget of each is freed when it is sent.
pub struct Responses(
    std::vec::IntoIter<(Result<ReadResponse, Status>, Option<OwnedSemaphorePermit>)>,
);

impl Stream for Responses {
    type Item = Result<ReadResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(self.0.next().map(|(response, _)| response))
    }
}

/// Reads the entities of a query in steps. Of several nodes the first has them, and the counters of all add up.
///
/// # Errors
/// The inner error is the query's own; the outer one ends the request (no budget, or the switch shuts down).
pub async fn read_one(
    target: &Target<'_>,
    query: Entity,
    entities: &mut Vec<Entity>,
    room: &mut Room,
) -> Result<Result<(), Failure>, Status> {
    let first = entities.len();
    if let Err(failure) = read_from(target, 0, query.clone(), entities, room).await? {
        return Ok(Err(failure));
    }
    let nodes = target.nodes();
    if nodes == 1 || !entities[first..].iter_mut().any(|e| counts(e).is_some()) {
        return Ok(Ok(()));
    }
    for number in 1..nodes {
        let mut others = Vec::new();
        if let Err(failure) = read_from(target, number, query.clone(), &mut others, room).await? {
            return Ok(Err(failure));
        }
        add_counts(&mut entities[first..], others);
    }
    Ok(Ok(()))
}

/// Adds the counts that another node has of the same entities. Their order may differ: an update that was taken back on the first
/// node never reached the others.
fn add_counts(sums: &mut [Entity], others: Vec<Entity>) {
    let without_counts = |entity: &mut Entity| {
        let counted = counts(entity).map(std::mem::take);
        (entity.encode_to_vec(), counted)
    };
    let others = others
        .into_iter()
        .map(|mut other| without_counts(&mut other));
    let others: HashMap<Vec<u8>, Option<CounterData>> = others.collect();
    for entity in sums {
        let (key, counted) = without_counts(entity);
        let more = others.get(&key).copied().flatten().unwrap_or_default();
        if let (Some(sum), Some(counted)) = (counts(entity), counted) {
            *sum = CounterData {
                byte_count: counted.byte_count.saturating_add(more.byte_count),
                packet_count: counted.packet_count.saturating_add(more.packet_count),
            };
        }
    }
}

/// The counts of an entity that has some.
fn counts(entity: &mut Entity) -> Option<&mut CounterData> {
    match entity.entity.as_mut()? {
        Kind::CounterEntry(entry) => entry.data.as_mut(),
        Kind::DirectCounterEntry(entry) => entry.data.as_mut(),
        Kind::TableEntry(entry) => entry.counter_data.as_mut(),
        _ => None,
    }
}

/// Reads the entities of a query from the node of this number.
async fn read_from(
    target: &Target<'_>,
    number: usize,
    query: Entity,
    entities: &mut Vec<Entity>,
    room: &mut Room,
) -> Result<Result<(), Failure>, Status> {
    let planned = target.call_on(number, move |node| node.plan_read(&query));
    let mut plan = match planned.await? {
        Ok(plan) => plan,
        Err(failure) => return Ok(Err(failure)),
    };
    while !plan.is_done() {
        let (rest, read) = target
            .call_on(number, move |node| {
                let read = node.read_some(&mut plan, ENTITIES_PER_TURN);
                (plan, read)
            })
            .await?;
        plan = rest;
        match read {
            Ok(read) if entities.len() + read.len() > MAX_ENTITIES => {
                return Err(Status::resource_exhausted(format!(
                    "more than {MAX_ENTITIES} entities in one Read; ask for them in several requests"
                )));
            }
            Ok(read) => {
                room.take(read.len())?;
                entities.extend(read);
            }
            Err(failure) => return Ok(Err(failure)),
        }
    }
    Ok(Ok(()))
}
