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
use super::target::Target;
use super::{Shared, rpc_status};
use crate::node::failure::Failure;

/// Entities that the dataplane thread reads between two batches of frames.
const ENTITIES_PER_TURN: usize = 128;
/// Entities per message: well below the 4 MB that clients accept.
const ENTITIES_PER_RESPONSE: usize = 1024;

/// Entities that one request may gather, about 1 GB: a million table entries, but not all of everything many times.
const MAX_ENTITIES: usize = 1_250_000;

/// All responses. They are gathered before the first is sent, so that a client that reads slowly holds up nobody who
/// writes.
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
        // A client that names its role sees what is its role's.
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
    // What could be read is sent; the status then says what could not.
    if let Err(status) = rpc_status::of_batch(&outcomes, "queries") {
        responses.push((Err(status), None));
    }
    Ok(Responses(responses.into_iter()))
}

/// Responses on their way; the room of each is given back when it goes.
pub struct Responses(
    std::vec::IntoIter<(Result<ReadResponse, Status>, Option<OwnedSemaphorePermit>)>,
);

impl Stream for Responses {
    type Item = Result<ReadResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(self.0.next().map(|(response, _)| response))
    }
}

/// Reads what a query asks for.
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
