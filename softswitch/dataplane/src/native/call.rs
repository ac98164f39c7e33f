// SPDX-License-Identifier: Apache-2.0
//! Calls of the machine code from Rust: all unsafe code of this folder is here, in
//! `helper.rs` and in `crash.rs`.
//!
//! Why it is sound to run the code:
//! - It reads and writes the PHV at offsets that were checked against `Ir::phv_bytes` when it was written; it is called
//!   only with a PHV of that length, and no helper changes the length.
//! - It reads a packet's bytes, and writes to the headroom before them, only within the length in the frame. Helpers of
//!   the parser change no packet bytes.
//! - It reads and writes cells of counters and registers, and passes cells of meters to a helper, only at indices below
//!   the number of cells in the array itself, and only of arrays that `Ir` has. A switch runs the code only if it has
//!   exactly these arrays (`Native::fits`), and their number never changes.
//! - It indexes tables only through helpers, which check the index. It reads action arguments only below the count that
//!   it compared, or from `ZEROS`.
//! - The pointers of a frame come from references that the caller holds exclusively until the code returns. The code
//!   itself accesses only the frame, the PHV and arguments. Helpers create references from the frame one at a time and
//!   keep none. Arguments lie in a table or profile, which no step of an action changes.
//! - A paused pipeline is resumed by the same code with unchanged tables, because a burst borrows the switch
//!   exclusively. If it paused in an action, the arguments are looked up again. A number of a pause that the code does
//!   not know ends the pipeline.
//! - Only `Native` calls the code; it owns the memory and frees it when nothing can call it any more.
//! - A panic in a helper aborts the process, as in every `extern "C"` function, and does not unwind through the code.

use super::crash::Registered;
use super::frame::{Frame, PAUSED, STOPPED, ZEROS};
use super::places::Places;
use crate::context::Cx;
use crate::exec::parser::verify_checksums;
use crate::exec::pipeline;
use crate::info::ProgramInfo;
use crate::ir::Ir;
use crate::packet::{
    EgressMetadata, EgressResult, IngressMetadata, IngressProgress, IngressResult, Packet,
};
use crate::state::Externs;
use crate::tables::TableState;
use cranelift_jit::JITModule;
use cranelift_module::FuncId;
use std::mem::MaybeUninit;
use std::sync::Mutex;

type Function = unsafe extern "C" fn(*mut Frame) -> u64;

/// A program's machine code.
pub(crate) struct Native {
    phv_bytes: usize,
    /// Numbers of counters, meters and registers.
    arrays: (usize, usize, usize),
    ingress: Function,
    egress: Function,
    parser: Option<Function>,
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
            arrays: (info.counters.len(), info.meters.len(), info.registers.len()),
            ingress: function(functions.ingress),
            egress: function(functions.egress),
            parser: functions.parser.map(function),
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

    /// Whether the externs have exactly the arrays that the code was compiled for.
    pub(crate) fn fits(&self, externs: &Externs) -> bool {
        let arrays = (
            externs.counters.len(),
            externs.meters.len(),
            externs.registers.len(),
        );
        arrays == self.arrays
    }

    /// Whether the packets of a burst may pause in ingress.
    pub(crate) fn may_pause(&self) -> bool {
        self.may_pause
    }

    /// A frame for the packet; None if the PHV is not that of the program.
    #[inline(always)]
    fn frame(
        &self,
        cx: &mut Cx<'_>,
        tables: &mut [TableState],
        packet: &mut Packet,
    ) -> Option<Frame> {
        (packet.phv.len() == self.phv_bytes).then(|| Frame::new(cx, tables, packet))
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
        if packet.exit {
            return None;
        }
        let mut frame = self.frame(cx, tables, packet)?;
        // SAFETY: see the module documentation.
        unsafe { frame.run(self.ingress) };
        Some(frame.ingress_result())
    }

    /// Writes the metadata of egress and runs egress; None (and nothing done) as in [`Native::ingress`].
    #[inline]
    pub(crate) fn egress(
        &self,
        cx: &mut Cx<'_>,
        tables: &mut [TableState],
        packet: &mut Packet,
        metadata: EgressMetadata,
    ) -> Option<EgressResult> {
        let mut frame = self.frame(cx, tables, packet)?;
        frame.write_metadata = u64::from(!metadata.deflected);
        (frame.port, frame.time_us) = (metadata.port, metadata.time_us);
        (frame.packet_length, frame.priority) = (metadata.length, metadata.priority);
        (frame.queued_us, frame.deq_qdepth) = (metadata.queued_us, metadata.deq_qdepth);
        frame.egress_spec = metadata.egress_spec;
        (frame.enqueued_us, frame.enq_qdepth) = (metadata.enqueued_us, metadata.enq_qdepth);
        // SAFETY: see the module documentation.
        unsafe { frame.run(self.egress) };
        Some(EgressResult {
            egress_spec: frame.egress_spec,
            update_checksums: frame.update_checksums != 0,
        })
    }

    /// Writes the metadata of a received packet, parses it and runs ingress, if `may_pause` only up to the first
    /// stateful step; the packet keeps how far it came. Returns the parser's error; None (and only the PHV changed) if
    /// the parser was not compiled.
    #[inline]
    pub(crate) fn start(
        &self,
        cx: &mut Cx<'_>,
        tables: &mut [TableState],
        packet: &mut Packet,
        (metadata, may_pause): (IngressMetadata, bool),
    ) -> Option<u32> {
        let parser = self.parser?;
        if packet.phv.len() != self.phv_bytes {
            packet.phv.clear();
            packet.phv.resize(self.phv_bytes, 0);
        }
        #[cfg(debug_assertions)]
        packet.phv.fill(crate::packet::phv::POISON);
        let bytes = packet.payload();
        let (start, length) = (bytes.as_ptr(), bytes.len());
        let mut frame = Frame::new(cx, tables, packet);
        // The parser only reads the bytes.
        (frame.bytes, frame.length) = (start.cast_mut(), length);
        (frame.write_metadata, frame.port, frame.time_us) = (1, metadata.port, metadata.time_us);
        // SAFETY: see the module documentation.
        let error = unsafe { frame.run(parser) };
        packet.rewind();
        packet.advance(frame.offset);
        if !cx.ir.verify.is_empty() {
            verify_checksums(cx, packet);
        }
        if packet.exit {
            packet.progress.resume_at = IngressProgress::ENDED;
            packet.ingress_result = pipeline::ingress(cx, tables, packet);
            return Some(u32::try_from(error).unwrap_or(u32::MAX));
        }
        frame.phv = packet.phv.as_mut_ptr();
        frame.cx = std::ptr::from_mut(cx).cast();
        frame.packet = packet;
        frame.may_pause = u64::from(may_pause);
        // SAFETY: see the module documentation; the pointers were created again from the same references.
        let paused = unsafe { frame.run(self.ingress) } == PAUSED;
        if paused {
            packet.progress.resume_at = frame.resume_at;
            packet.progress.found = frame.result;
            packet.progress.table = frame.table;
            packet.progress.slot = frame.slot;
        } else {
            packet.progress.resume_at = IngressProgress::ENDED;
            packet.ingress_result = frame.ingress_result();
        }
        Some(u32::try_from(error).unwrap_or(u32::MAX))
    }

    /// Runs the rest of a paused ingress, with unchanged tables; None (and nothing done) as in [`Native::ingress`].
    #[inline]
    pub(crate) fn resume_ingress(
        &self,
        cx: &mut Cx<'_>,
        tables: &mut [TableState],
        packet: &mut Packet,
    ) -> Option<IngressResult> {
        let from = packet.progress;
        let mut frame = self.frame(cx, tables, packet)?;
        let table = usize::try_from(from.table).unwrap_or(usize::MAX);
        let table = tables.get(table);
        let slot = u32::try_from(from.slot).ok();
        if let Some((_, args)) = table.and_then(|table| table.action_of(slot)) {
            (frame.args, frame.arg_words) = (args.as_ptr(), args.len());
        }
        (frame.resume_at, frame.result) = (from.resume_at, from.found);
        // SAFETY: see the module documentation. The code reads its arguments from the frame again.
        unsafe { frame.run(self.ingress) };
        Some(frame.ingress_result())
    }

    /// Parses the packet from its start; the parser's error, which `parser_error` gets too. None (and nothing done) if
    /// the parser was not compiled.
    #[inline]
    pub(crate) fn parse(&self, cx: &mut Cx<'_>, packet: &mut Packet) -> Option<u32> {
        let code = self.parser?;
        if packet.phv.len() != self.phv_bytes {
            return None;
        }
        let bytes = packet.payload();
        let (start, length) = (bytes.as_ptr(), bytes.len());
        let mut frame = Frame::new(cx, &mut [], packet);
        // The parser only reads the bytes.
        (frame.bytes, frame.length) = (start.cast_mut(), length);
        // SAFETY: see the module documentation.
        let error = unsafe { frame.run(code) };
        let parsed_bytes = frame.offset;
        packet.rewind();
        packet.advance(parsed_bytes);
        u32::try_from(error).ok()
    }

    /// Writes the valid headers before the payload; false (and nothing visible done) if the interpreter has to.
    #[inline]
    pub(crate) fn deparse(&self, packet: &mut Packet) -> bool {
        let Some(code) = self.deparser else {
            return false;
        };
        if packet.phv.len() != self.phv_bytes {
            return false;
        }
        let headroom = packet.headroom();
        let (start, length) = (headroom.as_mut_ptr(), headroom.len());
        let mut frame = MaybeUninit::<Frame>::uninit();
        let at = frame.as_mut_ptr();
        // SAFETY: see the module documentation. The deparser reads only these words, calls no helper, and writes the
        // word that is read here unless it stops.
        let left = unsafe {
            (&raw mut (*at).phv).write(packet.phv.as_mut_ptr());
            (&raw mut (*at).bytes).write(start);
            (&raw mut (*at).length).write(length);
            if code(at) == STOPPED {
                return false;
            }
            (&raw const (*at).offset).read()
        };
        packet.extend_payload(length.saturating_sub(left));
        true
    }
}

impl Frame {
    /// Runs a function of the code on this frame.
    ///
    /// # Safety
    /// The code was compiled for the program of the frame's packet and arrays; see the module documentation.
    #[inline(always)]
    unsafe fn run(&mut self, code: Function) -> u64 {
        let this = &raw mut *self;
        // SAFETY: as above; nothing else refers to the frame while the code runs.
        unsafe {
            (*this).this = this;
            code(this)
        }
    }

    #[inline(always)]
    fn ingress_result(&self) -> IngressResult {
        IngressResult {
            mcast_grp: self.mcast_grp,
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
            may_pause: 0,
            resume_at: 0,
            table: 0,
            slot: 0,
            bytes: std::ptr::null_mut(),
            length: 0,
            offset: 0,
            counters: cx.externs.counters.as_ptr(),
            meters: cx.externs.meters.as_ptr(),
            registers: cx.externs.registers.as_ptr(),
            counted_bytes: u64::from(packet.ingress_length),
            write_metadata: 0,
            port: 0,
            time_us: 0,
            packet_length: 0,
            priority: 0,
            queued_us: 0,
            deq_qdepth: 0,
            egress_spec: 0,
            enqueued_us: 0,
            enq_qdepth: 0,
            mcast_grp: 0,
            instance_type: 0,
            update_checksums: 0,
            tables: tables.as_mut_ptr(),
            table_count: tables.len(),
            cx: std::ptr::from_mut(cx).cast(),
            packet,
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
