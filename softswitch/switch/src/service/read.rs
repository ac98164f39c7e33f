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
    let collect = |read: Vec<Entity>| {
        if entities.len() + read.len() > MAX_ENTITIES {
            return Err(Status::resource_exhausted(format!(
                "more than {MAX_ENTITIES} entities in one Read; ask for them in several requests"
            )));
        }
        room.take(read.len())?;
        entities.extend(read);
        Ok(())
    };
    if let Err(failure) = read_from(target, 0, query.clone(), collect).await? {
        return Ok(Err(failure));
    }
    let nodes = target.nodes();
    if nodes == 1 || !entities[first..].iter_mut().any(|e| counts(e).is_some()) {
        return Ok(Ok(()));
    }
    let mut sums = Sums::new(&mut entities[first..]);
    for number in 1..nodes {
        sums.next = 0;
        // Counts of other nodes are added as they come, so they need no budget.
        let add = |read: Vec<Entity>| {
            read.into_iter().for_each(|entity| sums.add(entity));
            Ok(())
        };
        if let Err(failure) = read_from(target, number, query.clone(), add).await? {
            return Ok(Err(failure));
        }
    }
    Ok(Ok(()))
}

/// The entities of the first node, to which the counts that others have of the same entities are added.
struct Sums<'a> {
    entities: &'a mut [Entity],
    /// Where the next entity of another node is likely to be: nearly always they have the same order.
    next: usize,
    /// Positions by the entities without counts; made when an order differs, because an update that was taken back on the first
    /// node never reached the others.
    positions: Option<HashMap<Vec<u8>, usize>>,
}

impl<'a> Sums<'a> {
    fn new(entities: &'a mut [Entity]) -> Self {
        Self {
            entities,
            next: 0,
            positions: None,
        }
    }

    /// Adds the counts of another node's entity.
    fn add(&mut self, mut other: Entity) {
        let Some(more) = counts(&mut other).map(std::mem::take) else {
            return;
        };
        let Some(at) = self.position(&other) else {
            return;
        };
        self.next = at + 1;
        if let Some(sum) = self.entities.get_mut(at).and_then(counts) {
            sum.byte_count = sum.byte_count.saturating_add(more.byte_count);
            sum.packet_count = sum.packet_count.saturating_add(more.packet_count);
        }
    }

    /// The position of an entity with counts of 0.
    fn position(&mut self, other: &Entity) -> Option<usize> {
        let likely = self.entities.get_mut(self.next);
        if likely.is_some_and(|entity| without_counts(entity, |entity| entity == other)) {
            return Some(self.next);
        }
        let entities = &mut *self.entities;
        let positions = self.positions.get_or_insert_with(|| {
            let keys = entities.iter_mut();
            let keys = keys.map(|entity| without_counts(entity, Message::encode_to_vec));
            keys.zip(0..).collect()
        });
        positions.get(&other.encode_to_vec()).copied()
    }
}

/// The result of `read` for the entity with counts of 0.
fn without_counts<T>(entity: &mut Entity, read: impl FnOnce(&Entity) -> T) -> T {
    let counted = counts(entity).map(std::mem::take);
    let result = read(entity);
    if let (Some(counts), Some(counted)) = (counts(entity), counted) {
        *counts = counted;
    }
    result
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

/// Reads the entities of a query from the node of this number, and gives them to `take`, some at a time.
async fn read_from(
    target: &Target<'_>,
    number: usize,
    query: Entity,
    mut take: impl FnMut(Vec<Entity>) -> Result<(), Status>,
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
            Ok(read) => take(read)?,
            Err(failure) => return Ok(Err(failure)),
        }
    }
    Ok(Ok(()))
}
