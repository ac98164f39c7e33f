// SPDX-License-Identifier: Apache-2.0
//! Compares the tables and actions of a P4Info with the program's.

use std::collections::{BTreeMap, BTreeSet};

use weir_dataplane::{MatchKind, ProgramInfo, TableId, TableInfo};
use weir_p4runtime::p4::config::v1::action_ref::Scope;
use weir_p4runtime::p4::config::v1::match_field::{Match, MatchType};
use weir_p4runtime::p4::config::v1::p4_new_type_spec::Representation;
use weir_p4runtime::p4::config::v1::p4_new_type_translation::SdnType;
use weir_p4runtime::p4::config::v1::{
    Action, ActionRef, MatchField, P4Info, P4NamedType, Preamble, Table,
};

use super::check::{Declared, absent, meter_type, mismatch, named};
use super::views::{ActionRefView, ActionView, MatchFieldView, ParamView, TableView, kind_name};
use crate::failure::{Failure, listed};

pub fn tables(p4info: &P4Info, program: &ProgramInfo) -> Result<BTreeMap<u32, TableView>, Failure> {
    let view = |table| table_view(table, p4info, program).map(|view| (view.p4info_id, view));
    p4info.tables.iter().map(view).collect()
}

fn table_view(table: &Table, p4info: &P4Info, program: &ProgramInfo) -> Result<TableView, Failure> {
    let (p4info_id, name) = named(table.preamble.as_ref())?;
    let declared = Declared {
        kind: "table",
        objects: &program.tables,
        name: |table: &TableInfo| &table.name,
    };
    let (id, info) = declared.find(name, program.table(name).map(|id| (id, id.0)))?;
    let place = format!("table {name}");
    if table.match_fields.len() != info.key.len() {
        return Err(mismatch(
            &place,
            "the number of match fields",
            table.match_fields.len(),
            info.key.len(),
        ));
    }
    let direct_meter = p4info
        .direct_meters
        .iter()
        .find(|m| m.direct_table_id == p4info_id);
    let direct_counter = p4info
        .direct_counters
        .iter()
        .any(|c| c.direct_table_id == p4info_id);
    if direct_meter.is_some() != info.direct_meter.is_some() {
        return Err(mismatch(
            &place,
            "having a direct meter",
            direct_meter.is_some(),
            info.direct_meter.is_some(),
        ));
    }
    if direct_counter != info.direct_counter.is_some() {
        return Err(mismatch(
            &place,
            "having a direct counter",
            direct_counter,
            info.direct_counter.is_some(),
        ));
    }
    if (table.implementation_id != 0) != info.profile.is_some() {
        return Err(mismatch(
            &place,
            "having an action profile",
            table.implementation_id != 0,
            info.profile.is_some(),
        ));
    }
    let initial_entries_change =
        info.const_entries && table.has_initial_entries && !table.is_const_table;
    if table.is_const_table && !info.const_entries {
        return Err(mismatch(&place, "is_const_table", true, false));
    }
    Ok(TableView {
        p4info_id,
        id,
        name: name.to_owned(),
        fields: match_fields(table, info, p4info, &place)?,
        actions: action_refs(table, id, p4info, program)?,
        needs_priority: info.needs_priority,
        is_const: info.const_entries && !initial_entries_change,
        initial_entries_change,
        size: usize::try_from(table.size).unwrap_or(0),
        profile: (table.implementation_id != 0).then_some(table.implementation_id),
        idle_timeout: table.idle_timeout_behavior != 0,
        direct_counter,
        direct_meter: direct_meter.map(|m| meter_type(m.spec.as_ref())),
    })
}

/// In the order of the program's key.
fn match_fields(
    table: &Table,
    info: &TableInfo,
    p4info: &P4Info,
    place: &str,
) -> Result<Vec<MatchFieldView>, Failure> {
    let described = info.key.iter().map(|key| {
        let field = table
            .match_fields
            .iter()
            .find(|f| f.name == key.name)
            .ok_or_else(|| {
                let there = listed(table.match_fields.iter().map(|f| f.name.as_str()));
                let message = format!(
                    "P4Info: {place}: match field {} of the program is missing; there are {there}",
                    key.name
                );
                Failure::invalid(message)
            })?;
        let place = format!("{place}: match field {}", field.name);
        check_width(
            &place,
            field.bitwidth,
            key.width_bits,
            field.type_name.as_ref(),
            p4info,
        )?;
        let Some(kind) = match_kind(field) else {
            return Err(Failure::unimplemented(format!(
                "P4Info: {place}: its kind of match"
            )));
        };
        let translated = u32::try_from(field.bitwidth) != Ok(key.width_bits);
        if translated && !matches!(kind, MatchKind::Exact | MatchKind::Optional) {
            let how = kind_name(kind);
            return Err(Failure::unimplemented(format!(
                "P4Info: {place}: a {how} match on a type translated to another width"
            )));
        }
        let optional_as_ternary = kind == MatchKind::Optional && key.kind == MatchKind::Ternary;
        if kind != key.kind && !optional_as_ternary {
            return Err(mismatch(
                &place,
                "the kind of match",
                kind_name(kind),
                kind_name(key.kind),
            ));
        }
        Ok(MatchFieldView {
            id: field.id,
            name: field.name.clone(),
            kind,
            optional_as_ternary,
            width_bits: key.width_bits,
        })
    });
    let fields: Vec<MatchFieldView> = described.collect::<Result<_, _>>()?;
    let ids: BTreeSet<u32> = fields.iter().map(|f| f.id).collect();
    if ids.len() != fields.len() {
        return Err(Failure::invalid(format!(
            "P4Info: {place}: two match fields have one id"
        )));
    }
    Ok(fields)
}

pub(super) fn match_kind(field: &MatchField) -> Option<MatchKind> {
    match &field.r#match {
        Some(Match::MatchType(kind)) => match MatchType::try_from(*kind).ok()? {
            MatchType::Exact => Some(MatchKind::Exact),
            MatchType::Lpm => Some(MatchKind::Lpm),
            MatchType::Ternary => Some(MatchKind::Ternary),
            MatchType::Range => Some(MatchKind::Range),
            MatchType::Optional => Some(MatchKind::Optional),
            MatchType::Unspecified => None,
        },
        Some(Match::OtherMatchType(_)) | None => None,
    }
}

/// Requires the P4Info's width to be the program's, except for a type to which `@p4runtime_translation` gives another width
/// for controllers. Such a value is the same number on both sides; one that the program cannot hold is out of range.
pub(super) fn check_width(
    place: &str,
    p4info_bits: i32,
    program_bits: u32,
    type_name: Option<&P4NamedType>,
    p4info: &P4Info,
) -> Result<(), Failure> {
    let new_types = p4info.type_info.as_ref().map(|types| &types.new_types);
    let new_type = type_name.and_then(|named| new_types?.get(&named.name));
    let translation = new_type.and_then(|t| match t.representation.as_ref()? {
        Representation::TranslatedType(translation) => translation.sdn_type.as_ref(),
        Representation::OriginalType(_) => None,
    });
    match translation {
        Some(SdnType::SdnBitwidth(bits)) if *bits > 0 => Ok(()),
        Some(SdnType::SdnBitwidth(_) | SdnType::SdnString(_)) => Err(Failure::unimplemented(
            format!("P4Info: {place}: @p4runtime_translation to a string"),
        )),
        None if u32::try_from(p4info_bits) == Ok(program_bits) => Ok(()),
        None => Err(mismatch(
            place,
            "the width in bits",
            p4info_bits,
            program_bits,
        )),
    }
}

fn action_refs(
    table: &Table,
    id: TableId,
    p4info: &P4Info,
    program: &ProgramInfo,
) -> Result<Vec<ActionRefView>, Failure> {
    let view = |reference: &ActionRef| {
        let (_, table_name) = named(table.preamble.as_ref())?;
        let has_id = |p: &&Preamble| p.id == reference.id;
        let preambles = p4info.actions.iter().filter_map(|a| a.preamble.as_ref());
        let name = preambles
            .clone()
            .find(has_id)
            .map(|p| p.name.as_str())
            .ok_or_else(|| {
                let message = format!(
                    "P4Info: table {table_name}: action id {} is not declared",
                    reference.id
                );
                Failure::invalid(message)
            })?;
        let action = program.table_action(id, name);
        let action = action.ok_or_else(|| {
            absent(
                &format!("table {table_name}: action"),
                name,
                names_of(program, id),
            )
        })?;
        let declared = p4info
            .actions
            .iter()
            .find(|a| a.preamble.as_ref().is_some_and(|p| p.id == reference.id));
        if let (Some(declared), Some(info)) = (declared, program.actions.get(action.0 as usize)) {
            let place = format!("action {name}");
            if declared.params.len() != info.params.len() {
                return Err(mismatch(
                    &place,
                    "the number of parameters",
                    declared.params.len(),
                    info.params.len(),
                ));
            }
            // Parameters are positional in both; different names show that the two were compiled from different sources.
            for (param, known) in declared.params.iter().zip(&info.params) {
                let place = format!("{place}: parameter {}", param.name);
                if param.name != known.name {
                    return Err(mismatch(&place, "the name", &param.name, &known.name));
                }
                check_width(
                    &place,
                    param.bitwidth,
                    known.width_bits,
                    param.type_name.as_ref(),
                    p4info,
                )?;
            }
        }
        let scope = Scope::try_from(reference.scope).unwrap_or(Scope::TableAndDefault);
        Ok(ActionRefView {
            p4info_id: reference.id,
            id: action,
            in_entries: scope != Scope::DefaultOnly,
            in_default: scope != Scope::TableOnly,
        })
    };
    table.action_refs.iter().map(view).collect()
}

fn names_of(program: &ProgramInfo, table: TableId) -> impl Iterator<Item = &str> {
    let ids = program
        .tables
        .get(table.0 as usize)
        .map_or(&[][..], |t| &t.actions);
    ids.iter()
        .filter_map(|id| program.actions.get(id.0 as usize))
        .map(|a| a.name.as_str())
}

pub fn actions(
    p4info: &P4Info,
    program: &ProgramInfo,
) -> Result<BTreeMap<u32, ActionView>, Failure> {
    let view = |action: &Action| {
        let (id, name) = named(action.preamble.as_ref())?;
        // For a translated type the program's width counts: values are the same numbers on both sides.
        let known = program.actions.iter().find(|a| a.name == name);
        let params = action.params.iter().enumerate().map(|(at, param)| {
            let width_bits = known.and_then(|a| a.params.get(at)).map_or_else(
                || u32::try_from(param.bitwidth).unwrap_or_default(),
                |p| p.width_bits,
            );
            ParamView {
                id: param.id,
                name: param.name.clone(),
                width_bits,
            }
        });
        Ok((
            id,
            ActionView {
                name: name.to_owned(),
                params: params.collect(),
            },
        ))
    };
    p4info.actions.iter().map(view).collect()
}
