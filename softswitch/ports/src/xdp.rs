// SPDX-License-Identifier: Apache-2.0
//! Sends through an `AF_XDP` socket: frames are written into memory that the kernel reads, one system call sends many.
//!
//! In copy mode, which every interface has and which needs no more privilege than a packet socket: two thirds of
//! the processor time of `sendmmsg(2)`, because the kernel neither fetches a message nor parses the frame. Kernel
//! interface: `Documentation/networking/af_xdp.rst`.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use super::mapping::Mapping;
use super::socket::{enlarge_send_buffer, get_option_at, set_option_at};
use super::tally::Sent;

/// Frames in flight, 1 MiB in all: an ordinary user may pin 8 MiB.
const CHUNKS: u32 = 512;
/// Longest frame; the kernel requires a power of two.
const CHUNK_BYTES: usize = 2048;
/// Frames of one system call, if the kernel is new enough to accept the option.
const BATCH_FRAMES: u32 = 64;
/// Address family, missing from libc: `linux/socket.h`.
const AF_XDP: libc::c_int = 44;
/// Socket option, missing from libc: `XDP_MAX_TX_SKB_BUDGET` of `linux/if_xdp.h`.
const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;
const ETHERNET_HEADER_BYTES: usize = 14;
const VLAN_TAG_BYTES: usize = 4;

/// A ring that kernel and user space share: two counters that only grow (and wrap), and descriptors.
struct Ring<T> {
    memory: Mapping,
    producer: usize,
    consumer: usize,
    descriptors: usize,
    kind: std::marker::PhantomData<T>,
}

impl<T: Copy> Ring<T> {
    fn map(
        socket: &OwnedFd,
        at: &libc::xdp_ring_offset,
        page_offset: libc::off_t,
    ) -> io::Result<Self> {
        let offset = |value: u64| usize::try_from(value).map_err(io::Error::other);
        let descriptors = offset(at.desc)?;
        let bytes = descriptors + CHUNKS as usize * size_of::<T>();
        Ok(Self {
            memory: Mapping::of_socket(socket, bytes, page_offset)?,
            producer: offset(at.producer)?,
            consumer: offset(at.consumer)?,
            descriptors,
            kind: std::marker::PhantomData,
        })
    }

    fn counter(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: by the kernel's offsets, an aligned 32-bit counter is here, before the descriptors; the mapping lives
        // as long as `self`.
        unsafe { AtomicU32::from_ptr(self.memory.start().add(offset).cast().as_ptr()) }
    }

    fn producer(&self) -> &AtomicU32 {
        self.counter(self.producer)
    }

    fn consumer(&self) -> &AtomicU32 {
        self.counter(self.consumer)
    }

    fn descriptor(&self, number: u32) -> ptr::NonNull<T> {
        let index = (number % CHUNKS) as usize;
        // SAFETY: the index is below the number of descriptors that the mapping was made for.
        unsafe {
            self.memory
                .start()
                .add(self.descriptors)
                .cast::<T>()
                .add(index)
        }
    }
}

/// An AF_XDP socket with the memory of its frames.
pub struct XdpSender {
    socket: OwnedFd,
    memory: Mapping,
    transmit: Ring<libc::xdp_desc>,
    completion: Ring<u64>,
    /// Addresses of the chunks that are free.
    free: Vec<u64>,
    /// Frames written to the transmit ring so far; wraps like the ring's own counters.
    written: u32,
    /// Those of them that the kernel has sent or refused; wraps likewise.
    done: u32,
    /// Frames that found no free chunk or have an invalid length; not yet reported by [`XdpSender::flush`].
    refused: u64,
    mtu_bytes: usize,
}

impl XdpSender {
    /// Opens a socket that bypasses the queueing discipline and sends through the first queue.
    ///
    /// # Errors
    /// `EINVAL` for an interface whose frames are longer than a chunk, and the kernel's: no AF_XDP, no privilege, no
    /// more memory to pin, or the interface's queue in use by another socket.
    pub fn open(interface_index: u32, mtu_bytes: usize) -> io::Result<Self> {
        if mtu_bytes + ETHERNET_HEADER_BYTES + VLAN_TAG_BYTES > CHUNK_BYTES {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        // SAFETY: a plain system call; the result is checked before it is owned.
        let socket = unsafe {
            let fd = libc::socket(AF_XDP, kind, 0);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(fd)
        };
        let memory = Mapping::anonymous(CHUNKS as usize * CHUNK_BYTES)?;
        let registration = libc::xdp_umem_reg {
            addr: memory.start().as_ptr().expose_provenance() as u64,
            len: memory.len_bytes() as u64,
            chunk_size: CHUNK_BYTES as u32,
            headroom: 0,
            flags: 0,
            tx_metadata_len: 0,
        };
        set_option_at(&socket, libc::SOL_XDP, libc::XDP_UMEM_REG, &registration)?;
        for ring in [
            // The kernel binds no socket without a fill ring, although only reception uses it.
            libc::XDP_UMEM_FILL_RING,
            libc::XDP_UMEM_COMPLETION_RING,
            libc::XDP_TX_RING,
        ] {
            set_option_at(&socket, libc::SOL_XDP, ring, &CHUNKS)?;
        }
        // An older kernel refuses the option and sends 32 frames per call.
        let _ = set_option_at(&socket, libc::SOL_XDP, XDP_MAX_TX_SKB_BUDGET, &BATCH_FRAMES);
        enlarge_send_buffer(&socket);
        let offsets = ring_offsets(&socket)?;
        let transmit = Ring::map(&socket, &offsets.tx, libc::XDP_PGOFF_TX_RING)?;
        let at = libc::XDP_UMEM_PGOFF_COMPLETION_RING as libc::off_t;
        let completion = Ring::map(&socket, &offsets.cr, at)?;
        bind(&socket, interface_index)?;
        Ok(Self {
            socket,
            memory,
            transmit,
            completion,
            free: (0..CHUNKS)
                .map(|chunk| u64::from(chunk) * CHUNK_BYTES as u64)
                .collect(),
            written: 0,
            done: 0,
            refused: 0,
            mtu_bytes,
        })
    }

    /// Adds a frame (Ethernet without FCS) to the batch; true when the batch is full.
    pub fn push(&mut self, frame: &[u8]) -> bool {
        if self.free.is_empty() {
            self.reclaim();
        }
        let carried = self.carries(frame);
        let Some(address) = self.free.pop_if(|_| carried) else {
            self.refused += 1;
            return true;
        };
        // SAFETY: the address is that of a free chunk, which nobody else reads or writes; the frame fits by `carries`. The
        // ring has as many descriptors as there are chunks, so the next one is not in use.
        unsafe {
            let to = self.memory.start().add(address as usize);
            ptr::copy_nonoverlapping(frame.as_ptr(), to.as_ptr(), frame.len());
            self.transmit
                .descriptor(self.written)
                .write(libc::xdp_desc {
                    addr: address,
                    len: frame.len() as u32,
                    options: 0,
                });
        }
        self.written = self.written.wrapping_add(1);
        self.free.is_empty() || self.unsent() >= BATCH_FRAMES
    }

    /// Whether the interface can send a frame of this length. Packet sockets check this, AF_XDP sockets do not.
    fn carries(&self, frame: &[u8]) -> bool {
        let tagged = frame.get(12..14) == Some(&0x8100_u16.to_be_bytes());
        let longest_bytes = self.mtu_bytes + ETHERNET_HEADER_BYTES;
        let longest_bytes = longest_bytes + if tagged { VLAN_TAG_BYTES } else { 0 };
        (ETHERNET_HEADER_BYTES..=longest_bytes).contains(&frame.len())
    }

    fn unsent(&self) -> u32 {
        self.written.wrapping_sub(self.done)
    }

    /// Frames that wait to be sent, or to be counted as refused.
    pub fn waiting(&self) -> usize {
        self.unsent() as usize + self.refused as usize
    }

    /// Hands the batch to the interface without blocking. Frames that the kernel has no room for stay for the next call.
    pub fn flush(&mut self) -> Sent {
        let mut sent = Sent {
            refused: std::mem::take(&mut self.refused),
            ..Sent::default()
        };
        // Release: frames and descriptors are visible to the kernel before the new counter.
        self.transmit
            .producer()
            .store(self.written, Ordering::Release);
        while self.unsent() > 0 {
            // SAFETY: a system call without a message: the frames are in the ring.
            let result = unsafe {
                libc::sendto(
                    self.socket.as_raw_fd(),
                    ptr::null(),
                    0,
                    libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
                    ptr::null(),
                    0,
                )
            };
            let error = (result < 0).then(io::Error::last_os_error);
            let before = self.done;
            let refused = self.count(error.as_ref().and_then(io::Error::raw_os_error), &mut sent);
            if refused || self.done == before {
                sent.error = error;
            }
            if self.done == before {
                break;
            }
        }
        self.reclaim();
        sent
    }

    /// Counts the frames of the last system call, which returned `errno`; true when it refused one.
    fn count(&mut self, errno: Option<i32>, sent: &mut Sent) -> bool {
        let consumed = self.transmit.consumer().load(Ordering::Acquire);
        let mut end = consumed;
        // EBUSY: the interface dropped a frame, the last one consumed, and the call ended. The consumer counter may be
        // updated late; then the dropped frame was the first of the call.
        let refused = errno == Some(libc::EBUSY);
        let ahead = consumed.wrapping_sub(self.done);
        if ahead == 0 || ahead > self.unsent() {
            end = self.done.wrapping_add(u32::from(refused));
        }
        while self.done != end {
            // SAFETY: the descriptor of a frame that was written and not counted yet; the kernel only reads it.
            let descriptor = unsafe { self.transmit.descriptor(self.done).read() };
            self.done = self.done.wrapping_add(1);
            if refused && self.done == end {
                sent.refused += 1;
            } else {
                sent.packets += 1;
                sent.bytes += u64::from(descriptor.len);
            }
        }
        refused
    }

    /// Returns the chunks of frames that were sent to the free list.
    fn reclaim(&mut self) {
        // Acquire: the kernel has read a chunk before it returns it.
        let end = self.completion.producer().load(Ordering::Acquire);
        let mut next = self.completion.consumer().load(Ordering::Relaxed);
        while next != end {
            // SAFETY: the kernel has written this descriptor and does not change it until it is consumed.
            self.free
                .push(unsafe { self.completion.descriptor(next).read() });
            next = next.wrapping_add(1);
        }
        self.completion.consumer().store(next, Ordering::Release);
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

fn bind(socket: &OwnedFd, interface_index: u32) -> io::Result<()> {
    let address = libc::sockaddr_xdp {
        sxdp_family: AF_XDP as libc::c_ushort,
        sxdp_flags: libc::XDP_COPY,
        sxdp_ifindex: interface_index,
        sxdp_queue_id: 0,
        sxdp_shared_umem_fd: 0,
    };
    // SAFETY: pointer and size describe `address`.
    let result = unsafe {
        libc::bind(
            socket.as_raw_fd(),
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
