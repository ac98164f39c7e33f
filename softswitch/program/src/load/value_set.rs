// SPDX-License-Identifier: Apache-2.0
//! Parser value sets: their declarations, and the transitions that match on them.

use super::{Loader, Result, dangling, invalid};
use crate::info::ValueSetInfo;
use crate::ir::{ParseState, SetCase};
use weir_bmv2_json::Transition;

impl Loader<'_> {
    pub(super) fn value_sets(&mut self) -> Result<()> {
        for (index, set) in (0_u16..).zip(&self.json.parse_vsets) {
            let location = format!("parse_vsets {:?}", set.name);
            if set.compressed_bitwidth == 0 {
                return Err(invalid(&location, "members of 0 bits".into()));
            }
            self.info.value_sets.push(ValueSetInfo {
                name: set.name.clone(),
                size: set
                    .max_size
                    .and_then(|size| usize::try_from(size).ok())
                    .unwrap_or(usize::MAX),
                // The fields are those of the first `select` that matches on the set.
                widths_bits: Vec::new(),
            });
            self.names.value_sets.insert(set.name.clone(), index);
        }
        Ok(())
    }

    /// Sets that no `select` matches on get one field.
    pub(super) fn unmatched_value_sets(&mut self) {
        for (info, set) in self.info.value_sets.iter_mut().zip(&self.json.parse_vsets) {
            if info.widths_bits.is_empty() {
                info.widths_bits.push(set.compressed_bitwidth);
            }
        }
    }

    pub(super) fn value_set_transition(
        &mut self,
        state: &mut ParseState,
        transition: &Transition,
        next: Option<u16>,
        location: &str,
    ) -> Result<()> {
        if state.default.is_some() {
            return Ok(());
        }
        let name = transition.value.as_deref().unwrap_or_default();
        let set = self.names.value_sets.get(name).copied();
        let set = set.ok_or_else(|| dangling(location, "parser value set", name))?;
        let Some(info) = self.info.value_sets.get_mut(usize::from(set)) else {
            return Err(dangling(location, "parser value set", name));
        };
        let widths: Vec<u32> = state.key.iter().map(|part| part.width).collect();
        let asked_bits: u32 = widths.iter().sum();
        let bits = self.json.parse_vsets[usize::from(set)].compressed_bitwidth;
        if asked_bits != bits || !(info.widths_bits.is_empty() || info.widths_bits == widths) {
            return Err(invalid(
                location,
                format!(
                    "select over fields of {widths:?} bits asks the value set {name:?} of {bits} bits"
                ),
            ));
        }
        info.widths_bits = widths;
        state.set_cases.push(SetCase {
            before: state.cases.len(),
            set,
            next,
        });
        Ok(())
    }
}
