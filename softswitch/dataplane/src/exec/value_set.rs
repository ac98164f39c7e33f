// SPDX-License-Identifier: Apache-2.0
//! `select` in the parser states that match on a value set, and transition keys of any width.

use super::expr::View;
use crate::context::Cx;
use crate::ir::{ParseState, SELECT_WORDS};
use crate::value_set::masked_equal;
use crate::wide::Wide;

/// The transition key of any width: each part padded to whole bytes.
pub(super) fn transition_key(view: &View<'_>, state: &ParseState) -> Wide<SELECT_WORDS> {
    state.key.iter().fold(Wide::ZERO, |key, part| {
        let padded = part.width.div_ceil(8) * 8;
        let value = view.eval_wide::<SELECT_WORDS>(part.value);
        key.shl(u64::from(padded)).zip(&value, |a, b| a | b)
    })
}

/// The next state, or the error code if nothing matches; constants and sets are tried in the program's order.
pub(super) fn select(cx: &Cx<'_>, view: &View<'_>, state: &ParseState) -> Result<Option<u16>, u32> {
    let key = transition_key(view, state);
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
