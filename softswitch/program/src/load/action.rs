// SPDX-License-Identifier: Apache-2.0
//! Actions: compiles primitives.

use super::bound::lookahead_bits;
use super::emit::{Demand, compile};
use super::expr::{Ast, HeaderAst, Scope, text};
use super::layout::wide_field;
use super::log::Source;
use super::{Loader, Result, dangling, invalid, unsupported};
use crate::info::{ActionInfo, ParamInfo};
use crate::ir::{Action, AnyField, Expr, HeaderRef, Prim, Target};
use serde_json::Value;
use weir_bmv2_json::Primitive;

/// First word and width of each parameter.
pub(super) type Params = [(u16, u32)];

/// The primitive as bmv2 logs it.
pub(super) fn primitive_text(json: &Primitive) -> String {
    match Source::of(&json.source_info) {
        Some(source) => format!("{} Primitive {}", source.place, source.text),
        None => "Primitive (no source info)".to_owned(),
    }
}

impl Loader<'_> {
    pub(super) fn actions(&mut self) -> Result<()> {
        for (index, action) in (0_u16..).zip(&self.json.actions) {
            let location = format!("actions {:?}", action.name);
            let mut params = Vec::new();
            let mut infos = Vec::new();
            let mut words = 0_u16;
            for param in &action.runtime_data {
                let width = param.bitwidth;
                if !(1..=2048).contains(&width) {
                    return Err(unsupported(
                        &location,
                        format!("parameter {:?} of {width} bits", param.name),
                    ));
                }
                params.push((words, width));
                let taken = u16::try_from(width.div_ceil(64)).unwrap_or(u16::MAX);
                words = words
                    .checked_add(taken)
                    .ok_or_else(|| unsupported(&location, "that many parameters".into()))?;
                infos.push(ParamInfo {
                    name: param.name.clone(),
                    width_bits: width,
                });
            }
            let (prims, starts) = self.body(&action.primitives, &params, &location)?;
            let texts = action.primitives.iter().map(primitive_text).collect();
            self.info.log_names.primitives.push(texts);
            self.ir.actions.push(Action {
                prims,
                params,
                arg_words: words,
                starts,
            });
            self.info.actions.push(ActionInfo {
                name: action.name.clone(),
                params: infos,
            });
            if self.names.actions.insert(action.id, index).is_some() {
                return Err(invalid(
                    &location,
                    format!("action id {} is used twice", action.id),
                ));
            }
        }
        if self.json.actions.len() > usize::from(u16::MAX) {
            return Err(unsupported("actions", "more than 65,535 actions".into()));
        }
        Ok(())
    }

    /// Compiles a list of primitives. Jumps are renumbered and only forward ones are accepted, so that every action
    /// ends. Also returns the first of them for each primitive.
    pub(super) fn body(
        &mut self,
        primitives: &[Primitive],
        params: &Params,
        location: &str,
    ) -> Result<(Vec<Prim>, Vec<u32>)> {
        let mut prims = Vec::new();
        let mut starts = Vec::new();
        for (number, primitive) in primitives.iter().enumerate() {
            starts.push(u32::try_from(prims.len()).unwrap_or(u32::MAX));
            let location = format!("{location} primitive {number} ({})", primitive.op);
            if let Some(prim) = self.primitive(primitive, params, &location)? {
                if let Prim::Jump(to) | Prim::JumpIfZero { to, .. } = &prim
                    && (*to as usize <= number || *to as usize > primitives.len())
                {
                    return Err(invalid(
                        &location,
                        format!("jumps to {to}; only later primitives are valid"),
                    ));
                }
                prims.push(prim);
            }
        }
        let end = u32::try_from(prims.len()).unwrap_or(u32::MAX);
        for prim in &mut prims {
            if let Prim::Jump(to) | Prim::JumpIfZero { to, .. } = prim {
                *to = starts.get(*to as usize).copied().unwrap_or(end);
            }
        }
        Ok((prims, starts))
    }

    pub(super) fn read(&self, json: &Value, params: &Params, location: &str) -> Result<Ast> {
        Scope {
            ir: &self.ir,
            layout: &self.layout,
            params,
            location,
        }
        .read(json)
    }

    /// Compiles a value.
    pub(super) fn value(
        &mut self,
        json: &Value,
        params: &Params,
        demand: Demand,
        location: &str,
    ) -> Result<Expr> {
        let ast = self.read(json, params, location)?;
        compile(&mut self.ir, &ast, demand, location)
    }

    /// Compiles a value that the switch uses as a number of 64 bits.
    fn word(&mut self, json: &Value, params: &Params, location: &str) -> Result<Expr> {
        match self.value(json, params, Demand::Exact, location)? {
            Expr::Wide3(_) | Expr::Wide33(_) => Err(unsupported(
                location,
                "a bound of more than 64 bits (64 are the most)".into(),
            )),
            value => Ok(value),
        }
    }

    /// Compiles a value of a parser; also returns the bits of look-ahead that it needs.
    pub(super) fn parser_value(
        &mut self,
        json: &Value,
        demand: Demand,
        location: &str,
    ) -> Result<(Expr, u32)> {
        let ast = self.read(json, &[], location)?;
        Ok((
            compile(&mut self.ir, &ast, demand, location)?,
            lookahead_bits(&ast),
        ))
    }

    /// Compiles the target of an assignment.
    pub(super) fn target(
        &mut self,
        json: &Value,
        params: &Params,
        location: &str,
    ) -> Result<Target> {
        match self.read(json, params, location)? {
            Ast::Field(field) => Ok(Target::Field(field)),
            Ast::Last { stack, field } => Ok(Target::Last { stack, field }),
            Ast::Element {
                stack,
                index,
                field,
            } => {
                let index = compile(&mut self.ir, &index, Demand::Exact, location)?;
                Ok(Target::Element {
                    stack,
                    field,
                    index,
                })
            }
            _ => Err(invalid(location, format!("{json} cannot be assigned to"))),
        }
    }

    fn header_ref(&mut self, json: &Value, params: &Params, location: &str) -> Result<HeaderRef> {
        let scope = Scope {
            ir: &self.ir,
            layout: &self.layout,
            params,
            location,
        };
        match scope.header(json)? {
            HeaderAst::Fixed(header) => Ok(HeaderRef::Fixed(header)),
            HeaderAst::Element { stack, index } => {
                let index = compile(&mut self.ir, &index, Demand::Exact, location)?;
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
        location: &str,
    ) -> Result<Prim> {
        let target = self.target(to, params, location)?;
        let ast = self.read(from, params, location)?;
        if let (Target::Field(to @ AnyField::Wide(_)), Ast::Field(from)) = (target, &ast)
            && to.width() == from.width()
        {
            return Ok(Prim::CopyBits {
                from: wide_field(*from),
                to: wide_field(to),
            });
        }
        let value = compile(&mut self.ir, &ast, Demand::Low(target.width()), location)?;
        Ok(match target {
            Target::Field(AnyField::Narrow(target)) => Prim::Assign { target, value },
            target => Prim::AssignAny { target, value },
        })
    }

    fn field_list(&self, json: &Value, location: &str) -> Result<u16> {
        let id = constant(json, location)?;
        let empty = u16::try_from(self.json.field_lists.len()).unwrap_or(u16::MAX);
        if id == 0 {
            return Ok(empty);
        }
        self.names
            .field_lists
            .get(&id)
            .copied()
            .ok_or_else(|| dangling(location, "field list", &id.to_string()))
    }

    fn array(&self, json: &Value, kind: &'static str, location: &str) -> Result<u16> {
        let name = text(json.get("value").unwrap_or(&Value::Null), location)?;
        let names = match kind {
            "meter" => &self.names.meters,
            "counter" => &self.names.counters,
            "register" => &self.names.registers,
            _ => &self.names.calculations,
        };
        names
            .get(name)
            .copied()
            .ok_or_else(|| dangling(location, kind, name))
    }

    /// Compiles one primitive; None if it has no effect.
    #[expect(clippy::too_many_lines, reason = "one arm per primitive")]
    pub(super) fn primitive(
        &mut self,
        json: &Primitive,
        params: &Params,
        location: &str,
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
                location,
                format!("{} parameters; it takes {wanted}", given.len()),
            ));
        }
        let exact = Demand::Exact;
        Ok(Some(match json.op.as_str() {
            "assign" | "modify_field" | "set" => {
                self.assignment(&given[0], &given[1], params, location)?
            }
            "assign_VL" => self.varbit_assignment(&given[0], &given[1], location)?,
            "assign_header" | "copy_header" => Prim::CopyHeader {
                to: self.header_ref(&given[0], params, location)?,
                from: self.header_ref(&given[1], params, location)?,
            },
            "assign_header_stack" => Prim::CopyStack {
                to: self.stack(&given[0], location)?,
                from: self.stack(&given[1], location)?,
            },
            "assign_union" => Prim::CopyUnion {
                to: self.union(&given[0], location)?,
                from: self.union(&given[1], location)?,
            },
            "add_header" => Prim::AddHeader(self.header_ref(&given[0], params, location)?),
            "remove_header" => Prim::RemoveHeader(self.header_ref(&given[0], params, location)?),
            "assign_union_stack" => Prim::CopyUnionStack {
                to: self.union_stack(&given[0], location)?,
                from: self.union_stack(&given[1], location)?,
            },
            "push" | "pop" => self.shift(given, json.op == "push", params, location)?,
            "drop" | "mark_to_drop" => Prim::MarkToDrop,
            "generate_digest" => {
                let id = constant(&given[1], location)?;
                let list = self.names.learn_lists.get(&id).copied();
                Prim::Digest(list.ok_or_else(|| dangling(location, "learn list", &id.to_string()))?)
            }
            "clone_ingress_pkt_to_egress" | "clone_egress_pkt_to_egress" => Prim::Clone {
                session: self.value(&given[0], params, exact, location)?,
                field_list: self.field_list(&given[1], location)?,
            },
            "resubmit" => Prim::Resubmit(self.field_list(&given[0], location)?),
            "recirculate" => Prim::Recirculate(self.field_list(&given[0], location)?),
            "modify_field_with_hash_based_offset" => Prim::Hash {
                target: self.target(&given[0], params, location)?,
                base: self.word(&given[1], params, location)?,
                calculation: self.array(&given[2], "calculation", location)?,
                size: self.word(&given[3], params, location)?,
            },
            "modify_field_rng_uniform" => Prim::Random {
                target: self.target(&given[0], params, location)?,
                low: self.word(&given[1], params, location)?,
                high: self.word(&given[2], params, location)?,
            },
            "execute_meter" => Prim::Meter {
                meter: self.array(&given[0], "meter", location)?,
                index: self.value(&given[1], params, exact, location)?,
                target: self.target(&given[2], params, location)?,
            },
            "count" => Prim::Count {
                counter: self.array(&given[0], "counter", location)?,
                index: self.value(&given[1], params, exact, location)?,
            },
            "register_read" => Prim::RegisterRead {
                target: self.target(&given[0], params, location)?,
                register: self.array(&given[1], "register", location)?,
                index: self.value(&given[2], params, exact, location)?,
            },
            "register_write" => {
                let register = self.array(&given[0], "register", location)?;
                let width = self
                    .info
                    .registers
                    .get(usize::from(register))
                    .map_or(64, |r| r.width_bits);
                Prim::RegisterWrite {
                    register,
                    index: self.value(&given[1], params, exact, location)?,
                    value: self.value(&given[2], params, Demand::Low(width), location)?,
                }
            }
            "truncate" => Prim::Truncate(self.value(&given[0], params, exact, location)?),
            "_jump" => Prim::Jump(jump_target(&given[0], location)?),
            "_jump_if_zero" => Prim::JumpIfZero {
                condition: self.value(&given[0], params, exact, location)?,
                to: jump_target(&given[1], location)?,
            },
            "exit" => Prim::Exit,
            "assert" | "assume" => self.assertion(json, params, location)?,
            "log_msg" => self.log_message(given, params, location)?,
            "no_op" => return Ok(None),
            other => return Err(unsupported(location, format!("the primitive {other:?}"))),
        }))
    }

    fn stack(&self, json: &Value, location: &str) -> Result<u16> {
        self.layout.stack(
            text(json.get("value").unwrap_or(&Value::Null), location)?,
            location,
        )
    }

    fn union(&self, json: &Value, location: &str) -> Result<u16> {
        self.layout.union(
            text(json.get("value").unwrap_or(&Value::Null), location)?,
            location,
        )
    }

    fn union_stack(&self, json: &Value, location: &str) -> Result<u16> {
        self.layout.union_stack(
            text(json.get("value").unwrap_or(&Value::Null), location)?,
            location,
        )
    }

    /// `push_front` or `pop_front`, of headers or of unions.
    fn shift(
        &mut self,
        given: &[Value],
        push: bool,
        params: &Params,
        location: &str,
    ) -> Result<Prim> {
        let count = self.value(&given[1], params, Demand::Exact, location)?;
        if given[0].get("type").and_then(Value::as_str) == Some("header_union_stack") {
            let stack = self.union_stack(&given[0], location)?;
            return Ok(Prim::ShiftUnions { stack, count, push });
        }
        let stack = self.stack(&given[0], location)?;
        Ok(if push {
            Prim::Push { stack, count }
        } else {
            Prim::Pop { stack, count }
        })
    }

    /// Assignment of a varbit field to another.
    pub(super) fn varbit_assignment(
        &self,
        to: &Value,
        from: &Value,
        location: &str,
    ) -> Result<Prim> {
        let scope = Scope {
            ir: &self.ir,
            layout: &self.layout,
            params: &[],
            location,
        };
        let varbit = |json: &Value| {
            scope
                .varbit(json)
                .ok_or_else(|| invalid(location, format!("{json} is not a variable-length field")))
        };
        Ok(Prim::CopyVarbit {
            to: varbit(to)?,
            from: varbit(from)?,
        })
    }

    /// Whether this is a varbit field.
    pub(super) fn is_varbit(&self, json: &Value, location: &str) -> bool {
        let scope = Scope {
            ir: &self.ir,
            layout: &self.layout,
            params: &[],
            location,
        };
        scope.varbit(json).is_some()
    }
}

/// A constant parameter: a hexadecimal string.
fn constant(json: &Value, location: &str) -> Result<i64> {
    let value = super::expr::hexstr(
        text(json.get("value").unwrap_or(&Value::Null), location)?,
        location,
    )?;
    i64::try_from(value.to_u64_saturating())
        .map_err(|_| invalid(location, format!("{json} is too large")))
}

fn jump_target(json: &Value, location: &str) -> Result<u32> {
    u32::try_from(constant(json, location)?)
        .map_err(|_| invalid(location, format!("{json} is no jump target")))
}
