// SPDX-License-Identifier: Apache-2.0
//! Action profiles and selectors, and the tables that they implement.

use super::{Loader, Result, dangling, invalid, unsupported};
use crate::info::{ProfileId, ProfileInfo, TableId};
use crate::ir::{Profile, ProfileUse};
use weir_bmv2_json::{Pipeline, Table as JsonTable};

impl Loader<'_> {
    pub(super) fn profiles(&mut self, pipeline: &Pipeline) -> Result<()> {
        for profile in &pipeline.action_profiles {
            let location = format!("action_profiles {:?}", profile.name);
            let calculation = match &profile.selector {
                None => None,
                Some(selector) => {
                    Some(self.calculation(&selector.algo, &selector.input, &location)?)
                }
            };
            let index = u16::try_from(self.ir.profiles.len())
                .map_err(|_| unsupported(&location, "more than 65,535 action profiles".into()))?;
            self.ir.profiles.push(Profile { calculation });
            self.info.profiles.push(ProfileInfo {
                name: profile.name.clone(),
                size: usize::try_from(profile.max_size).unwrap_or(usize::MAX),
                selector: profile.selector.is_some(),
                tables: Vec::new(),
            });
            if self
                .names
                .profiles
                .insert(profile.name.clone(), index)
                .is_some()
            {
                return Err(invalid(&location, "stands twice".into()));
            }
        }
        Ok(())
    }

    /// The profile that implements a table, if one does.
    pub(super) fn profile_of(
        &mut self,
        json: &JsonTable,
        table: TableId,
        location: &str,
    ) -> Result<Option<(ProfileId, ProfileUse)>> {
        match json.kind.as_deref() {
            None | Some("simple") => return Ok(None),
            Some("indirect" | "indirect_ws") => {}
            Some(kind) => return Err(unsupported(location, format!("a table of type {kind:?}"))),
        }
        let name = json
            .action_profile
            .as_deref()
            .ok_or_else(|| invalid(location, "an indirect table without action_profile".into()))?;
        let profile = self
            .names
            .profiles
            .get(name)
            .copied()
            .ok_or_else(|| dangling(location, "action profile", name))?;
        if json.entries.is_some() {
            return Err(unsupported(location, "entries of an indirect table".into()));
        }
        let info = &mut self.info.profiles[usize::from(profile)];
        let user = u16::try_from(info.tables.len()).unwrap_or(u16::MAX);
        info.tables.push(table);
        Ok(Some((
            ProfileId(u32::from(profile)),
            ProfileUse { profile, user },
        )))
    }
}
