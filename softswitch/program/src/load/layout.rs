// SPDX-License-Identifier: Apache-2.0
//! The layout of the PHV: the offset of every field, validity byte and stack counter.
//!
//! Metadata comes first (each field right-aligned in its own bytes), then validity bytes, stack counters and varbit
//! lengths, then headers as on the wire, those with a varbit field last.

mod stacks;

use super::{Result, dangling, invalid, unsupported};
use crate::ir::{AnyField, Field, Header, Ir, PHV_PADDING, Varbit, WideField, own_bytes};
use serde_json::Value;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use weir_bmv2_json::Json;

/// Bits of the widest field, the limit of p4c-bm2-ss.
const MAX_FIELD_BITS: u32 = 2048;
/// More would make every packet's parsed form unreasonably large.
const MAX_PHV_BYTES: u32 = 1 << 20;

/// A field of a header type.
#[derive(Debug, Clone)]
struct TypeField {
    name: String,
    /// None: varbit.
    width: Option<u32>,
    signed: bool,
}

/// Fields and headers that the program names.
#[derive(Debug, Default)]
pub(super) struct Named {
    /// Fields, by the first bit after each.
    pub fields: HashSet<u32>,
    /// Headers as a whole.
    pub headers: HashSet<u16>,
}

/// Headers, stacks and fields by name.
#[derive(Debug, Default)]
pub(super) struct Layout {
    pub headers: HashMap<String, u16>,
    pub stacks: HashMap<String, u16>,
    pub unions: HashMap<String, u16>,
    pub union_stacks: HashMap<String, u16>,
    /// Per stack of unions: its members' names, and the stack of each member.
    pub union_members: Vec<Vec<(String, u16)>>,
    /// Recorded by the lookups, hence the `RefCell`.
    pub named: RefCell<Named>,
    by_id: HashMap<i64, u16>,
    /// Per header: field names in order, with the fields (None: varbit).
    fields: Vec<Vec<(String, Option<AnyField>)>>,
}

impl Layout {
    /// Looks up a header that is used as a whole.
    pub(super) fn header(&self, name: &str, location: &str) -> Result<u16> {
        let header = self.header_of_field(name, location)?;
        self.named.borrow_mut().headers.insert(header);
        Ok(header)
    }

    /// Looks up a header of which a field is used.
    pub(super) fn header_of_field(&self, name: &str, location: &str) -> Result<u16> {
        self.headers
            .get(name)
            .copied()
            .ok_or_else(|| dangling(location, "header", name))
    }

    pub(super) fn stack(&self, name: &str, location: &str) -> Result<u16> {
        self.stacks
            .get(name)
            .copied()
            .ok_or_else(|| dangling(location, "header stack", name))
    }

    pub(super) fn union_stack(&self, name: &str, location: &str) -> Result<u16> {
        self.union_stacks
            .get(name)
            .copied()
            .ok_or_else(|| dangling(location, "stack of header unions", name))
    }

    /// The stack of one member of a stack of unions.
    pub(super) fn union_member(&self, stack: &str, member: &str, location: &str) -> Result<u16> {
        let stack = self.union_stack(stack, location)?;
        let members = self.union_members.get(usize::from(stack));
        members
            .into_iter()
            .flatten()
            .find(|(name, _)| name == member)
            .map(|(_, stack)| *stack)
            .ok_or_else(|| dangling(location, "member of a header union", member))
    }

    pub(super) fn union(&self, name: &str, location: &str) -> Result<u16> {
        self.unions
            .get(name)
            .copied()
            .ok_or_else(|| dangling(location, "header union", name))
    }

    /// A field by header and field name; `$valid$` is the header's validity bit.
    pub(super) fn field(
        &self,
        ir: &Ir,
        header: &str,
        field: &str,
        location: &str,
    ) -> Result<AnyField> {
        self.field_of(ir, self.header_of_field(header, location)?, field, location)
    }

    pub(super) fn field_of(
        &self,
        ir: &Ir,
        header: u16,
        field: &str,
        location: &str,
    ) -> Result<AnyField> {
        if field == "$valid$" {
            return Ok(AnyField::Narrow(valid_field(ir, header)));
        }
        let fields = self
            .fields
            .get(usize::from(header))
            .map_or(&[][..], Vec::as_slice);
        match fields.iter().find(|(name, _)| name == field) {
            Some((_, Some(location))) => {
                let wide = wide_field(*location);
                let end_bit = wide.bit_offset + wide.width;
                self.named.borrow_mut().fields.insert(end_bit);
                Ok(*location)
            }
            Some((_, None)) => Err(unsupported(
                location,
                format!("variable-length field {field:?} used as a number"),
            )),
            None => Err(dangling(location, "field", field)),
        }
    }

    /// Validity of the header of a field; none for metadata and for a validity bit itself.
    pub(super) fn validity_of_field(
        &self,
        ir: &Ir,
        header: &str,
        field: &str,
        location: &str,
    ) -> Result<Option<Field>> {
        let number = self.header_of_field(header, location)?;
        let packet_header = ir
            .headers
            .get(usize::from(number))
            .is_some_and(|header| !header.metadata);
        Ok((packet_header && field != "$valid$").then(|| valid_field(ir, number)))
    }

    /// True when this field of the header is its varbit.
    pub(super) fn is_varbit(&self, header: u16, field: &str) -> bool {
        let fields = self
            .fields
            .get(usize::from(header))
            .map_or(&[][..], Vec::as_slice);
        fields
            .iter()
            .any(|(name, found)| name == field && found.is_none())
    }

    pub(super) fn field_at(&self, header: u16, index: usize, location: &str) -> Result<AnyField> {
        let fields = self
            .fields
            .get(usize::from(header))
            .map_or(&[][..], Vec::as_slice);
        match fields.get(index) {
            Some((_, Some(field))) => Ok(*field),
            _ => Err(dangling(location, "field number", &index.to_string())),
        }
    }
}

fn valid_field(ir: &Ir, header: u16) -> Field {
    let offset = ir.headers.get(usize::from(header)).map_or(0, |h| h.valid);
    Field {
        offset,
        shift: 56,
        width: 1,
        signed: false,
    }
}

/// The cheapest form of a field.
pub fn any_field(bit_offset: u32, width: u32, signed: bool) -> AnyField {
    let within = bit_offset % 8;
    match (
        u8::try_from(width),
        u8::try_from(64_u32.saturating_sub(within + width)),
    ) {
        (Ok(narrow), Ok(shift)) if within + width <= 64 => AnyField::Narrow(Field {
            offset: bit_offset / 8,
            shift,
            width: narrow,
            signed,
        }),
        _ => AnyField::Wide(WideField {
            bit_offset,
            width,
            signed,
        }),
    }
}

/// The bits of any field.
pub(super) fn wide_field(field: AnyField) -> WideField {
    match field {
        AnyField::Wide(f) => f,
        AnyField::Narrow(f) => WideField {
            bit_offset: f.offset * 8 + 64 - u32::from(f.shift) - u32::from(f.width),
            width: u32::from(f.width),
            signed: f.signed,
        },
    }
}

fn type_fields(ty: &weir_bmv2_json::HeaderType) -> Result<(Vec<TypeField>, u32)> {
    let location = format!("header_types {:?}", ty.name);
    let mut out = Vec::new();
    let mut fixed_bits = 0_u32;
    for field in &ty.fields {
        let name = field.first().and_then(Value::as_str);
        let name = name
            .ok_or_else(|| invalid(&location, "a field is [name, width, signed]".into()))?
            .to_owned();
        let signed = match field.get(2) {
            Some(Value::Bool(signed)) => *signed,
            Some(Value::Number(n)) => n.as_u64() == Some(1),
            _ => false,
        };
        let width = match field.get(1) {
            Some(Value::String(star)) if star == "*" => None,
            Some(Value::Number(n)) => {
                let width = n.as_u64().and_then(|w| u32::try_from(w).ok());
                Some(
                    width
                        .filter(|w| (1..=MAX_FIELD_BITS).contains(w))
                        .ok_or_else(|| {
                            unsupported(
                                &location,
                                format!("field {name:?} of {n} bits (1 to {MAX_FIELD_BITS} are)"),
                            )
                        })?,
                )
            }
            _ => {
                return Err(invalid(
                    &location,
                    format!("field {name:?} has no width (bits or \"*\")"),
                ));
            }
        };
        fixed_bits += width.unwrap_or(0);
        if fixed_bits > MAX_PHV_BYTES {
            return Err(unsupported(
                &location,
                "a header of more than 128 KiB".into(),
            ));
        }
        out.push(TypeField {
            name,
            width,
            signed,
        });
    }
    if out.iter().filter(|f| f.width.is_none()).count() > 1 {
        return Err(unsupported(
            &location,
            "more than one varbit field in a header".into(),
        ));
    }
    Ok((out, fixed_bits))
}

/// Bytes of a metadata field.
fn metadata_bytes(width: u32) -> u32 {
    match width {
        0..=64 => own_bytes(width),
        wide => wide.div_ceil(64) * 8,
    }
}

/// Lays the PHV out; fills headers, stacks and unions of `ir`.
#[expect(clippy::too_many_lines, reason = "one region after the other")]
pub(super) fn build(json: &Json, ir: &mut Ir) -> Result<Layout> {
    let mut layout = Layout::default();
    let mut types = HashMap::new();
    for ty in &json.header_types {
        types.insert(
            ty.name.as_str(),
            (type_fields(ty)?, ty.max_length.unwrap_or(0)),
        );
    }
    let type_of = |header: &weir_bmv2_json::Header| {
        types.get(header.header_type.as_str()).ok_or_else(|| {
            dangling(
                &format!("headers {:?}", header.name),
                "header type",
                &header.header_type,
            )
        })
    };
    let count = u16::try_from(json.headers.len())
        .map_err(|_| unsupported("headers", "more than 65,535 header instances".into()))?;

    // Metadata.
    let mut cursor = 0_u32;
    let mut offsets = vec![0_u32; json.headers.len()];
    for (header, offset) in json.headers.iter().zip(&mut offsets) {
        let ((fields, _), _) = type_of(header)?;
        if header.metadata && fields.iter().all(|f| f.width.is_some()) {
            *offset = cursor;
            cursor += fields
                .iter()
                .map(|f| metadata_bytes(f.width.unwrap_or(0)))
                .sum::<u32>();
            if cursor > MAX_PHV_BYTES {
                return Err(unsupported("headers", "more than 1 MiB of metadata".into()));
            }
        }
    }
    ir.metadata_bytes = cursor as usize;
    // Validity, stack counters, varbit lengths.
    let valid_base = cursor;
    cursor += u32::from(count);
    let next_base = cursor;
    cursor += u32::try_from(json.header_stacks.len() + json.header_union_stacks.len()).unwrap_or(0);
    let varbit_base = cursor;
    cursor += 4 * u32::from(count);
    cursor = cursor.next_multiple_of(8);
    // Headers with a varbit field come last: with length 0 the bytes of a varbit need not be cleared.
    let mut varying = cursor;
    for header in &json.headers {
        let ((fields, fixed_bits), _) = type_of(header)?;
        if fields.iter().all(|f| f.width.is_some()) && !header.metadata {
            varying = varying.saturating_add((fixed_bits / 8).next_multiple_of(8));
        }
    }
    ir.cleared.push((0, varying));

    for ((index, header), start) in (0_u16..).zip(&json.headers).zip(&offsets) {
        let location = format!("headers {:?}", header.name);
        let ((fields, fixed_bits), max_length) = type_of(header)?;
        let varbit_at = fields.iter().position(|f| f.width.is_none());
        let mut located = Vec::new();
        let valid = valid_base + u32::from(index);
        if header.metadata && varbit_at.is_none() {
            let mut at = *start;
            for field in fields {
                let width = field.width.unwrap_or(0);
                let slot = metadata_bytes(width);
                located.push((
                    field.name.clone(),
                    Some(any_field((at + slot) * 8 - width, width, field.signed)),
                ));
                at += slot;
            }
            let fixed_bytes = at - start;
            ir.headers.push(Header {
                valid,
                offset: *start,
                fixed_bytes,
                varbit: None,
                union: None,
                metadata: true,
            });
        } else {
            if !fixed_bits.is_multiple_of(8) {
                return Err(unsupported(
                    &location,
                    format!("a header of {fixed_bits} bits, not a multiple of 8"),
                ));
            }
            let fixed_bytes = fixed_bits / 8;
            let varbit = match varbit_at {
                None => None,
                Some(at) => {
                    let prefix_bits: u32 =
                        fields.iter().take(at).map(|f| f.width.unwrap_or(0)).sum();
                    if !prefix_bits.is_multiple_of(8) {
                        return Err(unsupported(
                            &location,
                            "a varbit field that does not start at a byte".into(),
                        ));
                    }
                    let max_bytes = u32::try_from(*max_length)
                        .unwrap_or(0)
                        .saturating_sub(fixed_bytes);
                    let length_at = varbit_base + 4 * u32::from(index);
                    Some(Varbit {
                        prefix_bytes: prefix_bits / 8,
                        max_bytes,
                        length_at,
                    })
                }
            };
            let cursor = if varbit.is_some() {
                &mut varying
            } else {
                &mut cursor
            };
            let mut bit = *cursor * 8;
            for field in fields {
                match (field.width, varbit) {
                    (Some(width), _) => {
                        located.push((
                            field.name.clone(),
                            Some(any_field(bit, width, field.signed)),
                        ));
                        bit += width;
                    }
                    (None, varbit) => {
                        located.push((field.name.clone(), None));
                        bit += varbit.map_or(0, |v| v.max_bytes * 8);
                    }
                }
            }
            let metadata = header.metadata;
            ir.headers.push(Header {
                valid,
                offset: *cursor,
                fixed_bytes,
                varbit,
                union: None,
                metadata,
            });
            if let Some(varbit) = varbit {
                let suffix = varbit.prefix_bytes + varbit.max_bytes;
                ir.cleared.push((*cursor, varbit.prefix_bytes));
                ir.cleared
                    .push((*cursor + suffix, fixed_bytes - varbit.prefix_bytes));
            }
            *cursor += (fixed_bytes + varbit.map_or(0, |v| v.max_bytes)).next_multiple_of(8);
            if *cursor > MAX_PHV_BYTES {
                return Err(unsupported("headers", "more than 1 MiB of headers".into()));
            }
        }
        layout.fields.push(located);
        layout.headers.insert(header.name.clone(), index);
        layout.by_id.insert(header.id, index);
    }
    ir.cleared.retain(|(_, bytes)| *bytes > 0);
    ir.phv_bytes = varying as usize + PHV_PADDING;

    stacks::build(json, ir, &mut layout, next_base)?;
    Ok(layout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_fields_lie_in_one_window() {
        assert!(matches!(any_field(7, 57, false), AnyField::Narrow(_)));
        assert!(matches!(any_field(7, 58, false), AnyField::Wide(_)));
    }
}
