// SPDX-License-Identifier: Apache-2.0
//! Header stacks, header unions, and stacks of unions.

use super::super::{Result, invalid, unsupported};
use super::Layout;
use crate::ir::{Ir, Stack, UnionStack};
use weir_bmv2_json::Json;

/// Adds stacks, unions and stacks of unions; their counters of filled elements start at offset `next_base`.
pub(super) fn build(json: &Json, ir: &mut Ir, layout: &mut Layout, next_base: u32) -> Result<()> {
    let headers = |layout: &Layout, location: &str, ids: &[i64]| -> Result<Vec<u16>> {
        let ids: Option<Vec<u16>> = ids.iter().map(|id| layout.by_id.get(id).copied()).collect();
        ids.ok_or_else(|| invalid(location, "a header id that no header has".into()))
    };
    let mut next_at = next_base;
    for (index, stack) in (0_u16..).zip(&json.header_stacks) {
        let location = format!("header_stacks {:?}", stack.name);
        let ids = headers(layout, &location, &stack.header_ids)?;
        let stack_at = regular(ir, &ids, next_at, &location)?;
        ir.stacks.push(stack_at);
        layout.stacks.insert(stack.name.clone(), index);
        next_at += 1;
    }
    for (index, union) in (0_u16..).zip(&json.header_unions) {
        let location = format!("header_unions {:?}", union.name);
        let ids = headers(layout, &location, &union.header_ids)?;
        for id in &ids {
            ir.headers[usize::from(*id)].union = Some(index);
        }
        ir.unions.push(ids);
        layout.unions.insert(union.name.clone(), index);
    }
    for (index, stack) in (0_u16..).zip(&json.header_union_stacks) {
        let location = format!("header_union_stacks {:?}", stack.name);
        let unions: Option<Vec<u16>> = stack
            .header_union_ids
            .iter()
            .map(|id| {
                let at = json.header_unions.iter().position(|u| u.id == *id)?;
                u16::try_from(at).ok()
            })
            .collect();
        let unions = unions
            .ok_or_else(|| invalid(&location, "a header union id that no union has".into()))?;
        let members = union_members(json, ir, &unions, next_at, &location)?;
        ir.union_stacks.push(UnionStack {
            members: members.iter().map(|(_, stack)| *stack).collect(),
            unions,
        });
        layout.union_members.push(members);
        layout.union_stacks.insert(stack.name.clone(), index);
        next_at += 1;
    }
    Ok(())
}

/// One stack for each member of the unions, with the member's name.
fn union_members(
    json: &Json,
    ir: &mut Ir,
    unions: &[u16],
    next_at: u32,
    location: &str,
) -> Result<Vec<(String, u16)>> {
    let first = unions
        .first()
        .and_then(|u| json.header_unions.get(usize::from(*u)));
    let first = first.ok_or_else(|| unsupported(location, "a stack of no unions".into()))?;
    let mut members = Vec::new();
    for (member, id) in first.header_ids.iter().enumerate() {
        // A header is named after its union: `u[0].member`.
        let name = json
            .headers
            .iter()
            .find(|header| header.id == *id)
            .and_then(|header| header.name.strip_prefix(&format!("{}.", first.name)));
        let name = name.ok_or_else(|| {
            invalid(
                location,
                format!("union {:?} without member names", first.name),
            )
        })?;
        let ids: Option<Vec<u16>> = unions
            .iter()
            .map(|union| ir.unions.get(usize::from(*union))?.get(member).copied())
            .collect();
        let ids = ids.ok_or_else(|| invalid(location, "unions of different types".into()))?;
        let stack = regular(ir, &ids, next_at, location)?;
        let at = u16::try_from(ir.stacks.len())
            .map_err(|_| unsupported(location, "more than 65,535 stacks".into()))?;
        ir.stacks.push(stack);
        members.push((name.to_owned(), at));
    }
    Ok(members)
}

/// A stack of these headers, if they have equal distances and sizes.
fn regular(ir: &Ir, ids: &[u16], next_at: u32, location: &str) -> Result<Stack> {
    let (Some(first), Ok(size)) = (ids.first().copied(), u8::try_from(ids.len())) else {
        return Err(unsupported(
            location,
            format!("a stack of {} headers (1 to 255 are)", ids.len()),
        ));
    };
    let header = |id: u16| &ir.headers[usize::from(id)];
    let (step, stride) = match ids.get(1) {
        None => (1, 8),
        Some(second) => (
            second.wrapping_sub(first),
            header(*second).offset.wrapping_sub(header(first).offset),
        ),
    };
    let base = header(first);
    let alike = (0_u16..).zip(ids).all(|(i, id)| {
        let header = header(*id);
        u32::from(*id) == u32::from(first) + u32::from(i) * u32::from(step)
            && u64::from(header.offset) == u64::from(base.offset) + u64::from(i) * u64::from(stride)
            && header.fixed_bytes == base.fixed_bytes
            && header.varbit.map(|v| v.prefix_bytes) == base.varbit.map(|v| v.prefix_bytes)
            && header.varbit.map(|v| v.max_bytes) == base.varbit.map(|v| v.max_bytes)
            && !header.metadata
    });
    if !alike {
        return Err(unsupported(
            location,
            "a stack whose headers are not at equal distance and of one type".into(),
        ));
    }
    Ok(Stack {
        first_header: first,
        step,
        size: u16::from(size),
        next_at,
        stride,
    })
}
