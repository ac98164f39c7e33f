// SPDX-License-Identifier: Apache-2.0
//! Action calls with their parameters, between P4Runtime and the dataplane; table entries and action profiles use them.

use tonic::Code;
use weir_dataplane::ActionCall;
use weir_p4runtime::p4::v1::table_action::Type as ActionType;
use weir_p4runtime::p4::v1::{self, TableAction, action};

use super::bytestring::{canonical, check, padded};
use super::failure::{Failure, listed};
use super::pipeline::{ActionRefView, ActionView, ParamView, Pipeline, TableView};

/// The dataplane's call for one of a table's actions; `allowed` says whether its scope permits the use.
///
/// # Errors
/// `PERMISSION_DENIED` for an action whose scope excludes the use, `INVALID_ARGUMENT` for one that the table does not have
/// and for parameters that do not fit.
pub fn direct_action(
    pipeline: &Pipeline,
    table: &TableView,
    action: &v1::Action,
    allowed: impl Fn(&ActionRefView) -> bool,
) -> Result<ActionCall, Failure> {
    let view = pipeline.actions.get(&action.action_id);
    let reference = table
        .actions
        .iter()
        .find(|r| r.p4info_id == action.action_id);
    match (view, reference) {
        (Some(view), Some(reference)) if allowed(reference) => Ok(ActionCall {
            action: reference.id,
            args: arguments(table, view, &action.params)?,
        }),
        (view, reference) => {
            let valid = table
                .actions
                .iter()
                .filter(|r| allowed(r))
                .filter_map(|r| pipeline.actions.get(&r.p4info_id));
            let valid = listed(valid.map(|a| a.name.as_str()));
            let given = view.map_or_else(|| action.action_id.to_string(), |v| v.name.clone());
            // The table has the action, but its scope excludes this use.
            let code = match reference {
                Some(_) => Code::PermissionDenied,
                None => Code::InvalidArgument,
            };
            let message = format!(
                "table {}: action {given} cannot be used here; valid are {valid}",
                table.name
            );
            Err(Failure::new(code, message))
        }
    }
}

fn arguments(
    table: &TableView,
    action: &ActionView,
    given: &[action::Param],
) -> Result<Vec<Vec<u8>>, Failure> {
    let place = || format!("table {}: action {}", table.name, action.name);
    if given.len() != action.params.len() {
        let valid = listed(action.params.iter().map(|p| p.name.as_str()));
        let (count, expected) = (given.len(), action.params.len());
        let message = format!(
            "{}: {count} parameters were given, it has {expected} ({valid})",
            place()
        );
        return Err(Failure::invalid(message));
    }
    let argument = |param: &ParamView| {
        let found = given
            .iter()
            .find(|g| g.param_id == param.id)
            .ok_or_else(|| {
                Failure::invalid(format!(
                    "{}: parameter {} (id {}) is missing",
                    place(),
                    param.name,
                    param.id
                ))
            })?;
        check(&found.value, param.width_bits, || {
            format!("{}: parameter {}", place(), param.name)
        })?;
        Ok(padded(&found.value, param.width_bits))
    };
    action.params.iter().map(argument).collect()
}

/// The P4Runtime form of an action call; None for an action that the P4Info does not list.
pub fn action_to_p4runtime(
    pipeline: &Pipeline,
    table: &TableView,
    call: &ActionCall,
) -> Option<TableAction> {
    let reference = table.actions.iter().find(|r| r.id == call.action)?;
    let view = pipeline.actions.get(&reference.p4info_id)?;
    let params = view.params.iter().zip(&call.args);
    let params = params.map(|(param, value)| action::Param {
        param_id: param.id,
        value: canonical(value),
    });
    let action = v1::Action {
        action_id: reference.p4info_id,
        params: params.collect(),
    };
    Some(TableAction {
        r#type: Some(ActionType::Action(action)),
    })
}
