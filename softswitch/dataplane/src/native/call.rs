// SPDX-License-Identifier: Apache-2.0
//! Calls of the machine code from Rust: all unsafe code of this folder is here, in
//! `helper.rs` and in `crash.rs`.
//!
//! Why it is sound to run the code:
//! - It reads and writes the PHV at offsets that were checked against `Ir::phv_bytes` when it was written; it is called
//!   only with a PHV of that length, and no helper changes the length.
//! - It reads a packet's bytes, and writes to the headroom before them, only within the length in the frame. Helpers of
//!   the parser change no packet bytes.
//! - It reads and writes cells of counters and registers, and passes cells of meters to a helper, only of arrays that
//!   `ProgramInfo` has, and only at indices below the number of cells: of a field too narrow for others, or compared
//!   with the number in the array itself. A switch runs the code only if it has exactly these arrays with as many cells
//!   (`Native::fits`), and neither number ever changes.
//! - It hands tables to helpers only at indices below the number of tables that `Ir` has. A switch runs the code only if
//!   it has as many (`Native::fits`), and their number never changes. The number of words of a key is that of the same
//!   table in `Ir`. The actions of a table's entries and its default have as many argument words as `Ir` says
//!   (`TableState::bind`).
//! - The tables of a CRC that it hands to a helper live as long as the program.
//! - The pointers of a frame come from references that the caller holds exclusively until the code returns. The code
//!   itself accesses only the frame, the PHV and arguments. Helpers create references from the frame one at a time and
//!   keep none. Arguments lie in a table or profile, which no step of an action changes.
//! - `through` uses the frame that `start` wrote, which nothing else writes in between. Of its pointers, those that come
//!   from references are written anew; those to arrays are of vectors, which nobody changes while a burst borrows the
//!   switch.
//! - Words of a frame that are not written are not read: the code reads those of `Frame::begin` and, by function, those
//!   that its caller below writes; it writes the results itself.
//! - A paused pipeline is resumed by the same code with unchanged tables, because a burst borrows the switch
//!   exclusively. If it paused in an action, the arguments are looked up again. A number of a pause that the code does
//!   not know ends the pipeline.
//! - Only `Native` calls the code; it owns the memory and frees it when nothing can call it any more.
//! - A panic in a helper aborts the process, as in every `extern "C"` function, and does not unwind through the code.

use super::crash::Registered;
use super::frame::{DEPARSED, DROPPED, Frame, PAUSED, STOPPED};
use super::places::Places;
use crate::context::Cx;
use crate::exec::parser::verify_checksums;
use crate::exec::pipeline;
use crate::info::ProgramInfo;
use crate::ir::Ir;
use crate::packet::{
    EgressMetadata, EgressResult, IngressMetadata, IngressResult, Packet, Phv, Progress, Through,
};
use crate::state::Externs;
use crate::tables::{BoundAction, TableState};
use cranelift_jit::JITModule;
use cranelift_module::FuncId;
use std::ptr;
use std::sync::Mutex;

type Function = unsafe extern "C" fn(*mut Frame) -> u64;

/// A program's machine code.
pub(crate) struct Native {
    phv_bytes: usize,
    /// Numbers of cells of the counters, meters and registers.
    cells: [Vec<usize>; 3],
    /// Number of tables.
    tables: usize,
    ingress: Function,
    egress: Function,
    parser: Option<Function>,
    /// The parser, and ingress up to its pauses.
    start: Option<Function>,
    deparser: Option<Function>,
    /// Ingress has steps at which a packet may pause.
    may_pause: bool,
    /// Tells a crash where in the code it is.
    registered: Option<Registered>,
    /// Owns the memory of the code.
    module: Mutex<Option<JITModule>>,
}

/// The functions of a program's code.
pub(super) struct Functions {
    pub ingress: FuncId,
    pub egress: FuncId,
    pub parser: Option<FuncId>,
    pub start: Option<FuncId>,
    pub deparser: Option<FuncId>,
    /// Ingress has steps at which a packet may pause.
    pub may_pause: bool,
}

impl std::fmt::Debug for Native {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Native").finish_non_exhaustive()
    }
}

impl Native {
    /// The functions must be defined and finalized in the module, and compiled for this program.
    pub(super) fn new(
        (info, ir): (&ProgramInfo, &Ir),
        module: JITModule,
        functions: &Functions,
        places: Places,
    ) -> Self {
        let function = |id| {
            let code = module.get_finalized_function(id);
            // SAFETY: `Compiler::function` gave every function this signature, in the C convention of the platform.
            unsafe { std::mem::transmute::<*const u8, Function>(code) }
        };
        Self {
            phv_bytes: ir.phv_bytes,
            cells: Externs::cells(info),
            tables: ir.tables.len(),
            ingress: function(functions.ingress),
            egress: function(functions.egress),
            parser: functions.parser.map(function),
            start: functions.start.map(function),
            deparser: functions.deparser.map(function),
            may_pause: functions.may_pause,
            registered: Some(Registered::new(places)),
            module: Mutex::new(Some(module)),
        }
    }

    /// Its places, as the handler of crashes knows them.
    #[cfg(test)]
    pub(super) fn registered(&self) -> Option<&Registered> {
        self.registered.as_ref()
    }

    /// Whether these are exactly the arrays and as many tables as the code was compiled for.
    pub(crate) fn fits(&self, externs: &Externs, tables: &[TableState]) -> bool {
        let counters = externs.counters.iter().map(|cells| cells.len());
        let meters = externs.meters.iter().map(|meter| meter.cells.len());
        let registers = externs.registers.iter().map(|r| r.cells.len());
        let [all_counters, all_meters, all_registers] = &self.cells;
        counters.eq(all_counters.iter().copied())
            && meters.eq(all_meters.iter().copied())
            && registers.eq(all_registers.iter().copied())
            && tables.len() == self.tables
    }

    /// Whether the packets of a burst may pause in ingress.
    pub(crate) fn may_pause(&self) -> bool {
        self.may_pause
    }

    /// Whether the packet's PHV is that of the program.
    #[inline(always)]
    fn has_phv_of(&self, packet: &Packet) -> bool {
        packet.phv.len() == self.phv_bytes
    }

    /// Runs ingress; None (and nothing done) if the PHV is not that of the program, or for a packet that the parser has
    /// dropped.
    #[inline]
    pub(crate) fn ingress(
        &self,
        cx: &mut Cx<'_>,
        tables: &mut [TableState],
        packet: &mut Packet,
    ) -> Option<IngressResult> {
        if packet.exit || !self.has_phv_of(packet) {
            return None;
        }
        let frame = Frame::begin(cx, tables, packet);
        // SAFETY: see the module documentation.
        unsafe {
            ((*frame).may_pause, (*frame).resume_at) = (0, 0);
            (self.ingress)(frame);
            Some(Frame::ingress_result(frame))
        }
    }

    /// Writes the metadata of egress and runs egress; None (and nothing done) if the PHV is not that of the program.
    #[inline(always)]
    pub(crate) fn egress(
        &self,
        cx: &mut Cx<'_>,
        tables: &mut [TableState],
        packet: &mut Packet,
        metadata: &EgressMetadata,
    ) -> Option<EgressResult> {
        if !self.has_phv_of(packet) {
            return None;
        }
        let frame = Frame::begin(cx, tables, packet);
        // SAFETY: see the module documentation.
        Some(unsafe { self.run_egress(frame, (cx, packet), metadata) })
    }

    /// # Safety
    /// The frame is that of the packet, whose PHV is that of the program, and `Frame::begin` has written it.
    #[inline(always)]
    unsafe fn run_egress(
        &self,
        frame: *mut Frame,
        (cx, packet): (&mut Cx<'_>, &mut Packet),
        metadata: &EgressMetadata,
    ) -> EgressResult {
        let (start, length) = packet.headroom();
        // SAFETY: see the module documentation.
        unsafe {
            (*frame).write_metadata = u64::from(!metadata.deflected);
            ((*frame).port, (*frame).time_us) = (metadata.port, metadata.time_us);
            ((*frame).packet_length, (*frame).priority) = (metadata.length, metadata.priority);
            ((*frame).queued_us, (*frame).deq_qdepth) = (metadata.queued_us, metadata.deq_qdepth);
            (*frame).egress_spec = metadata.egress_spec;
            ((*frame).enqueued_us, (*frame).enq_qdepth) =
                (metadata.enqueued_us, metadata.enq_qdepth);
            ((*frame).bytes, (*frame).length) = (start, length);
            (*frame).drop_port = u64::from(cx.drop_port);
            (*frame).cx = std::ptr::from_mut(cx).cast();
            (*frame).packet = packet;
            let deparsed = (self.egress)(frame) == DEPARSED;
            if deparsed {
                packet.extend_payload(length - (*frame).offset);
            }
            EgressResult {
                egress_spec: (*frame).egress_spec,
                update_checksums: (*frame).update_checksums != 0,
                deparsed,
            }
        }
    }

    /// Writes the metadata of a received packet, parses it and runs ingress: if `may_pause`, only up to the first stateful
    /// step, and otherwise at least that far. The packet keeps how far it came. Returns whether the parser found no error;
    /// None (and only the PHV changed) if the parser was not compiled.
    #[inline]
    pub(crate) fn start(
        &self,
        cx: &mut Cx<'_>,
        tables: &mut [TableState],
        packet: &mut Packet,
        (metadata, may_pause): (IngressMetadata, bool),
    ) -> Option<bool> {
        let parser = self.parser?;
        if !self.has_phv_of(packet) {
            packet.phv = Phv::new(self.phv_bytes);
        }
        #[cfg(debug_assertions)]
        packet.phv.fill(crate::packet::phv::POISON);
        let (start, length) = packet.unparsed();
        let frame = Frame::begin(cx, tables, packet);
        // SAFETY: see the module documentation. The parser only reads the bytes.
        unsafe {
            ((*frame).bytes, (*frame).length) = (start.cast_mut(), length);
            ((*frame).port, (*frame).time_us) = (metadata.port, metadata.time_us);
        }
        let (error, returned) = match self.start {
            // SAFETY: as above.
            Some(start) => unsafe {
                let returned = start(frame);
                packet.set_parsed_bytes((*frame).offset);
                ((*frame).parser_error, returned)
            },
            None => {
                // SAFETY: as above.
                let error = unsafe {
                    (*frame).write_metadata = 1;
                    parser(frame)
                };
                // SAFETY: the parser has written the word.
                packet.set_parsed_bytes(unsafe { (*frame).offset });
                if !cx.ir.verify.is_empty() {
                    verify_checksums(cx, packet);
                }
                let returned = if packet.exit {
                    DROPPED
                } else {
                    // SAFETY: see the module documentation; the pointers are created again from the same references.
                    unsafe {
                        (*frame).cx = std::ptr::from_mut(cx).cast();
                        (*frame).packet = packet;
                        ((*frame).may_pause, (*frame).resume_at) = (u64::from(may_pause), 0);
                        (self.ingress)(frame)
                    }
                };
                (error, returned)
            }
        };
        packet.progress = match returned {
            PAUSED => Progress::Paused,
            DROPPED => {
                let result = pipeline::ingress(cx, tables, packet);
                // SAFETY: the frame is that of the packet.
                unsafe { Frame::set_ingress_result(frame, &result) };
                Progress::Ended
            }
            _ => Progress::Ended,
        };
        Some(error == u64::from(cx.ir.errors.no_error))
    }

    /// Runs the rest of an ingress that [`Self::start`] began, with unchanged tables and arrays. If `between` returns its
    /// metadata, runs egress too. None (and nothing done) if `start` has not run the packet since the last call.
    #[inline(always)]
    pub(crate) fn through(
        &self,
        cx: &mut Cx<'_>,
        tables: &mut [TableState],
        packet: &mut Packet,
        between: impl FnOnce(&mut Cx<'_>, &mut Packet, &IngressResult) -> Option<EgressMetadata>,
    ) -> Option<Through> {
        let progress = std::mem::take(&mut packet.progress);
        if progress == Progress::Start {
            return None;
        }
        let frame = packet.phv.frame().cast::<Frame>();
        // SAFETY: see the module documentation.
        unsafe {
            if progress == Progress::Paused {
                (*frame).args = args_of(tables, (*frame).table, (*frame).slot);
                (*frame).tables = tables.as_mut_ptr();
                (*frame).cx = std::ptr::from_mut(cx).cast();
                (*frame).packet = packet;
                (*frame).may_pause = 0;
                (self.ingress)(frame);
            }
            let result = Frame::ingress_result(frame);
            let Some(metadata) = between(cx, packet, &result) else {
                return Some(Through::Ingress(result));
            };
            // The pointers are created again from the same references.
            (*frame).tables = tables.as_mut_ptr();
            let result = self.run_egress(frame, (cx, packet), &metadata);
            Some(Through::Egress(result))
        }
    }

    /// Parses the packet from its start; the parser's error, which `parser_error` gets too. None (and nothing done) if
    /// the parser was not compiled.
    #[inline]
    pub(crate) fn parse(&self, cx: &mut Cx<'_>, packet: &mut Packet) -> Option<u32> {
        let code = self.parser?;
        if !self.has_phv_of(packet) {
            return None;
        }
        let (start, length) = packet.unparsed();
        let frame = Frame::begin(cx, &mut [], packet);
        // SAFETY: see the module documentation. The parser only reads the bytes.
        let (error, parsed_bytes) = unsafe {
            ((*frame).bytes, (*frame).length) = (start.cast_mut(), length);
            (*frame).write_metadata = 0;
            (code(frame), (*frame).offset)
        };
        packet.set_parsed_bytes(parsed_bytes);
        u32::try_from(error).ok()
    }

    /// Writes the valid headers before the payload; false (and nothing visible done) if the interpreter has to.
    #[inline]
    pub(crate) fn deparse(&self, packet: &mut Packet) -> bool {
        let Some(code) = self.deparser else {
            return false;
        };
        if !self.has_phv_of(packet) {
            return false;
        }
        let (start, length) = packet.headroom();
        let frame = packet.phv.frame().cast::<Frame>();
        // SAFETY: see the module documentation. The deparser reads only these words, calls no helper, and writes the
        // word that is read here unless it stops.
        let left = unsafe {
            ((*frame).bytes, (*frame).length) = (start, length);
            if code(frame) == STOPPED {
                return false;
            }
            (*frame).offset
        };
        packet.extend_payload(length.saturating_sub(left));
        true
    }
}

/// The arguments of the action of a table's entry; null without a table.
#[inline(always)]
fn args_of(tables: &[TableState], table: u64, slot: u64) -> *const u64 {
    let table = usize::try_from(table).unwrap_or(usize::MAX);
    let action = tables
        .get(table)
        .and_then(|table| table.action_of(u32::try_from(slot).ok()));
    action.map_or(ptr::null(), BoundAction::words)
}

impl Frame {
    /// Writes the words that every function and helper may read; a function's other words are up to its caller.
    #[inline(always)]
    fn begin(cx: &mut Cx<'_>, tables: &mut [TableState], packet: &mut Packet) -> *mut Self {
        let frame = packet.phv.frame().cast::<Self>();
        // SAFETY: the words of a frame that exists. None of them is read or dropped by these writes.
        unsafe {
            // So that tests notice when a word is read that nobody has written.
            #[cfg(debug_assertions)]
            frame.write_bytes(crate::packet::phv::POISON, 1);
            (*frame).counters = cx.externs.counters.as_ptr();
            (*frame).meters = cx.externs.meters.as_ptr();
            (*frame).registers = cx.externs.registers.as_ptr();
            (*frame).counted_bytes = u64::from(packet.ingress_length);
            (*frame).tables = tables.as_mut_ptr();
            (*frame).cx = std::ptr::from_mut(cx).cast();
            (*frame).packet = packet;
        }
        frame
    }

    /// # Safety
    /// The frame is that of a packet which the caller holds.
    unsafe fn set_ingress_result(frame: *mut Self, result: &IngressResult) {
        // SAFETY: as above.
        unsafe {
            (*frame).mcast_grp = result.mcast_grp;
            (*frame).egress_spec = result.egress_spec;
            (*frame).priority = result.priority;
            (*frame).instance_type = result.instance_type;
        }
    }

    /// # Safety
    /// Ingress has run on the frame to its end, which writes these words, or `set_ingress_result` has.
    #[inline(always)]
    unsafe fn ingress_result(frame: *const Self) -> IngressResult {
        // SAFETY: as above.
        unsafe {
            IngressResult {
                mcast_grp: (*frame).mcast_grp,
                egress_spec: (*frame).egress_spec,
                priority: (*frame).priority,
                instance_type: (*frame).instance_type,
            }
        }
    }
}

impl Drop for Native {
    fn drop(&mut self) {
        // Before the memory is free for other code.
        drop(self.registered.take());
        let module = match self.module.get_mut() {
            Ok(module) => module.take(),
            Err(poisoned) => poisoned.into_inner().take(),
        };
        if let Some(module) = module {
            // SAFETY: only `self` calls into the code, and it is being dropped.
            unsafe { module.free_memory() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Program;
    use crate::stats::Stats;

    #[test]
    fn code_fits_only_arrays_of_the_declared_sizes() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../p4src/build/weir.json");
        let json = std::fs::read(path).expect("the project's program");
        let program = Program::from_json(&json).expect("a valid program");
        let native = program.native.as_ref().expect("it has code");
        let tables = program.fresh_tables(0, 0);
        let fits = |change: &dyn Fn(&mut ProgramInfo)| {
            let mut info = program.info.clone();
            change(&mut info);
            native.fits(&Externs::new(&info, 0, 0, Stats::default()), &tables)
        };
        assert!(fits(&|_| {}));
        assert!(!fits(&|info| info.counters[0].size -= 1));
        assert!(!fits(&|info| info.meters[0].size -= 1));
        assert!(!fits(&|info| info.registers[0].size -= 1));
        assert!(!fits(&|info| drop(info.registers.pop())));
        assert!(!native.fits(
            &Externs::new(&program.info, 0, 0, Stats::default()),
            &tables[1..]
        ));
    }
}
