// SPDX-License-Identifier: Apache-2.0
//! Memory that the kernel shares with a socket, or reads from it.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::{self, NonNull};

/// Pages, unmapped when dropped.
pub struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to this value alone and is not bound to the thread that made it.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps a socket's ring of `bytes` bytes, which the kernel offers at `offset`.
    ///
    /// # Errors
    /// The kernel's.
    pub fn of_socket(socket: &OwnedFd, bytes: usize, offset: libc::off_t) -> io::Result<Self> {
        Self::map(bytes, libc::MAP_SHARED, socket.as_raw_fd(), offset)
    }

    /// Maps new memory, zeroed.
    ///
    /// # Errors
    /// The kernel's.
    pub fn anonymous(bytes: usize) -> io::Result<Self> {
        Self::map(bytes, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
    }

    fn map(bytes: usize, flags: i32, fd: i32, offset: libc::off_t) -> io::Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses; it overlaps no memory in use.
        let address = unsafe { libc::mmap(ptr::null_mut(), bytes, access, flags, fd, offset) };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(address.cast()).ok_or_else(io::Error::last_os_error)?;
        Ok(Self { start, bytes })
    }

    /// Its first byte.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Its length.
    pub fn len_bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `map` with this address and size; users of its memory own or borrow it.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
