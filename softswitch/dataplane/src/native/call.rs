// SPDX-License-Identifier: Apache-2.0
//! Where Rust and the program's code call each other: all that is unsafe about it.
//!
//! Why the code may be run:
//! - It reads and writes the PHV at offsets that were checked against `Ir::phv_bytes` when it was written; `run` calls
//!   it only for a PHV of that length, and nothing that a helper does changes the length.
//! - It reads a packet's bytes, and writes to the space in front of them, only within the length that the frame states.
//!   Helpers of the parser change no packet bytes.
//! - It reads and writes counters and registers, and hands meters to a helper, below the number of cells that the array
//!   itself states, and only those of numbers that `Ir` has; a switch takes code only for as many arrays as it has, and
//!   never has more or fewer.
//! - It indexes tables only through helpers, which check; it reads action arguments only below the count that it
//!   compared, or from `ZEROS`.
//! - A frame's pointers come from references that `run` holds exclusively until the code returns. The code itself
//!   touches only the frame, the PHV and arguments; helpers make references anew from the frame, one at a time, and keep
//!   none. Arguments lie in a table or profile, which no step of an action changes.
//! - A pipeline that paused is gone on with by the same code, with the tables as they were: nobody else has the switch
//!   while a burst is taken in. Of an action in which it paused the arguments are looked up again; a place that the code
//!   does not know ends it.
//! - It is called from `Native` only, which owns its memory and frees it when nothing can call it any more.
//! - A panic in a helper ends the process, as in every `extern "C"` function, instead of unwinding through the code.

use super::array::Array;
use super::arrival::{Arrival, Departure, Egressed, Ingressed};
use super::deparser::STOPPED;
use super::pause::PAUSED;
use crate::control::CounterValue;
use crate::exec::packet::{Packet, Progress};
use crate::exec::parser::verify_checksums;
use crate::exec::pipeline::Cx;
use crate::info::ProgramInfo;
use crate::ir::Ir;
use crate::state::{Externs, MeterArray, RegisterArray};
use crate::tables::TableState;
use cranelift_jit::JITModule;
use cranelift_module::FuncId;
use std::ffi::c_void;
use std::mem::{MaybeUninit, offset_of};
use std::sync::Mutex;

/// What the code works with.
#[repr(C)]
pub(super) struct Frame {
    pub phv: *mut u8,
    /// Its own address.
    pub this: *mut Self,
    /// Arguments of the running action.
    pub args: *const u64,
    pub arg_words: usize,
    /// A second result of a helper, or what a paused pipeline keeps.
    pub result: u64,
    /// Whether the pipeline is to pause where it first meets state, and where it is to go on: 0 at its start.
    pub pauses: u64,
    pub place: u64,
    /// The last table that was looked up, and the slot that it found (`u64::MAX`: none).
    pub table: u64,
    pub slot: u64,
    /// What is to be parsed, or the space that headers are put into.
    pub bytes: *mut u8,
    pub length: usize,
    /// Bytes parsed, or bytes left of the space.
    pub offset: usize,
    /// The first of each kind, and what the packet counts for.
    pub counters: *const Array<CounterValue>,
    pub meters: *const MeterArray,
    pub registers: *const RegisterArray,
    pub packet_bytes: u64,
    /// Whether the packet has just arrived, and where and when.
    pub fresh: u64,
    pub port: u64,
    pub time_us: u64,
    /// For a packet on its way out, which is `fresh` unless it is deflected: what else its fields say of that.
    pub length_now: u64,
    pub priority: u64,
    pub queued_us: u64,
    pub depth: u64,
    pub egress_spec: u64,
    pub enqueued_us: u64,
    pub enqueued_depth: u64,
    /// Behind a pipeline: what its fields ask for, beside `egress_spec` and `priority`.
    pub group: u64,
    pub instance_type: u64,
    /// Whether a checksum may have to be updated.
    pub updates: u64,
    pub tables: *mut TableState,
    pub table_count: usize,
    /// A `Cx`.
    pub cx: *mut c_void,
    pub packet: *mut Packet,
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "offsets within a frame are small"
)]
impl Frame {
    pub(super) const PHV: i32 = offset_of!(Self, phv) as i32;
    pub(super) const THIS: i32 = offset_of!(Self, this) as i32;
    pub(super) const ARGS: i32 = offset_of!(Self, args) as i32;
    pub(super) const ARG_WORDS: i32 = offset_of!(Self, arg_words) as i32;
    pub(super) const PAUSES: i32 = offset_of!(Self, pauses) as i32;
    pub(super) const PLACE: i32 = offset_of!(Self, place) as i32;
    pub(super) const BYTES: i32 = offset_of!(Self, bytes) as i32;
    pub(super) const LENGTH: i32 = offset_of!(Self, length) as i32;
    pub(super) const OFFSET: i32 = offset_of!(Self, offset) as i32;
    pub(super) const COUNTERS: i32 = offset_of!(Self, counters) as i32;
    pub(super) const METERS: i32 = offset_of!(Self, meters) as i32;
    pub(super) const REGISTERS: i32 = offset_of!(Self, registers) as i32;
    pub(super) const PACKET_BYTES: i32 = offset_of!(Self, packet_bytes) as i32;
    pub(super) const FRESH: i32 = offset_of!(Self, fresh) as i32;
    pub(super) const PORT: i32 = offset_of!(Self, port) as i32;
    pub(super) const TIME_US: i32 = offset_of!(Self, time_us) as i32;
    pub(super) const LENGTH_NOW: i32 = offset_of!(Self, length_now) as i32;
    pub(super) const PRIORITY: i32 = offset_of!(Self, priority) as i32;
    pub(super) const QUEUED_US: i32 = offset_of!(Self, queued_us) as i32;
    pub(super) const DEPTH: i32 = offset_of!(Self, depth) as i32;
    pub(super) const EGRESS_SPEC: i32 = offset_of!(Self, egress_spec) as i32;
    pub(super) const ENQUEUED_US: i32 = offset_of!(Self, enqueued_us) as i32;
    pub(super) const ENQUEUED_DEPTH: i32 = offset_of!(Self, enqueued_depth) as i32;
    pub(super) const GROUP: i32 = offset_of!(Self, group) as i32;
    pub(super) const INSTANCE_TYPE: i32 = offset_of!(Self, instance_type) as i32;
    pub(super) const UPDATES: i32 = offset_of!(Self, updates) as i32;
    pub(super) const RESULT: i32 = offset_of!(Self, result) as i32;
}

/// An action with more is left to the interpreter, with the rest of its program.
pub(super) const MOST_ARG_WORDS: usize = 256;

/// Arguments that are not there.
static ZEROS: [u64; MOST_ARG_WORDS] = [0; MOST_ARG_WORDS];

/// Address of [`MOST_ARG_WORDS`] zero words.
pub(super) fn zeros() -> u64 {
    ZEROS.as_ptr() as u64
}

type Function = unsafe extern "C" fn(*mut Frame) -> u64;

/// A program's code.
pub(crate) struct Native {
    phv_bytes: usize,
    /// Counters, meters and registers.
    arrays: (usize, usize, usize),
    ingress: Function,
    egress: Function,
    parser: Option<Function>,
    deparser: Option<Function>,
    /// Packets may pause in ingress.
    pauses: bool,
    /// Owns the memory of the code.
    module: Mutex<Option<JITModule>>,
}

/// The functions of a program's code.
pub(super) struct Functions {
    pub ingress: FuncId,
    pub egress: FuncId,
    pub parser: Option<FuncId>,
    pub deparser: Option<FuncId>,
    /// Packets may pause in ingress.
    pub pauses: bool,
}

impl std::fmt::Debug for Native {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Native").finish_non_exhaustive()
    }
}

/// One of a program's two pipelines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gress {
    Ingress,
    Egress,
}

impl Native {
    /// The functions must be defined and finalized in the module, and written for this program.
    pub(super) fn new(
        (info, ir): (&ProgramInfo, &Ir),
        module: JITModule,
        functions: &Functions,
    ) -> Self {
        let function = |id| {
            let code = module.get_finalized_function(id);
            // SAFETY: `Compiler::function` gave every function this signature, in the C convention of the platform.
            unsafe { std::mem::transmute::<*const u8, Function>(code) }
        };
        Self {
            phv_bytes: ir.phv_bytes,
            arrays: (info.counters.len(), info.meters.len(), info.registers.len()),
            ingress: function(functions.ingress),
            egress: function(functions.egress),
            parser: functions.parser.map(function),
            deparser: functions.deparser.map(function),
            pauses: functions.pauses,
            module: Mutex::new(Some(module)),
        }
    }

    /// Whether there are the arrays that the code was written for.
    pub(crate) fn fits(&self, externs: &Externs) -> bool {
        let arrays = (
            externs.counters.len(),
            externs.meters.len(),
            externs.registers.len(),
        );
        arrays == self.arrays
    }

    /// Whether the packets of a burst may wait for each other in ingress.
    pub(crate) fn pauses(&self) -> bool {
        self.pauses
    }

    /// Runs ingress; None (and nothing done) if the packet's fields or the arrays are not those of the program.
    #[inline]
    pub(crate) fn run_ingress(
        &self,
        cx: &mut Cx<'_>,
        tables: &mut [TableState],
        packet: &mut Packet,
    ) -> Option<Ingressed> {
        if packet.phv.len() != self.phv_bytes {
            return None;
        }
        let mut frame = Frame::new(cx, tables, packet);
        // SAFETY: see the head of this file.
        unsafe { frame.run(self.ingress) };
        Some(frame.ingressed())
    }

    /// Writes the fields of a departure and runs egress; None (and nothing done) as above.
    #[inline]
    pub(crate) fn run_egress(
        &self,
        cx: &mut Cx<'_>,
        tables: &mut [TableState],
        packet: &mut Packet,
        departure: Departure,
    ) -> Option<Egressed> {
        if packet.phv.len() != self.phv_bytes {
            return None;
        }
        let mut frame = Frame::new(cx, tables, packet);
        frame.fresh = u64::from(!departure.deflected);
        (frame.port, frame.time_us) = (departure.port, departure.time_us);
        (frame.length_now, frame.priority) = (departure.length, departure.priority);
        (frame.queued_us, frame.depth) = (departure.queued_us, departure.depth);
        frame.egress_spec = departure.egress_spec;
        (frame.enqueued_us, frame.enqueued_depth) =
            (departure.enqueued_us, departure.enqueued_depth);
        // SAFETY: see the head of this file.
        unsafe { frame.run(self.egress) };
        Some(Egressed {
            egress_spec: frame.egress_spec,
            updates: frame.updates != 0,
        })
    }

    /// Takes a packet from its arrival through the parser and ingress, where it `pauses` if it is to and meets state; how far
    /// it came is left in it. The parser's error; None (and nothing that matters done) where there is no code for it.
    #[inline]
    pub(crate) fn take_in(
        &self,
        cx: &mut Cx<'_>,
        tables: &mut [TableState],
        packet: &mut Packet,
        (arrival, pauses): (Arrival, bool),
    ) -> Option<u32> {
        let parser = self.parser?;
        if packet.phv.len() != self.phv_bytes {
            packet.phv.clear();
            packet.phv.resize(self.phv_bytes, 0);
        }
        #[cfg(debug_assertions)]
        packet.phv.fill(crate::exec::phv::POISON);
        let bytes = packet.payload();
        let (start, length) = (bytes.as_ptr(), bytes.len());
        let mut frame = Frame::new(cx, tables, packet);
        // The parser only reads them.
        (frame.bytes, frame.length) = (start.cast_mut(), length);
        (frame.fresh, frame.port, frame.time_us) = (1, arrival.port, arrival.time_us);
        // SAFETY: see the head of this file.
        let error = unsafe { frame.run(parser) };
        packet.rewind();
        packet.advance(frame.offset);
        if !cx.ir.verify.is_empty() {
            verify_checksums(cx, packet);
        }
        frame.phv = packet.phv.as_mut_ptr();
        frame.cx = std::ptr::from_mut(cx).cast();
        frame.packet = packet;
        frame.pauses = u64::from(pauses);
        // SAFETY: see the head of this file; the pointers were made anew from the same references.
        let paused = unsafe { frame.run(self.ingress) } == PAUSED;
        if paused {
            packet.progress.place = frame.place;
            packet.progress.kept = frame.result;
            packet.progress.table = frame.table;
            packet.progress.slot = frame.slot;
        } else {
            packet.progress.place = Progress::ENDED;
            packet.ingressed = frame.ingressed();
        }
        Some(u32::try_from(error).unwrap_or(u32::MAX))
    }

    /// Runs the rest of ingress, with the tables as they were; None (and nothing done) as in [`Native::run_ingress`].
    #[inline]
    pub(crate) fn go_on(
        &self,
        cx: &mut Cx<'_>,
        tables: &mut [TableState],
        packet: &mut Packet,
    ) -> Option<Ingressed> {
        if packet.phv.len() != self.phv_bytes {
            return None;
        }
        let from = packet.progress;
        let mut frame = Frame::new(cx, tables, packet);
        let table = usize::try_from(from.table).unwrap_or(usize::MAX);
        let table = tables.get(table);
        let slot = u32::try_from(from.slot).ok();
        if let Some((_, args)) = table.and_then(|table| table.action_of(slot)) {
            (frame.args, frame.arg_words) = (args.as_ptr(), args.len());
        }
        (frame.place, frame.result) = (from.place, from.kept);
        // SAFETY: see the head of this file. The code finds its arguments in the frame again.
        unsafe { frame.run(self.ingress) };
        Some(frame.ingressed())
    }

    /// Parses the packet from its start; the parser's error, which its field has too. None (and nothing done) if there is no
    /// code for it.
    #[inline]
    pub(crate) fn parse(&self, cx: &mut Cx<'_>, packet: &mut Packet) -> Option<u32> {
        let code = self.parser?;
        if packet.phv.len() != self.phv_bytes {
            return None;
        }
        let bytes = packet.payload();
        let (start, length) = (bytes.as_ptr(), bytes.len());
        let mut frame = Frame::new(cx, &mut [], packet);
        // The parser only reads them.
        (frame.bytes, frame.length) = (start.cast_mut(), length);
        // SAFETY: see the head of this file.
        let error = unsafe { frame.run(code) };
        let taken = frame.offset;
        packet.rewind();
        packet.advance(taken);
        u32::try_from(error).ok()
    }

    /// Puts the valid headers in front of the payload; false (and none of it done) where the interpreter has to.
    #[inline]
    pub(crate) fn deparse(&self, packet: &mut Packet) -> bool {
        let Some(code) = self.deparser else {
            return false;
        };
        if packet.phv.len() != self.phv_bytes {
            return false;
        }
        let space = packet.space();
        let (start, length) = (space.as_mut_ptr(), space.len());
        let mut frame = MaybeUninit::<Frame>::uninit();
        let at = frame.as_mut_ptr();
        // SAFETY: see the head of this file. The deparser reads these words alone, calls no helper, and writes the one that
        // is read here unless it stops.
        let left = unsafe {
            (&raw mut (*at).phv).write(packet.phv.as_mut_ptr());
            (&raw mut (*at).bytes).write(start);
            (&raw mut (*at).length).write(length);
            if code(at) == STOPPED {
                return false;
            }
            (&raw const (*at).offset).read()
        };
        packet.take_space(length.saturating_sub(left));
        true
    }
}

impl Frame {
    /// Runs code on it.
    ///
    /// # Safety
    /// The code is of the program whose packet and arrays the frame names; see the head of this file.
    #[inline(always)]
    unsafe fn run(&mut self, code: Function) -> u64 {
        let this = &raw mut *self;
        // SAFETY: as above; nothing else refers to the frame while the code runs.
        unsafe {
            (*this).this = this;
            code(this)
        }
    }

    /// What ingress left.
    #[inline(always)]
    fn ingressed(&self) -> Ingressed {
        Ingressed {
            group: self.group,
            egress_spec: self.egress_spec,
            priority: self.priority,
            instance_type: self.instance_type,
        }
    }

    #[inline]
    fn new(cx: &mut Cx<'_>, tables: &mut [TableState], packet: &mut Packet) -> Self {
        Self {
            phv: packet.phv.as_mut_ptr(),
            this: std::ptr::null_mut(),
            args: ZEROS.as_ptr(),
            arg_words: 0,
            result: 0,
            pauses: 0,
            place: 0,
            table: 0,
            slot: 0,
            bytes: std::ptr::null_mut(),
            length: 0,
            offset: 0,
            counters: cx.externs.counters.as_ptr(),
            meters: cx.externs.meters.as_ptr(),
            registers: cx.externs.registers.as_ptr(),
            packet_bytes: u64::from(packet.ingress_length),
            fresh: 0,
            port: 0,
            time_us: 0,
            length_now: 0,
            priority: 0,
            queued_us: 0,
            depth: 0,
            egress_spec: 0,
            enqueued_us: 0,
            enqueued_depth: 0,
            group: 0,
            instance_type: 0,
            updates: 0,
            tables: tables.as_mut_ptr(),
            table_count: tables.len(),
            cx: std::ptr::from_mut(cx).cast(),
            packet,
        }
    }
}

impl Drop for Native {
    fn drop(&mut self) {
        let module = match self.module.get_mut() {
            Ok(module) => module.take(),
            Err(poisoned) => poisoned.into_inner().take(),
        };
        if let Some(module) = module {
            // SAFETY: `self` is the only one that calls into it, and it is being dropped.
            unsafe { module.free_memory() };
        }
    }
}
