// SPDX-License-Identifier: Apache-2.0
//! A pipeline configuration: the program together with the P4Info that describes it.
//!
//! P4Runtime uses P4Info ids, the dataplane its own ids. [`Pipeline::check`] looks up every object by name once, and
//! refuses a P4Info that does not describe the program.

mod check;
mod check_profiles;
mod check_tables;
mod device_config;
#[cfg(test)]
mod tests;
mod types;
mod views;

use std::collections::BTreeMap;

use weir_dataplane::{CounterId, MeterId, Program, ProgramInfo, RegisterId};
use weir_p4runtime::p4::config::v1::P4Info;
use weir_p4runtime::p4::config::v1::meter_spec::Type as MeterType;
use weir_p4runtime::p4::v1::ForwardingPipelineConfig;

use super::failure::{Failure, listed_ids};
pub use types::{DataShape, Member, MemberKind};
pub use views::{
    ActionRefView, ActionView, ArrayView, DigestView, MatchFieldView, MetadataView, ParamView,
    ProfileView, TableView, ValueSetView, kind_name,
};

/// A consistent pipeline configuration.
#[derive(Debug, Clone)]
pub struct Pipeline {
    /// The client's message.
    pub config: ForwardingPipelineConfig,
    /// Tables by p4info id.
    pub tables: BTreeMap<u32, TableView>,
    /// Actions by p4info id.
    pub actions: BTreeMap<u32, ActionView>,
    /// Indirect meters by p4info id.
    pub meters: BTreeMap<u32, ArrayView<MeterId, MeterType>>,
    /// Indirect counters by p4info id.
    pub counters: BTreeMap<u32, ArrayView<CounterId, ()>>,
    /// Registers by p4info id.
    pub registers: BTreeMap<u32, ArrayView<RegisterId, DataShape>>,
    /// Action profiles by p4info id.
    pub profiles: BTreeMap<u32, ProfileView>,
    /// Parser value sets by p4info id.
    pub value_sets: BTreeMap<u32, ValueSetView>,
    /// Digests by p4info id.
    pub digests: BTreeMap<u32, DigestView>,
    /// Header of packet-ins; None when the program declares none.
    pub packet_in: Option<Vec<MetadataView>>,
    /// Header of packet-outs; None when the program declares none.
    pub packet_out: Option<Vec<MetadataView>>,
}

impl Pipeline {
    /// Compiles the program of a configuration and checks that the P4Info describes it.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for malformed or inconsistent objects, `UNIMPLEMENTED` for unsupported ones; the text names the
    /// object.
    pub fn check(config: ForwardingPipelineConfig) -> Result<(Program, Self), Failure> {
        let Some(p4info) = &config.p4info else {
            return Err(Failure::invalid("config.p4info is missing"));
        };
        let json = device_config::json(&config.p4_device_config)?;
        let mut program = Program::from_json(&json)?;
        let pipeline = Self::describe(p4info.clone(), program.info(), config)?;
        for table in pipeline.tables.values() {
            if table.initial_entries_change {
                program.allow_entry_changes(table.id, table.size);
            }
        }
        Ok((program, pipeline))
    }

    fn describe(
        p4info: P4Info,
        program: &ProgramInfo,
        config: ForwardingPipelineConfig,
    ) -> Result<Self, Failure> {
        check::refuse_unsupported(&p4info)?;
        check::refuse_repeated_ids(&p4info)?;
        let tables = check_tables::tables(&p4info, program)?;
        Ok(Self {
            config,
            profiles: check_profiles::profiles(&p4info, program, &tables)?,
            value_sets: check_profiles::value_sets(&p4info, program)?,
            tables,
            actions: check_tables::actions(&p4info, program)?,
            meters: check::meters(&p4info, program)?,
            counters: check::counters(&p4info, program)?,
            registers: check::registers(&p4info, program)?,
            digests: check::digests(&p4info, program)?,
            packet_in: check::controller_header(&p4info, "packet_in")?,
            packet_out: check::controller_header(&p4info, "packet_out")?,
        })
    }

    /// The table with this p4info id.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT`, with the valid ids.
    pub fn table(&self, id: u32) -> Result<&TableView, Failure> {
        find(&self.tables, id, "table", |table| &table.name)
    }

    /// The indirect meter with this p4info id.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT`, with the valid ids.
    pub fn meter(&self, id: u32) -> Result<&ArrayView<MeterId, MeterType>, Failure> {
        find(&self.meters, id, "meter", |meter| &meter.name)
    }

    /// The indirect counter with this p4info id.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT`, with the valid ids.
    pub fn counter(&self, id: u32) -> Result<&ArrayView<CounterId, ()>, Failure> {
        find(&self.counters, id, "counter", |counter| &counter.name)
    }

    /// The register with this p4info id.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT`, with the valid ids.
    pub fn register(&self, id: u32) -> Result<&ArrayView<RegisterId, DataShape>, Failure> {
        find(&self.registers, id, "register", |register| &register.name)
    }

    /// The action profile with this p4info id.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT`, with the valid ids.
    pub fn profile(&self, id: u32) -> Result<&ProfileView, Failure> {
        find(&self.profiles, id, "action profile", |profile| {
            &profile.name
        })
    }

    /// The value set with this p4info id.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT`, with the valid ids.
    pub fn value_set(&self, id: u32) -> Result<&ValueSetView, Failure> {
        find(&self.value_sets, id, "value set", |set| &set.name)
    }

    /// The digest with this p4info id.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT`, with the valid ids.
    pub fn digest(&self, id: u32) -> Result<&DigestView, Failure> {
        find(&self.digests, id, "digest", |digest| &digest.name)
    }
}

fn find<'a, T>(
    objects: &'a BTreeMap<u32, T>,
    id: u32,
    kind: &str,
    name: impl Fn(&T) -> &String,
) -> Result<&'a T, Failure> {
    objects.get(&id).ok_or_else(|| {
        let valid = listed_ids(objects.iter().map(|(id, o)| (*id, name(o).as_str())));
        Failure::invalid(format!(
            "no {kind} has id {id} in the P4Info; its {kind}s are {valid}"
        ))
    })
}
