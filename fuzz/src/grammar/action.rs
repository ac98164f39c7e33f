// SPDX-License-Identifier: Apache-2.0
//! Actions: lists of primitives, with jumps where p4c has compiled a conditional statement.

use serde_json::{Value, json};

use super::Gress;
use super::declared::Declared;
use super::declared::width;
use super::expression::{DEPTH, Scope, constant};
use super::witness;
use crate::choices::Choices;

const MOST_PRIMITIVES: usize = 6;

/// An action of the program.
pub struct Action {
    pub name: String,
    pub id: usize,
    pub gress: Gress,
    /// Widths of its parameters.
    pub params: Vec<u32>,
    pub json: Value,
}

/// The actions of both pipelines; each has one without parameters.
pub fn actions(choices: &mut Choices<'_>, declared: &Declared) -> Vec<Action> {
    let mut actions = Vec::new();
    for gress in [Gress::Ingress, Gress::Egress] {
        for number in 0..choices.usize(1..5) {
            let id = actions.len();
            actions.push(action(choices, declared, (id, gress), number > 0));
        }
        if choices.u8(..3) == 0 {
            actions.push(witness::action(actions.len(), gress));
        }
    }
    actions
}

fn action(
    choices: &mut Choices<'_>,
    declared: &Declared,
    (id, gress): (usize, Gress),
    with_params: bool,
) -> Action {
    let count = if with_params { choices.usize(..4) } else { 0 };
    let params: Vec<u32> = (0..count).map(|_| width(choices)).collect();
    let scope = Scope {
        declared,
        params: &params,
        parser: false,
    };
    let count = choices.usize(1..=MOST_PRIMITIVES);
    let mut primitives: Vec<Value> = (0..count)
        .map(|number| match choices.u8(..12) {
            0 => {
                let to = choices.usize(number + 1..=count);
                let condition = scope.boolean(choices, DEPTH);
                primitive("_jump_if_zero", &[condition, number_of(to)])
            }
            1 if choices.bool() => {
                primitive("_jump", &[number_of(choices.usize(number + 1..=count))])
            }
            _ => statement(choices, scope, Some(gress)),
        })
        .collect();
    if gress == Gress::Ingress && id == 0 {
        // Most packets shall leave.
        let to = json!({"type": "field", "value": ["standard_metadata", "egress_spec"]});
        let port = number_of(choices.usize(..5));
        primitives.insert(0, primitive("assign", &[to, port]));
        for primitive in &mut primitives {
            renumber(primitive);
        }
    }
    let runtime_data: Vec<Value> = params
        .iter()
        .enumerate()
        .map(|(number, width)| json!({"name": format!("p{number}"), "bitwidth": width}))
        .collect();
    let name = format!("action{id}");
    let json = json!({
        "name": name, "id": id, "runtime_data": runtime_data, "primitives": primitives
    });
    Action {
        name,
        id,
        gress,
        params,
        json,
    }
}

/// Moves the target of a jump by one, for the primitive that was inserted before all.
fn renumber(primitive: &mut Value) {
    let at = match primitive["op"].as_str() {
        Some("_jump") => 0,
        Some("_jump_if_zero") => 1,
        _ => return,
    };
    let target = &mut primitive["parameters"][at]["value"];
    let number = target
        .as_str()
        .and_then(|hex| usize::from_str_radix(&hex[2..], 16).ok());
    *target = Value::from(format!("0x{:x}", number.unwrap_or(0) + 1));
}

pub fn primitive(op: &str, parameters: &[Value]) -> Value {
    json!({"op": op, "parameters": parameters})
}

pub fn number_of(number: usize) -> Value {
    json!({"type": "hexstr", "value": format!("0x{number:x}")})
}

/// A primitive that jumps nowhere; in a parser (`gress` is None) one that parsers may have.
pub fn statement(choices: &mut Choices<'_>, scope: Scope<'_>, gress: Option<Gress>) -> Value {
    let declared = scope.declared;
    let header = |choices: &mut Choices<'_>| {
        let name = choices.choice(&declared.addable);
        json!({"type": "header", "value": name})
    };
    match choices.u8(..32) {
        0 if declared.addable.len() > 1 => primitive("add_header", &[header(choices)]),
        1 if declared.addable.len() > 1 => primitive("remove_header", &[header(choices)]),
        2 => copy_header(choices, scope),
        3..5 if !declared.stacks.is_empty() => {
            let stack = choices.choice(&declared.stacks).map(|stack| &stack.name);
            let op = if choices.bool() { "push" } else { "pop" };
            let count = number_of(choices.usize(..4));
            primitive(
                op,
                &[json!({"type": "header_stack", "value": stack}), count],
            )
        }
        5 if declared.unions.len() > 1 => {
            let union = |name| json!({"type": "header_union", "value": name});
            primitive("assign_union", &[union("u0"), union("u1")])
        }
        6 if declared
            .headers
            .iter()
            .filter(|header| header.varbit)
            .count()
            > 1 =>
        {
            let varied = |header| json!({"type": "field", "value": [header, "varied"]});
            primitive("assign_VL", &[varied("v1"), varied("v0")])
        }
        7..10 if !declared.registers.is_empty() => register(choices, scope),
        10 | 11 if !declared.counters.is_empty() => {
            let array = choices.choice(&declared.counters).map(|array| &array.name);
            let index = scope.number(choices, 3, 1);
            primitive(
                "count",
                &[json!({"type": "counter_array", "value": array}), index],
            )
        }
        12 | 13 if !declared.meters.is_empty() => {
            let array = choices.choice(&declared.meters).map(|array| &array.name);
            let index = scope.number(choices, 3, 1);
            let array = json!({"type": "meter_array", "value": array});
            primitive("execute_meter", &[array, index, target(choices, scope).0])
        }
        14 | 15 if !declared.calculations.is_empty() => {
            let calculation = choices.choice(&declared.calculations);
            let (base, size) = (constant(choices, 16), constant(choices, 33));
            let calculation = json!({"type": "calculation", "value": calculation});
            let to = target(choices, scope).0;
            primitive(
                "modify_field_with_hash_based_offset",
                &[to, base, calculation, size],
            )
        }
        16 => {
            // Now and then there is no number from the least to the most.
            let bound = |choices: &mut Choices<'_>| match choices.choice(&declared.fields) {
                Some(field) if !field.signed && field.width <= 64 => field.value(),
                _ => number_of(choices.usize(..70_000)),
            };
            let (low, high) = (bound(choices), bound(choices));
            let to = target(choices, scope).0;
            primitive("modify_field_rng_uniform", &[to, low, high])
        }
        17 => {
            let values: Vec<Value> = (0..choices.u8(..3))
                .map(|_| scope.number(choices, 40, 1))
                .collect();
            let text = format!("said{}", " {}".repeat(values.len()));
            let text = json!({"type": "string", "value": text});
            primitive(
                "log_msg",
                &[text, json!({"type": "parameters_vector", "value": values})],
            )
        }
        18 => primitive("assert", &[scope.boolean(choices, DEPTH)]),
        19 if gress.is_some() && choices.u8(..3) == 0 => primitive(
            "mark_to_drop",
            &[json!({"type": "header", "value": "standard_metadata"})],
        ),
        20 if gress.is_some() && choices.u8(..3) == 0 => primitive("exit", &[]),
        21..24 => of_pipeline(choices, scope, gress),
        _ => assign(choices, scope),
    }
}

/// What only one of the pipelines may do.
fn of_pipeline(choices: &mut Choices<'_>, scope: Scope<'_>, gress: Option<Gress>) -> Value {
    let declared = scope.declared;
    let list = number_of(declared.field_list(choices));
    let session = number_of(choices.usize(..5));
    match (gress, choices.u8(..4)) {
        (Some(Gress::Ingress), 0) if declared.digests > 0 => {
            let digest = number_of(choices.usize(1..=declared.digests));
            primitive("generate_digest", &[number_of(1), digest])
        }
        (Some(Gress::Ingress), 1) => primitive("clone_ingress_pkt_to_egress", &[session, list]),
        (Some(Gress::Ingress), 2) => primitive("resubmit", &[list]),
        (Some(Gress::Egress), 0) => primitive("clone_egress_pkt_to_egress", &[session, list]),
        (Some(Gress::Egress), 1) => primitive("recirculate", &[list]),
        (Some(Gress::Egress), 2) => primitive("truncate", &[scope.number(choices, 8, 1)]),
        _ => assign(choices, scope),
    }
}

/// A place to write to, with width and sign.
fn target(choices: &mut Choices<'_>, scope: Scope<'_>) -> (Value, u32, bool) {
    if choices.u8(..8) == 0
        && let Some(stack) = choices.choice(&scope.declared.stacks)
        && let Some(field) = choices.choice(&stack.fields)
    {
        let value = if choices.bool() {
            json!({"type": "stack_field", "value": [stack.name, field.name]})
        } else {
            scope.element_field(choices, stack, field)
        };
        return (value, field.width, field.signed);
    }
    match choices.choice(&scope.declared.fields) {
        Some(field) => (field.value(), field.width, field.signed),
        None => (Value::Null, 1, false),
    }
}

fn assign(choices: &mut Choices<'_>, scope: Scope<'_>) -> Value {
    let (to, width, signed) = target(choices, scope);
    let value = scope.fitting(choices, width, signed);
    primitive("assign", &[to, value])
}

/// A copy between headers of one type.
fn copy_header(choices: &mut Choices<'_>, scope: Scope<'_>) -> Value {
    let headers = &scope.declared.headers;
    let Some(to) = choices.choice(headers) else {
        return assign(choices, scope);
    };
    let alike: Vec<_> = headers
        .iter()
        .filter(|other| other.kind == to.kind)
        .collect();
    let from = choices.choice(&alike).map(|from| &from.name);
    let header = |name: &str| json!({"type": "header", "value": name});
    primitive(
        "assign_header",
        &[header(&to.name), header(from.unwrap_or(&to.name))],
    )
}

fn register(choices: &mut Choices<'_>, scope: Scope<'_>) -> Value {
    let Some(register) = choices.choice(&scope.declared.registers) else {
        return assign(choices, scope);
    };
    let array = json!({"type": "register_array", "value": register.name});
    let index = scope.number(choices, 3, 1);
    if choices.bool() {
        primitive("register_read", &[target(choices, scope).0, array, index])
    } else {
        let value = scope.number(choices, register.width, 2);
        primitive("register_write", &[array, index, value])
    }
}
