// SPDX-License-Identifier: Apache-2.0
//! `ValueSetEntry`: the members of parser value sets.

use std::collections::HashSet;

use weir_p4runtime::p4::v1::{self, ValueSetMember};

use super::failure::Failure;
use super::matching::{self, Owner};
use super::write::Operation;
use super::{Node, parts};

impl Node {
    pub(super) fn write_value_set(
        &mut self,
        operation: Operation,
        entry: &v1::ValueSetEntry,
    ) -> Result<(), Failure> {
        let (pipeline, switch) = parts(&self.pipeline, &mut self.switch)?;
        operation.only_modify("ValueSetEntry")?;
        let view = pipeline.value_set(entry.value_set_id)?;
        if entry.members.len() > view.size {
            return Err(Failure::new(
                tonic::Code::ResourceExhausted,
                format!(
                    "value set {}: {} members were given, it takes {}",
                    view.name,
                    entry.members.len(),
                    view.size
                ),
            ));
        }
        let mut seen = HashSet::new();
        let mut members = Vec::with_capacity(entry.members.len());
        for (number, member) in entry.members.iter().enumerate() {
            let owner = Owner("value set", &view.name);
            let key = matching::to_dataplane(owner, &view.fields, &member.r#match)?;
            if !seen.insert(key.clone()) {
                return Err(Failure::new(
                    tonic::Code::AlreadyExists,
                    format!("{owner}: member {number} is given twice"),
                ));
            }
            members.push(key);
        }
        Ok(switch.set_value_set(view.id, &members)?)
    }

    /// The set with this id; 0: all sets.
    pub(super) fn value_sets(&self, id: u32) -> Result<Vec<v1::ValueSetEntry>, Failure> {
        let pipeline = self.pipeline_ref()?;
        if id != 0 {
            pipeline.value_set(id)?;
        }
        let Some(switch) = &self.switch else {
            return Ok(Vec::new());
        };
        let wanted = pipeline
            .value_sets
            .iter()
            .filter(|(known, _)| id == 0 || id == **known);
        wanted
            .map(|(id, view)| {
                let members = switch.value_set(view.id)?.iter();
                let member = |key: &Vec<weir_dataplane::KeyMatch>| ValueSetMember {
                    r#match: matching::to_p4runtime(&view.fields, key),
                };
                Ok(v1::ValueSetEntry {
                    value_set_id: *id,
                    members: members.map(member).collect(),
                })
            })
            .collect()
    }
}
