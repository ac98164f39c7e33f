// SPDX-License-Identifier: Apache-2.0
//! Where the packets of a burst wait for each other.
//!
//! What a packet does before it first meets state that another packet may have changed (a register, a meter, a random
//! number, what the program says) depends on that packet and the tables alone. So all packets of a burst come that far
//! before the first of them goes on, and the memory that each has asked for on its way arrives meanwhile. What such a part
//! may change, counters, sums whatever the order, and nobody reads them before the burst ends.

use super::call::Frame;
use super::steps::{Region, Writer};
use crate::ir::{Algo, Ir, ParserOp, Prim, Step};
use cranelift_codegen::ir::InstBuilder;

/// Whether a calculation draws a random number.
fn draws(ir: &Ir, calculation: u16) -> bool {
    let calculation = ir.calculations.get(usize::from(calculation));
    calculation.is_none_or(|calculation| calculation.algo == Algo::Random)
}

fn primitive_meets_state(ir: &Ir, prim: &Prim) -> bool {
    match prim {
        Prim::Random { .. }
        | Prim::Meter { .. }
        | Prim::RegisterRead { .. }
        | Prim::RegisterWrite { .. }
        | Prim::Log(_)
        | Prim::Assert { .. } => true,
        Prim::Hash { calculation, .. } => draws(ir, *calculation),
        Prim::Assign { .. }
        | Prim::AssignAny { .. }
        | Prim::CopyBits { .. }
        | Prim::AddHeader(_)
        | Prim::RemoveHeader(_)
        | Prim::CopyHeader { .. }
        | Prim::CopyStack { .. }
        | Prim::CopyUnion { .. }
        | Prim::CopyUnionStack { .. }
        | Prim::ShiftUnions { .. }
        | Prim::CopyVarbit { .. }
        | Prim::Push { .. }
        | Prim::Pop { .. }
        | Prim::MarkToDrop
        | Prim::Digest(_)
        | Prim::Clone { .. }
        | Prim::Resubmit(_)
        | Prim::Recirculate(_)
        | Prim::Count { .. }
        | Prim::Truncate(_)
        | Prim::Jump(_)
        | Prim::JumpIfZero { .. }
        | Prim::Exit => false,
    }
}

/// Whether what a step does depends on what other packets did, or is seen by them.
pub(super) fn meets_state(ir: &Ir, step: &Step) -> bool {
    match step {
        Step::Meter { .. } | Step::ReadRegister { .. } | Step::WriteRegister { .. } => true,
        Step::Hash { calculation, .. } => draws(ir, *calculation),
        Step::Slow(index) | Step::Assert(index) => {
            let prim = ir.flat.slow.get(*index as usize);
            prim.is_none_or(|prim| primitive_meets_state(ir, prim))
        }
        // A profile may choose at random, and its actions run in one step.
        Step::Table(index) => {
            let table = ir.tables.get(usize::from(*index));
            table.is_none_or(|table| table.profile.is_some() || table.direct_meter.is_some())
        }
        _ => false,
    }
}

/// Whether the parser, and the verification of checksums behind it, meet no state.
pub(super) fn parses_alone(ir: &Ir) -> bool {
    let ops = ir.states.iter().flat_map(|state| &state.ops);
    let mut prims = ops.filter_map(|op| match op {
        ParserOp::Prim(prim) => Some(prim),
        _ => None,
    });
    !prims.any(|prim| primitive_meets_state(ir, prim))
        && !ir.verify.iter().any(|c| draws(ir, c.calculation))
}

impl Writer<'_, '_> {
    /// Leaves the pipeline here if the frame asks for it, to come back later.
    pub(super) fn pause(&mut self, region: &Region) {
        let Some(places) = &mut self.places else {
            return;
        };
        let b = &mut self.code.b;
        let (wait, again, on) = (b.create_block(), b.create_block(), b.create_block());
        places.push(again);
        let place = places.len() as u64;
        let code = &mut self.code;
        let pauses = code.frame_word(Frame::PAUSES);
        code.b.ins().brif(pauses, wait, &[], on, &[]);

        code.b.switch_to_block(wait);
        code.b.set_cold_block(wait);
        let place = code.number(place);
        code.set_frame_word(Frame::PLACE, place);
        if let Some(found) = region.found {
            let found = code.b.use_var(found);
            code.set_frame_word(Frame::RESULT, found);
        }
        let paused = code.number(PAUSED);
        code.b.ins().return_(&[paused]);

        code.b.switch_to_block(again);
        if let Some(args) = region.args {
            let at = code.given(args.words);
            code.b.def_var(args.at, at);
        }
        if let Some(found) = region.found {
            let value = code.frame_word(Frame::RESULT);
            code.b.def_var(found, value);
        }
        code.b.ins().jump(on, &[]);
        code.b.switch_to_block(on);
    }
}

/// What a pipeline gives back that is to be gone on with.
pub(super) const PAUSED: u64 = 1;
