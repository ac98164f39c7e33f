// SPDX-License-Identifier: Apache-2.0
//! A `TPACKET_V3` receive ring: the kernel fills blocks with frames and hands over whole blocks.
//!
//! For programs that want many frames at once rather than each without delay, such as the collector. Kernel
//! interface: `packet(7)` and `Documentation/networking/packet_mmap.rst`.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};

use super::packet_ring::{PacketRing, Receive, ring_socket};
use super::socket::{set_option_at, to_uint};

const BLOCK_BYTES: usize = 1 << 18;
/// The kernel hands over a block that is not full after this time.
const BLOCK_TIMEOUT_MS: u32 = 1;
const FRAME_BYTES: usize = 2048;
const NS_PER_S: i64 = 1_000_000_000;

/// A frame in its block.
#[derive(Debug, Clone, Copy)]
pub struct BlockFrame<'a> {
    /// The frame from its Ethernet header, without FCS, and without a VLAN tag that the kernel has removed.
    pub bytes: &'a [u8],
    /// Its length on the wire, in bytes.
    pub wire_length: u32,
    /// Time of arrival, Unix time.
    pub time_ns: i64,
}

/// The ring of one interface.
pub struct BlockRing {
    ring: PacketRing,
    blocks: usize,
    next: usize,
}

impl BlockRing {
    /// Opens a ring of about `ring_bytes` on the interface; promiscuous, inbound frames only. With `udp_port` the
    /// kernel keeps only UDP datagrams to that port (IPv4 without the later fragments; IPv6 without extension
    /// headers).
    ///
    /// # Errors
    /// The kernel's.
    pub fn open(
        interface_index: u32,
        ring_bytes: usize,
        udp_port: Option<u16>,
    ) -> io::Result<Self> {
        let blocks = (ring_bytes / BLOCK_BYTES).max(2);
        let socket = ring_socket(libc::tpacket_versions::TPACKET_V3, Receive::Inbound)?;
        if let Some(port) = udp_port {
            attach_filter(&socket, &udp_filter(port))?;
        }
        let request = libc::tpacket_req3 {
            tp_block_size: to_uint(BLOCK_BYTES)?,
            tp_block_nr: to_uint(blocks)?,
            tp_frame_size: to_uint(FRAME_BYTES)?,
            tp_frame_nr: to_uint(BLOCK_BYTES / FRAME_BYTES * blocks)?,
            tp_retire_blk_tov: BLOCK_TIMEOUT_MS,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        let ring_bytes = BLOCK_BYTES * blocks;
        Ok(Self {
            ring: PacketRing::start(socket, &request, ring_bytes, interface_index)?,
            blocks,
            next: 0,
        })
    }

    /// Calls `use_frame` with every frame of the next block, then returns the block to the kernel; false when no block
    /// is ready.
    pub fn take_block(&mut self, mut use_frame: impl FnMut(&BlockFrame<'_>)) -> bool {
        // SAFETY: `next` is below `blocks`, so the block lies inside the mapping; its descriptor begins with version
        // and offset, then the header whose first word is the status that kernel and user space share.
        let (block, status) = unsafe {
            let block = self.ring.memory().add(self.next * BLOCK_BYTES);
            let header = &raw mut (*block.cast::<libc::tpacket_block_desc>().as_ptr()).hdr.bh1;
            (block, AtomicU32::from_ptr(&raw mut (*header).block_status))
        };
        if status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return false;
        }
        // SAFETY: the status says that the block is ours until the status is stored below; the kernel put `num_pkts`
        // frames into it, each with its header, the offset of the next and the offset of its bytes.
        unsafe {
            let header = (*block.cast::<libc::tpacket_block_desc>().as_ptr()).hdr.bh1;
            let mut at = header.offset_to_first_pkt as usize;
            for _ in 0..header.num_pkts {
                let frame = block.add(at);
                let frame_header = frame.cast::<libc::tpacket3_hdr>().as_ref();
                use_frame(&BlockFrame {
                    bytes: std::slice::from_raw_parts(
                        frame.add(usize::from(frame_header.tp_mac)).as_ptr(),
                        frame_header.tp_snaplen as usize,
                    ),
                    wire_length: frame_header.tp_len,
                    time_ns: i64::from(frame_header.tp_sec) * NS_PER_S
                        + i64::from(frame_header.tp_nsec),
                });
                at += frame_header.tp_next_offset as usize;
            }
        }
        status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % self.blocks;
        true
    }

    /// Frames that found the ring full, since the last call.
    ///
    /// # Errors
    /// The kernel's.
    pub fn take_drops(&self) -> io::Result<u64> {
        self.ring.take_drops()
    }

    /// The pending error of the socket, which this call clears; `ENETDOWN` when the interface went down or away.
    ///
    /// # Errors
    /// The kernel's.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.ring.take_error()
    }
}

impl AsRawFd for BlockRing {
    fn as_raw_fd(&self) -> RawFd {
        self.ring.as_raw_fd()
    }
}

impl AsFd for BlockRing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }
}

/// Classic BPF on the frame without its VLAN tag: UDP to `port`, and not a later fragment.
fn udp_filter(port: u16) -> [libc::sock_filter; 16] {
    const LOAD_HALF: u16 = (libc::BPF_LD | libc::BPF_H | libc::BPF_ABS) as u16;
    const LOAD_BYTE: u16 = (libc::BPF_LD | libc::BPF_B | libc::BPF_ABS) as u16;
    const LOAD_HALF_INDEXED: u16 = (libc::BPF_LD | libc::BPF_H | libc::BPF_IND) as u16;
    /// X = 4 × the low nibble of a byte: the length of an IPv4 header.
    const HEADER_LENGTH: u16 = (libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH) as u16;
    const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const IF_SET: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
    const JUMP: u16 = (libc::BPF_JMP | libc::BPF_JA) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    const UDP: u32 = libc::IPPROTO_UDP as u32;
    let port = u32::from(port);
    let step = |code, k, jt, jf| libc::sock_filter { code, jt, jf, k };
    // Jumps count from the next line. Both versions of IP continue at line 13; everything else ends at line 15.
    [
        step(LOAD_HALF, 12, 0, 0),
        step(IF_EQUAL, libc::ETH_P_IP as u32, 0, 7),
        step(LOAD_BYTE, 14 + 9, 0, 0),
        step(IF_EQUAL, UDP, 0, 11),
        step(LOAD_HALF, 14 + 6, 0, 0),
        step(IF_SET, 0x1fff, 9, 0),
        step(HEADER_LENGTH, 14, 0, 0),
        step(LOAD_HALF_INDEXED, 14 + 2, 0, 0),
        step(JUMP, 4, 0, 0),
        step(IF_EQUAL, libc::ETH_P_IPV6 as u32, 0, 5),
        step(LOAD_BYTE, 14 + 6, 0, 0),
        step(IF_EQUAL, UDP, 0, 3),
        step(LOAD_HALF, 14 + 40 + 2, 0, 0),
        step(IF_EQUAL, port, 0, 1),
        step(RETURN, u32::MAX, 0, 0),
        step(RETURN, 0, 0, 0),
    ]
}

fn attach_filter(socket: &OwnedFd, filter: &[libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: libc::c_ushort::try_from(filter.len()).map_err(io::Error::other)?,
        filter: filter.as_ptr().cast_mut(),
    };
    // The kernel copies what the program points to before the call returns.
    set_option_at(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}
