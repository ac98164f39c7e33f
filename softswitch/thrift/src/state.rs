// SPDX-License-Identifier: Apache-2.0
//! What bmv2's services know beside the dataplane: handles, and the objects that only these services have.

use std::collections::HashMap;

use weir_dataplane::{ProfileId, Program, Switch, TableId};
use weir_engine::engine::Core;

use crate::handles::Handles;
use crate::multicast::Multicast;
use crate::profiles::Profile;
use crate::refusal::{Refusal, Table};

/// The state of the services, for one program.
#[derive(Debug, Default)]
pub struct State {
    /// Number of the program that the state is of.
    program: u64,
    /// Entries by handle.
    pub tables: HashMap<TableId, Handles>,
    /// Members and groups.
    pub profiles: HashMap<ProfileId, Profile>,
    /// Groups, nodes, link aggregation groups and mirroring sessions.
    pub multicast: Multicast,
    /// The program that the next `bm_swap_configs` runs, with its JSON.
    pub loaded: Option<Box<(Program, Vec<u8>)>>,
}

impl State {
    /// Drops the state of another program than the running one.
    pub fn begin(&mut self, program: u64) {
        if self.program != program {
            *self = Self {
                program,
                loaded: self.loaded.take(),
                ..Self::default()
            };
        }
    }
}

/// What a call works on.
pub struct Context<'a> {
    /// The services' own state.
    pub state: &'a mut State,
    /// The switch.
    pub core: &'a mut Core,
}

impl<'a> Context<'a> {
    /// The context of a call.
    pub fn new(state: &'a mut State, core: &'a mut Core) -> Self {
        core.node.catch_up(core.now_ns);
        state.begin(core.node.programs());
        Self { state, core }
    }

    /// The dataplane, or `refusal` before there is a program.
    pub fn switch(&self, refusal: impl Into<Refusal>) -> Result<&Switch, Refusal> {
        self.core.node.switch().ok_or_else(|| refusal.into())
    }

    /// The dataplane, or `refusal` before there is a program.
    pub fn switch_mut(&mut self, refusal: impl Into<Refusal>) -> Result<&mut Switch, Refusal> {
        self.core.node.switch_mut().ok_or_else(|| refusal.into())
    }

    /// The dataplane with the handles of a table.
    pub fn with_handles(&mut self, table: TableId) -> Result<(&mut Switch, &mut Handles), Refusal> {
        let switch = self.core.node.switch_mut();
        let switch = switch.ok_or(Refusal::from(Table::InvalidTableName))?;
        Ok((switch, self.state.tables.entry(table).or_default()))
    }
}
