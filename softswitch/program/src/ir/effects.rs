// SPDX-License-Identifier: Apache-2.0
//! The effects of steps and primitives beyond the packet's own fields: shared state, `exit`, and the step that comes
//! next.
//!
//! No `match` here has a wildcard arm, so that a new step or primitive does not compile before it is classified.

use super::{Action, Algo, Ir, ParserOp, Prim, Step};

/// The step that follows a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// Always the next step of the list.
    Next,
    /// Always this step.
    Jump(u32),
    /// The next step of the list or, for a branch, this one.
    Branch(u32),
    /// The next step of the list, unless the packet leaves the pipeline.
    NextOrExit,
    /// A step that the table's entry or `TableNext` names.
    Table,
    /// None: the action or pipeline ends.
    End,
}

/// The effect of a primitive on the packet's `exit` flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Never,
    /// The flag is set; the rest of the action still runs.
    AfterAction,
    /// The packet may leave the pipeline at once.
    AtOnce,
}

impl Algo {
    /// Whether a value depends on the packets before it.
    pub fn is_stateful(self) -> bool {
        match self {
            Self::Random => true,
            Self::Csum16
            | Self::Crc16
            | Self::Crc16Ccitt
            | Self::Crc16Custom
            | Self::Crc32
            | Self::Crc32Custom
            | Self::Identity
            | Self::Xor16 => false,
        }
    }
}

impl Step {
    /// Whether the effect of the step depends on the packets before it, or is visible to the packets after it.
    ///
    /// Counters are not such state: no step reads them, and a sum does not depend on the order of its terms.
    pub fn is_stateful(&self, ir: &Ir) -> bool {
        match self {
            Self::Meter { .. } | Self::ReadRegister { .. } | Self::WriteRegister { .. } => true,
            Self::Hash { calculation, .. } => ir.draws_random(*calculation),
            Self::Slow(index) | Self::Assert(index) => {
                let prim = ir.flat.slow.get(*index as usize);
                prim.is_none_or(|prim| prim.is_stateful(ir))
            }
            // A selector may choose at random, and the actions of a profile run within this step.
            Self::Table(index) => {
                let table = ir.tables.get(usize::from(*index));
                table.is_none_or(|table| table.profile.is_some() || table.direct_meter.is_some())
            }
            Self::SetConst { .. }
            | Self::Copy { .. }
            | Self::AddConst { .. }
            | Self::Concat { .. }
            | Self::SetArg { .. }
            | Self::Set { .. }
            | Self::Count { .. }
            | Self::IfZero { .. }
            | Self::IfNotEqual { .. }
            | Self::IfFalse { .. }
            | Self::Jump(_)
            | Self::Prefetch(_)
            | Self::Return
            | Self::StopIfExit
            | Self::End => false,
        }
    }

    /// The step that follows.
    pub fn flow(&self) -> Flow {
        match self {
            Self::SetConst { .. }
            | Self::Copy { .. }
            | Self::AddConst { .. }
            | Self::Concat { .. }
            | Self::SetArg { .. }
            | Self::Set { .. }
            | Self::Count { .. }
            | Self::Meter { .. }
            | Self::ReadRegister { .. }
            | Self::WriteRegister { .. }
            | Self::Hash { .. }
            | Self::Prefetch(_)
            | Self::Slow(_) => Flow::Next,
            Self::Jump(to) => Flow::Jump(*to),
            Self::IfZero { to, .. } | Self::IfNotEqual { to, .. } | Self::IfFalse { to, .. } => {
                Flow::Branch(*to)
            }
            Self::Assert(_) | Self::StopIfExit => Flow::NextOrExit,
            Self::Table(_) => Flow::Table,
            Self::Return | Self::End => Flow::End,
        }
    }

    /// The target of a jump or branch.
    pub fn target_mut(&mut self) -> Option<&mut u32> {
        match self {
            Self::IfZero { to, .. }
            | Self::IfNotEqual { to, .. }
            | Self::IfFalse { to, .. }
            | Self::Jump(to) => Some(to),
            Self::SetConst { .. }
            | Self::Copy { .. }
            | Self::AddConst { .. }
            | Self::Concat { .. }
            | Self::SetArg { .. }
            | Self::Set { .. }
            | Self::Count { .. }
            | Self::Meter { .. }
            | Self::ReadRegister { .. }
            | Self::WriteRegister { .. }
            | Self::Hash { .. }
            | Self::Prefetch(_)
            | Self::Table(_)
            | Self::Return
            | Self::Assert(_)
            | Self::StopIfExit
            | Self::End
            | Self::Slow(_) => None,
        }
    }
}

/// The effect of a primitive beyond fields, requests and counters.
enum Effect {
    None,
    State,
    /// State, if the calculation draws a random number.
    Calculation(u16),
    Exit,
    /// A log event, and `exit` at once.
    Assert,
}

impl Prim {
    fn effect(&self) -> Effect {
        match self {
            Self::Random { .. }
            | Self::Meter { .. }
            | Self::RegisterRead { .. }
            | Self::RegisterWrite { .. }
            | Self::Log(_) => Effect::State,
            Self::Hash { calculation, .. } => Effect::Calculation(*calculation),
            Self::Exit => Effect::Exit,
            Self::Assert { .. } => Effect::Assert,
            Self::Assign { .. }
            | Self::AssignAny { .. }
            | Self::CopyBits { .. }
            | Self::AddHeader(_)
            | Self::RemoveHeader(_)
            | Self::CopyHeader { .. }
            | Self::CopyStack { .. }
            | Self::CopyUnion { .. }
            | Self::CopyUnionStack { .. }
            | Self::ShiftUnions { .. }
            | Self::CopyVarbit { .. }
            | Self::Push { .. }
            | Self::Pop { .. }
            | Self::MarkToDrop
            | Self::Digest(_)
            | Self::Clone { .. }
            | Self::Resubmit(_)
            | Self::Recirculate(_)
            | Self::Count { .. }
            | Self::Truncate(_)
            | Self::Jump(_)
            | Self::JumpIfZero { .. } => Effect::None,
        }
    }

    /// As [`Step::is_stateful`].
    pub fn is_stateful(&self, ir: &Ir) -> bool {
        match self.effect() {
            Effect::State | Effect::Assert => true,
            Effect::Calculation(calculation) => ir.draws_random(calculation),
            Effect::None | Effect::Exit => false,
        }
    }

    /// The primitive's effect on the packet's `exit` flag.
    pub fn exit(&self) -> Exit {
        match self.effect() {
            Effect::Exit => Exit::AfterAction,
            Effect::Assert => Exit::AtOnce,
            Effect::None | Effect::State | Effect::Calculation(_) => Exit::Never,
        }
    }
}

impl ParserOp {
    fn is_stateful(&self, ir: &Ir) -> bool {
        match self {
            Self::Prim(prim) => prim.is_stateful(ir),
            Self::Extract(_)
            | Self::ExtractNext(_)
            | Self::ExtractVarbit { .. }
            | Self::Set { .. }
            | Self::Verify { .. }
            | Self::Advance { .. } => false,
        }
    }
}

impl Action {
    /// Whether the action may set the packet's `exit` flag and end normally.
    pub fn may_exit(&self) -> bool {
        let mut prims = self.prims.iter();
        prims.any(|prim| prim.exit() == Exit::AfterAction)
    }
}

impl Ir {
    fn draws_random(&self, calculation: u16) -> bool {
        let calculation = self.calculations.get(usize::from(calculation));
        calculation.is_none_or(|calculation| calculation.algo.is_stateful())
    }

    /// Whether a packet may draw random numbers, which depend on how many the packets before it drew.
    pub fn draws_random_numbers(&self) -> bool {
        let actions = self.actions.iter().flat_map(|action| &action.prims);
        let parsed = self.states.iter().flat_map(|state| &state.ops);
        let parsed = parsed.filter_map(|op| match op {
            ParserOp::Prim(prim) => Some(prim),
            _ => None,
        });
        let mut prims = actions.chain(parsed).chain(&self.deparse_prims);
        prims.any(|prim| matches!(prim, Prim::Random { .. }))
            || self.calculations.iter().any(|c| c.algo.is_stateful())
    }

    /// Whether the parser, or the verification of checksums after it, is stateful.
    pub fn parser_is_stateful(&self) -> bool {
        let mut ops = self.states.iter().flat_map(|state| &state.ops);
        ops.any(|op| op.is_stateful(self))
            || self.verify.iter().any(|c| self.draws_random(c.calculation))
    }
}
