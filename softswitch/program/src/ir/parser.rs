// SPDX-License-Identifier: Apache-2.0
//! The flat form of the parser.

use super::{Expr, FastState, Prim, Target};

/// States that a packet may visit in the parser. A parser may loop over a header stack, but a loop that consumes no
/// bytes must end.
pub const MAX_PARSER_STATES: u32 = 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParserOp {
    Extract(u16),
    ExtractNext(u16),
    /// Varbit length in bits.
    ExtractVarbit {
        header: HeaderOrNext,
        length_bits: Expr,
    },
    Set {
        target: Target,
        value: Expr,
        lookahead_bits: u32,
    },
    Verify {
        condition: Expr,
        error: Expr,
        lookahead_bits: u32,
    },
    Advance {
        bits: Expr,
        lookahead_bits: u32,
    },
    Prim(Prim),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderOrNext {
    Header(u16),
    Next(u16),
}

/// Words of a parser's transition key.
pub const SELECT_WORDS: usize = 8;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectPart {
    pub value: Expr,
    pub width: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectCase {
    pub value: [u64; SELECT_WORDS],
    pub mask: [u64; SELECT_WORDS],
    pub next: Option<u16>,
}

/// A transition on membership in a parser value set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetCase {
    /// Constant cases before it in the program.
    pub before: usize,
    pub set: u16,
    pub next: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ParseState {
    pub ops: Vec<ParserOp>,
    pub key: Vec<SelectPart>,
    /// Padded bits of the key; up to 64 the key is one word.
    pub key_bits: u32,
    pub lookahead_bits: u32,
    pub cases: Vec<SelectCase>,
    /// The same state in its fast form, if it has one.
    pub fast: Option<FastState>,
    /// In the program's order; a state with any has no fast form.
    pub set_cases: Vec<SetCase>,
    /// None: no default, so that a key without a match is the error `NoMatch`.
    pub default: Option<Option<u16>>,
}

impl ParseState {
    /// The states that may follow.
    pub fn targets(&self) -> impl Iterator<Item = u16> + '_ {
        let cases = self.cases.iter().map(|case| case.next);
        let sets = self.set_cases.iter().map(|case| case.next);
        cases.chain(sets).chain(self.default).flatten()
    }
}

/// Error codes that the parser itself raises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ParserErrors {
    pub no_error: u32,
    pub packet_too_short: u32,
    pub no_match: u32,
    pub stack_out_of_bounds: u32,
    pub header_too_short: u32,
    pub timeout: u32,
    pub invalid_argument: u32,
}
