// SPDX-License-Identifier: Apache-2.0
//! The flat program: what the loader writes and the packet path reads. Every reference is an offset or an index.
//!
//! All of a packet's fields, validity bits and stack counters live in one byte region, the PHV. A header's bytes stand
//! there as on the wire, so extracting and emitting are copies and a field is a big-endian window of 8 bytes.

mod calculation;
mod fast_state;
mod flat;
mod intrinsics;
mod pipeline;

pub(crate) use calculation::{Algo, CALC_PIECES_BYTES, CalcInput, CalcPiece, Calculation};
pub(crate) use fast_state::FastState;
pub(crate) use flat::{ArrayRef, Flat, Prefetch, Slot, Step, TableNext, own_bytes};
pub(crate) use intrinsics::Intrinsics;
pub(crate) use pipeline::{
    Action, Call, Condition, ConstEntry, KeyPart, Node, Profile, ProfileUse, Table,
};

/// Bytes after the last field, so that an 8-byte window may reach beyond it.
pub(crate) const PHV_PADDING: usize = 16;

/// A field of at most 64 bits that lies within an 8-byte window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Field {
    /// Window's first byte.
    pub offset: u32,
    /// Bits to the right of the field in the window.
    pub shift: u8,
    /// Width in bits, 1 to 64.
    pub width: u8,
    pub signed: bool,
}

/// Any field, by bit position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WideField {
    pub bit_offset: u32,
    pub width: u32,
    pub signed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnyField {
    Narrow(Field),
    Wide(WideField),
}

impl AnyField {
    pub(crate) fn width(self) -> u32 {
        match self {
            Self::Narrow(f) => u32::from(f.width),
            Self::Wide(f) => f.width,
        }
    }
}

/// A run of expression code in `Ir::ops`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Code {
    pub start: u32,
    pub len: u32,
}

/// An expression, with the arithmetic that evaluates it exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expr {
    Const(u64),
    Field(Field),
    /// Action argument: first word.
    Arg(u16),
    /// 64-bit wrapping arithmetic, proved exact at load; holds at most `SHALLOW` values at once.
    Narrow(Code),
    /// The same, deeper.
    NarrowDeep(Code),
    /// 192-bit two's complement.
    Wide3(Code),
    /// 2112-bit two's complement.
    Wide33(Code),
}

/// One step of a postfix program over a stack of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    Const(u64),
    /// Index into `Ir::wide_consts`.
    WideConst(u32),
    Load(Field),
    LoadWide(WideField),
    /// First word of an action argument, and its width.
    Arg(u16),
    WideArg {
        word: u16,
        width: u32,
    },
    /// Bits of the packet beyond the cursor (parser only; presence is checked before).
    Lookahead {
        bit_offset: u32,
        width: u32,
    },
    /// Field of element [popped index] of a stack.
    LoadElement {
        stack: u16,
        field: AnyField,
    },
    /// Validity of element [popped index] of a stack.
    ElementValid(u16),
    /// Field of the last extracted element of a stack.
    LoadLast {
        stack: u16,
        field: AnyField,
    },
    LastIndex(u16),
    ValidUnion(u16),
    /// Whether the varbit fields of two headers have the same length and bits.
    EqVarbit(u16, u16),
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    And,
    Or,
    Xor,
    BitNot,
    Shl,
    Shr,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    BoolAnd,
    BoolOr,
    BoolNot,
    /// condition, left, right
    Select,
    /// Keep this many low bits and sign-extend.
    TwoCompMod(u32),
    SatCast(u32),
    USatCast(u32),
    /// Fused forms of the commonest pairs.
    AndConst(u64),
    EqConst(u64),
    AddConst(u64),
    AddArg(u16),
    AndArg(u16),
    ShlConst(u32),
    ShrConst(u32),
}

/// A header instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Header {
    /// Where its validity byte stands.
    pub valid: u32,
    /// Where its bytes stand.
    pub offset: u32,
    /// Bytes without the varbit.
    pub fixed_bytes: u32,
    pub varbit: Option<Varbit>,
    pub union: Option<u16>,
    /// Always valid, never on the wire.
    pub metadata: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Varbit {
    /// Bytes of the header before the varbit.
    pub prefix_bytes: u32,
    pub max_bytes: u32,
    /// Where its present length in bytes stands (u32, big-endian, in the PHV).
    pub length_at: u32,
}

/// A header stack; elements are headers at equal distance. A stack of unions is one such stack for each member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stack {
    pub first_header: u16,
    /// Headers from one element to the next: 1, or the members of the union.
    pub step: u16,
    pub size: u16,
    /// Where the number of filled elements stands (one byte).
    pub next_at: u32,
    /// Distance between elements in bytes.
    pub stride: u32,
}

impl Stack {
    /// Header of an element within the stack.
    #[inline]
    pub(crate) fn header(&self, index: u16) -> u16 {
        self.first_header + index * self.step
    }
}

/// A stack of header unions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnionStack {
    /// A stack for each member of the union; they share the number of filled elements.
    pub members: Vec<u16>,
    /// Union of each element.
    pub unions: Vec<u16>,
}

/// A header: named, or an element of a stack by a computed index, or the last of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeaderRef {
    Fixed(u16),
    Element { stack: u16, index: Expr },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    Field(AnyField),
    Element {
        stack: u16,
        field: AnyField,
        index: Expr,
    },
    /// Last element of a stack (parser).
    Last {
        stack: u16,
        field: AnyField,
    },
}

impl Target {
    pub(crate) fn width(self) -> u32 {
        match self {
            Self::Field(f) | Self::Element { field: f, .. } | Self::Last { field: f, .. } => {
                f.width()
            }
        }
    }
}

/// One step of an action (or of a parser state).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Prim {
    Assign {
        target: Field,
        value: Expr,
    },
    AssignAny {
        target: Target,
        value: Expr,
    },
    CopyBits {
        from: WideField,
        to: WideField,
    },
    AddHeader(HeaderRef),
    RemoveHeader(HeaderRef),
    CopyHeader {
        to: HeaderRef,
        from: HeaderRef,
    },
    CopyStack {
        to: u16,
        from: u16,
    },
    CopyUnion {
        to: u16,
        from: u16,
    },
    CopyUnionStack {
        to: u16,
        from: u16,
    },
    ShiftUnions {
        stack: u16,
        count: Expr,
        push: bool,
    },
    CopyVarbit {
        to: u16,
        from: u16,
    },
    Push {
        stack: u16,
        count: Expr,
    },
    Pop {
        stack: u16,
        count: Expr,
    },
    MarkToDrop,
    Digest(u16),
    Clone {
        session: Expr,
        field_list: u16,
    },
    Resubmit(u16),
    Recirculate(u16),
    Hash {
        target: Target,
        base: Expr,
        calculation: u16,
        size: Expr,
    },
    Random {
        target: Target,
        low: Expr,
        high: Expr,
    },
    Meter {
        meter: u16,
        index: Expr,
        target: Target,
    },
    Count {
        counter: u16,
        index: Expr,
    },
    RegisterRead {
        target: Target,
        register: u16,
        index: Expr,
    },
    RegisterWrite {
        register: u16,
        index: Expr,
        value: Expr,
    },
    Truncate(Expr),
    Jump(u32),
    JumpIfZero {
        condition: Expr,
        to: u32,
    },
    Exit,
    /// `log_msg`: index into `Ir::log_messages`.
    Log(u16),
    /// `assert` and `assume`: a false one ends the packet.
    Assert {
        condition: Expr,
        kind: crate::log::LogKind,
        message: u16,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ParserOp {
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
pub(crate) enum HeaderOrNext {
    Header(u16),
    Next(u16),
}

/// Words of a parser's transition key.
pub(crate) const SELECT_WORDS: usize = 8;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SelectPart {
    pub value: Expr,
    pub width: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SelectCase {
    pub value: [u64; SELECT_WORDS],
    pub mask: [u64; SELECT_WORDS],
    pub next: Option<u16>,
}

/// A transition on membership in a parser value set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SetCase {
    /// Cases of constants that stand before it.
    pub before: usize,
    pub set: u16,
    pub next: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ParseState {
    pub ops: Vec<ParserOp>,
    pub key: Vec<SelectPart>,
    /// Padded bits of the key; at most 64 is the fast form.
    pub key_bits: u32,
    pub lookahead_bits: u32,
    pub cases: Vec<SelectCase>,
    /// The state again, where its form is the common one.
    pub fast: Option<FastState>,
    /// In the program's order; with any, the state takes the slow form of select.
    pub set_cases: Vec<SetCase>,
    /// None: no default, so nothing matching is `NoMatch`.
    pub default: Option<Option<u16>>,
}

/// Error codes that the parser itself raises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ParserErrors {
    pub no_error: u32,
    pub packet_too_short: u32,
    pub no_match: u32,
    pub stack_out_of_bounds: u32,
    pub header_too_short: u32,
    pub timeout: u32,
    pub invalid_argument: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Checksum {
    pub target: AnyField,
    pub target_valid: Option<u32>,
    pub calculation: u16,
    pub condition: Option<Expr>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Ir {
    pub phv_bytes: usize,
    /// Where in the PHV, and how many bytes, are 0 before parsing: all but what is behind a varbit's length.
    pub cleared: Vec<(u32, u32)>,
    /// Bytes of the PHV that are 1 before parsing, as metadata is always valid.
    pub valid_at_start: Vec<u32>,
    /// Bytes at the front of the PHV that hold metadata fields.
    pub metadata_bytes: usize,
    pub ops: Vec<Op>,
    pub wide_consts: Vec<Vec<u64>>,
    pub headers: Vec<Header>,
    pub stacks: Vec<Stack>,
    pub unions: Vec<Vec<u16>>,
    pub union_stacks: Vec<UnionStack>,
    pub states: Vec<ParseState>,
    pub start: Option<u16>,
    pub errors: ParserErrors,
    pub verify: Vec<Checksum>,
    pub update: Vec<Checksum>,
    pub calculations: Vec<Calculation>,
    pub actions: Vec<Action>,
    pub tables: Vec<Table>,
    pub conditions: Vec<Condition>,
    pub calls: Vec<Call>,
    pub profiles: Vec<Profile>,
    /// Pipelines and actions as the packet path runs them.
    pub flat: Flat,
    pub ingress: Option<Node>,
    pub egress: Option<Node>,
    /// What the deparser does before it emits.
    pub deparse_prims: Vec<Prim>,
    pub deparse: Vec<u16>,
    pub field_lists: Vec<Vec<AnyField>>,
    pub digests: Vec<DigestSource>,
    /// By the number of the digest, not of its source.
    pub digest_widths: Vec<Vec<u32>>,
    pub log_messages: Vec<LogMessage>,
    pub intrinsics: Intrinsics,
}

/// A place of the program that generates a digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DigestSource {
    pub digest: crate::info::DigestId,
    pub fields: Vec<DigestField>,
}

/// A text with values between its pieces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogMessage {
    pub pieces: Vec<String>,
    pub values: Vec<Expr>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DigestField {
    Field(AnyField),
    Const { value: Vec<u64>, width: u32 },
}
