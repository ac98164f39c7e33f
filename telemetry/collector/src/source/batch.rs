// SPDX-License-Identifier: Apache-2.0
//! The system calls that have no safe wrapper: `recvmmsg` with control messages, and `SO_MEMINFO`.
//!
//! All `unsafe` of this crate is here, save one call in `process`.

use std::io;
use std::mem;
use std::net::SocketAddr;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::RawFd;
use std::ptr;

use super::Datagram;

/// Datagrams per system call.
const BATCH: usize = 128;
/// Holds the report of a jumbo frame with all its headers; longer ones come cut, and say so.
const DATAGRAM_BYTES: usize = 9216;
/// Two control messages (time, drops) with their headers take 56 bytes; aligned as `cmsghdr` wants it.
const CONTROL_WORDS: usize = 16;
/// Words of `SO_MEMINFO`, and the one that counts drops (linux/sock_diag.h).
const MEMINFO_WORDS: usize = 9;
const MEMINFO_DROPS: usize = 8;
/// Not in libc yet (asm-generic/socket.h).
const SO_MEMINFO: libc::c_int = 55;
const NS_PER_S: i64 = 1_000_000_000;

/// What is known of a received datagram beside its bytes.
#[derive(Debug, Clone, Copy, Default)]
struct Arrived {
    length: usize,
    cut: bool,
    received_ns: i64,
    sender: Option<SocketAddr>,
}

/// Buffers for one batch, used again for each.
#[derive(Debug)]
pub(crate) struct Batch {
    bytes: Box<[[u8; DATAGRAM_BYTES]]>,
    controls: Box<[[u64; CONTROL_WORDS]]>,
    arrived: Vec<Arrived>,
    kernel_drops: Option<u32>,
}

impl Default for Batch {
    fn default() -> Self {
        Self {
            bytes: vec![[0; DATAGRAM_BYTES]; BATCH].into_boxed_slice(),
            controls: vec![[0; CONTROL_WORDS]; BATCH].into_boxed_slice(),
            arrived: Vec::with_capacity(BATCH),
            kernel_drops: None,
        }
    }
}

impl Batch {
    /// Receives what is there, without waiting; the number of datagrams.
    pub(crate) fn receive(&mut self, socket: RawFd) -> io::Result<usize> {
        self.arrived.clear();
        self.kernel_drops = None;
        // SAFETY: all three are plain C structs for which zero bytes are a valid value.
        let (mut names, mut parts, mut headers): (
            [libc::sockaddr_storage; BATCH],
            [libc::iovec; BATCH],
            [libc::mmsghdr; BATCH],
        ) = unsafe { (mem::zeroed(), mem::zeroed(), mem::zeroed()) };
        for at in 0..BATCH {
            parts[at] = libc::iovec {
                iov_base: self.bytes[at].as_mut_ptr().cast(),
                iov_len: DATAGRAM_BYTES,
            };
            let header = &mut headers[at].msg_hdr;
            header.msg_name = ptr::from_mut(&mut names[at]).cast();
            header.msg_namelen = socklen(mem::size_of::<libc::sockaddr_storage>());
            header.msg_iov = &raw mut parts[at];
            header.msg_iovlen = 1;
            header.msg_control = self.controls[at].as_mut_ptr().cast();
            header.msg_controllen = mem::size_of::<[u64; CONTROL_WORDS]>();
        }
        // SAFETY: each header points to a name, one part and a control buffer of its own, with their true sizes;
        // all of them live until the call returns.
        let received = unsafe {
            let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
            #[allow(clippy::cast_possible_truncation, reason = "BATCH is small")]
            libc::recvmmsg(
                socket,
                headers.as_mut_ptr(),
                BATCH as _,
                flags as _,
                ptr::null_mut(),
            )
        };
        let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
        let now_ns = unix_ns();
        for (header, name) in headers.iter().zip(&names).take(received) {
            // SAFETY: the kernel filled this header, and the control buffer it points to is still borrowed by self.
            let control = unsafe { read_control(&header.msg_hdr) };
            self.kernel_drops = control.kernel_drops.or(self.kernel_drops);
            let sent_bytes = usize::try_from(header.msg_len).unwrap_or(usize::MAX);
            self.arrived.push(Arrived {
                length: sent_bytes.min(DATAGRAM_BYTES),
                cut: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
                received_ns: control.received_ns.unwrap_or(now_ns),
                sender: socket_address(name),
            });
        }
        Ok(received)
    }

    /// The datagrams of the last call, in order; they came to `destination`.
    pub(crate) fn datagrams(&self, destination: SocketAddr) -> impl Iterator<Item = Datagram<'_>> {
        self.arrived
            .iter()
            .zip(&self.bytes)
            .map(move |(arrived, bytes)| Datagram {
                payload: bytes.get(..arrived.length).unwrap_or_default(),
                cut: arrived.cut,
                received_ns: arrived.received_ns,
                sender: arrived.sender,
                destination,
            })
    }

    /// The kernel's count of drops beside the last batch; absent while it is 0.
    pub(crate) const fn kernel_drops(&self) -> Option<u32> {
        self.kernel_drops
    }
}

/// The control messages of one datagram.
#[derive(Default)]
struct Control {
    received_ns: Option<i64>,
    kernel_drops: Option<u32>,
}

/// # Safety
/// `header` must be as `recvmmsg` left it, and its control buffer still alive.
unsafe fn read_control(header: &libc::msghdr) -> Control {
    let mut control = Control::default();
    // SAFETY: by this function's contract, the messages lie whole within msg_controllen bytes of a live buffer; the
    // two types are checked before they are read, unaligned because nothing aligns them.
    unsafe {
        let mut message = libc::CMSG_FIRSTHDR(header);
        while let Some(found) = message.as_ref() {
            match (found.cmsg_level, found.cmsg_type) {
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                    let time: libc::timespec = ptr::read_unaligned(libc::CMSG_DATA(message).cast());
                    control.received_ns = Some(timespec_ns(time));
                }
                (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => {
                    control.kernel_drops =
                        Some(ptr::read_unaligned(libc::CMSG_DATA(message).cast()));
                }
                _ => {}
            }
            message = libc::CMSG_NXTHDR(header, message);
        }
    }
    control
}

/// Datagrams the socket has thrown away up to now; `None` on kernels that do not tell (before Linux 4.12).
pub(crate) fn socket_drops(socket: RawFd) -> Option<u32> {
    let mut words = [0_u32; MEMINFO_WORDS];
    let mut length = socklen(mem::size_of_val(&words));
    // SAFETY: `length` is the size of `words`, and the kernel writes no more than that.
    let result = unsafe {
        libc::getsockopt(
            socket,
            libc::SOL_SOCKET,
            SO_MEMINFO,
            words.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    let whole = length == socklen(mem::size_of_val(&words));
    (result == 0 && whole).then_some(words[MEMINFO_DROPS])
}

fn socket_address(name: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match i32::from(name.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says which type the kernel wrote, and the storage is large enough for all.
            let name: libc::sockaddr_in = unsafe { ptr::read(ptr::from_ref(name).cast()) };
            let address = Ipv4Addr::from(u32::from_be(name.sin_addr.s_addr));
            Some(SocketAddr::from((address, u16::from_be(name.sin_port))))
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let name: libc::sockaddr_in6 = unsafe { ptr::read(ptr::from_ref(name).cast()) };
            Some(SocketAddr::from((
                Ipv6Addr::from(name.sin6_addr.s6_addr),
                u16::from_be(name.sin6_port),
            )))
        }
        _ => None,
    }
}

/// Unix time, for a datagram that came without its time.
pub(crate) fn unix_ns() -> i64 {
    let since_epoch = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since_epoch.as_nanos()).unwrap_or(i64::MAX)
}

#[allow(
    clippy::useless_conversion,
    reason = "time_t and c_long are narrower on some platforms"
)]
fn timespec_ns(time: libc::timespec) -> i64 {
    i64::from(time.tv_sec) * NS_PER_S + i64::from(time.tv_nsec)
}

#[allow(clippy::cast_possible_truncation, reason = "sizes of small structs")]
const fn socklen(bytes: usize) -> libc::socklen_t {
    bytes as libc::socklen_t
}
