// SPDX-License-Identifier: Apache-2.0
//! A ring that kernel and user space share: two counters that only grow (and wrap), and descriptors.

use std::io;
use std::marker::PhantomData;
use std::mem::size_of;
use std::os::fd::OwnedFd;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::mapping::Mapping;

/// A ring of descriptors `T`.
pub(super) struct Ring<T> {
    memory: Mapping,
    producer: usize,
    consumer: usize,
    flags: usize,
    descriptors: usize,
    size: u32,
    kind: PhantomData<T>,
}

impl<T: Copy> Ring<T> {
    /// Maps a socket's ring of `size` descriptors (a power of two).
    pub(super) fn map(
        socket: &OwnedFd,
        at: &libc::xdp_ring_offset,
        page_offset: libc::off_t,
        size: u32,
    ) -> io::Result<Self> {
        let offset = |value: u64| usize::try_from(value).map_err(io::Error::other);
        let descriptors = offset(at.desc)?;
        let bytes = descriptors + size as usize * size_of::<T>();
        Ok(Self {
            memory: Mapping::of_socket(socket, bytes, page_offset)?,
            producer: offset(at.producer)?,
            consumer: offset(at.consumer)?,
            flags: offset(at.flags)?,
            descriptors,
            size,
            kind: PhantomData,
        })
    }

    fn word(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: by the kernel's offsets, an aligned 32-bit word is here, before the descriptors; the mapping lives as long
        // as `self`.
        unsafe { AtomicU32::from_ptr(self.memory.start().add(offset).cast().as_ptr()) }
    }

    /// Descriptors that were put into the ring so far.
    pub(super) fn producer(&self) -> &AtomicU32 {
        self.word(self.producer)
    }

    /// Descriptors that were taken out so far.
    pub(super) fn consumer(&self) -> &AtomicU32 {
        self.word(self.consumer)
    }

    /// Whether the driver waits for a system call before it looks at the ring.
    pub(super) fn needs_wakeup(&self) -> bool {
        self.word(self.flags).load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }

    fn descriptor(&self, number: u32) -> ptr::NonNull<T> {
        let index = (number % self.size) as usize;
        // SAFETY: the index is below the number of descriptors that the mapping was made for.
        unsafe {
            self.memory
                .start()
                .add(self.descriptors)
                .cast::<T>()
                .add(index)
        }
    }

    /// The descriptor at a position of the counters.
    ///
    /// # Safety
    /// The kernel does not write it now.
    pub(super) unsafe fn read(&self, number: u32) -> T {
        // SAFETY: inside the mapping; the caller answers for the kernel.
        unsafe { self.descriptor(number).read() }
    }

    /// Writes the descriptor at a position of the counters.
    ///
    /// # Safety
    /// The kernel does not use it now.
    pub(super) unsafe fn write(&mut self, number: u32, value: T) {
        // SAFETY: inside the mapping; the caller answers for the kernel.
        unsafe { self.descriptor(number).write(value) }
    }
}
