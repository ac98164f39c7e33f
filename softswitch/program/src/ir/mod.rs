// SPDX-License-Identifier: Apache-2.0
//! The flat program, which the loader writes and the packet path runs. Every reference is an offset or an index.
//!
//! All fields, validity bits and stack counters of a packet live in one byte region, the PHV (packet header vector). A
//! header has the same bytes there as on the wire, so extracting and emitting are copies and a field is a big-endian
//! window of 8 bytes.

mod calculation;
mod effects;
mod fast_state;
mod flat;
mod intrinsics;
mod log;
mod parser;
mod pipeline;

pub use calculation::{Algo, CALC_PIECES_BYTES, CalcInput, CalcPiece, Calculation};
pub use effects::{Exit, Flow};
pub use fast_state::FastState;
pub use flat::{ArrayRef, Flat, Origin, Prefetch, Slot, Step, TableNext, own_bytes};
pub use intrinsics::Intrinsics;
pub use log::{LogKind, LogMessage};
pub use parser::{
    HeaderOrNext, MAX_PARSER_STATES, ParseState, ParserErrors, ParserOp, SELECT_WORDS, SelectCase,
    SelectPart, SetCase,
};
pub use pipeline::{
    Action, Call, Condition, ConstEntry, Gress, KeyPart, Node, Profile, ProfileUse, Table,
};

/// Bytes after the last field, so that an 8-byte window may reach beyond it.
pub const PHV_PADDING: usize = 16;

/// Values that an expression may hold at once. A power of two.
pub const STACK_DEPTH: usize = 32;

/// Values that nearly all expressions hold at most: a small stack costs less to set up. A power of two.
pub const SHALLOW_STACK: usize = 8;

/// A field of at most 64 bits that lies within an 8-byte window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Window's first byte.
    pub offset: u32,
    /// Bits to the right of the field in the window.
    pub shift: u8,
    /// Width in bits, 1 to 64.
    pub width: u8,
    pub signed: bool,
}

impl Field {
    /// The first bit after the field.
    pub(crate) fn end_bit(self) -> u32 {
        self.offset * 8 + 64 - u32::from(self.shift)
    }

    /// The field that an unsigned field of a header and one that follows it make up, if it lies in one window.
    ///
    /// Metadata fields are not joined: each has the bytes before it to itself.
    pub fn join(self, next: Self, metadata_bytes: usize) -> Option<Self> {
        let width = u32::from(self.width) + u32::from(next.width);
        let follows = self.end_bit() + u32::from(next.width) == next.end_bit();
        if self.signed || next.signed || !follows || (self.offset as usize) < metadata_bytes {
            return None;
        }
        let start = next.end_bit() - width;
        let shift = 64_u32.checked_sub(start % 8 + width)?;
        Some(Self {
            offset: start / 8,
            shift: u8::try_from(shift).ok()?,
            width: u8::try_from(width).ok()?,
            signed: false,
        })
    }
}

/// Any field, by bit position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WideField {
    pub bit_offset: u32,
    pub width: u32,
    pub signed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnyField {
    Narrow(Field),
    Wide(WideField),
}

impl AnyField {
    #[inline]
    pub fn width(self) -> u32 {
        match self {
            Self::Narrow(f) => u32::from(f.width),
            Self::Wide(f) => f.width,
        }
    }

    /// The same field `bytes` further on.
    #[inline]
    pub fn moved(self, bytes: u32) -> Self {
        match self {
            Self::Narrow(f) => Self::Narrow(Field {
                offset: f.offset + bytes,
                ..f
            }),
            Self::Wide(f) => Self::Wide(WideField {
                bit_offset: f.bit_offset + bytes * 8,
                ..f
            }),
        }
    }
}

/// A run of expression code in `Ir::ops`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code {
    pub start: u32,
    pub len: u32,
}

/// An expression, with the arithmetic that evaluates it exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expr {
    Const(u64),
    Field(Field),
    /// Action argument: first word.
    Arg(u16),
    /// 64-bit wrapping arithmetic, proved exact at load; holds at most `SHALLOW_STACK` values at once.
    Narrow(Code),
    /// The same, with more values at once.
    NarrowDeep(Code),
    /// 192-bit two's complement.
    Wide3(Code),
    /// 2112-bit two's complement.
    Wide33(Code),
}

/// One step of a postfix program over a stack of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
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
pub struct Header {
    /// Offset of its validity byte.
    pub valid: u32,
    /// Offset of its first byte.
    pub offset: u32,
    /// Bytes without the varbit.
    pub fixed_bytes: u32,
    pub varbit: Option<Varbit>,
    pub union: Option<u16>,
    /// Always valid, never on the wire.
    pub metadata: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Varbit {
    /// Bytes of the header before the varbit.
    pub prefix_bytes: u32,
    pub max_bytes: u32,
    /// Offset of its current length in bytes (u32, big-endian).
    pub length_at: u32,
}

/// A header stack; its elements are headers at equal distance. A stack of unions is one such stack for each member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stack {
    pub first_header: u16,
    /// Headers from one element to the next: 1, or the members of the union.
    pub step: u16,
    pub size: u16,
    /// Offset of the number of filled elements (one byte).
    pub next_at: u32,
    /// Distance between elements in bytes.
    pub stride: u32,
}

impl Stack {
    /// Header of an element within the stack.
    #[inline]
    pub fn header(&self, index: u16) -> u16 {
        self.first_header + index * self.step
    }
}

/// A stack of header unions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnionStack {
    /// A stack for each member of the union; they share the number of filled elements.
    pub members: Vec<u16>,
    /// Union of each element.
    pub unions: Vec<u16>,
}

/// A header: a named one, or the element of a stack at a computed index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderRef {
    Fixed(u16),
    Element { stack: u16, index: Expr },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
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
    #[inline]
    pub fn width(self) -> u32 {
        match self {
            Self::Field(f) | Self::Element { field: f, .. } | Self::Last { field: f, .. } => {
                f.width()
            }
        }
    }
}

/// One step of an action (or of a parser state).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prim {
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
    /// `assert` and `assume`: a false condition drops the packet.
    Assert {
        condition: Expr,
        kind: LogKind,
        message: u16,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checksum {
    pub target: AnyField,
    pub target_valid: Option<u32>,
    pub calculation: u16,
    pub condition: Option<Expr>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ir {
    pub phv_bytes: usize,
    /// Offsets and sizes of the regions of the PHV that are zeroed before parsing: all but the varbits, whose lengths
    /// are 0.
    pub cleared: Vec<(u32, u32)>,
    /// The part of `cleared` that a packet may read before it has written it. It does not matter what the rest holds.
    pub live_at_start: Vec<(u32, u32)>,
    /// Offsets of the bytes that are 1 before parsing: metadata is always valid.
    pub valid_at_start: Vec<u32>,
    /// Size of the first region of the PHV, which holds the metadata fields.
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
    /// Primitives that the deparser runs before it emits headers.
    pub deparse_prims: Vec<Prim>,
    pub deparse: Vec<u16>,
    pub field_lists: Vec<Vec<AnyField>>,
    pub digests: Vec<DigestSource>,
    /// By digest, not by source.
    pub digest_widths: Vec<Vec<u32>>,
    pub log_messages: Vec<LogMessage>,
    pub intrinsics: Intrinsics,
}

/// A statement of the program that generates a digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DigestSource {
    pub digest: crate::info::DigestId,
    pub fields: Vec<DigestField>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DigestField {
    Field(AnyField),
    Const { value: Vec<u64>, width: u32 },
}
