// SPDX-License-Identifier: Apache-2.0
//! An `AF_XDP` socket and the memory of its frames, which receiver and sender of one queue share.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::thread;
use std::time::{Duration, Instant};

use super::ring::Ring;
use crate::mapping::Mapping;
use crate::socket::{enlarge_send_buffer, get_option_at, set_option_at};

/// Address family, missing from libc: `linux/socket.h`.
const AF_XDP: libc::c_int = 44;
/// Socket option, missing from libc: `XDP_MAX_TX_SKB_BUDGET` of `linux/if_xdp.h`.
const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;
/// Frames that the kernel sends in one system call, if it is new enough to accept the option.
pub(super) const SEND_BATCH_FRAMES: u32 = 64;

/// The forwarding thread waits so long at most, in a sleep because the kernel does not tell when a queue is free. The
/// rings of other ports hold as much at 80,000 frames/s; at higher rates they overrun, and count it.
pub const QUEUE_PATIENCE: Duration = Duration::from_millis(50);
const QUEUE_PAUSE: Duration = Duration::from_millis(1);

/// How a socket is bound to its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Binding {
    /// The kernel copies between the driver's memory and the socket's.
    Copy,
    /// The card reads and writes the socket's memory.
    ZeroCopy,
}

/// Chunks of a socket's memory: first those of received frames, then those of frames to send. Both powers of two or 0.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    pub(super) receive_chunks: u32,
    pub(super) send_chunks: u32,
    /// A power of two, at most a page.
    pub(super) chunk_bytes: usize,
}

/// A socket. Its rings are mapped before it is bound.
pub(super) struct XdpSocket {
    fd: OwnedFd,
    pub(super) memory: Mapping,
    pub(super) layout: Layout,
    offsets: libc::xdp_mmap_offsets,
    binding: Binding,
}

// SAFETY: its memory is only reached through the rings' owners, of which each has chunks of its own; the descriptor may be
// used by any thread.
unsafe impl Sync for XdpSocket {}

impl XdpSocket {
    /// Opens a socket with memory and rings.
    ///
    /// # Errors
    /// The kernel's: no AF_XDP, no privilege, no more memory to pin.
    pub(super) fn open(layout: Layout, binding: Binding) -> io::Result<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        // SAFETY: a plain system call; the result is checked before it is owned.
        let fd = unsafe {
            let fd = libc::socket(AF_XDP, kind, 0);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(fd)
        };
        let chunks = (layout.receive_chunks + layout.send_chunks) as usize;
        let memory = Mapping::anonymous(chunks * layout.chunk_bytes)?;
        let registration = libc::xdp_umem_reg {
            addr: memory.start().as_ptr().expose_provenance() as u64,
            len: memory.len_bytes() as u64,
            chunk_size: layout.chunk_bytes as u32,
            headroom: 0,
            flags: 0,
            tx_metadata_len: 0,
        };
        set_option_at(&fd, libc::SOL_XDP, libc::XDP_UMEM_REG, &registration)?;
        // The kernel binds no socket without fill and completion ring, although only one direction uses each.
        for (ring, size) in [
            (libc::XDP_UMEM_FILL_RING, layout.receive_chunks.max(1)),
            (libc::XDP_UMEM_COMPLETION_RING, layout.send_chunks.max(1)),
            (libc::XDP_RX_RING, layout.receive_chunks),
            (libc::XDP_TX_RING, layout.send_chunks),
        ] {
            if size > 0 {
                set_option_at(&fd, libc::SOL_XDP, ring, &size)?;
            }
        }
        if layout.send_chunks > 0 {
            // An older kernel refuses the option and sends 32 frames per call.
            let _ = set_option_at(
                &fd,
                libc::SOL_XDP,
                XDP_MAX_TX_SKB_BUDGET,
                &SEND_BATCH_FRAMES,
            );
            enlarge_send_buffer(&fd);
        }
        Ok(Self {
            offsets: ring_offsets(&fd)?,
            fd,
            memory,
            layout,
            binding,
        })
    }

    pub(super) fn transmit_ring(&self) -> io::Result<Ring<libc::xdp_desc>> {
        let at = libc::XDP_PGOFF_TX_RING;
        Ring::map(&self.fd, &self.offsets.tx, at, self.layout.send_chunks)
    }

    pub(super) fn completion_ring(&self) -> io::Result<Ring<u64>> {
        let at = libc::XDP_UMEM_PGOFF_COMPLETION_RING as libc::off_t;
        Ring::map(&self.fd, &self.offsets.cr, at, self.layout.send_chunks)
    }

    pub(super) fn receive_ring(&self) -> io::Result<Ring<libc::xdp_desc>> {
        let at = libc::XDP_PGOFF_RX_RING;
        Ring::map(&self.fd, &self.offsets.rx, at, self.layout.receive_chunks)
    }

    pub(super) fn fill_ring(&self) -> io::Result<Ring<u64>> {
        let at = libc::XDP_UMEM_PGOFF_FILL_RING as libc::off_t;
        Ring::map(&self.fd, &self.offsets.fr, at, self.layout.receive_chunks)
    }

    /// Binds the socket to a queue. The kernel frees a queue some milliseconds after its last socket was closed, so one in
    /// use is tried again for `patience`.
    ///
    /// # Errors
    /// `EBUSY` when another socket has the queue; `EOPNOTSUPP` and others when the driver has no zero-copy.
    pub(super) fn bind(
        &self,
        interface_index: u32,
        queue: u32,
        patience: Duration,
    ) -> io::Result<()> {
        let give_up = Instant::now() + patience;
        loop {
            let bound = self.try_bind(interface_index, queue);
            let busy = |error: &io::Error| error.raw_os_error() == Some(libc::EBUSY);
            if !bound.as_ref().is_err_and(busy) || Instant::now() >= give_up {
                return bound;
            }
            thread::sleep(QUEUE_PAUSE);
        }
    }

    fn try_bind(&self, interface_index: u32, queue: u32) -> io::Result<()> {
        let flags = match self.binding {
            // With XDP_USE_NEED_WAKEUP, `poll` would send too, and hide which frames the interface refused.
            Binding::Copy => libc::XDP_COPY,
            Binding::ZeroCopy => libc::XDP_ZEROCOPY | libc::XDP_USE_NEED_WAKEUP,
        };
        let address = libc::sockaddr_xdp {
            sxdp_family: AF_XDP as libc::c_ushort,
            sxdp_flags: flags,
            sxdp_ifindex: interface_index,
            sxdp_queue_id: queue,
            sxdp_shared_umem_fd: 0,
        };
        // SAFETY: pointer and size describe `address`.
        let result = unsafe {
            libc::bind(
                self.fd.as_raw_fd(),
                (&raw const address).cast(),
                size_of::<libc::sockaddr_xdp>() as libc::socklen_t,
            )
        };
        if result < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    }

    pub(super) fn is_zero_copy(&self) -> bool {
        self.binding == Binding::ZeroCopy
    }

    pub(super) fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// Has the kernel look at the transmit ring.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn send(&self) -> io::Result<()> {
        // SAFETY: a system call without a message: the frames are in the ring.
        let result = unsafe {
            libc::sendto(
                self.fd.as_raw_fd(),
                ptr::null(),
                0,
                libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
                ptr::null(),
                0,
            )
        };
        if result < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    }

    /// Has the driver look at the fill ring. An error shows at the next `poll`.
    pub(super) fn wake_reception(&self) {
        // SAFETY: a system call without a buffer.
        unsafe { libc::recv(self.fd.as_raw_fd(), ptr::null_mut(), 0, libc::MSG_DONTWAIT) };
    }

    /// The socket's counters of frames that it lost.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn statistics(&self) -> io::Result<libc::xdp_statistics> {
        // SAFETY: an all-zero value of a plain C structure is valid; an older kernel fills its beginning.
        let mut found: libc::xdp_statistics = unsafe { std::mem::zeroed() };
        get_option_at(&self.fd, libc::SOL_XDP, libc::XDP_STATISTICS, &mut found)?;
        Ok(found)
    }
}

fn ring_offsets(socket: &OwnedFd) -> io::Result<libc::xdp_mmap_offsets> {
    // SAFETY: an all-zero value of a plain C structure is valid.
    let mut offsets: libc::xdp_mmap_offsets = unsafe { std::mem::zeroed() };
    let size = get_option_at(socket, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS, &mut offsets)?;
    // Linux before 5.4 has a shorter structure.
    if size < size_of::<libc::xdp_mmap_offsets>() {
        return Err(io::Error::from(io::ErrorKind::Unsupported));
    }
    Ok(offsets)
}
