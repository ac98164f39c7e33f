// SPDX-License-Identifier: Apache-2.0
//! The XDP program of a port: it writes the time in front of each frame and hands the frame to the socket of its queue.
//!
//! It is assembled here, so nothing but `bpf(2)` is needed to load it. Kernel interface: `linux/bpf.h`, and RFC 9669 for the
//! encoding of instructions. After [`Program::load`] only two commands are used, `BPF_MAP_UPDATE_ELEM` and
//! `BPF_LINK_CREATE`, so that a confined process can still attach it again.

use std::ffi::CStr;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use super::error::XdpError;
use crate::mapping::Mapping;

/// In front of each frame that the program has stamped: [`MAGIC`], then the time of arrival (ns, `CLOCK_MONOTONIC`).
pub(super) const STAMP_BYTES: usize = 16;
/// Says that a stamp is one of this program's, and not what an earlier frame left in the memory.
pub(super) const MAGIC: u64 = 0x7765_6972_2d78_6470;

const LICENSE: &CStr = c"Apache-2.0";
const NAME: &[u8; 16] = b"weir_receive\0\0\0\0";

// Commands, types and flags of `linux/bpf.h` and `linux/if_link.h`.
const MAP_CREATE: libc::c_long = 0;
const MAP_UPDATE_ELEM: libc::c_long = 2;
const PROG_LOAD: libc::c_long = 5;
const LINK_CREATE: libc::c_long = 28;
const MAP_TYPE_ARRAY: u32 = 2;
const MAP_TYPE_XSKMAP: u32 = 17;
const MAP_MMAPABLE: u32 = 1 << 10;
const PROG_TYPE_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
const FLAGS_DRIVER_MODE: u32 = 1 << 2;

/// `attr` of `BPF_MAP_CREATE`.
#[repr(C)]
struct MapCreate {
    map_type: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries: u32,
    flags: u32,
    inner_map: u32,
    numa_node: u32,
    name: [u8; 16],
}

/// `attr` of `BPF_MAP_UPDATE_ELEM`.
#[repr(C)]
struct MapUpdate {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// `attr` of `BPF_PROG_LOAD`.
#[repr(C)]
struct ProgramLoad {
    kind: u32,
    instructions: u32,
    first_instruction: u64,
    license: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface_index: u32,
    attach_type: u32,
}

/// `attr` of `BPF_LINK_CREATE`.
#[repr(C)]
struct LinkCreate {
    program: u32,
    interface_index: u32,
    attach_type: u32,
    flags: u32,
}

/// A loaded program with its maps; attached to nothing.
pub struct Program {
    program: OwnedFd,
    /// The socket of each queue, `BPF_MAP_TYPE_XSKMAP`.
    sockets: OwnedFd,
    /// Frames that the program dropped because their queue has no socket: a page of an array that it counts in.
    dropped: Mapping,
}

/// A program at an interface. The kernel detaches it when this is dropped or the process ends in any way.
pub(super) struct Attached {
    _link: OwnedFd,
}

impl Program {
    /// Loads the program for an interface of up to `queues` receive queues.
    ///
    /// # Errors
    /// [`XdpError::NotPermitted`] above all.
    pub fn load(queues: u32) -> Result<Self, XdpError> {
        Self::with_room(queues, STAMP_BYTES as i32)
    }

    /// As [`Program::load`], with other than [`STAMP_BYTES`] asked for in front of a frame.
    pub(super) fn with_room(queues: u32, room_bytes: i32) -> Result<Self, XdpError> {
        let (loaded, step) = (XdpError::at("loading the XDP program"), "making a BPF map");
        let sockets = create_map(MAP_TYPE_XSKMAP, 4, queues, 0).map_err(XdpError::at(step))?;
        let counters =
            create_map(MAP_TYPE_ARRAY, 8, 1, MAP_MMAPABLE).map_err(XdpError::at(step))?;
        let dropped = Mapping::of_socket(&counters, size_of::<u64>(), 0).map_err(&loaded)?;
        let instructions = assemble(sockets.as_raw_fd(), counters.as_raw_fd(), room_bytes);
        let attributes = ProgramLoad {
            kind: PROG_TYPE_XDP,
            instructions: instructions.len() as u32,
            first_instruction: instructions.as_ptr().expose_provenance() as u64,
            license: LICENSE.as_ptr().expose_provenance() as u64,
            log_level: 0,
            log_bytes: 0,
            log: 0,
            kernel_version: 0,
            flags: 0,
            name: *NAME,
            interface_index: 0,
            attach_type: ATTACH_XDP,
        };
        // SAFETY: pointers and lengths describe `instructions` and `LICENSE`, which outlive the call; the result is checked
        // before it is owned. The program holds the maps that it names.
        let program = unsafe {
            let fd = bpf(PROG_LOAD, &attributes).map_err(&loaded)?;
            OwnedFd::from_raw_fd(fd)
        };
        Ok(Self {
            program,
            sockets,
            dropped,
        })
    }

    /// Gives the frames of a queue to a bound socket, until that is closed.
    pub(super) fn give(&self, queue: u32, socket: &OwnedFd) -> io::Result<()> {
        let fd = socket.as_raw_fd();
        let attributes = MapUpdate {
            map: self.sockets.as_raw_fd() as u32,
            padding: 0,
            key: (&raw const queue).expose_provenance() as u64,
            value: (&raw const fd).expose_provenance() as u64,
            flags: 0,
        };
        // SAFETY: key and value are of the map's sizes and outlive the call.
        unsafe { bpf(MAP_UPDATE_ELEM, &attributes) }.map(|_| ())
    }

    /// Attaches the program to an interface's driver.
    pub(super) fn attach(&self, interface_index: u32) -> io::Result<Attached> {
        let attributes = LinkCreate {
            program: self.program.as_raw_fd() as u32,
            interface_index,
            attach_type: ATTACH_XDP,
            flags: FLAGS_DRIVER_MODE,
        };
        // SAFETY: the call reads only the attributes; the result is checked before it is owned.
        let link = unsafe { OwnedFd::from_raw_fd(bpf(LINK_CREATE, &attributes)?) };
        Ok(Attached { _link: link })
    }

    /// Frames that it dropped since it was loaded, because their queue has no socket.
    pub(super) fn dropped(&self) -> u64 {
        // SAFETY: the mapping begins with an aligned 64-bit counter and lives as long as `self`; the program adds to it
        // atomically.
        let counter = unsafe { AtomicU64::from_ptr(self.dropped.start().cast().as_ptr()) };
        counter.load(Ordering::Relaxed)
    }
}

fn create_map(map_type: u32, value_bytes: u32, entries: u32, flags: u32) -> io::Result<OwnedFd> {
    let attributes = MapCreate {
        map_type,
        key_bytes: size_of::<u32>() as u32,
        value_bytes,
        entries,
        flags,
        inner_map: 0,
        numa_node: 0,
        name: *NAME,
    };
    // SAFETY: the call reads only the attributes; the result is checked before it is owned.
    unsafe { Ok(OwnedFd::from_raw_fd(bpf(MAP_CREATE, &attributes)?)) }
}

/// Calls `bpf(2)`.
///
/// # Safety
/// `T` is the structure of the command, and what it points to is valid during the call.
unsafe fn bpf<T>(command: libc::c_long, attributes: &T) -> io::Result<i32> {
    // SAFETY: pointer and size describe `attributes`; the caller answers for the rest. The kernel takes what a shorter
    // structure lacks for zeros.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            std::ptr::from_ref(attributes),
            size_of::<T>(),
        )
    };
    match i32::try_from(result) {
        Ok(result) if result >= 0 => Ok(result),
        _ => Err(io::Error::last_os_error()),
    }
}

/// An instruction, `struct bpf_insn`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct Instruction {
    code: u8,
    /// Destination in the lower, source in the upper half.
    registers: u8,
    offset: i16,
    immediate: i32,
}

const fn instruction(code: u8, to: u8, from: u8, offset: i16, immediate: i32) -> Instruction {
    // The halves of a byte are laid out by the machine's byte order, like the bit fields of C.
    let registers = if cfg!(target_endian = "big") {
        to << 4 | from
    } else {
        from << 4 | to
    };
    Instruction {
        code,
        registers,
        offset,
        immediate,
    }
}

// Codes of RFC 9669.
const MOVE: u8 = 0xbf;
const MOVE_IMMEDIATE: u8 = 0xb7;
const ADD_IMMEDIATE: u8 = 0x07;
const LOAD_WORD: u8 = 0x61;
const LOAD_IMMEDIATE_64: u8 = 0x18;
const STORE_DOUBLE: u8 = 0x7b;
const ATOMIC_DOUBLE: u8 = 0xdb;
const JUMP_IF_EQUAL_IMMEDIATE: u8 = 0x15;
const JUMP_IF_NOT_EQUAL_IMMEDIATE: u8 = 0x55;
const JUMP_IF_GREATER: u8 = 0x2d;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
const ATOMIC_ADD: i32 = 0;
/// Sources of a 64-bit immediate value: a map, and the memory of a map's value.
const PSEUDO_MAP: u8 = 1;
const PSEUDO_MAP_VALUE: u8 = 2;
// Functions of the kernel.
const KTIME_GET_NS: i32 = 5;
const REDIRECT_MAP: i32 = 51;
const XDP_ADJUST_META: i32 = 54;
// `struct xdp_md`.
const DATA: i16 = 0;
const DATA_META: i16 = 8;
const RX_QUEUE_INDEX: i16 = 16;
// Verdicts.
const XDP_DROP: i32 = 1;
const XDP_REDIRECT: i32 = 4;

const fn call(function: i32) -> Instruction {
    instruction(CALL, 0, 0, 0, function)
}

/// The program: `sockets` and `counters` are its maps.
fn assemble(sockets: i32, counters: i32, room_bytes: i32) -> Vec<Instruction> {
    let (magic_low, magic_high) = (MAGIC as i32, (MAGIC >> 32) as i32);
    let stamp = STAMP_BYTES as i32;
    vec![
        // r6 = frame, r7 = its queue, r8 = the time
        instruction(MOVE, 6, 1, 0, 0),
        instruction(LOAD_WORD, 7, 6, RX_QUEUE_INDEX, 0),
        call(KTIME_GET_NS),
        instruction(MOVE, 8, 0, 0, 0),
        // room for the stamp in front of the frame; without it the frame goes on unstamped
        instruction(MOVE, 1, 6, 0, 0),
        instruction(MOVE_IMMEDIATE, 2, 0, 0, -room_bytes),
        call(XDP_ADJUST_META),
        instruction(JUMP_IF_NOT_EQUAL_IMMEDIATE, 0, 0, 9, 0),
        instruction(LOAD_WORD, 2, 6, DATA_META, 0),
        instruction(LOAD_WORD, 3, 6, DATA, 0),
        // the check that the verifier wants before a store
        instruction(MOVE, 1, 2, 0, 0),
        instruction(ADD_IMMEDIATE, 1, 0, 0, stamp),
        instruction(JUMP_IF_GREATER, 1, 3, 4, 0),
        instruction(LOAD_IMMEDIATE_64, 4, 0, 0, magic_low),
        instruction(0, 0, 0, 0, magic_high),
        instruction(STORE_DOUBLE, 2, 4, 0, 0),
        instruction(STORE_DOUBLE, 2, 8, 8, 0),
        // to the socket of its queue, or counted and dropped if that has none
        instruction(LOAD_IMMEDIATE_64, 1, PSEUDO_MAP, 0, sockets),
        instruction(0, 0, 0, 0, 0),
        instruction(MOVE, 2, 7, 0, 0),
        instruction(MOVE_IMMEDIATE, 3, 0, 0, XDP_DROP),
        call(REDIRECT_MAP),
        instruction(JUMP_IF_EQUAL_IMMEDIATE, 0, 0, 4, XDP_REDIRECT),
        instruction(LOAD_IMMEDIATE_64, 1, PSEUDO_MAP_VALUE, 0, counters),
        instruction(0, 0, 0, 0, 0),
        instruction(MOVE_IMMEDIATE, 2, 0, 0, 1),
        instruction(ATOMIC_DOUBLE, 1, 2, 0, ATOMIC_ADD),
        instruction(EXIT, 0, 0, 0, 0),
    ]
}
