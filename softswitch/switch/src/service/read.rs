// SPDX-License-Identifier: Apache-2.0
//! The `Read` RPC.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::OwnedSemaphorePermit;
use tokio_stream::Stream;
use tonic::Status;
use weir_p4runtime::p4::v1::{Entity, ReadRequest, ReadResponse};

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

/// Reads the entities of a query in steps.
///
/// # Errors
/// The inner error is the query's own; the outer one ends the request (no budget, or the switch shuts down).
pub async fn read_one(
    target: &Target<'_>,
    query: Entity,
    entities: &mut Vec<Entity>,
    room: &mut Room,
) -> Result<Result<(), Failure>, Status> {
    let mut plan = match target.call(move |node| node.plan_read(&query)).await? {
        Ok(plan) => plan,
        Err(failure) => return Ok(Err(failure)),
    };
    while !plan.is_done() {
        let (rest, read) = target
            .call(move |node| {
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
