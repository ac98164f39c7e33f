// SPDX-License-Identifier: Apache-2.0
//! The control flow and the actions of both pipelines as one list of steps.
//!
//! The commonest primitives are steps, with their operands in the cheapest form; every other primitive is a `Slow` step
//! that refers to it. Control only moves forward, because the program's control flow has no cycle.

use super::{Expr, Field, Gress};

/// An unsigned field of at most 64 bits: `(window >> shift) & mask` of the 8 bytes from `offset` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    pub mask: u64,
    pub offset: u32,
    pub shift: u8,
    /// Bytes at the start of the window that hold this field only (1, 2, 4 or 8) and are written without a read; 0:
    /// other fields share the window's bytes.
    pub own_bytes: u8,
}

/// Bytes that a metadata field of at most 64 bits shares with no other field.
pub fn own_bytes(width: u32) -> u32 {
    width.div_ceil(8).max(1).next_power_of_two()
}

impl Slot {
    /// None for a signed field. A metadata field lies at the end of its own bytes.
    pub fn new(field: Field, metadata_bytes: usize) -> Option<Self> {
        if field.signed {
            return None;
        }
        let mut slot = Self {
            mask: u64::MAX >> 64_u8.checked_sub(field.width)?,
            offset: field.offset,
            shift: field.shift,
            own_bytes: 0,
        };
        if (field.offset as usize) < metadata_bytes {
            let own = own_bytes(u32::from(field.width));
            let end = field.offset + 8 - u32::from(field.shift) / 8;
            slot.offset = end.checked_sub(own)?;
            slot.own_bytes = u8::try_from(own).ok()?;
            slot.shift = 64 - 8 * slot.own_bytes;
        }
        Some(slot)
    }

    /// The first bit after the field, which identifies a metadata field.
    pub fn end_bit(self) -> u32 {
        self.offset * 8 + 64 - u32::from(self.shift)
    }

    /// Bits that a write changes, before the shift.
    #[inline(always)]
    pub fn written(self) -> u64 {
        match self.own_bytes {
            0 => self.mask,
            bytes => u64::MAX >> (64 - 8 * bytes),
        }
    }
}

/// One step of a pipeline or action. Its effects beyond fields are classified in `effects.rs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Mask and bits of the window, in memory order.
    SetConst {
        offset: u32,
        keep: u64,
        bits: u64,
    },
    Copy {
        to: Slot,
        from: Slot,
    },
    AddConst {
        to: Slot,
        from: Slot,
        value: u64,
    },
    /// `to = high << by | low`.
    Concat {
        to: Slot,
        high: Slot,
        by: u32,
        low: Slot,
    },
    SetArg {
        to: Slot,
        word: u16,
    },
    Set {
        to: Slot,
        value: Expr,
    },
    Count {
        counter: u16,
        index: Slot,
    },
    Meter {
        meter: u16,
        index: Slot,
        to: Slot,
    },
    ReadRegister {
        register: u16,
        index: Slot,
        to: Slot,
    },
    WriteRegister {
        register: u16,
        index: Slot,
        value: Slot,
    },
    /// `to = calculation & mask`.
    Hash {
        calculation: u16,
        to: Slot,
        mask: u64,
    },
    IfZero {
        field: Slot,
        to: u32,
    },
    IfNotEqual {
        field: Slot,
        value: u64,
        to: u32,
    },
    IfFalse {
        value: Expr,
        to: u32,
    },
    Jump(u32),
    /// Index into `Flat::prefetches`.
    Prefetch(u32),
    Table(u16),
    /// End of a table's action.
    Return,
    /// Index into `Flat::slow`: a primitive after which the packet may leave the pipeline at once.
    Assert(u32),
    /// Comes after an action that may exit.
    StopIfExit,
    End,
    /// Index into `Flat::slow`.
    Slow(u32),
}

/// An array of state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArrayRef {
    Counter(u16),
    Meter(u16),
    Register(u16),
}

/// Cells that later steps use: in each array the cell at `index` shifted left by so many bits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prefetch {
    pub index: Slot,
    pub arrays: Vec<(ArrayRef, u32)>,
}

/// The steps that follow a table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TableNext {
    /// Per action of the table.
    pub next: Vec<u32>,
    pub hit: Option<u32>,
    pub miss: Option<u32>,
    pub base: u32,
}

impl TableNext {
    /// The steps that may follow an action, which is given by its number in the table.
    pub fn after_action(&self, number: usize) -> impl Iterator<Item = u32> + '_ {
        self.by_hit().chain(self.next.get(number).copied())
    }

    /// The steps that may follow if no action runs.
    pub fn after_none(&self) -> impl Iterator<Item = u32> + '_ {
        self.by_hit().chain([self.base])
    }

    fn by_hit(&self) -> impl Iterator<Item = u32> + '_ {
        self.hit.into_iter().chain(self.miss)
    }
}

/// What a step begins in the program, for a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Index into `Ir::conditions`.
    Condition(u16),
    /// A table that became a call of its only action.
    Table { table: u16, action: u16 },
    /// Action, and number of its primitive in the JSON.
    Primitive { action: u16, number: u16 },
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Flat {
    pub steps: Vec<Step>,
    /// By step, ascending; several for one step are in the program's order.
    pub origins: Vec<(u32, Origin)>,
    pub slow: Vec<super::Prim>,
    pub prefetches: Vec<Prefetch>,
    /// First step of each action as a table runs it.
    pub actions: Vec<u32>,
    pub tables: Vec<TableNext>,
    pub ingress: u32,
    pub egress: u32,
}

impl Flat {
    /// First step of a pipeline.
    #[inline]
    pub fn start(&self, gress: Gress) -> u32 {
        match gress {
            Gress::Ingress => self.ingress,
            Gress::Egress => self.egress,
        }
    }

    /// What a step begins in the program.
    pub fn origins(&self, step: u32) -> impl Iterator<Item = Origin> + '_ {
        let first = self.origins.partition_point(|(at, _)| *at < step);
        let from = self.origins.get(first..).unwrap_or_default();
        from.iter()
            .take_while(move |(at, _)| *at == step)
            .map(|(_, origin)| *origin)
    }

    /// Steps that follow tables. A table without a key that always runs the same action is no step and has none.
    pub fn targets(&self) -> impl Iterator<Item = u32> + '_ {
        let tables = self.steps.iter().filter_map(|step| match step {
            Step::Table(index) => self.tables.get(usize::from(*index)),
            _ => None,
        });
        tables.flat_map(|table| table.next.iter().copied().chain(table.after_none()))
    }
}
