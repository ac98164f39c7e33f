// SPDX-License-Identifier: Apache-2.0
//! Pauses: the points in ingress at which the packets of a burst wait for each other.
//!
//! The part of a packet's path before its first stateful step (a register, a meter, a random number, a log message)
//! depends only on the packet and the tables. So all packets of a burst run that part before the first of them resumes,
//! and the memory that each has prefetched is loaded meanwhile. The only state that such a part changes is counters:
//! their sums do not depend on the order, and nobody reads them before the burst ends.

use super::code::Code;
use super::frame::{Frame, PAUSED};
use super::steps::{Pauses, Region, Writer};
use cranelift_codegen::ir::InstBuilder;

impl Writer<'_, '_> {
    /// Pauses here before step `at`: the function returns. If it resumes packets, then only if the frame says so, and it
    /// continues here when it is called again.
    pub(super) fn pause(&mut self, region: &Region, at: u32) {
        let number = self.number(region, at);
        let code = &mut self.code;
        match &mut self.pauses {
            Pauses::Never => {}
            Pauses::Always => code.return_paused(region, number),
            Pauses::Resuming(points) => {
                let b = &mut code.b;
                let (pause, resume, run) = (b.create_block(), b.create_block(), b.create_block());
                points.push((number, resume));
                let may_pause = code.frame_word(Frame::MAY_PAUSE);
                code.b.ins().brif(may_pause, pause, &[], run, &[]);
                code.b.switch_to_block(pause);
                code.b.set_cold_block(pause);
                code.return_paused(region, number);
                code.b.switch_to_block(resume);
                code.resume(region);
                code.b.ins().jump(run, &[]);
                code.b.switch_to_block(run);
            }
        }
    }

    /// The number of a pause, not 0: the same in every function that has it.
    fn number(&self, region: &Region, at: u32) -> u64 {
        let table = region.found.map_or(0, |(table, _)| u64::from(table) + 1);
        table * self.code.ir.flat.steps.len() as u64 + u64::from(at) + 1
    }
}

impl Code<'_, '_> {
    /// Keeps in the frame where the pipeline pauses, and returns.
    fn return_paused(&mut self, region: &Region, number: u64) {
        let number = self.number(number);
        self.set_frame_word(Frame::RESUME_AT, number);
        let table = region.found.map_or(u64::MAX, |(table, _)| u64::from(table));
        let table = self.number(table);
        self.set_frame_word(Frame::TABLE, table);
        if let Some((_, found)) = region.found {
            let found = self.b.use_var(found);
            self.set_frame_word(Frame::RESULT, found);
        }
        self.return_word(PAUSED);
    }

    /// Restores what the steps after a pause use.
    fn resume(&mut self, region: &Region) {
        if let Some(args) = region.args {
            let at = self.entry_args(args.words);
            self.b.def_var(args.at, at);
        }
        if let Some((_, found)) = region.found {
            let value = self.frame_word(Frame::RESULT);
            self.b.def_var(found, value);
        }
    }
}
