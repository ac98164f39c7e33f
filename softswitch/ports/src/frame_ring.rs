// SPDX-License-Identifier: Apache-2.0
//! A `TPACKET_V2` receive ring: the kernel hands over each frame as it arrives, for the switch.
//!
//! `TPACKET_V3` ([`block_ring`](super::block_ring)) would delay frames until a block is full. The kernel queues a frame that is
//! longer than a slot (TSO, GSO) at the socket; only its beginning is in the ring. Kernel interface: `packet(7)` and
//! `Documentation/networking/packet_mmap.rst`.

use std::io;
use std::mem::{offset_of, size_of};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use super::checksum;
use super::packet_ring::{PacketRing, Receive, ring_socket};
use super::segments;
use super::socket::{enlarge_receive_buffer, receive, set_option, to_uint};
use super::virtio::{self, Offload};
use super::whole;

/// Frames in a ring: more than 300 ms of 150-byte frames at 40 Mbit/s, so that a pause of the scheduler loses none. In virtual time,
/// where the switch waits for a millisecond, that of 800 full frames at 10 Gbit/s, up to 1,593 were seen to have come meanwhile.
pub const RING_FRAMES: usize = 4096;
/// Slots of one block: as many as make whole pages of slots of whole cache lines.
const BLOCK_SLOTS: usize = 64;
/// Room before a frame for the VLAN tag that the kernel has removed.
const VLAN_TAG_BYTES: usize = 4;
/// Both MAC addresses; the tag follows them.
const MAC_ADDRESSES_BYTES: usize = 12;
/// Bytes of a slot besides the frame: the kernel's header, the address, alignment, the virtio header.
const SLOT_OVERHEAD_BYTES: usize = 160;
/// Cache lines of a slot up to the transport header of its frame.
const SLOT_HEAD_LINES: usize = 3;
const LINE_BYTES: usize = 64;
/// Room before the virtio header: for the VLAN tag, and for the size of a frame that stays whole.
const ROOM_BYTES: usize = VLAN_TAG_BYTES + whole::SIZE_BYTES;
/// Bytes before a frame.
const LEAD_BYTES: usize = ROOM_BYTES + virtio::HEADER_BYTES;
/// Longest frame that is cut into segments, with its headers: Linux makes none of more than 64 KiB unless it is told to.
const LONGEST_BYTES: usize = 65_536 + 256;

/// A frame of a ring, or the reason why there is none.
pub enum Taken<'a> {
    /// A frame from its Ethernet header, without FCS, with its VLAN tag.
    Frame(&'a [u8]),
    /// A frame with its lead, if frames stay whole.
    Whole(&'a [u8]),
    /// A frame that is longer than a slot and cannot be cut.
    TooLong,
    /// The socket had no room for a frame of many segments (TSO, GSO), which would have been so many frames.
    Lost(u64),
}

impl Taken<'_> {
    /// How many frames of a wire it is, or would have been.
    pub(crate) fn frames(&self) -> u64 {
        match self {
            Self::Frame(_) | Self::TooLong => 1,
            Self::Whole(with_lead) => whole::frames_of(with_lead),
            Self::Lost(frames) => *frames,
        }
    }
}

/// The receive ring of one interface.
pub struct FrameRing {
    ring: PacketRing,
    slot_bytes: usize,
    /// The last slot, whose number has all bits of the others.
    last: usize,
    next: usize,
    /// Frames stay whole.
    whole: bool,
    /// A frame from the socket, after [`LEAD_BYTES`]; empty before the first.
    long: Vec<u8>,
    /// One of its segments, after [`LEAD_BYTES`].
    segment: Vec<u8>,
}

impl FrameRing {
    /// Opens a ring of `frames` (a power of two, at least [`BLOCK_SLOTS`]) of up to `max_frame_bytes` on the interface; promiscuous.
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
        let reserve_bytes = ROOM_BYTES as libc::c_uint;
        set_option(&socket, libc::PACKET_RESERVE, &reserve_bytes)?;
        // The kernel queues a frame that is longer than a slot at the socket, besides its beginning in the slot.
        set_option(&socket, libc::PACKET_COPY_THRESH, &1_i32)?;
        enlarge_receive_buffer(&socket);
        // An odd number of cache lines: if slots were powers of two apart, their heads would compete for a few sets of the cache.
        let lines = (max_frame_bytes + SLOT_OVERHEAD_BYTES).div_ceil(LINE_BYTES) | 1;
        let slot_bytes = lines * LINE_BYTES;
        let block_bytes = BLOCK_SLOTS * slot_bytes;
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
            whole: false,
            long: Vec::new(),
            segment: Vec::new(),
        })
    }

    /// The same ring, whose frames stay whole.
    pub fn keep_whole(self) -> Self {
        Self {
            whole: true,
            ..self
        }
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

    /// Calls `use_taken` with the oldest frame, or with each of its segments, then returns its slot to the kernel.
    pub fn take(&mut self, mut use_taken: impl FnMut(Taken<'_>)) {
        let Some(header) = self.header() else { return };
        let mac = usize::from(header.tp_mac);
        let captured = header.tp_snaplen as usize;
        // The kernel keeps within its slots; checked because the unsafe code below relies on it.
        if mac >= size_of::<libc::tpacket2_hdr>() + LEAD_BYTES && mac + captured <= self.slot_bytes
        {
            // SAFETY: the slot is ours until the status is stored below, and by the check above the range from the room for
            // the tag to the end of the frame lies inside it, after the packet header.
            let slot = unsafe {
                let start = self.slot().add(mac - LEAD_BYTES);
                std::slice::from_raw_parts_mut(start.as_ptr(), LEAD_BYTES + captured)
            };
            if header.tp_len == header.tp_snaplen {
                hand_over(slot, &header, self.whole, &mut self.segment, &mut use_taken);
            } else {
                self.take_long(slot, &header, &mut use_taken);
            }
        }
        self.prefetch_after_next();
        // Release: our use of the slot is over before the kernel may fill it again.
        self.status()
            .store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) & self.last;
    }

    /// Receives the frame whose beginning is in `slot` from the socket, which queues long frames in the order of their slots.
    #[cold]
    fn take_long(
        &mut self,
        slot: &[u8],
        header: &libc::tpacket2_hdr,
        use_taken: &mut impl FnMut(Taken<'_>),
    ) {
        if header.tp_status & libc::TP_STATUS_COPY == 0 {
            let offload = offload(slot);
            let lost = offload.segments.map(|segments| {
                let frame = &slot[LEAD_BYTES..];
                segments::count(frame, header.tp_len as usize, segments, offload.checksum)
            });
            use_taken(lost.map_or(Taken::TooLong, Taken::Lost));
            return;
        }
        self.long.resize(LEAD_BYTES + LONGEST_BYTES, 0);
        let room = &mut self.long[ROOM_BYTES..];
        match receive(&self.ring, room) {
            Ok(bytes) if bytes <= room.len() && bytes >= virtio::HEADER_BYTES => {
                let received = &mut self.long[..ROOM_BYTES + bytes];
                hand_over(received, header, self.whole, &mut self.segment, use_taken);
            }
            Ok(_) | Err(_) => use_taken(Taken::TooLong),
        }
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

/// Completes what a host left to its network card, or leaves it to the receiver's if frames stay `whole`: `received` is
/// [`LEAD_BYTES`] and the frame.
#[inline(always)]
fn hand_over(
    received: &mut [u8],
    header: &libc::tpacket2_hdr,
    whole: bool,
    buffer: &mut Vec<u8>,
    use_taken: &mut impl FnMut(Taken<'_>),
) {
    let offload = offload(received);
    if whole && !is_tagged(header) {
        let with_lead = &mut received[VLAN_TAG_BYTES..];
        if whole::complete(with_lead, offload) {
            use_taken(Taken::Whole(with_lead));
            return;
        }
    }
    if let Some(segments) = offload.segments {
        let cut = offload.checksum.is_some_and(|field| {
            let frame = &received[LEAD_BYTES..];
            segments::cut(frame, (segments, field), (buffer, LEAD_BYTES), |segment| {
                use_taken(finished(segment, header, whole));
            })
        });
        if !cut {
            use_taken(Taken::TooLong);
        }
        return;
    }
    if let Some(field) = offload.checksum {
        checksum::complete(&mut received[LEAD_BYTES..], field.start, field.offset);
    }
    use_taken(finished(received, header, whole));
}

fn offload(received: &[u8]) -> Offload {
    let header = received.get(ROOM_BYTES..).and_then(<[u8]>::first_chunk);
    header.map_or_else(Offload::default, |header| Offload::read(*header))
}

/// The frame that begins after [`LEAD_BYTES`], with the tag that the kernel has removed, if any.
#[inline(always)]
fn finished<'a>(bytes: &'a mut [u8], header: &libc::tpacket2_hdr, whole: bool) -> Taken<'a> {
    let mut start = LEAD_BYTES;
    if is_tagged(header) && bytes.len() >= LEAD_BYTES + MAC_ADDRESSES_BYTES {
        start -= VLAN_TAG_BYTES;
        insert_vlan_tag(&mut bytes[start..], header);
    }
    if whole {
        Taken::Whole(whole::with_plain_lead(bytes, start))
    } else {
        Taken::Frame(&bytes[start..])
    }
}

fn is_tagged(header: &libc::tpacket2_hdr) -> bool {
    header.tp_status & libc::TP_STATUS_VLAN_VALID != 0
}

/// Puts the tag back after the addresses of the frame that begins at `bytes[4..]`, which then begins at `bytes[0..]`.
fn insert_vlan_tag(bytes: &mut [u8], header: &libc::tpacket2_hdr) {
    let tpid = if header.tp_status & libc::TP_STATUS_VLAN_TPID_VALID == 0 {
        libc::ETH_P_8021Q as u16
    } else {
        header.tp_vlan_tpid
    };
    bytes.copy_within(VLAN_TAG_BYTES..VLAN_TAG_BYTES + MAC_ADDRESSES_BYTES, 0);
    let tag = &mut bytes[MAC_ADDRESSES_BYTES..];
    tag[..2].copy_from_slice(&tpid.to_be_bytes());
    tag[2..4].copy_from_slice(&header.tp_vlan_tci.to_be_bytes());
}

// `FrameRing::status` reads the status word at the start of a slot.
const _: () = assert!(offset_of!(libc::tpacket2_hdr, tp_status) == 0);
