// SPDX-License-Identifier: Apache-2.0
//! Limits on the memory that the service holds for its clients: bytes of requests in progress, entities read and not yet
//! sent, connections.
//!
//! A message counts from the moment its length is known, before memory is allocated for it, until its request is complete.
//! A message that does not fit is refused, so memory stays bounded for any number of clients.

mod body;
pub mod guard;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::Status;

/// Limits for all clients together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of messages larger than [`SMALL_BYTES`].
    pub large_bytes: usize,
    /// Those of them that pipelines may have: half-sent ones must not keep the primary controller from writing.
    pub pipeline_bytes: usize,
    /// Bytes of smaller messages, a separate budget that large ones cannot exhaust.
    pub small_bytes: usize,
    /// Entities that were read and not yet sent, about 800 bytes each.
    pub entities: usize,
    /// Connections that are served.
    pub connections: usize,
    /// Longest pause within a message, and longest time from a connection's acceptance to HTTP/2's preface.
    pub patience: Duration,
}

/// Largest message that counts as small.
pub const SMALL_BYTES: usize = 32 << 10;
/// Every message counts for at least this: even an empty one takes memory.
const LEAST_BYTES: usize = 1 << 10;
/// The method whose message carries a program.
const PIPELINE_METHOD: &str = "SetForwardingPipelineConfig";
/// Largest message that carries a program.
const MAX_PIPELINE_BYTES: usize = 256 << 20;
/// Largest batch: about a million updates.
const MAX_WRITE_BYTES: usize = 64 << 20;
/// Largest message of other methods, gRPC's usual limit.
const MAX_OTHER_BYTES: usize = 4 << 20;

impl Default for Limits {
    fn default() -> Self {
        Self {
            large_bytes: 2 * MAX_PIPELINE_BYTES,
            pipeline_bytes: 2 * MAX_PIPELINE_BYTES - 2 * MAX_WRITE_BYTES,
            small_bytes: 64 << 20,
            entities: 2_500_000,
            connections: 256,
            patience: Duration::from_secs(30),
        }
    }
}

/// The free part of the limits.
#[derive(Clone)]
pub struct Admission {
    limits: Limits,
    large: Arc<Semaphore>,
    pipelines: Arc<Semaphore>,
    small: Arc<Semaphore>,
    entities: Arc<Semaphore>,
    connections: Arc<Semaphore>,
}

/// Budget for one message.
struct Permit {
    _bytes: OwnedSemaphorePermit,
    _of_pipelines: Option<OwnedSemaphorePermit>,
}

/// Budget held by the messages of one call, until the last clone is dropped.
#[derive(Clone, Default)]
pub struct Hold(Arc<Mutex<Option<Permit>>>);

impl Hold {
    fn replace(&self, permit: Option<Permit>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = permit;
    }
}

/// A connection's place within the limit, shared by its requests; None for a connection beyond the limit.
#[derive(Clone)]
pub struct Place(Option<Arc<OwnedSemaphorePermit>>);

impl Admission {
    /// Everything is free.
    pub fn new(limits: Limits) -> Self {
        let semaphore = |permits: usize| Arc::new(Semaphore::new(permits));
        Self {
            limits,
            large: semaphore(limits.large_bytes),
            pipelines: semaphore(limits.pipeline_bytes),
            small: semaphore(limits.small_bytes),
            entities: semaphore(limits.entities),
            connections: semaphore(limits.connections),
        }
    }

    /// Longest pause of a client that is to send.
    pub fn patience(&self) -> Duration {
        self.limits.patience
    }

    /// A new connection's place.
    pub fn connect(&self) -> Place {
        Place(
            Arc::clone(&self.connections)
                .try_acquire_owned()
                .ok()
                .map(Arc::new),
        )
    }

    /// Refuses a connection beyond the limit.
    fn check(&self, place: Option<&Place>) -> Result<(), Status> {
        match place {
            Some(Place(None)) => Err(Status::resource_exhausted(format!(
                "the switch serves {} connections at a time, and there are more; close one of them, then connect again",
                self.limits.connections
            ))),
            _ => Ok(()),
        }
    }

    /// Budget for a message of `bytes` to `method`.
    fn admit(&self, method: &str, bytes: usize) -> Result<Permit, Status> {
        let most = match method {
            PIPELINE_METHOD => MAX_PIPELINE_BYTES,
            "Write" => MAX_WRITE_BYTES,
            _ => MAX_OTHER_BYTES,
        };
        if bytes > most {
            return Err(Status::resource_exhausted(format!(
                "a {method} of {bytes} bytes; at most {most} bytes are valid, so send it in several requests if it can be divided"
            )));
        }
        let taken = if method == PIPELINE_METHOD && bytes > SMALL_BYTES {
            self.take_for_pipeline(bytes)
        } else {
            self.take(bytes)
        };
        taken.map_err(|free| {
            Status::resource_exhausted(format!(
                "no room for a {method} of {bytes} bytes: {free}; \
                 send it again when other requests have ended, or in smaller parts"
            ))
        })
    }

    /// Budget for a response of `bytes`, until it has been sent.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` when too little is free.
    pub fn answer(&self, bytes: usize) -> Result<Hold, Status> {
        let permit = self.take(bytes).map_err(|free| {
            Status::resource_exhausted(format!(
                "no room for an answer of {bytes} bytes: {free}; ask again when other requests have ended"
            ))
        })?;
        let hold = Hold::default();
        hold.replace(Some(permit));
        Ok(hold)
    }

    /// As `take`, for a pipeline of more than [`SMALL_BYTES`].
    fn take_for_pipeline(&self, bytes: usize) -> Result<Permit, String> {
        let permits = u32::try_from(bytes).unwrap_or(u32::MAX);
        let of_pipelines = Arc::clone(&self.pipelines).try_acquire_many_owned(permits);
        let of_pipelines = of_pipelines.map_err(|_| {
            format!(
                "of the {} bytes for pipelines larger than {SMALL_BYTES} bytes, {} are free",
                self.limits.pipeline_bytes,
                self.pipelines.available_permits()
            )
        })?;
        Ok(Permit {
            _of_pipelines: Some(of_pipelines),
            ..self.take(bytes)?
        })
    }

    /// Budget for a message, or a text that says how much is free.
    fn take(&self, bytes: usize) -> Result<Permit, String> {
        let (room, of, kind) = if bytes > SMALL_BYTES {
            (&self.large, self.limits.large_bytes, "larger than")
        } else {
            (&self.small, self.limits.small_bytes, "up to")
        };
        let permits = u32::try_from(bytes.max(LEAST_BYTES)).unwrap_or(u32::MAX);
        Arc::clone(room)
            .try_acquire_many_owned(permits)
            .map(|permit| Permit {
                _bytes: permit,
                _of_pipelines: None,
            })
            .map_err(|_| {
                format!(
                    "of the {of} bytes for messages {kind} {SMALL_BYTES} bytes, {} are free",
                    room.available_permits()
                )
            })
    }

    /// Budget for the entities that a read collects; empty at first.
    pub fn room(&self) -> Room {
        Room {
            entities: Arc::clone(&self.entities),
            of: self.limits.entities,
            held: None,
        }
    }
}

/// Budget for entities that are collected step by step.
pub struct Room {
    entities: Arc<Semaphore>,
    of: usize,
    held: Option<OwnedSemaphorePermit>,
}

impl Room {
    /// Takes budget for `count` more.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` when other reads hold too many.
    pub fn take(&mut self, count: usize) -> Result<(), Status> {
        let permits = u32::try_from(count).unwrap_or(u32::MAX);
        let more = Arc::clone(&self.entities).try_acquire_many_owned(permits);
        let more = more.map_err(|_| {
            Status::resource_exhausted(format!(
                "the reads under way hold {} of the {} entities that the switch keeps for them; \
                 read again when their answers have been taken, or less at a time",
                self.of - self.entities.available_permits(),
                self.of
            ))
        })?;
        match &mut self.held {
            Some(held) => held.merge(more),
            None => self.held = Some(more),
        }
        Ok(())
    }

    /// Splits off the budget of `count` entities.
    pub fn split(&mut self, count: usize) -> Option<OwnedSemaphorePermit> {
        self.held.as_mut()?.split(count)
    }
}
