// SPDX-License-Identifier: Apache-2.0
//! A loaded program.

use crate::control::{ActionCall, CounterValue};
use crate::error::ControlError;
use crate::info::{ActionId, ProgramInfo, TableId, TableInfo};
use crate::ir::{Ir, Table};
use crate::meter::CountedMeter;
use crate::native::Native;
use crate::tables::TableState;
use crate::tables::key;
use std::sync::Arc;
use weir_program::value::{parse_value, value_bytes};
use weir_program::{CellBytes, LoadError};

const CELLS: CellBytes = CellBytes {
    meter: size_of::<CountedMeter>() as u64,
    counter: size_of::<CounterValue>() as u64,
};

/// A program compiled from BMv2 JSON, ready to run. Immutable; tables and other state live in the switch.
#[derive(Debug, Clone)]
pub struct Program {
    pub(crate) info: ProgramInfo,
    pub(crate) ir: Ir,
    /// None if only the interpreter can run it.
    pub(crate) native: Option<Arc<Native>>,
}

impl Program {
    /// Reads and compiles the JSON that `p4c-bm2-ss` writes for v1model.
    ///
    /// # Errors
    /// [`LoadError`] names the construct that is missing, malformed or not supported, and its location in the JSON.
    pub fn from_json(json: &[u8]) -> Result<Self, LoadError> {
        let (info, ir) = weir_program::load(json, CELLS)?;
        let native = Native::compile(&info, &ir).map(Arc::new);
        let program = Self { info, ir, native };
        for (info, spec) in program.info.tables.iter().zip(&program.ir.tables) {
            let mut table = TableState::new(spec, &program.ir.actions, 0);
            program
                .insert_const_entries(info, spec, &mut table)
                .map_err(|e| LoadError::Invalid {
                    location: format!("tables {:?} entries", info.name),
                    what: e.to_string(),
                })?;
        }
        Ok(program)
    }

    /// The declarations of the program, by name.
    pub fn info(&self) -> &ProgramInfo {
        &self.info
    }

    /// Whether it can run as machine code. The interpreter runs a program that is too large, and every program on a
    /// processor that the code generator does not support.
    pub fn has_code(&self) -> bool {
        self.native.is_some()
    }

    /// The state that each packet may find changed by the packets before it, by its name in the program; None if there is none,
    /// so that several switches with the same entries treat a stream of packets as one does, whoever of them has a packet.
    ///
    /// Counters are no such state: no packet reads them, and those of several switches add up.
    pub fn shared_state(&self) -> Option<String> {
        let info = &self.info;
        let register = info.registers.first();
        let register = register.map(|register| format!("register {}", register.name));
        let meter = || {
            info.meters
                .first()
                .map(|meter| format!("meter {}", meter.name))
        };
        let digest = || {
            info.digests
                .first()
                .map(|digest| format!("digest {}", digest.name))
        };
        let idle = || {
            let table = info.tables.iter().find(|table| table.support_timeout)?;
            Some(format!("the idle times of table {}", table.name))
        };
        let random = || {
            let draws = self.ir.draws_random_numbers();
            draws.then(|| "the sequence of random numbers".to_owned())
        };
        register
            .or_else(meter)
            .or_else(digest)
            .or_else(idle)
            .or_else(random)
    }

    /// Allows changes to the initial entries of a table and new entries, up to `size` in all: BMv2 JSON does not
    /// distinguish `entries` from `const entries`, the p4info does.
    pub fn allow_entry_changes(&mut self, table: TableId, size: usize) {
        if let Some(info) = self.info.tables.get_mut(table.index()) {
            info.const_entries = false;
            info.size = info.size.max(size);
        }
    }

    /// Tables with their const and default entries.
    pub(crate) fn fresh_tables(&self, seed: u64, now_ns: u64) -> Vec<TableState> {
        let fresh = |(info, spec): (&TableInfo, &Table)| {
            let mut table = TableState::new(spec, &self.ir.actions, seed);
            // `from_json` inserted the same entries into such a table and would have refused a bad one.
            let inserted = self.insert_const_entries(info, spec, &mut table);
            debug_assert!(inserted.is_ok());
            for slot in table.slots() {
                if let Some(idle) = table.idle_mut() {
                    idle.start(slot, 0, now_ns);
                }
            }
            table
        };
        self.info
            .tables
            .iter()
            .zip(&self.ir.tables)
            .map(fresh)
            .collect()
    }

    fn insert_const_entries(
        &self,
        info: &TableInfo,
        spec: &Table,
        table: &mut TableState,
    ) -> Result<(), ControlError> {
        for entry in &spec.entries {
            let (key, rank) = key::encode(info, spec, &entry.key, entry.priority)?;
            if table.find(&key, rank).is_some() {
                return Err(ControlError::Duplicate {
                    table: info.name.clone(),
                });
            }
            let action = spec
                .actions
                .get(usize::from(entry.action))
                .copied()
                .unwrap_or(0);
            let call = ActionCall {
                action: ActionId(u32::from(action)),
                args: entry.args.clone(),
            };
            let action = self.encode_action(info, spec, &call)?;
            table.insert(key, rank, entry.priority, action);
        }
        Ok(())
    }

    /// Checks an action call: its index in the table's list, and its arguments as words.
    pub(crate) fn encode_action(
        &self,
        info: &TableInfo,
        spec: &Table,
        call: &ActionCall,
    ) -> Result<(u16, Box<[u64]>), ControlError> {
        let Some(action) = self.info.actions.get(call.action.index()) else {
            let count = self.info.actions.len();
            return Err(ControlError::UnknownId {
                kind: "action",
                id: call.action.0,
                count,
            });
        };
        let local = info
            .actions
            .iter()
            .position(|a| *a == call.action)
            .and_then(|i| u16::try_from(i).ok());
        let Some(local) = local else {
            let names = info
                .actions
                .iter()
                .filter_map(|a| self.info.actions.get(a.index()));
            let valid: Vec<&str> = names.map(|a| a.name.as_str()).collect();
            return Err(ControlError::ActionNotInTable {
                table: info.name.clone(),
                action: action.name.clone(),
                valid: valid.join(", "),
            });
        };
        let invalid = |reason| ControlError::InvalidArguments {
            action: action.name.clone(),
            reason,
        };
        if call.args.len() != action.params.len() {
            return Err(invalid(format!(
                "{} arguments given, it has {}",
                call.args.len(),
                action.params.len()
            )));
        }
        let compiled = spec
            .actions
            .get(usize::from(local))
            .and_then(|a| self.ir.actions.get(usize::from(*a)));
        let mut words = Vec::with_capacity(compiled.map_or(0, |a| usize::from(a.arg_words)));
        for (arg, param) in call.args.iter().zip(&action.params) {
            let value = parse_value(arg, param.width_bits);
            words.extend(value.map_err(|e| invalid(format!("parameter {}: {e}", param.name)))?);
        }
        Ok((local, words.into()))
    }

    /// The action call that these words encode.
    pub(crate) fn decode_action(&self, spec: &Table, local: u16, words: &[u64]) -> ActionCall {
        let action = spec.actions.get(usize::from(local)).copied().unwrap_or(0);
        let params = self
            .ir
            .actions
            .get(usize::from(action))
            .map_or(&[][..], |a| a.params.as_slice());
        let args = params
            .iter()
            .map(|(word, width)| {
                value_bytes(words.get(usize::from(*word)..).unwrap_or_default(), *width)
            })
            .collect();
        ActionCall {
            action: ActionId(u32::from(action)),
            args,
        }
    }
}
