// SPDX-License-Identifier: Apache-2.0
//! Parsers: states that extract, compute, and select the next state, which comes later or is the same.

use serde_json::{Value, json};

use super::action::statement;
use super::declared::{Declared, Field};
use super::expression::{Scope, hex};
use crate::choices::Choices;

/// The parser section, and the value sets that it matches on.
pub fn parser(choices: &mut Choices<'_>, declared: &Declared) -> (Value, Vec<Value>) {
    let mut sets = Vec::new();
    let count = (declared.headers.len() + declared.stacks.len()).max(1);
    let states: Vec<Value> = (0..count)
        .map(|number| state(choices, declared, (number, count), &mut sets))
        .collect();
    let init = if choices.u8(..20) == 0 {
        Value::Null
    } else {
        json!("state0")
    };
    let parser = json!({"name": "parser", "id": 0, "init_state": init, "parse_states": states});
    (parser, sets)
}

/// State `number` extracts a header, or elements of a stack as long as it follows itself.
fn state(
    choices: &mut Choices<'_>,
    declared: &Declared,
    (number, count): (usize, usize),
    sets: &mut Vec<Value>,
) -> Value {
    let scope = Scope {
        declared,
        params: &[],
        parser: true,
    };
    let mut ops = Vec::new();
    let mut fields: Vec<(Value, u32)> = Vec::new();
    let mut of = |list: &[Field], value: &dyn Fn(&Field) -> Value| {
        fields.extend(list.iter().map(|field| (value(field), field.width)));
    };
    let mut repeats = false;
    if let Some(header) = declared.headers.get(number) {
        let regular = json!({"type": "regular", "value": header.name});
        if header.varbit {
            // Whole bytes, now and then more than the header has.
            let length = json!({"type": "expression", "value": {
                "op": "<<", "left": scope.number(choices, 3, 1),
                "right": {"type": "hexstr", "value": "0x3"}
            }});
            ops.push(json!({"op": "extract_VL", "parameters": [regular, length]}));
        } else {
            ops.push(json!({"op": "extract", "parameters": [regular]}));
        }
        of(&header.fields, &Field::value);
    } else if let Some(stack) = declared.stacks.get(number - declared.headers.len()) {
        let next = json!({"type": "stack", "value": stack.name});
        ops.push(json!({"op": "extract", "parameters": [next]}));
        let last =
            |field: &Field| json!({"type": "stack_field", "value": [stack.name, field.name]});
        of(&stack.fields, &last);
        repeats = true;
    }
    for _ in 0..choices.u8(..8).saturating_sub(4) {
        ops.push(computed(choices, scope));
    }
    fields.push((
        json!({"type": "lookahead", "value": [choices.u32(..12), 8]}),
        8,
    ));
    fields.extend(
        declared
            .metadata
            .iter()
            .map(|field| (field.value(), field.width)),
    );
    fields.retain(|(_, width)| *width <= 130);
    let mut key = Vec::new();
    for _ in 0..choices.usize(..3) {
        key.extend(choices.choice(&fields).cloned());
    }
    let transitions = transitions(choices, &key, (number, count, repeats), sets);
    let key: Vec<Value> = key.into_iter().map(|(value, _)| value).collect();
    json!({
        "name": format!("state{number}"), "id": number, "parser_ops": ops,
        "transitions": transitions, "transition_key": key
    })
}

/// An operation that extracts nothing.
fn computed(choices: &mut Choices<'_>, scope: Scope<'_>) -> Value {
    match choices.u8(..6) {
        0 => {
            let condition = scope.boolean(choices, 2);
            let error = json!({"type": "hexstr", "value": format!("0x{:x}", choices.u8(..8))});
            json!({"op": "verify", "parameters": [condition, error]})
        }
        1 => {
            let bits = json!({"type": "hexstr", "value": format!("0x{:x}", 8 * choices.u8(..4))});
            json!({"op": "advance", "parameters": [bits]})
        }
        2 => json!({"op": "primitive", "parameters": [statement(choices, scope, None)]}),
        _ => match choices.choice(&scope.declared.fields) {
            Some(field) => {
                let value = if field.signed || choices.bool() {
                    scope.fitting(choices, field.width, field.signed)
                } else {
                    json!({"type": "lookahead", "value": [choices.u32(..40), field.width]})
                };
                json!({"op": "set", "parameters": [field.value(), value]})
            }
            None => json!({"op": "advance", "parameters": [{"type": "hexstr", "value": "0x8"}]}),
        },
    }
}

fn transitions(
    choices: &mut Choices<'_>,
    key: &[(Value, u32)],
    (number, count, repeats): (usize, usize, bool),
    sets: &mut Vec<Value>,
) -> Vec<Value> {
    let next = |choices: &mut Choices<'_>| {
        let first = if repeats { number } else { number + 1 };
        if first >= count || choices.u8(..8) == 0 {
            return Value::Null;
        }
        Value::from(format!("state{}", choices.usize(first..count)))
    };
    let mut list = Vec::new();
    // Each part of the key takes whole bytes.
    let bytes: u32 = key.iter().map(|(_, width)| width.div_ceil(8)).sum();
    for _ in 0..choices.usize(..4).min(key.len() * 4) {
        let (value, mask) = (hex(choices, 8 * bytes), hex(choices, 8 * bytes));
        let mask = if choices.bool() {
            json!(mask)
        } else {
            Value::Null
        };
        list.push(json!({
            "type": "hexstr", "value": value, "mask": mask, "next_state": next(choices)
        }));
    }
    if !key.is_empty() && choices.u8(..4) == 0 {
        let name = format!("set{}", sets.len());
        let bits: u32 = key.iter().map(|(_, width)| width).sum();
        sets.push(json!({
            "name": name, "id": sets.len(), "compressed_bitwidth": bits, "max_size": 4
        }));
        list.push(json!({
            "type": "parse_vset", "value": name, "mask": null, "next_state": next(choices)
        }));
    }
    if choices.u8(..8) > 0 {
        list.push(json!({
            "type": "default", "value": null, "mask": null, "next_state": next(choices)
        }));
    }
    list
}
