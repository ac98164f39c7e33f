// SPDX-License-Identifier: Apache-2.0
//! Pauses: the points in ingress at which the packets of a burst wait for each other.
//!
//! The part of a packet's path before its first stateful step (a register, a meter, a random number, a log message)
//! depends only on the packet and the tables. So all packets of a burst run that part before the first of them resumes,
//! and the memory that each has prefetched is loaded meanwhile. The only state that such a part changes is counters:
//! their sums do not depend on the order, and nobody reads them before the burst ends.

use super::frame::{Frame, PAUSED};
use super::steps::{Region, Writer};
use cranelift_codegen::ir::InstBuilder;

impl Writer<'_, '_> {
    /// Returns from the pipeline here if the frame says so, and resumes here when it is called again.
    pub(super) fn pause(&mut self, region: &Region) {
        let Some(resume_points) = &mut self.resume_points else {
            return;
        };
        let b = &mut self.code.b;
        let (pause, resume, run) = (b.create_block(), b.create_block(), b.create_block());
        resume_points.push(resume);
        let number = resume_points.len() as u64;
        let code = &mut self.code;
        let may_pause = code.frame_word(Frame::MAY_PAUSE);
        code.b.ins().brif(may_pause, pause, &[], run, &[]);

        code.b.switch_to_block(pause);
        code.b.set_cold_block(pause);
        let number = code.number(number);
        code.set_frame_word(Frame::RESUME_AT, number);
        if let Some((table, found)) = region.found {
            let found = code.b.use_var(found);
            code.set_frame_word(Frame::RESULT, found);
            let table = code.number(u64::from(table));
            code.set_frame_word(Frame::TABLE, table);
        }
        let paused = code.number(PAUSED);
        code.b.ins().return_(&[paused]);

        code.b.switch_to_block(resume);
        if let Some(args) = region.args {
            let at = code.entry_args(args.words);
            code.b.def_var(args.at, at);
        }
        if let Some((_, found)) = region.found {
            let value = code.frame_word(Frame::RESULT);
            code.b.def_var(found, value);
        }
        code.b.ins().jump(run, &[]);
        code.b.switch_to_block(run);
    }
}
