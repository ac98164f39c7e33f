// SPDX-License-Identifier: Apache-2.0
//! Holds the action profiles and value sets of a P4Info against the program's.

use std::collections::BTreeMap;

use weir_dataplane::{MatchKind, ProfileId, ProgramInfo, ValueSetId};
use weir_p4runtime::p4::config::v1::action_profile::SelectorSizeSemantics;
use weir_p4runtime::p4::config::v1::{ActionProfile, P4Info, ValueSet};

use super::check::{absent, mismatch, named};
use super::check_tables::{check_width, match_kind};
use super::{MatchFieldView, TableView};
use crate::node::failure::Failure;

/// An action profile or selector.
#[derive(Debug, Clone)]
pub struct ProfileView {
    /// Id in the p4info.
    pub p4info_id: u32,
    /// Id in the dataplane.
    pub id: ProfileId,
    /// Name.
    pub name: String,
    /// P4Info ids of its tables.
    pub tables: Vec<u32>,
    /// It has groups.
    pub selector: bool,
    /// Most members, or largest sum of weights of all groups; 0: not limited.
    pub size: u64,
    /// Most members, or largest sum of weights, of one group; 0: not limited.
    pub max_group_size: u64,
    /// Sizes count members, with this limit of a member's weight (0: none); else they count weights.
    pub sum_of_members: Option<u64>,
    /// Weights must be 0.
    pub weights_disallowed: bool,
}

/// A parser value set.
#[derive(Debug, Clone)]
pub struct ValueSetView {
    /// Id in the dataplane.
    pub id: ValueSetId,
    /// Name.
    pub name: String,
    /// Match fields, in the dataplane's order.
    pub fields: Vec<MatchFieldView>,
    /// Most members.
    pub size: usize,
}

pub fn profiles(
    p4info: &P4Info,
    program: &ProgramInfo,
    tables: &BTreeMap<u32, TableView>,
) -> Result<BTreeMap<u32, ProfileView>, Failure> {
    let names = || program.profiles.iter().map(|p| p.name.as_str());
    let view = |profile: &ActionProfile| {
        let (p4info_id, name) = named(profile.preamble.as_ref())?;
        let place = format!("action profile {name}");
        let id = program
            .profile(name)
            .ok_or_else(|| absent("action profile", name, names()))?;
        let info = program
            .profiles
            .get(id.0 as usize)
            .ok_or_else(|| absent("action profile", name, names()))?;
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
    let names = || program.value_sets.iter().map(|v| v.name.as_str());
    let view = |set: &ValueSet| {
        let (p4info_id, name) = named(set.preamble.as_ref())?;
        let place = format!("value set {name}");
        let id = program
            .value_set(name)
            .ok_or_else(|| absent("value set", name, names()))?;
        let info = program
            .value_sets
            .get(id.0 as usize)
            .ok_or_else(|| absent("value set", name, names()))?;
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
