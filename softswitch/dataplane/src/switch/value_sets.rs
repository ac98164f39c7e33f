// SPDX-License-Identifier: Apache-2.0
//! Control of parser value sets.

use super::Switch;
use crate::control::KeyMatch;
use crate::error::ControlError;
use crate::info::ValueSetId;

impl Switch {
    /// Replaces all members of a parser value set; each has one match per field of the set, of any kind
    /// ([`KeyMatch::Exact`], `Ternary`, `Lpm`, `Range`, `Any`). A set starts empty.
    ///
    /// # Errors
    /// `UnknownId`, `ValueSetFull`, `InvalidValue` (which names member and field); the members stay as they were.
    pub fn set_value_set(
        &mut self,
        value_set: ValueSetId,
        members: &[Vec<KeyMatch>],
    ) -> Result<(), ControlError> {
        let infos = &self.program.info.value_sets;
        let state = self.externs.value_sets.get_mut(value_set.index());
        let (Some(info), Some(state)) = (infos.get(value_set.index()), state) else {
            return Err(unknown(value_set, infos.len()));
        };
        if members.len() > info.size {
            return Err(ControlError::ValueSetFull {
                value_set: info.name.clone(),
                size: info.size,
                given: members.len(),
            });
        }
        state
            .replace(&info.widths_bits, members)
            .map_err(|reason| ControlError::InvalidValue {
                what: format!("value set {}", info.name),
                reason,
            })
    }

    /// The members of a parser value set, as they were written.
    ///
    /// # Errors
    /// `UnknownId`.
    pub fn value_set(&self, value_set: ValueSetId) -> Result<&[Vec<KeyMatch>], ControlError> {
        let sets = &self.externs.value_sets;
        let set = sets.get(value_set.index());
        set.map(crate::value_set::ValueSet::members)
            .ok_or_else(|| unknown(value_set, sets.len()))
    }
}

fn unknown(id: ValueSetId, count: usize) -> ControlError {
    ControlError::UnknownId {
        kind: "value set",
        id: id.0,
        count,
    }
}
