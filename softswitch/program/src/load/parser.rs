// SPDX-License-Identifier: Apache-2.0
//! Parser states.

use super::action::primitive_text;
use super::bound::lookahead_bits;
use super::emit::{Demand, compile};
use super::expr::{Ast, Scope, hexstr, text};
use super::{Loader, Result, dangling, invalid, unsupported};
use crate::info::ParserStepText;
use crate::ir::{
    AnyField, FastState, HeaderOrNext, ParseState, ParserErrors, ParserOp, SELECT_WORDS,
    SelectCase, SelectPart, Target,
};
use crate::wide::Wide;
use serde_json::Value;
use std::collections::HashMap;
use weir_bmv2_json::{self as json, Primitive, Transition};

const SELECT_BITS: u32 = 64 * 8;

impl Loader<'_> {
    pub(super) fn parser(&mut self) -> Result<()> {
        let [parser] = self.json.parsers.as_slice() else {
            return Err(invalid(
                "parsers",
                format!("{} parsers; v1model has one", self.json.parsers.len()),
            ));
        };
        self.ir.errors = errors(&self.json.errors)?;
        self.value_sets()?;
        let mut states = HashMap::new();
        for (index, state) in (0_u16..).zip(&parser.parse_states) {
            states.insert(state.name.as_str(), index);
        }
        let find = |name: &str, location: &str| {
            states
                .get(name)
                .copied()
                .ok_or_else(|| dangling(location, "parser state", name))
        };
        let start = parser
            .init_state
            .as_deref()
            .map(|name| find(name, &format!("parsers {:?}", parser.name)));
        self.ir.start = start.transpose()?;
        for state in &parser.parse_states {
            let location = format!("parser state {:?}", state.name);
            let mut compiled = ParseState::default();
            let mut texts = Vec::new();
            for op in &state.parser_ops {
                let location = format!("{location} {}", op.op);
                if let Some(compiled_op) = self.parser_op(op, &location)? {
                    texts.push(step_text(op, &location)?);
                    compiled.ops.push(compiled_op);
                }
            }
            self.info.log_names.parser_steps.push(texts);
            for key in &state.transition_key {
                let part = self.select_part(key, &mut compiled, &location)?;
                compiled.key_bits += part.width.div_ceil(8) * 8;
                compiled.key.push(part);
            }
            if compiled.key_bits > SELECT_BITS {
                let what = format!(
                    "a select over {} bits ({SELECT_BITS} are the most)",
                    compiled.key_bits
                );
                return Err(unsupported(&location, what));
            }
            for transition in &state.transitions {
                let next = transition
                    .next_state
                    .as_deref()
                    .map(|name| find(name, &location))
                    .transpose()?;
                if transition.kind.as_deref() == Some("parse_vset") {
                    self.value_set_transition(&mut compiled, transition, next, &location)?;
                } else {
                    add_transition(&mut compiled, transition, next, &location)?;
                }
            }
            compiled.fast = FastState::new(&compiled, &self.ir.headers, self.ir.metadata_bytes);
            self.ir.states.push(compiled);
        }
        self.unmatched_value_sets();
        Ok(())
    }

    fn select_part(
        &mut self,
        key: &Value,
        state: &mut ParseState,
        location: &str,
    ) -> Result<SelectPart> {
        let unsigned = |field: AnyField| match field {
            AnyField::Narrow(f) => AnyField::Narrow(crate::ir::Field { signed: false, ..f }),
            AnyField::Wide(f) => AnyField::Wide(crate::ir::WideField { signed: false, ..f }),
        };
        let ast = Scope {
            ir: &self.ir,
            layout: &self.layout,
            params: &[],
            location,
        }
        .read(key)?;
        let (ast, width) = match ast {
            Ast::Field(field) => (Ast::Field(unsigned(field)), field.width()),
            Ast::Last { stack, field } => (
                Ast::Last {
                    stack,
                    field: unsigned(field),
                },
                field.width(),
            ),
            Ast::Lookahead { width, .. } => (ast, width),
            _ => return Err(unsupported(location, format!("{key} in a select"))),
        };
        state.lookahead_bits = state.lookahead_bits.max(lookahead_bits(&ast));
        let value = compile(&mut self.ir, &ast, Demand::Low(width), location)?;
        Ok(SelectPart { value, width })
    }

    fn parser_op(&mut self, op: &json::ParserOp, location: &str) -> Result<Option<ParserOp>> {
        let given = |index: usize| {
            op.parameters
                .get(index)
                .ok_or_else(|| invalid(location, format!("parameter {index} is missing")))
        };
        Ok(Some(match op.op.as_str() {
            "extract" => match self.extracted(given(0)?, location)? {
                HeaderOrNext::Header(header) => ParserOp::Extract(header),
                HeaderOrNext::Next(stack) => ParserOp::ExtractNext(stack),
            },
            "extract_VL" => {
                let header = self.extracted(given(0)?, location)?;
                let (length_bits, _) = self.parser_value(given(1)?, Demand::Exact, location)?;
                ParserOp::ExtractVarbit {
                    header,
                    length_bits,
                }
            }
            "set" if self.is_varbit(given(0)?, location) => {
                ParserOp::Prim(self.varbit_assignment(given(0)?, given(1)?, location)?)
            }
            "set" => {
                let target: Target = self.target(given(0)?, &[], location)?;
                let (value, lookahead_bits) =
                    self.parser_value(given(1)?, Demand::Low(target.width()), location)?;
                ParserOp::Set {
                    target,
                    value,
                    lookahead_bits,
                }
            }
            "verify" => {
                let (condition, first) = self.parser_value(given(0)?, Demand::Exact, location)?;
                let (error, second) = self.parser_value(given(1)?, Demand::Exact, location)?;
                ParserOp::Verify {
                    condition,
                    error,
                    lookahead_bits: first.max(second),
                }
            }
            "advance" => {
                let (bits, lookahead_bits) =
                    self.parser_value(given(0)?, Demand::Exact, location)?;
                ParserOp::Advance {
                    bits,
                    lookahead_bits,
                }
            }
            "primitive" => {
                let primitive = called(given(0)?, location)?;
                if primitive.op.starts_with("_jump") {
                    return Err(unsupported(
                        location,
                        format!("the primitive {:?} in a parser", primitive.op),
                    ));
                }
                let location = format!("{location} {}", primitive.op);
                return Ok(self
                    .primitive(&primitive, &[], &location)?
                    .map(ParserOp::Prim));
            }
            other => {
                return Err(unsupported(
                    location,
                    format!("the parser operation {other:?}"),
                ));
            }
        }))
    }

    fn extracted(&self, json: &Value, location: &str) -> Result<HeaderOrNext> {
        let value = json.get("value").unwrap_or(&Value::Null);
        match json.get("type").and_then(Value::as_str) {
            Some("regular") => {
                let header = self.layout.header(text(value, location)?, location)?;
                if self
                    .ir
                    .headers
                    .get(usize::from(header))
                    .is_some_and(|h| h.metadata)
                {
                    return Err(invalid(
                        location,
                        format!("{value} is metadata, it is not on the wire"),
                    ));
                }
                Ok(HeaderOrNext::Header(header))
            }
            Some("union_stack") => {
                let (stack, member) = super::expr::pair(value, location)?;
                let stack = text(stack, location)?;
                let stack = self.layout.union_member(stack, member, location)?;
                Ok(HeaderOrNext::Next(stack))
            }
            Some("stack") => Ok(HeaderOrNext::Next(
                self.layout.stack(text(value, location)?, location)?,
            )),
            other => Err(unsupported(location, format!("extracting into {other:?}"))),
        }
    }
}

/// The primitive that a step of a state calls.
fn called(given: &Value, location: &str) -> Result<Primitive> {
    let parameters = given.get("parameters").and_then(Value::as_array);
    Ok(Primitive {
        op: text(given.get("op").unwrap_or(&Value::Null), location)?.to_owned(),
        parameters: parameters.cloned().unwrap_or_default(),
        source_info: given.get("source_info").cloned().unwrap_or_default(),
    })
}

/// A step as bmv2 logs it.
fn step_text(op: &json::ParserOp, location: &str) -> Result<ParserStepText> {
    let parameter = |index: usize, key: &str| op.parameters.get(index).and_then(|p| p.get(key));
    let kind = |index: usize| parameter(index, "type").and_then(Value::as_str);
    let field = |index: usize| {
        let value = parameter(index, "value")?.as_array()?;
        Some(format!(
            "{}.{}",
            value.first()?.as_str()?,
            value.get(1)?.as_str()?
        ))
    };
    match op.op.as_str() {
        "set" => {
            let to = field(0).unwrap_or_default();
            let (from, after) = match kind(1) {
                Some("field") => (
                    format!("from field '{}' (", field(1).unwrap_or_default()),
                    ")",
                ),
                Some("lookahead") => {
                    let number =
                        |at: usize| parameter(1, "value").and_then(|value| value.get(at)?.as_u64());
                    let (bit, width) = (number(0).unwrap_or(0), number(1).unwrap_or(0));
                    (
                        format!("from lookahead ({bit}, {width}), new value is "),
                        "",
                    )
                }
                Some("expression") => ("from expression, new value is ".to_owned(), ""),
                _ => ("to ".to_owned(), ""),
            };
            let before = format!("Parser set: setting field '{to}' {from}");
            Ok(ParserStepText::Set { before, after })
        }
        "primitive" => {
            let given = op.parameters.first().unwrap_or(&Value::Null);
            let primitive = called(given, location)?;
            let text = primitive_text(&primitive);
            let name = primitive.op;
            Ok(ParserStepText::Call { name, text })
        }
        _ => Ok(ParserStepText::None),
    }
}

fn add_transition(
    state: &mut ParseState,
    transition: &Transition,
    next: Option<u16>,
    location: &str,
) -> Result<()> {
    let kind = transition.kind.as_deref().or(transition.value.as_deref());
    match kind {
        Some("default") => {
            // Nothing after a default can match.
            if state.default.is_none() {
                state.default = Some(next);
            }
            Ok(())
        }
        _ if state.default.is_some() => Ok(()),
        _ => {
            if state.key.is_empty() {
                return Err(invalid(
                    location,
                    "a transition on a value, but the state has no transition_key".into(),
                ));
            }
            let words =
                |number: &Wide<33>| -> [u64; SELECT_WORDS] { std::array::from_fn(|i| number.0[i]) };
            let read =
                |text: &Option<String>| text.as_deref().map(|t| hexstr(t, location)).transpose();
            let value = read(&transition.value)?
                .ok_or_else(|| invalid(location, "a transition without value".into()))?;
            let mask =
                read(&transition.mask)?.map_or([u64::MAX; SELECT_WORDS], |mask| words(&mask));
            state.cases.push(SelectCase {
                value: words(&value),
                mask,
                next,
            });
            Ok(())
        }
    }
}

/// Codes of the core library's errors; an error that the program does not list gets a code that it does not use.
fn errors(list: &[(String, i64)]) -> Result<ParserErrors> {
    let mut spare = list.iter().map(|(_, code)| *code).max().unwrap_or(0).max(0);
    let mut code = |name: &str| {
        let code = list
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, code)| *code)
            .unwrap_or_else(|| {
                spare = spare.saturating_add(1);
                if name == "NoError" { 0 } else { spare }
            });
        u32::try_from(code).map_err(|_| {
            invalid(
                "errors",
                format!("code {code} of {name}; 0 to 2^31 - 2 are valid"),
            )
        })
    };
    Ok(ParserErrors {
        no_error: code("NoError")?,
        packet_too_short: code("PacketTooShort")?,
        no_match: code("NoMatch")?,
        stack_out_of_bounds: code("StackOutOfBounds")?,
        header_too_short: code("HeaderTooShort")?,
        timeout: code("ParserTimeout")?,
        invalid_argument: code("ParserInvalidArgument")?,
    })
}
