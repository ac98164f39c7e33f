// SPDX-License-Identifier: Apache-2.0
//! Access for a control plane beside P4Runtime, which knows the program by the names in its JSON and needs no P4Info.

use crate::digest::learn::Learning;
use crate::publish::Publish;
use weir_dataplane::{EntryHandle, Program, Switch, TableId};

use super::Node;
use super::failure::Failure;

impl Node {
    /// The dataplane; None before there is a program.
    pub fn switch(&self) -> Option<&Switch> {
        self.switch.as_ref()
    }

    /// The dataplane. P4Runtime reads the entries that are written here; it does not know of groups, sessions and members.
    pub fn switch_mut(&mut self) -> Option<&mut Switch> {
        self.switch.as_mut()
    }

    /// Number of programs run so far, which tells whether the program is still the same one.
    pub fn programs(&self) -> u64 {
        self.programs
    }

    /// The JSON of the running program; None before there is one.
    pub fn source(&self) -> Option<&[u8]> {
        let of_controller = self.pipeline.as_ref();
        let json = of_controller.map(|pipeline| pipeline.config.p4_device_config.as_slice());
        json.or(self.source.as_deref())
    }

    /// Runs the program that `json` was compiled to, without a P4Info; as [`Node::run`].
    ///
    /// # Errors
    /// As [`Node::run`].
    pub fn run_source(
        &mut self,
        program: Program,
        json: Vec<u8>,
        now_ns: u64,
    ) -> Result<(), Failure> {
        self.run(program, None, now_ns)?;
        self.source = Some(json);
        Ok(())
    }

    /// Forgets what a P4Runtime controller stored with an entry that is gone.
    pub fn forget_entry(&mut self, table: TableId, handle: EntryHandle) {
        self.entries.remove(&(table, handle));
    }

    /// Forgets what P4Runtime controllers stored with the entries of a table that was emptied.
    pub fn forget_entries(&mut self, table: TableId) {
        self.entries.retain(|(of, _), _| *of != table);
    }

    /// Empties the state of the program, as [`Switch::reset_state`].
    pub fn reset_state(&mut self) {
        if let Some(switch) = &mut self.switch {
            switch.reset_state();
        }
        self.profiles.forget();
        self.entries.clear();
        self.defaults.clear();
        self.groups.clear();
        self.begin_learning();
    }

    /// Publishes the digests that no P4Runtime controller has asked for, changes of ports, and idle entries, as bmv2 does.
    pub fn publish(&mut self, publish: Publish) {
        self.learning = Some(Learning::new(publish));
        self.begin_learning();
    }

    /// Accepts replicas for ports that the switch does not have, as bmv2 does; their copies are dropped and counted.
    pub fn accept_absent_replicas(&mut self) {
        self.absent_replicas = true;
    }

    /// Begins with empty lists.
    pub(super) fn begin_learning(&mut self) {
        if let (Some(learning), Some(switch)) = (&mut self.learning, &self.switch) {
            learning.begin(switch.info());
        }
    }

    /// Handles the acknowledgement of samples, or of a buffer with all of its; false for an unknown list.
    pub fn acknowledge_learning(
        &mut self,
        list: i32,
        buffer: u64,
        samples: Option<&[i32]>,
    ) -> bool {
        let learning = self.learning.as_mut();
        learning.is_some_and(|learning| learning.acknowledge(list, buffer, samples))
    }

    /// Sets how many samples a buffer has, or after how many ms it is sent with fewer (0: never); None for an unknown list, false
    /// for a negative number.
    pub fn configure_learning(
        &mut self,
        list: i32,
        samples: Option<i32>,
        timeout_ms: Option<i32>,
    ) -> Option<bool> {
        let learning = self.learning.as_mut();
        learning.and_then(|learning| learning.configure(list, samples, timeout_ms))
    }
}
