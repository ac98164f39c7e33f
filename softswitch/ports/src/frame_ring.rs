// SPDX-License-Identifier: Apache-2.0
//! A `TPACKET_V2` receive ring: the kernel hands over each frame as it arrives, for the switch.
//!
//! `TPACKET_V3` ([`block_ring`](super::block_ring)) would delay frames until a block is full. Kernel interface:
//! `packet(7)` and `Documentation/networking/packet_mmap.rst`.

use std::io;
use std::mem::{offset_of, size_of};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use super::checksum;
use super::packet_ring::{PacketRing, Receive, ring_socket};
use super::socket::{set_option, to_uint};

/// Frames in a ring: more than 300 ms of 150-byte frames at 40 Mbit/s, so that a pause of the scheduler loses none.
pub const RING_FRAMES: usize = 4096;
/// The same where time passes only while the switch waits, for a millisecond: that of 800 full frames at 10 Gbit/s. Each page
/// that is touched costs a guest two faults.
pub const RING_FRAMES_VIRTUAL: usize = 1024;
const BLOCK_BYTES: usize = 1 << 16;
/// Room before a frame for the VLAN tag that the kernel has removed.
const VLAN_TAG_BYTES: usize = 4;
/// Both MAC addresses; the tag follows them.
const MAC_ADDRESSES_BYTES: usize = 12;
/// Bytes of a slot besides the frame: the kernel's header, the address, alignment, the virtio header.
const SLOT_OVERHEAD_BYTES: usize = 160;
/// Cache lines of a slot up to the transport header of its frame.
const SLOT_HEAD_LINES: usize = 3;
const LINE_BYTES: usize = 64;
/// `struct virtio_net_hdr` of `linux/virtio_net.h`, which precedes each frame that the ring's socket receives or sends.
pub const VIRTIO_HEADER_BYTES: usize = 10;
const VIRTIO_NET_HDR_F_NEEDS_CSUM: u8 = 1;

/// A frame in its slot.
pub struct SlotFrame<'a> {
    /// The frame from its Ethernet header, without FCS, with its VLAN tag.
    pub bytes: &'a [u8],
    /// The frame was longer than the slot: `bytes` is its beginning only.
    pub truncated: bool,
}

/// The receive ring of one interface.
pub struct FrameRing {
    ring: PacketRing,
    slot_bytes: usize,
    /// The last slot, whose number has all bits of the others.
    last: usize,
    next: usize,
}

impl FrameRing {
    /// Opens a ring of `frames` (a power of two) of up to `max_frame_bytes` on the interface; promiscuous.
    ///
    /// # Errors
    /// The kernel's.
    pub fn open(
        interface_index: u32,
        max_frame_bytes: usize,
        frames: usize,
        receive: Receive,
    ) -> io::Result<Self> {
        let socket = ring_socket(libc::tpacket_versions::TPACKET_V2, receive)?;
        set_option(&socket, libc::PACKET_VNET_HDR, &1_i32)?;
        let reserve_bytes = VLAN_TAG_BYTES as libc::c_uint;
        set_option(&socket, libc::PACKET_RESERVE, &reserve_bytes)?;
        let slot_bytes = (max_frame_bytes + SLOT_OVERHEAD_BYTES).next_power_of_two();
        let block_bytes = BLOCK_BYTES.max(slot_bytes);
        let ring_bytes = frames * slot_bytes;
        let request = libc::tpacket_req {
            tp_block_size: to_uint(block_bytes)?,
            tp_block_nr: to_uint(ring_bytes / block_bytes)?,
            tp_frame_size: to_uint(slot_bytes)?,
            tp_frame_nr: to_uint(frames)?,
        };
        Ok(Self {
            ring: PacketRing::start(socket, &request, ring_bytes, interface_index)?,
            slot_bytes,
            last: frames - 1,
            next: 0,
        })
    }

    /// Its socket, for sending.
    ///
    /// # Errors
    /// The kernel's.
    pub fn socket(&self) -> io::Result<OwnedFd> {
        self.ring.socket()
    }

    fn slot(&self) -> NonNull<u8> {
        // SAFETY: `next` is at most `last`, so the slot lies inside the mapping.
        unsafe { self.ring.memory().add(self.next * self.slot_bytes) }
    }

    fn status(&self) -> &AtomicU32 {
        // SAFETY: the slot is aligned to 16 and begins with the 32-bit status word, which kernel and user space
        // share; the mapping lives as long as `self`.
        unsafe { AtomicU32::from_ptr(self.slot().as_ptr().cast()) }
    }

    fn header(&self) -> Option<libc::tpacket2_hdr> {
        // Acquire: what the kernel wrote before it set the status is visible after it.
        if self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: the status says that the slot is ours, and the header lies at its beginning.
        Some(unsafe { self.slot().cast::<libc::tpacket2_hdr>().read() })
    }

    /// Time of arrival of the oldest frame in the ring (ns, `CLOCK_REALTIME`), if there is one.
    pub fn oldest_ns(&self) -> Option<u64> {
        let header = self.header()?;
        Some(u64::from(header.tp_sec) * 1_000_000_000 + u64::from(header.tp_nsec))
    }

    /// Prefetches the slot after the next: the kernel has written it on another core.
    #[inline(always)]
    fn prefetch_after_next(&self) {
        let slot = (self.next + 2) & self.last;
        // SAFETY: the slot lies inside the mapping.
        let slot = unsafe { self.ring.memory().add(slot * self.slot_bytes) };
        for line in 0..SLOT_HEAD_LINES {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a prefetch has no effect that a program can observe, and needs only SSE, which every x86-64
            // processor has.
            unsafe {
                use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
                _mm_prefetch::<_MM_HINT_T0>(slot.as_ptr().add(line * LINE_BYTES).cast());
            }
            #[cfg(not(target_arch = "x86_64"))]
            let _ = (slot, line);
        }
    }

    /// Calls `use_frame` with the oldest frame, then returns its slot to the kernel.
    pub fn take(&mut self, use_frame: impl FnOnce(SlotFrame<'_>)) {
        let Some(header) = self.header() else { return };
        let mac = usize::from(header.tp_mac);
        let captured = header.tp_snaplen as usize;
        let head = VLAN_TAG_BYTES + VIRTIO_HEADER_BYTES;
        // The kernel keeps within its slots; checked because the unsafe code below relies on it.
        if mac >= size_of::<libc::tpacket2_hdr>() + head && mac + captured <= self.slot_bytes {
            // SAFETY: the slot is ours until the status is stored below, and by the check above the range from the
            // virtio header to the end of the frame lies inside it, after the packet header.
            let (before, frame) = unsafe {
                let start = self.slot().add(mac - head);
                std::slice::from_raw_parts_mut(start.as_ptr(), head + captured).split_at_mut(head)
            };
            if header.tp_len == header.tp_snaplen {
                complete_checksum(&before[VLAN_TAG_BYTES..], frame);
            }
            let tagged = header.tp_status & libc::TP_STATUS_VLAN_VALID != 0
                && captured >= MAC_ADDRESSES_BYTES;
            // SAFETY: as above; the borrows that were made from the same range have ended.
            let bytes = unsafe {
                let start = self.slot().add(mac - VLAN_TAG_BYTES);
                std::slice::from_raw_parts_mut(start.as_ptr(), VLAN_TAG_BYTES + captured)
            };
            let bytes = if tagged {
                insert_vlan_tag(bytes, &header)
            } else {
                &bytes[VLAN_TAG_BYTES..]
            };
            use_frame(SlotFrame {
                bytes,
                truncated: header.tp_len != header.tp_snaplen,
            });
        }
        self.prefetch_after_next();
        // Release: our use of the slot is over before the kernel may fill it again.
        self.status()
            .store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) & self.last;
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

impl AsRawFd for FrameRing {
    fn as_raw_fd(&self) -> RawFd {
        self.ring.as_raw_fd()
    }
}

/// `header` is the virtio header of `frame`, in the machine's byte order.
fn complete_checksum(header: &[u8], frame: &mut [u8]) {
    let [
        flags,
        _,
        _,
        _,
        _,
        _,
        start_low,
        start_high,
        offset_low,
        offset_high,
    ] = *header
    else {
        return;
    };
    if flags & VIRTIO_NET_HDR_F_NEEDS_CSUM != 0 {
        let start = u16::from_ne_bytes([start_low, start_high]);
        let offset = u16::from_ne_bytes([offset_low, offset_high]);
        checksum::complete(frame, usize::from(start), usize::from(offset));
    }
}

/// Puts the tag back after the addresses of the frame that begins at `bytes[4..]`; returns the frame with its tag.
fn insert_vlan_tag<'a>(bytes: &'a mut [u8], header: &libc::tpacket2_hdr) -> &'a [u8] {
    let tpid = if header.tp_status & libc::TP_STATUS_VLAN_TPID_VALID == 0 {
        libc::ETH_P_8021Q as u16
    } else {
        header.tp_vlan_tpid
    };
    bytes.copy_within(VLAN_TAG_BYTES..VLAN_TAG_BYTES + MAC_ADDRESSES_BYTES, 0);
    let tag = &mut bytes[MAC_ADDRESSES_BYTES..];
    tag[..2].copy_from_slice(&tpid.to_be_bytes());
    tag[2..4].copy_from_slice(&header.tp_vlan_tci.to_be_bytes());
    bytes
}

// `FrameRing::status` reads the status word at the start of a slot.
const _: () = assert!(offset_of!(libc::tpacket2_hdr, tp_status) == 0);
