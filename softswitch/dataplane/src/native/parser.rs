// SPDX-License-Identifier: Apache-2.0
//! The parser: a block per state, which copies headers and compares fields. A helper runs states that do more.

use super::Refused;
use super::code::Code;
use super::frame::{DROPPED, Frame};
use super::helper;
use super::places::STATE;
use super::steps;
use crate::ir::{Exit, FastState, Ir, MAX_PARSER_STATES, ParseState, ParserOp};
use crate::packet::Packet;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, SourceLoc, Value, types};
use cranelift_frontend::{Switch, Variable};

/// States of a parser that is compiled; a larger one is left to the interpreter.
const MOST_STATES: usize = 512;
/// Bytes of a header that is copied in line; a state with a longer one is left to the interpreter.
const MOST_BYTES: u32 = 256;

struct Writer<'a, 'f> {
    code: Code<'a, 'f>,
    /// A block per state.
    states: Vec<Block>,
    /// The end of the parser; its parameter is the error.
    done: Block,
    /// Address and length of the packet.
    bytes: Value,
    length: Value,
    /// Bytes parsed so far.
    parsed: Variable,
    /// A state may be visited again, so that visits are counted.
    cyclic: bool,
}

/// Whether the states form a cycle.
fn cyclic(ir: &Ir) -> bool {
    // Kahn's algorithm: remove states without a predecessor until only cycles are left.
    let mut predecessors = vec![0_usize; ir.states.len()];
    for to in ir.states.iter().flat_map(ParseState::targets) {
        if let Some(count) = predecessors.get_mut(usize::from(to)) {
            *count += 1;
        }
    }
    let mut free: Vec<usize> = (0..predecessors.len())
        .filter(|state| predecessors[*state] == 0)
        .collect();
    let mut removed = 0;
    while let Some(state) = free.pop() {
        removed += 1;
        for to in ir.states[state].targets() {
            if let Some(count) = predecessors.get_mut(usize::from(to)) {
                *count -= 1;
                if *count == 0 {
                    free.push(usize::from(to));
                }
            }
        }
    }
    removed < predecessors.len()
}

/// Writes the parser into an empty function. The function returns the error, which `parser_error` gets too, and writes
/// the parsed bytes to the frame.
pub(super) fn parser(mut code: Code<'_, '_>) -> Result<(), Refused> {
    code.write_ingress_metadata_if_flagged()?;
    let (mut code, error) = parse(code)?;
    code.b.ins().return_(&[error]);
    code.finish();
    Ok(())
}

/// Writes the parser and the part of ingress before its first stateful steps into an empty function. The function writes
/// the parser's error and the parsed bytes to the frame. It returns what ingress does, or `DROPPED`. Refuses a program
/// that verifies checksums in between.
pub(super) fn start(mut code: Code<'_, '_>, leaders: &[bool]) -> Result<(), Refused> {
    let ir = code.ir;
    if !ir.verify.is_empty() {
        return Err(Refused);
    }
    code.write_ingress_metadata()?;
    let (mut code, error) = parse(code)?;
    code.set_frame_word(Frame::PARSER_ERROR, error);
    let ops = || ir.states.iter().flat_map(|state| &state.ops);
    if ops().any(|op| matches!(op, ParserOp::Prim(prim) if prim.exit() != Exit::Never)) {
        let packet = code.frame_constant(Frame::PACKET);
        let exit = i32::try_from(Packet::EXIT).map_err(|_| Refused)?;
        let exit = code.array_byte(packet, exit);
        let (dropped, parsed) = (code.b.create_block(), code.b.create_block());
        code.b.ins().brif(exit, dropped, &[], parsed, &[]);
        code.b.switch_to_block(dropped);
        code.b.set_cold_block(dropped);
        code.return_word(DROPPED);
        code.b.switch_to_block(parsed);
    }
    steps::ingress_to_pauses(code, leaders)
}

/// The extractions and the select of a parser state, if the machine code runs the state without a helper.
fn in_line(state: &ParseState) -> Option<&FastState> {
    let fast = state.fast.as_ref();
    fast.filter(|fast| fast.extracts.iter().all(|e| e.bytes <= MOST_BYTES))
}

/// Writes the parser. The returned error and the parsed bytes in the frame are for the code that follows.
fn parse<'a, 'f>(mut code: Code<'a, 'f>) -> Result<(Code<'a, 'f>, Value), Refused> {
    let ir = code.ir;
    if ir.states.len() > MOST_STATES {
        return Err(Refused);
    }
    let states = ir.states.iter().map(|_| code.b.create_block()).collect();
    let done = code.b.create_block();
    code.b.append_block_param(done, types::I64);
    let (bytes, length) = (
        code.frame_word(Frame::BYTES),
        code.frame_word(Frame::LENGTH),
    );
    let parsed = code.b.declare_var(types::I64);
    let zero = code.number(0);
    code.b.def_var(parsed, zero);
    let cyclic = cyclic(ir);
    if cyclic {
        code.set_frame_word(Frame::RESULT, zero);
    }
    let mut writer = Writer {
        code,
        states,
        done,
        bytes,
        length,
        parsed,
        cyclic,
    };
    writer.jump(ir.start);
    for (index, state) in ir.states.iter().enumerate() {
        writer.state(index, state)?;
    }
    let code = &mut writer.code;
    code.b.switch_to_block(done);
    let parsed = code.b.use_var(parsed);
    code.set_frame_word(Frame::OFFSET, parsed);
    let error = code.b.block_params(done)[0];
    if let Some(slot) = ir.intrinsics.parser_error {
        code.put(slot, error)?;
    }
    Ok((writer.code, error))
}

/// Value, mask and next state.
type Case = (u64, u64, Option<u16>);

/// The value that the keys of all these cases have in common, and its mask.
fn common(cases: &[Case]) -> (u64, u64) {
    let first = cases.first().map_or(0, |(value, ..)| *value);
    let mask = cases.iter().fold(u64::MAX, |common, (value, mask, _)| {
        common & mask & !(value ^ first)
    });
    (first, mask)
}

/// How many of the first cases one comparison rules out nearly as well as a comparison with each: they lead to the same
/// state and have as much in common as the first two. A compiler writes a range as such cases.
fn length_of_run(cases: &[Case]) -> usize {
    let Some([first, second]) = cases.first_chunk() else {
        return cases.len();
    };
    let (_, mask) = common(&[*first, *second]);
    if first.2 != second.2 || mask == 0 {
        return 1;
    }
    let same = |case: &&Case| case.2 == first.2 && common(&[*first, **case]).1 & mask == mask;
    cases.iter().take_while(same).count()
}

impl Writer<'_, '_> {
    /// Ends parsing.
    fn end(&mut self, error: u32) {
        let error = self.code.number(u64::from(error));
        self.code.b.ins().jump(self.done, &[error.into()]);
    }

    fn block(&self, state: Option<u16>) -> Option<Block> {
        self.states.get(usize::from(state?)).copied()
    }

    /// Jumps to a state, or to the end without an error.
    fn jump(&mut self, state: Option<u16>) {
        match self.block(state) {
            Some(block) => {
                self.code.b.ins().jump(block, &[]);
            }
            None => self.end(self.code.ir.errors.no_error),
        }
    }

    fn state(&mut self, index: usize, state: &ParseState) -> Result<(), Refused> {
        let block = *self.states.get(index).ok_or(Refused)?;
        self.code.b.switch_to_block(block);
        let number = u32::try_from(index).map_err(|_| Refused)?;
        self.code.b.set_srcloc(SourceLoc::new(STATE | number));
        if self.cyclic {
            self.count_visit();
        }
        match in_line(state) {
            Some(fast) => self.fast(fast, state.default),
            None => {
                self.slow(index, state);
                Ok(())
            }
        }
    }

    fn count_visit(&mut self) {
        let code = &mut self.code;
        let visits = code.frame_word(Frame::RESULT);
        let visits = code.b.ins().iadd_imm(visits, 1);
        code.set_frame_word(Frame::RESULT, visits);
        let most = i64::from(MAX_PARSER_STATES);
        let enough = code
            .b
            .ins()
            .icmp_imm(IntCC::UnsignedLessThanOrEqual, visits, most);
        let timeout = code.b.create_block();
        code.continue_if(enough, timeout);
        let here = code.b.current_block();
        code.b.switch_to_block(timeout);
        self.end(self.code.ir.errors.timeout);
        if let Some(here) = here {
            self.code.b.switch_to_block(here);
        }
    }

    fn fast(&mut self, state: &FastState, default: Option<Option<u16>>) -> Result<(), Refused> {
        for header in &state.extracts {
            self.code.check_size()?;
            let code = &mut self.code;
            let parsed = code.b.use_var(self.parsed);
            let end = code.b.ins().iadd_imm(parsed, i64::from(header.bytes));
            let enough = code
                .b
                .ins()
                .icmp(IntCC::UnsignedLessThanOrEqual, end, self.length);
            let short = code.b.create_block();
            code.continue_if(enough, short);
            let here = code.b.current_block().ok_or(Refused)?;
            code.b.switch_to_block(short);
            self.end(self.code.ir.errors.packet_too_short);
            let code = &mut self.code;
            code.b.switch_to_block(here);
            let from = code.b.ins().iadd(self.bytes, parsed);
            code.copy_in(from, header.offset, header.bytes)?;
            code.set_byte(header.valid, 1)?;
            code.b.def_var(self.parsed, end);
        }
        let code = &mut self.code;
        let mut key = None;
        for (slot, width) in &state.key {
            let value = code.get(*slot)?;
            key = Some(match key {
                None => value,
                Some(key) => {
                    let key = code.b.ins().ishl_imm(key, i64::from(width & 63));
                    code.b.ins().bor(key, value)
                }
            });
        }
        let key = key.unwrap_or_else(|| code.number(0));
        let mut cases = state.cases.as_slice();
        while let [(_, _, next), ..] = cases {
            self.code.check_size()?;
            let (run, rest) = cases.split_at(length_of_run(cases));
            cases = rest;
            let (value, common) = common(run);
            let otherwise = self.unless(key, value, common);
            if run.len() > 1 {
                for (value, mask, _) in run {
                    self.code.check_size()?;
                    let other = self.unless(key, *value, mask & !common);
                    self.jump(*next);
                    self.code.b.switch_to_block(other);
                }
                self.code.b.ins().jump(otherwise, &[]);
            } else {
                self.jump(*next);
            }
            self.code.b.switch_to_block(otherwise);
        }
        match default {
            Some(next) => self.jump(next),
            None => self.end(self.code.ir.errors.no_match),
        }
        Ok(())
    }

    /// Continues if the masked key is the value; the returned block is for other keys.
    fn unless(&mut self, key: Value, value: u64, mask: u64) -> Block {
        let code = &mut self.code;
        let masked = match mask {
            u64::MAX => key,
            mask => code.b.ins().band_imm(key, mask.cast_signed()),
        };
        let value = code.number(value & mask);
        let same = code.b.ins().icmp(IntCC::Equal, masked, value);
        let (case, other) = (code.b.create_block(), code.b.create_block());
        code.b.ins().brif(same, case, &[], other, &[]);
        code.b.switch_to_block(case);
        other
    }

    /// Writes a state that the interpreter runs.
    fn slow(&mut self, index: usize, state: &ParseState) {
        let code = &mut self.code;
        let parsed = code.b.use_var(self.parsed);
        code.set_frame_word(Frame::OFFSET, parsed);
        let index = code.number(index as u64);
        let next = code.call(helper::parse_state(), &[index]);
        let parsed = code.frame_word(Frame::OFFSET);
        code.b.def_var(self.parsed, parsed);
        let failed = code.b.ins().band_imm(next, helper::ERROR.cast_signed());
        let (bad, good) = (code.b.create_block(), code.b.create_block());
        code.b.ins().brif(failed, bad, &[], good, &[]);
        code.b.switch_to_block(bad);
        let error = code
            .b
            .ins()
            .band_imm(next, (helper::ERROR - 1).cast_signed());
        code.b.ins().jump(self.done, &[error.into()]);

        code.b.switch_to_block(good);
        let mut switch = Switch::new();
        let mut known: Vec<u16> = state.targets().collect();
        known.sort_unstable();
        known.dedup();
        for target in known {
            if let Some(block) = self.block(Some(target)) {
                switch.set_entry(u128::from(target), block);
            }
        }
        let accept = self.code.b.create_block();
        switch.emit(&mut self.code.b, next, accept);
        self.code.b.switch_to_block(accept);
        self.end(self.code.ir.errors.no_error);
    }
}
