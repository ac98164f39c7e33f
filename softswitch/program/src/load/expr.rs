// SPDX-License-Identifier: Apache-2.0
//! Expressions: reads type-value objects to trees.
//!
//! BMv2 computes with unbounded integers and the compiler inserts masks. Here the loader bounds every value: what
//! provably fits 64 bits (or is masked to bits that wrapping arithmetic keeps exact) becomes narrow code.

use super::layout::Layout;
use super::{Result, invalid, unsupported};
use crate::ir::{AnyField, Ir, Op};
use crate::wide::Wide;
use serde_json::Value;

/// The widest number, with room for the sign.
type Number = Wide<33>;

/// An expression tree.
#[derive(Debug, Clone)]
pub enum Ast {
    /// A constant.
    Const(Box<Number>),
    /// A field.
    Field(AnyField),
    /// An action argument.
    Arg {
        /// Its first word.
        word: u16,
        /// Its width in bits.
        width: u32,
    },
    /// Bits of the packet beyond the cursor (parser only).
    Lookahead {
        /// Bits between the cursor and the first of them.
        bit_offset: u32,
        /// Their number.
        width: u32,
    },
    /// A field of a stack's element at a computed index.
    Element {
        /// The stack.
        stack: u16,
        /// The element's index.
        index: Box<Ast>,
        /// The field in the first element.
        field: AnyField,
    },
    /// The validity of a stack's element at a computed index.
    ElementValid {
        /// The stack.
        stack: u16,
        /// The element's index.
        index: Box<Ast>,
    },
    /// A field of the last extracted element of a stack.
    Last {
        /// The stack.
        stack: u16,
        /// The field in the first element.
        field: AnyField,
    },
    /// The index of the last extracted element of a stack.
    LastIndex(u16),
    /// Whether a header union has a valid member.
    ValidUnion(u16),
    /// Two headers whose varbit fields are compared.
    VarbitEqual(u16, u16),
    /// An operation on one value.
    Unary(Op, Box<Ast>),
    /// An operation on two values.
    Binary(Op, Box<Ast>, Box<Ast>),
    /// Condition, value if it is true, value if it is false.
    Select(Box<Ast>, Box<Ast>, Box<Ast>),
}

impl Ast {
    fn constant(value: Number) -> Self {
        Self::Const(Box::new(value))
    }
}

/// A header named in an expression.
pub(super) enum HeaderAst {
    Fixed(u16),
    Element { stack: u16, index: Box<Ast> },
}

/// The names that expressions refer to.
#[derive(Clone, Copy)]
pub(super) struct Scope<'a> {
    pub ir: &'a Ir,
    pub layout: &'a Layout,
    /// First word and width of each parameter of the enclosing action.
    pub params: &'a [(u16, u32)],
    pub location: &'a str,
}

/// Parses `0x…`, `-0x…` (of at most 2048 bits).
pub(super) fn hexstr(text: &str, location: &str) -> Result<Number> {
    let (negative, digits) = text
        .strip_prefix('-')
        .map_or((false, text), |rest| (true, rest));
    let digits = digits.strip_prefix("0x").unwrap_or(digits);
    let mut value = Number::ZERO;
    if digits.is_empty() || digits.len() > 512 {
        return Err(invalid(
            location,
            format!("{text:?} is not a hexadecimal number of 1 to 512 digits"),
        ));
    }
    for (i, digit) in (0_u32..).zip(digits.chars().rev()) {
        let digit = digit.to_digit(16).ok_or_else(|| {
            invalid(
                location,
                format!("{text:?} is not a hexadecimal number such as 0x0800"),
            )
        })?;
        value.or_shifted(u64::from(digit), i * 4);
    }
    Ok(if negative { value.neg() } else { value })
}

pub(super) fn pair<'v>(value: &'v Value, location: &str) -> Result<(&'v Value, &'v str)> {
    match value.as_array().map(Vec::as_slice) {
        Some([first, Value::String(second)]) => Ok((first, second)),
        _ => Err(invalid(
            location,
            format!("{value} is not a [header, field] pair"),
        )),
    }
}

pub(super) fn text<'v>(value: &'v Value, location: &str) -> Result<&'v str> {
    value
        .as_str()
        .ok_or_else(|| invalid(location, format!("{value} is not a name")))
}

fn number(value: &Value, location: &str) -> Result<u32> {
    let number = value.as_u64().and_then(|n| u32::try_from(n).ok());
    number.ok_or_else(|| invalid(location, format!("{value} is not a number")))
}

impl Scope<'_> {
    /// Reads a type-value object that is a number or a Boolean.
    pub(super) fn read(&self, json: &Value) -> Result<Ast> {
        let location = self.location;
        let Some(object) = json.as_object() else {
            return Err(invalid(
                location,
                format!("{json} is not a value of an expression"),
            ));
        };
        if object.contains_key("op") {
            return self.operation(json);
        }
        let value = object.get("value").unwrap_or(&Value::Null);
        match object
            .get("type")
            .and_then(Value::as_str)
            .unwrap_or_default()
        {
            "expression" => self.read(value),
            "hexstr" => Ok(Ast::constant(hexstr(text(value, location)?, location)?)),
            "bool" => Ok(Ast::constant(Number::from_u64(u64::from(
                value.as_bool().unwrap_or(false),
            )))),
            "field" => {
                let (header, field) = pair(value, location)?;
                match header {
                    // p4c writes `stack.last.member.field` of a stack of unions like this.
                    Value::String(stack) if self.layout.union_stacks.contains_key(stack) => {
                        let (member, field) = field.split_once('.').unwrap_or((field, ""));
                        self.union_last(stack, member, field)
                    }
                    Value::String(header) => Ok(Ast::Field(
                        self.layout.field(self.ir, header, field, location)?,
                    )),
                    dynamic => self.header_field(self.header(dynamic)?, field),
                }
            }
            "local" | "runtime_data" => {
                let index = number(value, location)? as usize;
                let (word, width) = self.params.get(index).copied().ok_or_else(|| {
                    invalid(
                        location,
                        format!("parameter {index}, the action has {}", self.params.len()),
                    )
                })?;
                Ok(Ast::Arg { word, width })
            }
            "lookahead" => {
                let [offset, width] = value.as_array().map_or(&[][..], Vec::as_slice) else {
                    return Err(invalid(
                        location,
                        format!("lookahead {value} is not [bit offset, bit width]"),
                    ));
                };
                let (bit_offset, width) = (number(offset, location)?, number(width, location)?);
                if width == 0 || width > 2048 || bit_offset > 1 << 20 {
                    return Err(unsupported(location, format!("lookahead of {width} bits")));
                }
                Ok(Ast::Lookahead { bit_offset, width })
            }
            "union_stack_field" => {
                let [stack, member, field] = value.as_array().map_or(&[][..], Vec::as_slice) else {
                    return Err(invalid(
                        location,
                        format!("{value} is not [stack, member, field]"),
                    ));
                };
                self.union_last(
                    text(stack, location)?,
                    text(member, location)?,
                    text(field, location)?,
                )
            }
            "stack_field" => {
                let (stack, field) = pair(value, location)?;
                let stack = self.layout.stack(text(stack, location)?, location)?;
                let first = self
                    .ir
                    .stacks
                    .get(usize::from(stack))
                    .map_or(0, |s| s.first_header);
                Ok(Ast::Last {
                    stack,
                    field: self.layout.field_of(self.ir, first, field, location)?,
                })
            }
            other => Err(unsupported(
                location,
                format!("a value of type {other:?} in an expression"),
            )),
        }
    }

    /// A field of a member of the last extracted union of a stack.
    fn union_last(&self, stack: &str, member: &str, field: &str) -> Result<Ast> {
        let stack = self.layout.union_member(stack, member, self.location)?;
        let field = self.element_field(stack, field)?;
        Ok(Ast::Last { stack, field })
    }

    /// A field of a stack's elements: that of the first one.
    fn element_field(&self, stack: u16, field: &str) -> Result<AnyField> {
        let stack = self.ir.stacks.get(usize::from(stack));
        let first = stack.map_or(0, |stack| stack.first_header);
        self.layout.field_of(self.ir, first, field, self.location)
    }

    /// The header of a varbit field, if an object is one.
    pub(super) fn varbit(&self, json: &Value) -> Option<u16> {
        let value = json.get("value")?;
        match json.get("type").and_then(Value::as_str) {
            Some("expression") => self.varbit(value),
            Some("field") => {
                let (header, field) = pair(value, self.location).ok()?;
                let header = self
                    .layout
                    .header_of_field(header.as_str()?, self.location)
                    .ok()?;
                self.layout.is_varbit(header, field).then_some(header)
            }
            _ => None,
        }
    }

    /// Reads an object that is a header.
    pub(super) fn header(&self, json: &Value) -> Result<HeaderAst> {
        let location = self.location;
        let value = json.get("value").unwrap_or(&Value::Null);
        match json.get("type").and_then(Value::as_str) {
            Some("header") => Ok(HeaderAst::Fixed(
                self.layout.header(text(value, location)?, location)?,
            )),
            Some("expression") => self.header(value),
            None if json.get("op").and_then(Value::as_str) == Some("dereference_header_stack") => {
                let left = json
                    .get("left")
                    .and_then(|l| l.get("value"))
                    .unwrap_or(&Value::Null);
                let stack = self.layout.stack(text(left, location)?, location)?;
                let index = Box::new(self.read(json.get("right").unwrap_or(&Value::Null))?);
                Ok(HeaderAst::Element { stack, index })
            }
            _ => Err(unsupported(location, format!("{json} as a header"))),
        }
    }

    fn header_field(&self, header: HeaderAst, field: &str) -> Result<Ast> {
        match header {
            HeaderAst::Fixed(header) => Ok(Ast::Field(self.layout.field_of(
                self.ir,
                header,
                field,
                self.location,
            )?)),
            HeaderAst::Element { stack, index } if field == "$valid$" => {
                Ok(Ast::ElementValid { stack, index })
            }
            HeaderAst::Element { stack, index } => {
                let field = self.element_field(stack, field)?;
                Ok(Ast::Element {
                    stack,
                    index,
                    field,
                })
            }
        }
    }

    fn operation(&self, json: &Value) -> Result<Ast> {
        let location = self.location;
        let part = |name: &str| json.get(name).unwrap_or(&Value::Null);
        let op = text(part("op"), location)?;
        let binary = |op| -> Result<Ast> {
            Ok(Ast::Binary(
                op,
                Box::new(self.read(part("left"))?),
                Box::new(self.read(part("right"))?),
            ))
        };
        let unary = |op| -> Result<Ast> { Ok(Ast::Unary(op, Box::new(self.read(part("right"))?))) };
        let cast = |make: fn(u32) -> Op| -> Result<Ast> {
            let Ast::Const(width) = self.read(part("right"))? else {
                return Err(invalid(location, format!("{op} needs a constant width")));
            };
            let width = u32::try_from(width.to_u64_saturating())
                .ok()
                .filter(|w| (1..=2048).contains(w));
            let width = width.ok_or_else(|| {
                invalid(location, format!("{op} to a width that is not 1 to 2048"))
            })?;
            Ok(Ast::Unary(make(width), Box::new(self.read(part("left"))?)))
        };
        match op {
            "+" => binary(Op::Add),
            "-" if part("left").is_null() => {
                let zero = Box::new(Ast::constant(Number::ZERO));
                Ok(Ast::Binary(
                    Op::Sub,
                    zero,
                    Box::new(self.read(part("right"))?),
                ))
            }
            "-" => binary(Op::Sub),
            "*" => binary(Op::Mul),
            "/" => binary(Op::Div),
            "%" => binary(Op::Rem),
            "<<" => binary(Op::Shl),
            ">>" => binary(Op::Shr),
            "==" | "!=" if self.varbit(part("left")).is_some() => {
                let (left, right) = (self.varbit(part("left")), self.varbit(part("right")));
                let (Some(left), Some(right)) = (left, right) else {
                    let what = "a variable-length field compared with something else";
                    return Err(unsupported(location, what.into()));
                };
                let equal = Ast::VarbitEqual(left, right);
                Ok(match op {
                    "==" => equal,
                    _ => Ast::Unary(Op::BoolNot, Box::new(equal)),
                })
            }
            "==" => binary(Op::Eq),
            "!=" => binary(Op::Ne),
            "<" => binary(Op::Lt),
            "<=" => binary(Op::Le),
            ">" => binary(Op::Gt),
            ">=" => binary(Op::Ge),
            "&" => binary(Op::And),
            "|" => binary(Op::Or),
            "^" => binary(Op::Xor),
            "and" => binary(Op::BoolAnd),
            "or" => binary(Op::BoolOr),
            "not" => unary(Op::BoolNot),
            "~" => unary(Op::BitNot),
            "d2b" | "b2d" => self.read(part("right")),
            "two_comp_mod" => cast(Op::TwoCompMod),
            "sat_cast" => cast(Op::SatCast),
            "usat_cast" => cast(Op::USatCast),
            "?" => Ok(Ast::Select(
                Box::new(self.read(part("cond"))?),
                Box::new(self.read(part("left"))?),
                Box::new(self.read(part("right"))?),
            )),
            "valid" => self.header_field(self.header(part("right"))?, "$valid$"),
            "valid_union" => {
                let name = part("right").get("value").unwrap_or(&Value::Null);
                Ok(Ast::ValidUnion(
                    self.layout.union(text(name, location)?, location)?,
                ))
            }
            "access_field" => {
                let index = number(part("right"), location)? as usize;
                match self.header(part("left"))? {
                    HeaderAst::Fixed(header) => {
                        Ok(Ast::Field(self.layout.field_at(header, index, location)?))
                    }
                    HeaderAst::Element { stack, index: at } => {
                        let first = self
                            .ir
                            .stacks
                            .get(usize::from(stack))
                            .map_or(0, |s| s.first_header);
                        let field = self.layout.field_at(first, index, location)?;
                        Ok(Ast::Element {
                            stack,
                            index: at,
                            field,
                        })
                    }
                }
            }
            "last_stack_index" | "size_stack" => {
                let operand = part(if part("right").is_null() {
                    "left"
                } else {
                    "right"
                });
                let name = operand.get("value").unwrap_or(&Value::Null);
                let last = Ast::LastIndex(self.layout.stack(text(name, location)?, location)?);
                if op == "last_stack_index" {
                    return Ok(last);
                }
                Ok(Ast::Binary(
                    Op::Add,
                    Box::new(last),
                    Box::new(Ast::constant(Number::from_u64(1))),
                ))
            }
            other => Err(unsupported(location, format!("the operation {other:?}"))),
        }
    }
}
