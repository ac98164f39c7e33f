// SPDX-License-Identifier: Apache-2.0
//! Helpers: the functions that the machine code calls. Each takes the frame first and returns one word; all words have
//! 64 bits. `call.rs` says why this is sound.

use super::frame::Frame;
use crate::context::Cx;
use crate::exec::{calc, parser, pipeline};
use crate::hash::{self, Contributions, SHORT_BYTES};
use crate::memory::{self, prefetch_line};
use crate::meter::CountedMeter;
use crate::packet::Packet;
use crate::tables::{BoundAction, TableState};

/// No step.
pub(super) const NONE: u64 = u64::MAX;
/// Bit of a lookup's result: an entry was found, not the default.
pub(super) const HIT: u64 = 1 << 32;
/// Bit of a parser state's result: the low bits are a parser error.
pub(super) const ERROR: u64 = 1 << 32;
/// Beyond every parser state.
const NO_STATE: u64 = 1 << 16;
/// Beyond every action number.
const NO_ACTION: u64 = 1 << 16;

/// Defines a function per helper that returns its address.
macro_rules! helpers {
    ($($name:ident = $function:ident;)*) => {
        $(pub(super) fn $name() -> usize {
            $function as *const () as usize
        })*
    };
}

helpers! {
    find = find_packed;
    find_and_count = find_packed_and_count;
    find_unpacked = find_by_fields;
    apply = apply_table;
    step = run_step;
    exit = exit_flag;
    out_of_range = count_out_of_range;
    meter = execute_meter;
    read_register = register_word;
    write_register = set_register;
    hash = calculate;
    hash_bytes = calculate_over;
    add_contributions = sum_of_contributions;
    prefetch = prefetch_lines;
    parse_state = run_parse_state;
}

/// The context and the packet of a frame.
///
/// # Safety
/// The frame is one that `Frame::run` runs code on, and no other reference made from it is in use.
unsafe fn parts<'f>(frame: *mut Frame) -> (&'f mut Cx<'f>, &'f mut Packet) {
    // SAFETY: both pointers come from exclusive references that outlive the frame.
    unsafe { (&mut *(*frame).cx.cast::<Cx<'f>>(), &mut *(*frame).packet) }
}

/// A table of the frame.
///
/// # Safety
/// As for `parts`.
unsafe fn table_of<'f>(frame: *mut Frame, index: u64) -> &'f mut TableState {
    // SAFETY: the caller of the code holds the tables exclusively, and the code knows how many there are.
    unsafe { &mut *(*frame).tables.add(index_of(index)) }
}

/// Writes the lookup's entry and its arguments to the frame; returns the action's number in the table, with `HIT` for a
/// hit.
///
/// # Safety
/// As for `parts`.
#[inline(always)]
pub(super) unsafe fn report(frame: *mut Frame, table: &TableState, found: Option<u32>) -> u64 {
    // SAFETY: nothing else refers to the frame while a helper runs.
    unsafe {
        match found {
            Some(slot) => {
                (*frame).slot = u64::from(slot);
                report_action(frame, table.action_of(found), HIT)
            }
            None => {
                (*frame).slot = u64::MAX;
                report_action(frame, table.action_of(None), 0)
            }
        }
    }
}

/// Writes the arguments to the frame; returns the action's number in the table with `hit`.
///
/// # Safety
/// As for `parts`.
#[inline(always)]
unsafe fn report_action(frame: *mut Frame, action: Option<&BoundAction>, hit: u64) -> u64 {
    let Some(action) = action else {
        return hit | NO_ACTION;
    };
    // SAFETY: nothing else refers to the frame while a helper runs.
    unsafe { (*frame).args = action.words() };
    hit | u64::from(action.local())
}

/// The key that the code packed.
///
/// # Safety
/// The code has stored as many words as the table's key has.
unsafe fn key<'f>(table: &TableState, key: *const u64) -> &'f [u64] {
    // SAFETY: as above; an empty key has an address too.
    unsafe { std::slice::from_raw_parts(key, table.key_words()) }
}

unsafe extern "C" fn find_packed(frame: *mut Frame, index: u64, words: *const u64) -> u64 {
    // SAFETY: called by the code with its frame.
    unsafe {
        let table = table_of(frame, index);
        let found = table.lookup_packed(key(table, words));
        report(frame, table, found)
    }
}

unsafe extern "C" fn find_packed_and_count(
    frame: *mut Frame,
    index: u64,
    words: *const u64,
) -> u64 {
    // SAFETY: called by the code with its frame.
    unsafe {
        let table = table_of(frame, index);
        let found = table.lookup_packed(key(table, words));
        let (cx, packet) = parts(frame);
        if let Some(spec) = cx.ir.tables.get(index_of(index)) {
            pipeline::update_direct(cx, table, packet, (spec, found));
        }
        report(frame, table, found)
    }
}

unsafe extern "C" fn find_by_fields(frame: *mut Frame, index: u64) -> u64 {
    // SAFETY: called by the code with its frame.
    unsafe {
        let (cx, packet) = parts(frame);
        let table = table_of(frame, index);
        let found = pipeline::find(cx, table, packet, index_of(index));
        report(frame, table, found)
    }
}

/// Applies a table with a profile; the step that follows, or `NONE` at the end.
unsafe extern "C" fn apply_table(frame: *mut Frame, index: u64) -> u64 {
    // SAFETY: called by the code with its frame.
    unsafe {
        let (cx, packet) = parts(frame);
        let table = table_of(frame, index);
        let next = pipeline::apply::<false>(cx, table, packet, index_of(index));
        next.filter(|_| !packet.exit).map_or(NONE, u64::from)
    }
}

/// Runs one step in the interpreter, with the words of the running action's arguments. Returns the value of a condition,
/// and for every other step whether the packet leaves the pipeline.
unsafe extern "C" fn run_step(
    frame: *mut Frame,
    index: u64,
    args: *const u64,
    arg_words: usize,
) -> u64 {
    // SAFETY: called by the code with its frame; arguments are those of an entry that was found and still is.
    unsafe {
        let (cx, packet) = parts(frame);
        let args = match arg_words {
            0 => &[][..],
            words => std::slice::from_raw_parts(args, words),
        };
        u64::from(pipeline::run_step(cx, packet, index_of(index), args))
    }
}

unsafe extern "C" fn exit_flag(frame: *mut Frame) -> u64 {
    // SAFETY: called by the code with its frame.
    unsafe { u64::from(parts(frame).1.exit) }
}

unsafe extern "C" fn count_out_of_range(frame: *mut Frame) -> u64 {
    // SAFETY: called by the code with its frame.
    let (cx, _) = unsafe { parts(frame) };
    cx.externs.stats.index_out_of_range += 1;
    0
}

/// The packet's colour; it takes its bytes from the meter, or one if `in_bytes` is 0.
unsafe extern "C" fn execute_meter(
    frame: *mut Frame,
    cell: *mut CountedMeter,
    in_bytes: u64,
) -> u64 {
    // SAFETY: called by the code with its frame, and with a cell of an array of the frame.
    let (cell, bytes, now_ns) =
        unsafe { (&mut *cell, (*frame).counted_bytes, parts(frame).0.now_ns) };
    let units = if in_bytes == 0 { 1 } else { bytes };
    cell.execute(units, bytes, now_ns) as u64
}

/// Whether the cell exists; its first word is written to the frame.
unsafe extern "C" fn register_word(frame: *mut Frame, register: u64, index: u64) -> u64 {
    // SAFETY: called by the code with its frame.
    unsafe {
        let (cx, _) = parts(frame);
        let word = pipeline::read_register(cx, number(register), index);
        (*frame).result = word.unwrap_or(0);
        u64::from(word.is_some())
    }
}

unsafe extern "C" fn set_register(frame: *mut Frame, register: u64, index: u64, value: u64) -> u64 {
    // SAFETY: called by the code with its frame.
    let (cx, _) = unsafe { parts(frame) };
    pipeline::write_register(cx, number(register), index, value);
    0
}

unsafe extern "C" fn calculate(frame: *mut Frame, calculation: u64) -> u64 {
    // SAFETY: called by the code with its frame.
    let (cx, packet) = unsafe { parts(frame) };
    calc::compute(cx.ir, cx.externs, packet, number(calculation))
}

/// The value of a calculation over bytes that the code gathered after a lead of zeros.
unsafe extern "C" fn calculate_over(
    frame: *mut Frame,
    calculation: u64,
    buffer: *mut u8,
    length: usize,
) -> u64 {
    // SAFETY: called by the code with its frame, and with bytes of its stack that it has just written.
    let (cx, buffer) = unsafe {
        (
            parts(frame).0,
            std::slice::from_raw_parts_mut(buffer, length),
        )
    };
    let calculation = cx.ir.calculations.get(index_of(calculation));
    calculation.map_or(0, |calculation| {
        hash::compute_after_lead(calculation.algo, buffer)
    })
}

/// The exclusive or of what each of these bytes contributes to a CRC.
unsafe extern "C" fn sum_of_contributions(
    _: *mut Frame,
    tables: *const Contributions,
    bytes: *const [u8; SHORT_BYTES],
) -> u64 {
    // SAFETY: called by the code with tables that live as long as the program, and with bytes of its stack.
    let (tables, bytes) = unsafe { (&*tables, &*bytes) };
    let sum = bytes.iter().rev().zip(tables);
    let sum = sum.fold(0, |sum, (byte, table)| sum ^ table[usize::from(*byte)]);
    u64::from(sum)
}

pub(super) const LINE_BYTES: usize = memory::CACHE_LINE_BYTES;
/// Addresses that `prefetch` takes.
pub(super) const ADDRESSES: usize = 5;

/// Prefetches the cache lines of any addresses.
extern "C" fn prefetch_lines(
    _: *mut Frame,
    a: *const u8,
    b: *const u8,
    c: *const u8,
    d: *const u8,
    e: *const u8,
) -> u64 {
    for address in [a, b, c, d, e] {
        prefetch_line(address);
    }
    0
}

/// Runs one parser state in the interpreter, from the frame's offset on, which it updates. Returns the next state, or
/// `NO_STATE`, or an error with the bit `ERROR`.
unsafe extern "C" fn run_parse_state(frame: *mut Frame, state: u64) -> u64 {
    // SAFETY: called by the code with its frame.
    unsafe {
        let (cx, packet) = parts(frame);
        packet.set_parsed_bytes((*frame).offset);
        let next = parser::run_one(cx, packet, index_of(state));
        (*frame).offset = packet.parsed_bytes();
        match next {
            Ok(Some(state)) => u64::from(state),
            Ok(None) => NO_STATE,
            Err(error) => ERROR | u64::from(error),
        }
    }
}

/// The number of an array or calculation has 16 bits.
fn number(word: u64) -> u16 {
    u16::try_from(word).unwrap_or(u16::MAX)
}

fn index_of(word: u64) -> usize {
    usize::try_from(word).unwrap_or(usize::MAX)
}
