// SPDX-License-Identifier: Apache-2.0
//! Select in the states that ask a parser value set. The others never come here.

use super::expr::View;
use super::parser::{masked_equal, wide_key};
use super::pipeline::Cx;
use crate::ir::ParseState;

/// Next state, or the error code of a select without a match; constants and sets in the program's order.
pub(super) fn select(cx: &Cx<'_>, view: &View<'_>, state: &ParseState) -> Result<Option<u16>, u32> {
    let key = wide_key(view, state);
    let mut sets = state.set_cases.iter().peekable();
    for index in 0..=state.cases.len() {
        while let Some(case) = sets.next_if(|case| case.before <= index) {
            let set = cx.externs.value_sets.get(usize::from(case.set));
            if set.is_some_and(|set| set.contains(&key)) {
                return Ok(case.next);
            }
        }
        if let Some(case) = state.cases.get(index)
            && masked_equal(&key, &case.value, &case.mask)
        {
            return Ok(case.next);
        }
    }
    state.default.ok_or(cx.ir.errors.no_match)
}
