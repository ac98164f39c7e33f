// SPDX-License-Identifier: Apache-2.0
//! A `TPACKET_V3` receive ring: the kernel fills blocks with frames and hands over whole blocks.
//!
//! Kernel interface: `packet(7)` and `Documentation/networking/packet_mmap.rst`.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};

use weir_ports::mapping::Mapping;
use weir_ports::socket::{ETH_P_ALL, bind, packet_socket, promiscuous, set_option};

const BLOCK_BYTES: usize = 1 << 18;
const BLOCKS: usize = 64;
/// A block that is not full is handed over after this.
const BLOCK_TIMEOUT_MS: u32 = 1;

/// The ring of one interface.
pub struct BlockRing {
    socket: OwnedFd,
    ring: Mapping,
    next: usize,
}

impl BlockRing {
    /// Opens a ring on the interface; promiscuous, inbound frames only.
    ///
    /// # Errors
    /// Those of the system calls.
    pub fn open(interface_index: u32) -> io::Result<Self> {
        let socket = packet_socket()?;
        let version = libc::tpacket_versions::TPACKET_V3 as libc::c_int;
        set_option(&socket, libc::PACKET_VERSION, &version)?;
        set_option(&socket, weir_ports::socket::PACKET_IGNORE_OUTGOING, &1_i32)?;
        let request = libc::tpacket_req3 {
            tp_block_size: BLOCK_BYTES as u32,
            tp_block_nr: BLOCKS as u32,
            tp_frame_size: 2048,
            tp_frame_nr: (BLOCK_BYTES / 2048 * BLOCKS) as u32,
            tp_retire_blk_tov: BLOCK_TIMEOUT_MS,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        set_option(&socket, libc::PACKET_RX_RING, &request)?;
        let ring = Mapping::of_socket(&socket, BLOCK_BYTES * BLOCKS, 0)?;
        let ring = Self {
            socket,
            ring,
            next: 0,
        };
        promiscuous(&ring.socket, interface_index)?;
        bind(&ring.socket, interface_index, ETH_P_ALL)?;
        Ok(ring)
    }

    /// Gives every frame of the next block to `use_frame` and the block back to the kernel; false when there is none.
    pub fn take_block(&mut self, mut use_frame: impl FnMut(&[u8])) -> bool {
        // SAFETY: `next` is below BLOCKS, so the block lies inside the mapping; its descriptor begins with version
        // and offset, then the header whose first word is the status that kernel and user space share.
        let (block, status) = unsafe {
            let block = self.ring.start().add(self.next * BLOCK_BYTES);
            let header = &raw mut (*block.cast::<libc::tpacket_block_desc>().as_ptr()).hdr.bh1;
            (block, AtomicU32::from_ptr(&raw mut (*header).block_status))
        };
        if status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return false;
        }
        // SAFETY: the status says that the block is ours until it is given back; the kernel put `num_pkts` frames
        // into it, each with its header, the offset of the next and the offset of its bytes.
        unsafe {
            let header = (*block.cast::<libc::tpacket_block_desc>().as_ptr()).hdr.bh1;
            let mut at = header.offset_to_first_pkt as usize;
            for _ in 0..header.num_pkts {
                let frame = block.add(at);
                let frame_header = frame.cast::<libc::tpacket3_hdr>().as_ref();
                use_frame(std::slice::from_raw_parts(
                    frame.add(usize::from(frame_header.tp_mac)).as_ptr(),
                    frame_header.tp_snaplen as usize,
                ));
                at += frame_header.tp_next_offset as usize;
            }
        }
        status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % BLOCKS;
        true
    }
}

impl AsRawFd for BlockRing {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}
