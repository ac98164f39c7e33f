// SPDX-License-Identifier: Apache-2.0
//! What the code calls: each helper takes the frame first and gives one word back; all words have 64 bits. Why this is
//! sound is said at the head of `call.rs`.

use super::call::Frame;
use crate::exec::packet::Packet;
use crate::exec::pipeline::{self, Cx};
use crate::exec::{calc, parser, prefetch};
use crate::hash;
use crate::meter::CountedMeter;
use crate::tables::TableState;

/// No step.
pub(super) const NONE: u64 = u64::MAX;
/// What was found is an entry, not the default.
pub(super) const HIT: u64 = 1 << 32;
/// The rest is a parser error.
pub(super) const ERROR: u64 = 1 << 32;
/// Beyond every parser state.
const NO_STATE: u64 = 1 << 16;
/// Beyond every action number.
const NO_ACTION: u64 = 1 << 16;

/// Names a helper's address for the code.
macro_rules! helpers {
    ($($name:ident = $function:ident;)*) => {
        $(pub(super) fn $name() -> usize {
            $function as *const () as usize
        })*
    };
}

helpers! {
    find = find_packed;
    find_1 = find_word;
    find_2 = find_two_words;
    find_3 = find_three_words;
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
    bring = bring_near;
    parse_state = run_parse_state;
}

/// The context and the packet of a frame.
///
/// # Safety
/// The frame is one that `Native::run` made and still waits for, and no other reference made from it is in use.
unsafe fn parts<'f>(frame: *mut Frame) -> (&'f mut Cx<'f>, &'f mut Packet) {
    // SAFETY: `run` made both pointers from exclusive references that outlive the frame.
    unsafe { (&mut *(*frame).cx.cast::<Cx<'f>>(), &mut *(*frame).packet) }
}

/// A table of the frame.
///
/// # Safety
/// As for `parts`.
unsafe fn table_of<'f>(frame: *mut Frame, index: u64) -> Option<&'f mut TableState> {
    // SAFETY: the slice is the one that `run` holds exclusively.
    let tables = unsafe { std::slice::from_raw_parts_mut((*frame).tables, (*frame).table_count) };
    tables.get_mut(place(index))
}

/// Leaves the arguments of what was found in the frame; the action's number in the table, and whether it is a hit.
///
/// # Safety
/// As for `parts`.
#[inline(always)]
unsafe fn tell(frame: *mut Frame, index: u64, table: &TableState, found: Option<u32>) -> u64 {
    // SAFETY: nothing else refers to the frame while a helper runs.
    unsafe {
        (*frame).table = index;
        (*frame).slot = found.map_or(u64::MAX, u64::from);
    }
    let hit = if found.is_some() { HIT } else { 0 };
    let Some((local, args)) = table.action_of(found) else {
        return hit | NO_ACTION;
    };
    // SAFETY: nothing else refers to the frame while a helper runs.
    unsafe {
        (*frame).args = args.as_ptr();
        (*frame).arg_words = args.len();
    }
    hit | u64::from(local)
}

/// A key that the code packed.
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
        let Some(table) = table_of(frame, index) else {
            return NO_ACTION;
        };
        let found = table.lookup_packed(key(table, words));
        tell(frame, index, table, found)
    }
}

/// As `find_packed`, of a key that came in registers.
#[inline(always)]
unsafe fn find_words<const N: usize>(frame: *mut Frame, index: u64, key: [u64; N]) -> u64 {
    // SAFETY: called by the code with its frame.
    unsafe {
        let Some(table) = table_of(frame, index) else {
            return NO_ACTION;
        };
        let found = table.lookup_words(&key);
        tell(frame, index, table, found)
    }
}

unsafe extern "C" fn find_word(frame: *mut Frame, index: u64, a: u64) -> u64 {
    // SAFETY: called by the code with its frame.
    unsafe { find_words(frame, index, [a]) }
}

unsafe extern "C" fn find_two_words(frame: *mut Frame, index: u64, a: u64, b: u64) -> u64 {
    // SAFETY: called by the code with its frame.
    unsafe { find_words(frame, index, [a, b]) }
}

unsafe extern "C" fn find_three_words(
    frame: *mut Frame,
    index: u64,
    a: u64,
    b: u64,
    c: u64,
) -> u64 {
    // SAFETY: called by the code with its frame.
    unsafe { find_words(frame, index, [a, b, c]) }
}

unsafe extern "C" fn find_packed_and_count(
    frame: *mut Frame,
    index: u64,
    words: *const u64,
) -> u64 {
    // SAFETY: called by the code with its frame.
    unsafe {
        let Some(table) = table_of(frame, index) else {
            return NO_ACTION;
        };
        let found = table.lookup_packed(key(table, words));
        let (cx, packet) = parts(frame);
        if let Some(spec) = cx.ir.tables.get(place(index)) {
            pipeline::note(cx, table, packet, (spec, found));
        }
        tell(frame, index, table, found)
    }
}

unsafe extern "C" fn find_by_fields(frame: *mut Frame, index: u64) -> u64 {
    // SAFETY: called by the code with its frame.
    unsafe {
        let (cx, packet) = parts(frame);
        let Some(table) = table_of(frame, index) else {
            return NO_ACTION;
        };
        let found = pipeline::find(cx, table, packet, place(index));
        tell(frame, index, table, found)
    }
}

/// The whole of a table with a profile; the step behind it, or `NONE` at the end.
unsafe extern "C" fn apply_table(frame: *mut Frame, index: u64) -> u64 {
    // SAFETY: called by the code with its frame.
    unsafe {
        let (cx, packet) = parts(frame);
        let Some(table) = table_of(frame, index) else {
            return NONE;
        };
        let next = pipeline::apply(cx, table, packet, place(index));
        next.filter(|_| !packet.exit).map_or(NONE, u64::from)
    }
}

/// One step in the interpreter, with the running action's arguments or none. For a condition whether it is true,
/// for all others whether the packet is to leave the pipeline.
unsafe extern "C" fn run_step(frame: *mut Frame, index: u64, with_args: u64) -> u64 {
    // SAFETY: called by the code with its frame; arguments are those of an entry that was found and still is.
    unsafe {
        let (cx, packet) = parts(frame);
        let args = match with_args {
            0 => &[][..],
            _ => std::slice::from_raw_parts((*frame).args, (*frame).arg_words),
        };
        u64::from(pipeline::run_step(cx, packet, place(index), args))
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

/// The colour that a cell gives the packet, which counts in bytes or as one.
unsafe extern "C" fn execute_meter(
    frame: *mut Frame,
    cell: *mut CountedMeter,
    in_bytes: u64,
) -> u64 {
    // SAFETY: called by the code with its frame, and with a cell that it has found in an array of the frame.
    let (cell, bytes, now_ns) =
        unsafe { (&mut *cell, (*frame).packet_bytes, parts(frame).0.now_ns) };
    let units = if in_bytes == 0 { 1 } else { bytes };
    cell.execute(units, bytes, now_ns) as u64
}

/// Whether there is such a cell; its first word is left in the frame.
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

/// The value of a calculation over bytes that the code gathered behind a lead of zeros.
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
    let calculation = cx.ir.calculations.get(place(calculation));
    calculation.map_or(0, |calculation| {
        hash::compute_behind(calculation.algo, buffer)
    })
}

/// Bytes that are brought at once, and addresses that `bring` takes.
pub(super) const LINE_BYTES: usize = prefetch::LINE_BYTES;
pub(super) const ADDRESSES: usize = 5;

/// Takes any addresses.
extern "C" fn bring_near(
    _: *mut Frame,
    a: *const u8,
    b: *const u8,
    c: *const u8,
    d: *const u8,
    e: *const u8,
) -> u64 {
    for address in [a, b, c, d, e] {
        prefetch::bring_line(address);
    }
    0
}

/// A parser state in the interpreter, which goes on at the frame's offset and leaves its own there. The next state,
/// or `NO_STATE`, or an error with the bit `ERROR`.
unsafe extern "C" fn run_parse_state(frame: *mut Frame, state: u64) -> u64 {
    // SAFETY: called by the code with its frame.
    unsafe {
        let (cx, packet) = parts(frame);
        packet.rewind();
        packet.advance((*frame).offset);
        let next = parser::run_one(cx, packet, place(state));
        (*frame).offset = packet.parsed_bytes();
        match next {
            Ok(Some(state)) => u64::from(state),
            Ok(None) => NO_STATE,
            Err(error) => ERROR | u64::from(error),
        }
    }
}

/// Numbers of arrays have 16 bits.
fn number(word: u64) -> u16 {
    u16::try_from(word).unwrap_or(u16::MAX)
}

fn place(word: u64) -> usize {
    usize::try_from(word).unwrap_or(usize::MAX)
}
