// SPDX-License-Identifier: Apache-2.0
//! Expressions as p4c writes them: unbounded integers, with a mask or a cast where P4's types wrap or saturate.

use std::fmt::Write;

use serde_json::{Value, json};

use super::declared::{Declared, Field, Stack, width};
use crate::choices::Choices;

/// The names that an expression may use.
#[derive(Clone, Copy)]
pub struct Scope<'d> {
    pub declared: &'d Declared,
    /// Widths of the action's parameters.
    pub params: &'d [u32],
    /// In a parser: an expression may look ahead.
    pub parser: bool,
}

/// Operations below each other.
pub const DEPTH: u32 = 3;

/// A constant of the lowest `width` bits of some bytes.
pub fn constant(choices: &mut Choices<'_>, width: u32) -> Value {
    json!({"type": "hexstr", "value": hex(choices, width)})
}

/// A number of so many bits, in digits: small, random, or with all bits set.
pub fn hex(choices: &mut Choices<'_>, width: u32) -> String {
    let mut digits = String::from("0x");
    let kind = choices.u8(..4);
    let count = width.div_ceil(4);
    for at in (0..count).rev() {
        let most = if at == count - 1 && !width.is_multiple_of(4) {
            (1 << (width % 4)) - 1
        } else {
            15
        };
        let digit = match kind {
            0 => choices.u8(..=most),
            1 => most,
            _ if at == 0 => choices.u8(..=most.min(3)),
            _ => 0,
        };
        let _ = write!(digits, "{digit:x}");
    }
    digits
}

/// The number `2^width - 1`.
fn ones(width: u32) -> Value {
    let mut digits = String::from("0x");
    if !width.is_multiple_of(4) {
        let _ = write!(digits, "{:x}", (1 << (width % 4)) - 1);
    }
    digits.extend((0..width / 4).map(|_| 'f'));
    json!({"type": "hexstr", "value": digits})
}

fn small(number: u32) -> Value {
    json!({"type": "hexstr", "value": format!("0x{number:x}")})
}

fn operation(op: &str, left: &Value, right: &Value) -> Value {
    json!({"type": "expression", "value": {"op": op, "left": left, "right": right}})
}

fn unary(op: &str, right: &Value) -> Value {
    operation(op, &Value::Null, right)
}

fn masked(value: &Value, width: u32) -> Value {
    operation("&", value, &ones(width))
}

impl Scope<'_> {
    /// A number of `width` bits without sign.
    pub fn number(self, choices: &mut Choices<'_>, width: u32, depth: u32) -> Value {
        if depth == 0 || choices.u8(..4) == 0 {
            return self.leaf(choices, width);
        }
        let depth = depth - 1;
        match choices.u8(..19) {
            choice @ 0..3 => {
                let op = ["+", "-", "*"][usize::from(choice)];
                let (left, right) = self.two(choices, width, depth);
                masked(&operation(op, &left, &right), width)
            }
            choice @ 3..6 => {
                let op = ["&", "|", "^"][usize::from(choice - 3)];
                let (left, right) = self.two(choices, width, depth);
                operation(op, &left, &right)
            }
            6 => masked(&unary("~", &self.number(choices, width, depth)), width),
            7 => masked(&unary("-", &self.number(choices, width, depth)), width),
            8 => {
                let (value, by) = self.shift(choices, width, depth);
                masked(&operation("<<", &value, &by), width)
            }
            9 => {
                let (value, by) = self.shift(choices, width, depth);
                operation(">>", &value, &by)
            }
            10 => {
                let condition = self.boolean(choices, depth);
                let (left, right) = self.two(choices, width, depth);
                select(&condition, &left, &right)
            }
            11 => {
                let below = choices.u32(..9);
                let value = self.number(choices, width + below, depth);
                masked(&operation(">>", &value, &small(below)), width)
            }
            12 if width >= 2 => {
                let low = choices.u32(1..width);
                let high = self.number(choices, width - low, depth);
                let low_part = self.number(choices, low, depth);
                operation("|", &operation("<<", &high, &small(low)), &low_part)
            }
            13 => {
                let op = if choices.bool() { "+" } else { "-" };
                let (left, right) = self.two(choices, width, depth);
                operation("usat_cast", &operation(op, &left, &right), &small(width))
            }
            14 if width >= 2 => masked(&self.signed(choices, width, depth), width),
            15 => {
                let op = if choices.bool() { "/" } else { "%" };
                let left = self.number(choices, width, depth);
                operation(op, &left, &constant(choices, width))
            }
            16 => unary("b2d", &self.boolean(choices, depth)),
            17 => {
                let wider = width + choices.u32(..70);
                masked(&self.number(choices, wider, depth), width)
            }
            _ => self.leaf(choices, width),
        }
    }

    fn two(self, choices: &mut Choices<'_>, width: u32, depth: u32) -> (Value, Value) {
        let left = self.number(choices, width, depth);
        (left, self.number(choices, width, depth))
    }

    fn shift(self, choices: &mut Choices<'_>, width: u32, depth: u32) -> (Value, Value) {
        let value = self.number(choices, width, depth);
        let by = if choices.bool() {
            small(choices.u32(..=width + 2))
        } else {
            self.number(choices, 8, depth)
        };
        (value, by)
    }

    fn leaf(self, choices: &mut Choices<'_>, width: u32) -> Value {
        let declared = self.declared;
        match choices.u8(..10) {
            0..2 => constant(choices, width),
            2 if self.parser => {
                let offset = choices.u32(..20);
                json!({"type": "lookahead", "value": [offset, width.min(64)]})
            }
            2..4 if !self.params.is_empty() => {
                let at = choices.usize(..self.params.len());
                let value = json!({"type": "local", "value": at});
                cut(&value, self.params[at], width)
            }
            4 if !declared.stacks.is_empty() => self.of_stack(choices, width),
            _ => match choices.choice(&declared.fields) {
                Some(field) if field.signed => masked(&field.value(), width),
                Some(field) => cut(&field.value(), field.width, width),
                None => constant(choices, width),
            },
        }
    }

    /// A field of an element of a stack, or the index of the last element.
    fn of_stack(self, choices: &mut Choices<'_>, width: u32) -> Value {
        let Some(stack) = choices.choice(&self.declared.stacks) else {
            return constant(choices, width);
        };
        if choices.u8(..4) == 0 {
            let last = json!({"type": "header_stack", "value": stack.name});
            return masked(&unary("last_stack_index", &last), width);
        }
        let Some(field) = choices.choice(&stack.fields) else {
            return constant(choices, width);
        };
        let value = if choices.bool() {
            json!({"type": "stack_field", "value": [stack.name, field.name]})
        } else {
            self.element_field(choices, stack, field)
        };
        if field.signed {
            masked(&value, width)
        } else {
            cut(&value, field.width, width)
        }
    }

    /// A field of an element at a computed index.
    pub fn element_field(self, choices: &mut Choices<'_>, stack: &Stack, field: &Field) -> Value {
        json!({"type": "field", "value": [self.element(choices, stack), field.name]})
    }

    /// An element at a computed index, sometimes beyond the end.
    fn element(self, choices: &mut Choices<'_>, stack: &Stack) -> Value {
        let named = json!({"type": "header_stack", "value": stack.name});
        let index = if choices.u8(..4) == 0 {
            self.number(choices, 8, 1)
        } else {
            small(choices.u32(..stack.size as u32))
        };
        operation("dereference_header_stack", &named, &index)
    }

    /// A number of `width` bits with sign, in two's complement.
    pub fn signed(self, choices: &mut Choices<'_>, width: u32, depth: u32) -> Value {
        let same = |field: &&Field| field.signed && field.width == width;
        if depth == 0 || choices.u8(..4) == 0 {
            let fields: Vec<&Field> = self.declared.fields.iter().filter(same).collect();
            return match choices.choice(&fields) {
                Some(field) => field.value(),
                None => {
                    let value = self.leaf(choices, width);
                    operation("two_comp_mod", &value, &small(width))
                }
            };
        }
        let depth = depth - 1;
        let (left, right) = (
            self.signed(choices, width, depth),
            self.signed(choices, width, depth),
        );
        match choices.u8(..9) {
            choice @ 0..3 => {
                let op = ["+", "-", "*"][usize::from(choice)];
                operation("two_comp_mod", &operation(op, &left, &right), &small(width))
            }
            choice @ 3..5 => {
                let op = ["+", "-"][usize::from(choice - 3)];
                operation("sat_cast", &operation(op, &left, &right), &small(width))
            }
            5 => {
                // Never negative, so that the switch computes it in 64 bits.
                let (left, right) = self.two(choices, width, depth);
                operation("sat_cast", &operation("+", &left, &right), &small(width))
            }
            6 => operation(">>", &left, &small(choices.u32(..=width))),
            7 => select(&self.boolean(choices, depth), &left, &right),
            _ => {
                let shifted = operation("<<", &left, &small(choices.u32(..9)));
                operation("two_comp_mod", &shifted, &small(width))
            }
        }
    }

    /// A condition.
    pub fn boolean(self, choices: &mut Choices<'_>, depth: u32) -> Value {
        let declared = self.declared;
        if depth == 0 || choices.u8(..5) == 0 {
            return match choices.u8(..4) {
                0 => json!({"type": "bool", "value": choices.bool()}),
                1 => unary("d2b", &self.leaf(choices, 1)),
                2 if !declared.unions.is_empty() => {
                    let union = choices.choice(&declared.unions);
                    unary(
                        "valid_union",
                        &json!({"type": "header_union", "value": union}),
                    )
                }
                _ => match choices.choice(&declared.addable) {
                    Some(header) => unary(
                        "d2b",
                        &json!({"type": "field", "value": [header, "$valid$"]}),
                    ),
                    None => json!({"type": "bool", "value": true}),
                },
            };
        }
        let depth = depth - 1;
        let compare = ["==", "!=", "<", "<=", ">", ">="];
        match choices.u8(..10) {
            0 => operation(
                "and",
                &self.boolean(choices, depth),
                &self.boolean(choices, depth),
            ),
            1 => operation(
                "or",
                &self.boolean(choices, depth),
                &self.boolean(choices, depth),
            ),
            2 => unary("not", &self.boolean(choices, depth)),
            3 => {
                let width = width(choices).max(2);
                let op = choices.choice(compare).unwrap_or("==");
                let (left, right) = (
                    self.signed(choices, width, depth),
                    self.signed(choices, width, depth),
                );
                operation(op, &left, &right)
            }
            4 if !declared.stacks.is_empty() => match choices.choice(&declared.stacks) {
                Some(stack) => unary("valid", &self.element(choices, stack)),
                None => json!({"type": "bool", "value": false}),
            },
            5 if declared
                .headers
                .iter()
                .filter(|header| header.varbit)
                .count()
                > 1 =>
            {
                let varied = |header| json!({"type": "field", "value": [header, "varied"]});
                operation("==", &varied("v0"), &varied("v1"))
            }
            _ => {
                let width = width(choices);
                let op = choices.choice(compare).unwrap_or("==");
                let (left, right) = self.two(choices, width, depth);
                operation(op, &left, &right)
            }
        }
    }

    /// A value that a field of this type can be assigned.
    pub fn fitting(self, choices: &mut Choices<'_>, width: u32, signed: bool) -> Value {
        if signed {
            self.signed(choices, width, DEPTH)
        } else {
            self.number(choices, width, DEPTH)
        }
    }
}

/// A value of `from` bits as one of `to` bits.
fn cut(value: &Value, from: u32, to: u32) -> Value {
    if from <= to {
        value.clone()
    } else {
        masked(value, to)
    }
}

fn select(condition: &Value, left: &Value, right: &Value) -> Value {
    json!({"type": "expression", "value": {
        "op": "?", "cond": condition, "left": left, "right": right
    }})
}
