// SPDX-License-Identifier: Apache-2.0
//! Actions: primitives by name to flat steps.

use super::bound::lookahead_bits;
use super::emit::{Demand, compile};
use super::expr::{Ast, HeaderAst, Scope, text};
use super::json::Primitive;
use super::layout::wide_field;
use super::{Loader, Result, dangling, invalid, unsupported};
use crate::info::{ActionInfo, ParamInfo};
use crate::ir::{Action, AnyField, Expr, HeaderRef, Prim, Target};
use serde_json::Value;

/// First word and width of each parameter.
pub(super) type Params = [(u16, u32)];

impl Loader<'_> {
    pub(super) fn actions(&mut self) -> Result<()> {
        for (index, action) in (0_u16..).zip(&self.json.actions) {
            let place = format!("actions {:?}", action.name);
            let mut params = Vec::new();
            let mut infos = Vec::new();
            let mut words = 0_u16;
            for param in &action.runtime_data {
                let width = param.bitwidth;
                if !(1..=2048).contains(&width) {
                    return Err(unsupported(
                        &place,
                        format!("parameter {:?} of {width} bits", param.name),
                    ));
                }
                params.push((words, width));
                let taken = u16::try_from(width.div_ceil(64)).unwrap_or(u16::MAX);
                words = words
                    .checked_add(taken)
                    .ok_or_else(|| unsupported(&place, "that many parameters".into()))?;
                infos.push(ParamInfo {
                    name: param.name.clone(),
                    width_bits: width,
                });
            }
            let prims = self.body(&action.primitives, &params, &place)?;
            self.ir.actions.push(Action {
                prims,
                params,
                arg_words: words,
            });
            self.info.actions.push(ActionInfo {
                name: action.name.clone(),
                params: infos,
            });
            if self.names.actions.insert(action.id, index).is_some() {
                return Err(invalid(
                    &place,
                    format!("action id {} is used twice", action.id),
                ));
            }
        }
        if self.json.actions.len() > usize::from(u16::MAX) {
            return Err(unsupported("actions", "more than 65,535 actions".into()));
        }
        Ok(())
    }

    /// Compiles a list of primitives; jumps are renumbered and may only go forward, so every action ends.
    pub(super) fn body(
        &mut self,
        primitives: &[Primitive],
        params: &Params,
        place: &str,
    ) -> Result<Vec<Prim>> {
        let mut prims = Vec::new();
        let mut starts = Vec::new();
        for (number, primitive) in primitives.iter().enumerate() {
            starts.push(u32::try_from(prims.len()).unwrap_or(u32::MAX));
            let place = format!("{place} primitive {number} ({})", primitive.op);
            if let Some(prim) = self.primitive(primitive, params, &place)? {
                if let Prim::Jump(to) | Prim::JumpIfZero { to, .. } = &prim
                    && (*to as usize <= number || *to as usize > primitives.len())
                {
                    return Err(invalid(
                        &place,
                        format!("jumps to {to}; only later primitives are valid"),
                    ));
                }
                prims.push(prim);
            }
        }
        starts.push(u32::try_from(prims.len()).unwrap_or(u32::MAX));
        for prim in &mut prims {
            if let Prim::Jump(to) | Prim::JumpIfZero { to, .. } = prim {
                *to = starts.get(*to as usize).copied().unwrap_or(u32::MAX);
            }
        }
        Ok(prims)
    }

    pub(super) fn read(&self, json: &Value, params: &Params, place: &str) -> Result<Ast> {
        Scope {
            ir: &self.ir,
            layout: &self.layout,
            params,
            place,
        }
        .read(json)
    }

    /// Compiles a value.
    pub(super) fn value(
        &mut self,
        json: &Value,
        params: &Params,
        demand: Demand,
        place: &str,
    ) -> Result<Expr> {
        let ast = self.read(json, params, place)?;
        compile(&mut self.ir, &ast, demand, place)
    }

    /// Compiles a value that the switch computes with in 64 bits.
    fn word(&mut self, json: &Value, params: &Params, place: &str) -> Result<Expr> {
        match self.value(json, params, Demand::Exact, place)? {
            Expr::Wide3(_) | Expr::Wide33(_) => Err(unsupported(
                place,
                "a bound of more than 64 bits (64 are the most)".into(),
            )),
            value => Ok(value),
        }
    }

    /// Compiles a value of a parser, with the look-ahead that it needs.
    pub(super) fn parser_value(
        &mut self,
        json: &Value,
        demand: Demand,
        place: &str,
    ) -> Result<(Expr, u32)> {
        let ast = self.read(json, &[], place)?;
        Ok((
            compile(&mut self.ir, &ast, demand, place)?,
            lookahead_bits(&ast),
        ))
    }

    /// Compiles what can be written to.
    pub(super) fn target(&mut self, json: &Value, params: &Params, place: &str) -> Result<Target> {
        match self.read(json, params, place)? {
            Ast::Field(field) => Ok(Target::Field(field)),
            Ast::Last { stack, field } => Ok(Target::Last { stack, field }),
            Ast::Element {
                stack,
                index,
                field,
            } => {
                let index = compile(&mut self.ir, &index, Demand::Exact, place)?;
                Ok(Target::Element {
                    stack,
                    field,
                    index,
                })
            }
            _ => Err(invalid(place, format!("{json} cannot be assigned to"))),
        }
    }

    fn header_ref(&mut self, json: &Value, params: &Params, place: &str) -> Result<HeaderRef> {
        let scope = Scope {
            ir: &self.ir,
            layout: &self.layout,
            params,
            place,
        };
        match scope.header(json)? {
            HeaderAst::Fixed(header) => Ok(HeaderRef::Fixed(header)),
            HeaderAst::Element { stack, index } => {
                let index = compile(&mut self.ir, &index, Demand::Exact, place)?;
                Ok(HeaderRef::Element { stack, index })
            }
        }
    }

    /// Compiles `target = value` in its cheapest form.
    pub(super) fn assignment(
        &mut self,
        to: &Value,
        from: &Value,
        params: &Params,
        place: &str,
    ) -> Result<Prim> {
        let target = self.target(to, params, place)?;
        let ast = self.read(from, params, place)?;
        if let (Target::Field(to @ AnyField::Wide(_)), Ast::Field(from)) = (target, &ast)
            && to.width() == from.width()
        {
            return Ok(Prim::CopyBits {
                from: wide_field(*from),
                to: wide_field(to),
            });
        }
        let value = compile(&mut self.ir, &ast, Demand::Low(target.width()), place)?;
        Ok(match target {
            Target::Field(AnyField::Narrow(target)) => Prim::Assign { target, value },
            target => Prim::AssignAny { target, value },
        })
    }

    fn field_list(&self, json: &Value, place: &str) -> Result<u16> {
        let id = constant(json, place)?;
        let empty = u16::try_from(self.json.field_lists.len()).unwrap_or(u16::MAX);
        if id == 0 {
            return Ok(empty);
        }
        self.names
            .field_lists
            .get(&id)
            .copied()
            .ok_or_else(|| dangling(place, "field list", &id.to_string()))
    }

    fn array(&self, json: &Value, kind: &'static str, place: &str) -> Result<u16> {
        let name = text(json.get("value").unwrap_or(&Value::Null), place)?;
        let names = match kind {
            "meter" => &self.names.meters,
            "counter" => &self.names.counters,
            "register" => &self.names.registers,
            _ => &self.names.calculations,
        };
        names
            .get(name)
            .copied()
            .ok_or_else(|| dangling(place, kind, name))
    }

    /// One primitive; None when it has no effect.
    #[expect(clippy::too_many_lines, reason = "one arm per primitive")]
    pub(super) fn primitive(
        &mut self,
        json: &Primitive,
        params: &Params,
        place: &str,
    ) -> Result<Option<Prim>> {
        let wanted = match json.op.as_str() {
            "drop" | "exit" | "no_op" => 0,
            "add_header" | "remove_header" | "resubmit" | "recirculate" | "truncate" | "_jump"
            | "assert" | "assume" | "mark_to_drop" => 1,
            "modify_field_rng_uniform" | "execute_meter" | "register_read" | "register_write" => 3,
            "modify_field_with_hash_based_offset" => 4,
            "log_msg" => 1,
            _ => 2,
        };
        let given = json.parameters.as_slice();
        if given.len() < wanted {
            return Err(invalid(
                place,
                format!("{} parameters; it takes {wanted}", given.len()),
            ));
        }
        let exact = Demand::Exact;
        Ok(Some(match json.op.as_str() {
            "assign" | "modify_field" | "set" => {
                self.assignment(&given[0], &given[1], params, place)?
            }
            "assign_VL" => self.varbit_assignment(&given[0], &given[1], place)?,
            "assign_header" | "copy_header" => Prim::CopyHeader {
                to: self.header_ref(&given[0], params, place)?,
                from: self.header_ref(&given[1], params, place)?,
            },
            "assign_header_stack" => Prim::CopyStack {
                to: self.stack(&given[0], place)?,
                from: self.stack(&given[1], place)?,
            },
            "assign_union" => Prim::CopyUnion {
                to: self.union(&given[0], place)?,
                from: self.union(&given[1], place)?,
            },
            "add_header" => Prim::AddHeader(self.header_ref(&given[0], params, place)?),
            "remove_header" => Prim::RemoveHeader(self.header_ref(&given[0], params, place)?),
            "assign_union_stack" => Prim::CopyUnionStack {
                to: self.union_stack(&given[0], place)?,
                from: self.union_stack(&given[1], place)?,
            },
            "push" | "pop" => self.shift(given, json.op == "push", params, place)?,
            "drop" | "mark_to_drop" => Prim::MarkToDrop,
            "generate_digest" => {
                let id = constant(&given[1], place)?;
                let list = self.names.learn_lists.get(&id).copied();
                Prim::Digest(list.ok_or_else(|| dangling(place, "learn list", &id.to_string()))?)
            }
            "clone_ingress_pkt_to_egress" | "clone_egress_pkt_to_egress" => Prim::Clone {
                session: self.value(&given[0], params, exact, place)?,
                field_list: self.field_list(&given[1], place)?,
            },
            "resubmit" => Prim::Resubmit(self.field_list(&given[0], place)?),
            "recirculate" => Prim::Recirculate(self.field_list(&given[0], place)?),
            "modify_field_with_hash_based_offset" => Prim::Hash {
                target: self.target(&given[0], params, place)?,
                base: self.word(&given[1], params, place)?,
                calculation: self.array(&given[2], "calculation", place)?,
                size: self.word(&given[3], params, place)?,
            },
            "modify_field_rng_uniform" => Prim::Random {
                target: self.target(&given[0], params, place)?,
                low: self.word(&given[1], params, place)?,
                high: self.word(&given[2], params, place)?,
            },
            "execute_meter" => Prim::Meter {
                meter: self.array(&given[0], "meter", place)?,
                index: self.value(&given[1], params, exact, place)?,
                target: self.target(&given[2], params, place)?,
            },
            "count" => Prim::Count {
                counter: self.array(&given[0], "counter", place)?,
                index: self.value(&given[1], params, exact, place)?,
            },
            "register_read" => Prim::RegisterRead {
                target: self.target(&given[0], params, place)?,
                register: self.array(&given[1], "register", place)?,
                index: self.value(&given[2], params, exact, place)?,
            },
            "register_write" => {
                let register = self.array(&given[0], "register", place)?;
                let width = self
                    .info
                    .registers
                    .get(usize::from(register))
                    .map_or(64, |r| r.width_bits);
                Prim::RegisterWrite {
                    register,
                    index: self.value(&given[1], params, exact, place)?,
                    value: self.value(&given[2], params, Demand::Low(width), place)?,
                }
            }
            "truncate" => Prim::Truncate(self.value(&given[0], params, exact, place)?),
            "_jump" => Prim::Jump(jump_target(&given[0], place)?),
            "_jump_if_zero" => Prim::JumpIfZero {
                condition: self.value(&given[0], params, exact, place)?,
                to: jump_target(&given[1], place)?,
            },
            "exit" => Prim::Exit,
            "assert" | "assume" => self.assertion(json, params, place)?,
            "log_msg" => self.log_message(given, params, place)?,
            "no_op" => return Ok(None),
            other => return Err(unsupported(place, format!("the primitive {other:?}"))),
        }))
    }

    fn stack(&self, json: &Value, place: &str) -> Result<u16> {
        self.layout.stack(
            text(json.get("value").unwrap_or(&Value::Null), place)?,
            place,
        )
    }

    fn union(&self, json: &Value, place: &str) -> Result<u16> {
        self.layout.union(
            text(json.get("value").unwrap_or(&Value::Null), place)?,
            place,
        )
    }

    fn union_stack(&self, json: &Value, place: &str) -> Result<u16> {
        self.layout.union_stack(
            text(json.get("value").unwrap_or(&Value::Null), place)?,
            place,
        )
    }

    /// `push_front` or `pop_front`, of headers or of unions.
    fn shift(&mut self, given: &[Value], push: bool, params: &Params, place: &str) -> Result<Prim> {
        let count = self.value(&given[1], params, Demand::Exact, place)?;
        if given[0].get("type").and_then(Value::as_str) == Some("header_union_stack") {
            let stack = self.union_stack(&given[0], place)?;
            return Ok(Prim::ShiftUnions { stack, count, push });
        }
        let stack = self.stack(&given[0], place)?;
        Ok(if push {
            Prim::Push { stack, count }
        } else {
            Prim::Pop { stack, count }
        })
    }

    /// Assignment of a varbit field to another.
    pub(super) fn varbit_assignment(&self, to: &Value, from: &Value, place: &str) -> Result<Prim> {
        let scope = Scope {
            ir: &self.ir,
            layout: &self.layout,
            params: &[],
            place,
        };
        let varbit = |json: &Value| {
            scope
                .varbit(json)
                .ok_or_else(|| invalid(place, format!("{json} is not a variable-length field")))
        };
        Ok(Prim::CopyVarbit {
            to: varbit(to)?,
            from: varbit(from)?,
        })
    }

    /// Whether this is a varbit field.
    pub(super) fn is_varbit(&self, json: &Value, place: &str) -> bool {
        let scope = Scope {
            ir: &self.ir,
            layout: &self.layout,
            params: &[],
            place,
        };
        scope.varbit(json).is_some()
    }
}

/// A constant parameter: a hexadecimal string.
fn constant(json: &Value, place: &str) -> Result<i64> {
    let value = super::expr::hexstr(
        text(json.get("value").unwrap_or(&Value::Null), place)?,
        place,
    )?;
    i64::try_from(value.to_u64_saturating())
        .map_err(|_| invalid(place, format!("{json} is too large")))
}

fn jump_target(json: &Value, place: &str) -> Result<u32> {
    u32::try_from(constant(json, place)?)
        .map_err(|_| invalid(place, format!("{json} is no jump target")))
}
