// SPDX-License-Identifier: Apache-2.0
//! The target of reads and writes: the running program, or between `VERIFY_AND_SAVE` and `COMMIT` the saved one.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tonic::{Code, Status};
use weir_dataplane::Program;
use weir_p4runtime::p4::v1::entity::Entity as Kind;
use weir_p4runtime::p4::v1::write_request::Atomicity;
use weir_p4runtime::p4::v1::{CounterData, Update};

use weir_engine::engine::{Core, Handle};
use weir_engine::node::Node;
use weir_engine::node::failure::Failure;
use weir_engine::node::pipeline::Pipeline;
use weir_engine::node::undo::Undo;

/// Time for updates between two batches of frames.
const TURN: Duration = Duration::from_micros(200);

/// A saved program without ports, in which a controller prepares state, with the updates so far.
pub struct Shadow {
    node: Mutex<(Node, Vec<Update>)>,
}

impl Shadow {
    /// A shadow of a node that has the saved program.
    pub fn new(node: Node) -> Self {
        Self {
            node: Mutex::new((node, Vec::new())),
        }
    }

    fn lock(&self) -> MutexGuard<'_, (Node, Vec<Update>)> {
        self.node.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The updates that produced its state.
    pub fn into_updates(self) -> Vec<Update> {
        let inner = self.node.into_inner();
        inner.unwrap_or_else(PoisonError::into_inner).1
    }
}

/// A verified configuration with the updates written to it since.
pub struct SavedConfig {
    pub program: Program,
    pub pipeline: Pipeline,
    /// The program that reads and writes apply to until the commit.
    pub shadow: Shadow,
}

/// One of the two.
pub enum Target<'a> {
    /// The running program.
    Live(&'a Handle),
    /// The saved one.
    Saved(&'a Shadow),
}

impl Target<'_> {
    /// Runs an operation on the node, between two batches of frames if it is the live one.
    pub async fn call<R: Send + 'static>(
        &self,
        operation: impl FnOnce(&mut Node) -> R + Send + 'static,
    ) -> Result<R, Status> {
        self.call_on(0, operation).await
    }

    /// Number of nodes with the same entries: the dataplane threads of the live one.
    pub fn nodes(&self) -> usize {
        match self {
            Self::Saved(_) => 1,
            Self::Live(engine) => engine.threads(),
        }
    }

    /// Runs an operation on the node of this number; the first has all that is not counters.
    pub async fn call_on<R: Send + 'static>(
        &self,
        number: usize,
        operation: impl FnOnce(&mut Node) -> R + Send + 'static,
    ) -> Result<R, Status> {
        match self {
            Self::Saved(shadow) => Ok(operation(&mut shadow.lock().0)),
            Self::Live(engine) => {
                let run = |core: &mut Core| {
                    core.node.catch_up(core.now_ns);
                    operation(&mut core.node)
                };
                Ok(engine.call_on(number, run).await?)
            }
        }
    }

    /// Carries out a batch; the outcomes of the updates. Of several nodes the others carry out what the first did.
    pub async fn write(
        &self,
        updates: Vec<Planned>,
        atomicity: Atomicity,
    ) -> Result<Vec<Result<(), Failure>>, Status> {
        let undo = (atomicity != Atomicity::ContinueOnError).then(Undo::default);
        let whole = atomicity == Atomicity::DataplaneAtomic;
        let Batch {
            updates, outcomes, ..
        } = self.carry_out(0, Batch::new(updates, undo, whole)).await?;
        let nodes = self.nodes();
        if nodes == 1 && matches!(self, Self::Live(_)) {
            return Ok(outcomes);
        }
        let carried_out = outcomes.iter().zip(updates);
        let carried_out = carried_out.filter(|(outcome, _)| outcome.is_ok());
        let updates: Vec<Update> = carried_out.filter_map(|(_, update)| update.ok()).collect();
        for number in 1..nodes {
            let updates = updates
                .iter()
                .cloned()
                .map(|update| Ok(counting_nothing(update)));
            let batch = Batch::new(updates.collect(), None, whole);
            let outcomes = self.carry_out(number, batch).await?.outcomes;
            if let Some(failure) = outcomes.into_iter().find_map(Result::err) {
                return Err(Status::internal(format!(
                    "forwarding thread {number} refuses what the first one did: {failure}"
                )));
            }
        }
        if let Self::Saved(shadow) = self {
            shadow.lock().1.extend(updates);
        }
        Ok(outcomes)
    }

    async fn carry_out(&self, number: usize, mut batch: Batch) -> Result<Batch, Status> {
        while batch.outcomes.len() < batch.updates.len() {
            batch = self.call_on(number, move |node| batch.turn(node)).await?;
        }
        Ok(batch)
    }
}

/// An update, or the reason for refusing it beforehand.
pub type Planned = Result<Update, Failure>;

/// Updates with the outcomes so far; moves to the dataplane thread and back for each turn.
struct Batch {
    updates: Vec<Planned>,
    outcomes: Vec<Result<(), Failure>>,
    /// Restores the state before the batch; None when an update's failure does not affect the others.
    undo: Option<Undo>,
    /// Carry out everything in one turn, so that no packet sees a part of it.
    whole: bool,
}

/// The update with counts of 0: the counters of several nodes add up.
fn counting_nothing(mut update: Update) -> Update {
    let data = match update
        .entity
        .as_mut()
        .and_then(|entity| entity.entity.as_mut())
    {
        Some(Kind::CounterEntry(entry)) => &mut entry.data,
        Some(Kind::DirectCounterEntry(entry)) => &mut entry.data,
        Some(Kind::TableEntry(entry)) => &mut entry.counter_data,
        _ => return update,
    };
    if let Some(data) = data {
        *data = CounterData::default();
    }
    update
}

impl Batch {
    fn new(updates: Vec<Planned>, undo: Option<Undo>, whole: bool) -> Self {
        Self {
            outcomes: Vec::with_capacity(updates.len()),
            updates,
            undo,
            whole,
        }
    }

    /// Carries out as many updates as fit into a turn, at least one.
    fn turn(mut self, node: &mut Node) -> Self {
        let start = Instant::now();
        while let Some(update) = self.updates.get(self.outcomes.len()) {
            let outcome = match (update, &mut self.undo) {
                (Err(failure), _) => Err(failure.clone()),
                (Ok(update), None) => node.write(update),
                (Ok(update), Some(undo)) => node.write_undoable(update, undo),
            };
            if let (Err(failure), Some(undo)) = (&outcome, &mut self.undo) {
                let undone = node.undo(std::mem::take(undo));
                self.outcomes = aborted(self.outcomes.len(), self.updates.len(), failure, undone);
                return self;
            }
            self.outcomes.push(outcome);
            if !self.whole && start.elapsed() >= TURN {
                break;
            }
        }
        self
    }
}

/// Outcomes of a batch in which one update failed and the others were rolled back or not tried.
fn aborted(
    failed: usize,
    count: usize,
    failure: &Failure,
    undone: Result<(), Failure>,
) -> Vec<Result<(), Failure>> {
    let text = match undone {
        Ok(()) => format!("not carried out, because update {failed} of the batch failed"),
        Err(error) => format!("update {failed} failed, and taking back failed too: {error}"),
    };
    let other = Failure::new(Code::Aborted, text);
    let outcome = |at| {
        Err(if at == failed {
            failure.clone()
        } else {
            other.clone()
        })
    };
    (0..count).map(outcome).collect()
}
