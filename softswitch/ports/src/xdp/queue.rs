// SPDX-License-Identifier: Apache-2.0
//! The frames of one receive queue, and the sending half of its socket.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::error::XdpError;
use super::program::{MAGIC, Program, STAMP_BYTES};
use super::ring::Ring;
use super::sender::{CHUNKS as SEND_CHUNKS, XdpSender};
use super::socket::{Binding, Layout, XdpSocket};

/// Frames that wait in a queue's ring at most, as in a packet ring.
const RING_FRAMES: u32 = 4096;
/// The kernel keeps so many bytes of a chunk free before its frame (`XDP_PACKET_HEADROOM`); the stamp is in them.
const HEADROOM_BYTES: usize = 256;
/// Frames after which the kernel is told that their chunks are free again: each telling takes a cache line from it.
const RETURN_BATCH_FRAMES: u32 = 16;

/// Bytes of a chunk for frames of up to `frame_bytes`; None if no chunk has as many.
pub(super) fn chunk_bytes(frame_bytes: usize) -> Option<usize> {
    [2048, 4096]
        .into_iter()
        .find(|chunk| frame_bytes + HEADROOM_BYTES <= *chunk)
}

/// Longest frame of any chunk.
pub(super) const LONGEST_FRAME_BYTES: usize = 4096 - HEADROOM_BYTES;

/// The receiving half of a socket that is bound to a queue.
pub(super) struct Queue {
    socket: Arc<XdpSocket>,
    received: Ring<libc::xdp_desc>,
    free: Ring<u64>,
    /// Frames taken so far; wraps like the rings' own counters.
    pub(super) taken: u32,
    /// Those of them whose chunks the kernel knows to be free; wraps likewise.
    returned: u32,
    /// The kernel's count of lost frames that was reported already.
    reported_drops: u64,
    /// Why the driver writes no frames into this socket's memory; None if it does.
    no_zero_copy: Option<io::Error>,
}

impl Queue {
    /// Opens the socket of a queue, zero-copy where the driver has it; waits for `patience` for one in use. It receives nothing before the program gives it frames.
    ///
    /// # Errors
    /// [`XdpError::QueueInUse`] and the kernel's.
    pub(super) fn open(
        interface_index: u32,
        queue: u32,
        chunk_bytes: usize,
        sends: bool,
        patience: Duration,
    ) -> Result<Self, XdpError> {
        let layout = Layout {
            receive_chunks: RING_FRAMES,
            send_chunks: if sends { SEND_CHUNKS } else { 0 },
            chunk_bytes,
        };
        let open = |binding| Self::bound(interface_index, queue, layout, (binding, patience));
        match open(Binding::ZeroCopy) {
            Err(XdpError::Kernel { error, .. }) => {
                let mut opened = open(Binding::Copy)?;
                opened.no_zero_copy = Some(error);
                Ok(opened)
            }
            opened => opened,
        }
    }

    fn bound(
        interface_index: u32,
        queue: u32,
        layout: Layout,
        (binding, patience): (Binding, Duration),
    ) -> Result<Self, XdpError> {
        let opening = XdpError::at("opening an AF_XDP socket");
        let socket = Arc::new(XdpSocket::open(layout, binding).map_err(&opening)?);
        let mut free = socket.fill_ring().map_err(&opening)?;
        for chunk in 0..layout.receive_chunks {
            let address = u64::from(chunk) * layout.chunk_bytes as u64;
            // SAFETY: the ring is empty and as long as there are chunks; the kernel reads none of it before the store below.
            unsafe { free.write(chunk, address) };
        }
        // Before the socket is bound: a driver without copies takes chunks at once.
        free.producer()
            .store(layout.receive_chunks, Ordering::Release);
        let received = socket.receive_ring().map_err(&opening)?;
        let bound = socket.bind(interface_index, queue, patience);
        bound.map_err(|error| XdpError::of_binding(queue, error))?;
        Ok(Self {
            socket,
            received,
            free,
            taken: 0,
            returned: 0,
            reported_drops: 0,
            no_zero_copy: None,
        })
    }

    /// The sending half; of a queue that was opened for sending, once.
    pub(super) fn sender(&self, mtu_bytes: usize) -> io::Result<XdpSender> {
        XdpSender::of_socket(&self.socket, mtu_bytes)
    }

    /// Has the program give the queue's frames to this socket.
    pub(super) fn receive_from(&self, program: &Program, queue: u32) -> io::Result<()> {
        program.give(queue, self.socket.fd())
    }

    /// Why frames are copied on their way; None if the card writes them into the memory that the switch reads.
    pub(super) fn no_zero_copy(&self) -> Option<&io::Error> {
        self.no_zero_copy.as_ref()
    }

    fn head(&self) -> Option<libc::xdp_desc> {
        // Acquire: what the kernel wrote before it moved the counter is visible after it.
        if self.received.producer().load(Ordering::Acquire) == self.taken {
            return None;
        }
        // SAFETY: the counter says that the kernel has written this descriptor, and it does not change it until it is consumed.
        Some(unsafe { self.received.read(self.taken) })
    }

    /// The stamp's place in front of a frame; None if the kernel's descriptor is not one of received memory, which the
    /// unsafe code relies on.
    fn place(&self, frame: &libc::xdp_desc) -> Option<usize> {
        let layout = &self.socket.layout;
        let end_bytes = layout.receive_chunks as usize * layout.chunk_bytes;
        let start = usize::try_from(frame.addr).ok()?.checked_sub(STAMP_BYTES)?;
        let end = start.checked_add(STAMP_BYTES + frame.len as usize)?;
        (end <= end_bytes).then_some(start)
    }

    /// Time of arrival of the oldest frame (ns, `CLOCK_MONOTONIC`), or `now_ns()` if the driver has kept the program from
    /// stamping it; None without a frame.
    #[inline(always)]
    pub(super) fn oldest_ns(&self, now_ns: impl FnOnce() -> u64) -> Option<u64> {
        let frame = self.head()?;
        let stamp = self.place(&frame).and_then(|at| {
            // SAFETY: by `place` the stamp lies inside the memory, and by the descriptor the kernel writes none of it.
            let stamp = unsafe { self.socket.memory.start().add(at).cast::<[u64; 2]>() };
            // SAFETY: as above; any bytes are valid numbers.
            let [magic, at_ns] = unsafe { stamp.read_unaligned() };
            (magic == MAGIC).then_some(at_ns)
        });
        Some(stamp.unwrap_or_else(now_ns))
    }

    /// Calls `use_frame` with the oldest frame and whether it was stamped, then returns its chunk to the kernel.
    #[inline(always)]
    pub(super) fn take(&mut self, use_frame: impl FnOnce(&[u8], bool)) {
        let Some(frame) = self.head() else { return };
        if let Some(at) = self.place(&frame) {
            // SAFETY: by `place` and the descriptor, stamp and frame are inside the memory, and nobody else uses them before
            // their chunk is returned below.
            let bytes = unsafe {
                let start = self.socket.memory.start().add(at);
                std::slice::from_raw_parts_mut(start.as_ptr(), STAMP_BYTES + frame.len as usize)
            };
            let (stamp, frame) = bytes.split_at_mut(STAMP_BYTES);
            let stamped = stamp[..8] == MAGIC.to_ne_bytes();
            // The next frame in this chunk may come without a stamp.
            stamp[..8].fill(0);
            use_frame(frame, stamped);
        }
        let chunk = frame.addr & !(self.socket.layout.chunk_bytes as u64 - 1);
        // SAFETY: the ring has as many descriptors as there are chunks, and this chunk is not in it.
        unsafe { self.free.write(self.next_free(), chunk) };
        self.taken = self.taken.wrapping_add(1);
        let unreturned = self.taken.wrapping_sub(self.returned);
        if unreturned >= RETURN_BATCH_FRAMES || self.head().is_none() {
            self.return_chunks();
        }
    }

    /// The position in the ring of free chunks for that of the frame at `taken`: all chunks were put there first.
    fn next_free(&self) -> u32 {
        self.taken.wrapping_add(self.socket.layout.receive_chunks)
    }

    fn return_chunks(&mut self) {
        self.returned = self.taken;
        // Release: our use of the chunks is over before the kernel may fill them again.
        self.received
            .consumer()
            .store(self.taken, Ordering::Release);
        self.free
            .producer()
            .store(self.next_free(), Ordering::Release);
        if self.socket.is_zero_copy() && self.free.needs_wakeup() {
            self.socket.wake_reception();
        }
    }

    /// Frames that the kernel could not store, since the last call.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn take_drops(&mut self) -> io::Result<u64> {
        let found = self.socket.statistics()?;
        // `rx_fill_ring_empty_descs` counts no other frames: in copy mode each of them is in `rx_dropped` too, and without
        // copies it counts the driver's looks at an empty ring.
        let drops = found.rx_dropped + found.rx_ring_full;
        let new = drops.saturating_sub(self.reported_drops);
        self.reported_drops = drops;
        Ok(new)
    }
}

impl AsRawFd for Queue {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.fd().as_raw_fd()
    }
}
