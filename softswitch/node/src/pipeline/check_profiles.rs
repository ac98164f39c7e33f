// SPDX-License-Identifier: Apache-2.0
//! Compares the action profiles and value sets of a P4Info with the program's.

use std::collections::BTreeMap;

use weir_dataplane::{MatchKind, ProgramInfo};
use weir_p4runtime::p4::config::v1::action_profile::SelectorSizeSemantics;
use weir_p4runtime::p4::config::v1::{ActionProfile, P4Info, ValueSet};

use super::check::{Declared, mismatch, named};
use super::check_tables::{check_width, match_kind};
use super::views::{MatchFieldView, ProfileView, TableView, ValueSetView};
use crate::failure::Failure;

pub fn profiles(
    p4info: &P4Info,
    program: &ProgramInfo,
    tables: &BTreeMap<u32, TableView>,
) -> Result<BTreeMap<u32, ProfileView>, Failure> {
    let declared = Declared {
        kind: "action profile",
        objects: &program.profiles,
        name: |profile| &profile.name,
    };
    let view = |profile: &ActionProfile| {
        let (p4info_id, name) = named(profile.preamble.as_ref())?;
        let place = format!("action profile {name}");
        let (id, info) = declared.find(name, program.profile(name).map(|id| (id, id.0)))?;
        if profile.with_selector != info.selector {
            return Err(mismatch(
                &place,
                "having a selector",
                profile.with_selector,
                info.selector,
            ));
        }
        let used_by = tables
            .values()
            .filter(|t| t.profile == Some(p4info_id))
            .map(|t| t.p4info_id)
            .collect::<Vec<_>>();
        if used_by.len() != info.tables.len() {
            return Err(mismatch(
                &place,
                "the number of its tables",
                used_by.len(),
                info.tables.len(),
            ));
        }
        let limit = |what: &str, value: i64| {
            u64::try_from(value).map_err(|_| {
                Failure::invalid(format!("P4Info: {place}: {what} {value} is negative"))
            })
        };
        let sum_of_members = match &profile.selector_size_semantics {
            Some(SelectorSizeSemantics::SumOfMembers(members)) => Some(limit(
                "max_member_weight",
                i64::from(members.max_member_weight),
            )?),
            Some(SelectorSizeSemantics::SumOfWeights(_)) | None => None,
        };
        let view = ProfileView {
            p4info_id,
            id,
            name: name.to_owned(),
            tables: used_by,
            selector: profile.with_selector,
            size: limit("size", profile.size)?,
            max_group_size: limit("max_group_size", i64::from(profile.max_group_size))?,
            sum_of_members,
            weights_disallowed: profile.weights_disallowed,
        };
        Ok((p4info_id, view))
    };
    p4info.action_profiles.iter().map(view).collect()
}

pub fn value_sets(
    p4info: &P4Info,
    program: &ProgramInfo,
) -> Result<BTreeMap<u32, ValueSetView>, Failure> {
    let declared = Declared {
        kind: "value set",
        objects: &program.value_sets,
        name: |set| &set.name,
    };
    let view = |set: &ValueSet| {
        let (p4info_id, name) = named(set.preamble.as_ref())?;
        let place = format!("value set {name}");
        let (id, info) = declared.find(name, program.value_set(name).map(|id| (id, id.0)))?;
        if set.r#match.len() != info.widths_bits.len() {
            return Err(mismatch(
                &place,
                "the number of match fields",
                set.r#match.len(),
                info.widths_bits.len(),
            ));
        }
        let field = |(field, width): (&weir_p4runtime::p4::config::v1::MatchField, &u32)| {
            let place = format!("{place}: match field {}", field.id);
            let kind = match_kind(field).ok_or_else(|| {
                Failure::unimplemented(format!("P4Info: {place}: its kind of match"))
            })?;
            check_width(
                &place,
                field.bitwidth,
                *width,
                field.type_name.as_ref(),
                p4info,
            )?;
            Ok(MatchFieldView {
                id: field.id,
                name: field.name.clone(),
                kind,
                optional_as_ternary: kind == MatchKind::Optional,
                width_bits: *width,
            })
        };
        let fields = set.r#match.iter().zip(&info.widths_bits).map(field);
        let view = ValueSetView {
            id,
            name: name.to_owned(),
            fields: fields.collect::<Result<_, Failure>>()?,
            size: usize::try_from(set.size).unwrap_or(0).min(info.size),
        };
        Ok((p4info_id, view))
    };
    p4info.value_sets.iter().map(view).collect()
}
