// SPDX-License-Identifier: Apache-2.0
//! Valid programs made from a grammar, as p4c would compile them, in every way that the switch can run them.
//!
//! The loader must accept each. `declared` chooses headers and arrays, `expression` what is computed with them; `action`,
//! `parser` and `pipeline` write the sections that use both.

mod action;
mod declared;
mod expression;
mod parser;
mod pipeline;
mod witness;

use serde_json::{Value, json};
use weir_dataplane::Program;

use crate::choices::Choices;
use crate::differential;
use declared::{Declared, Field};
use expression::{Scope, hex};
use pipeline::Direct;

const FRAMES: usize = 24;

/// One of the two pipelines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gress {
    Ingress,
    Egress,
}

impl Gress {
    fn name(self) -> &'static str {
        match self {
            Self::Ingress => "ingress",
            Self::Egress => "egress",
        }
    }
}

/// Runs one generated program. True: frames left the switch.
pub fn run(choices: &mut Choices<'_>) -> Result<bool, String> {
    let json = program(choices);
    let program = Program::from_json(json.to_string().as_bytes())
        .map_err(|error| format!("a valid program is refused: {error}\n{json}"))?;
    differential::agree(&program, choices, FRAMES).map_err(|error| format!("{error}\n{json}"))
}

/// A program.
fn program(choices: &mut Choices<'_>) -> Value {
    let declared = Declared::new(choices);
    let mut program = declared.sections(choices);
    let calculations: Vec<Value> = declared
        .calculations
        .iter()
        .map(|name| calculation(choices, &declared, name))
        .chain([witness::calculation(&declared)])
        .collect();
    let actions = action::actions(choices, &declared);
    let (parser, value_sets) = parser::parser(choices, &declared);
    let mut direct = Direct::default();
    let pipelines = [Gress::Ingress, Gress::Egress]
        .map(|gress| pipeline::pipeline(choices, &declared, &actions, gress, &mut direct));
    for (section, more) in [
        ("counter_arrays", direct.counters),
        ("meter_arrays", direct.meters),
    ] {
        if let Some(arrays) = program[section].as_array_mut() {
            arrays.extend(more);
        }
    }
    let errors = [
        "NoError",
        "PacketTooShort",
        "NoMatch",
        "StackOutOfBounds",
        "HeaderTooShort",
        "ParserTimeout",
        "ParserInvalidArgument",
    ];
    program["__meta__"] = json!({"version": [2, 23], "compiler": "weir-fuzz"});
    program["program"] = json!("generated.p4");
    program["errors"] = errors
        .iter()
        .enumerate()
        .map(|(code, name)| json!([name, code]))
        .collect();
    program["checksums"] = Value::from(checksums(choices, &declared));
    program["calculations"] = Value::from(calculations);
    program["actions"] = actions.into_iter().map(|action| action.json).collect();
    program["parsers"] = json!([parser]);
    program["parse_vsets"] = Value::from(value_sets);
    program["pipelines"] = json!(pipelines);
    program["deparsers"] =
        json!([{"name": "deparser", "id": 0, "order": order(choices, &declared)}]);
    program
}

/// The headers that leave, nearly always all of them.
fn order(choices: &mut Choices<'_>, declared: &Declared) -> Vec<String> {
    let mut order = declared.addable.clone();
    if choices.u8(..8) == 0 {
        choices.shuffle(&mut order);
        order.pop();
    }
    order
}

fn calculation(choices: &mut Choices<'_>, declared: &Declared, name: &str) -> Value {
    let algorithms = ["csum16", "crc16", "crc32", "crcCCITT", "identity", "xor16"];
    let input: Vec<Value> = (0..choices.usize(1..5))
        .filter_map(|_| match choices.u8(..8) {
            0 => Some(json!({
                "type": "hexstr", "value": hex(choices, 16), "bitwidth": 16
            })),
            1 => {
                let header = choices.choice(&declared.headers)?;
                Some(json!({"type": "header", "value": header.name}))
            }
            _ => choices.choice(&declared.fields).map(Field::value),
        })
        .collect();
    json!({"name": name, "id": 0, "algo": choices.choice(algorithms), "input": input})
}

/// A checksum of a header, sometimes.
fn checksums(choices: &mut Choices<'_>, declared: &Declared) -> Vec<Value> {
    let scope = Scope {
        declared,
        params: &[],
        parser: false,
    };
    let one = |choices: &mut Choices<'_>| {
        let header = choices.choice(&declared.headers)?;
        let field = choices.choice(&header.fields)?;
        let calculation = choices.choice(&declared.calculations)?;
        let condition = choices.bool().then(|| scope.boolean(choices, 2));
        Some(json!({
            "name": "checksum", "id": 0, "target": field.pair(), "type": "generic",
            "calculation": calculation, "verify": choices.bool(), "update": true,
            "if_cond": condition
        }))
    };
    (0..choices.usize(..2))
        .filter_map(|_| one(choices))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_generated_program_is_loaded_and_most_forward() {
        let mut forwarding = 0;
        for seed in 0..200 {
            match run(&mut Choices::seeded(seed)) {
                Ok(forwards) => forwarding += usize::from(forwards),
                Err(wrong) => panic!("seed {seed}: {wrong}"),
            }
        }
        println!("{forwarding} of 200 programs forward frames");
        assert!(
            forwarding > 100,
            "{forwarding} of 200 programs forward frames"
        );
    }
}
