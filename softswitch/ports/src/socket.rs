// SPDX-License-Identifier: Apache-2.0
//! Packet sockets: a receive ring (`TPACKET_V2`). Options of sockets.
//!
//! `TPACKET_V2` hands over each frame as it comes; version 3 would hold frames back to fill a block. Kernel
//! interface: `packet(7)` and `Documentation/networking/packet_mmap.rst`.

use std::io;
use std::mem::{offset_of, size_of};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixDatagram;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

use super::checksum;
use super::mapping::Mapping;

/// Frames in a ring: more than 300 ms of 150-byte frames at 40 Mbit/s, so that a pause of the scheduler loses none.
const RING_FRAMES: usize = 4096;
const BLOCK_BYTES: usize = 1 << 16;
/// Room in front of a frame for the VLAN tag that the kernel took out.
const VLAN_TAG_BYTES: usize = 4;
/// Both MAC addresses, after which the tag belongs.
const MAC_ADDRESSES_BYTES: usize = 12;
/// Room that the kernel needs in a slot besides the frame: its header, the address, alignment, the virtio header.
const SLOT_OVERHEAD_BYTES: usize = 160;
/// Cache lines of a slot up to the transport header of its frame.
const SLOT_HEAD_LINES: usize = 3;
const LINE_BYTES: usize = 64;
/// Socket option, missing from libc: `PACKET_IGNORE_OUTGOING` of `linux/if_packet.h`.
pub const PACKET_IGNORE_OUTGOING: libc::c_int = 23;
/// `struct virtio_net_hdr` of `linux/virtio_net.h` in front of the frame.
const VIRTIO_HEADER_BYTES: usize = 10;
const VIRTIO_NET_HDR_F_NEEDS_CSUM: u8 = 1;

/// Frames of every protocol, for [`bind`].
pub const ETH_P_ALL: u16 = libc::ETH_P_ALL as u16;

/// A frame in its ring slot.
pub struct RingFrame<'a> {
    /// The frame from its Ethernet header, without FCS, with its VLAN tag.
    pub bytes: &'a [u8],
    /// The frame was longer than the slot: `bytes` is its beginning only.
    pub truncated: bool,
}

/// The receive ring of one interface.
pub struct Receiver {
    socket: OwnedFd,
    ring: Mapping,
    slot_bytes: usize,
    next: usize,
}

impl Receiver {
    /// Opens a ring for frames of up to `max_frame_bytes` on the interface; promiscuous, inbound frames only.
    ///
    /// # Errors
    /// The kernel's.
    pub fn open(interface_index: u32, max_frame_bytes: usize) -> io::Result<Self> {
        let socket = packet_socket()?;
        set_option(
            &socket,
            libc::PACKET_VERSION,
            &(libc::tpacket_versions::TPACKET_V2 as libc::c_int),
        )?;
        set_option(&socket, libc::PACKET_VNET_HDR, &1_i32)?;
        set_option(
            &socket,
            libc::PACKET_RESERVE,
            &(VLAN_TAG_BYTES as libc::c_uint),
        )?;
        set_option(&socket, PACKET_IGNORE_OUTGOING, &1_i32)?;
        let slot_bytes = (max_frame_bytes + SLOT_OVERHEAD_BYTES).next_power_of_two();
        let block_bytes = BLOCK_BYTES.max(slot_bytes);
        let ring_bytes = RING_FRAMES * slot_bytes;
        let request = libc::tpacket_req {
            tp_block_size: to_uint(block_bytes)?,
            tp_block_nr: to_uint(ring_bytes / block_bytes)?,
            tp_frame_size: to_uint(slot_bytes)?,
            tp_frame_nr: to_uint(RING_FRAMES)?,
        };
        set_option(&socket, libc::PACKET_RX_RING, &request)?;
        let ring = Mapping::of_socket(&socket, ring_bytes, 0)?;
        let receiver = Self {
            socket,
            ring,
            slot_bytes,
            next: 0,
        };
        promiscuous(&receiver.socket, interface_index)?;
        // Bound last: until then no frame is taken, so none is taken with half the options.
        bind(&receiver.socket, interface_index, ETH_P_ALL)?;
        Ok(receiver)
    }

    fn slot(&self) -> NonNull<u8> {
        // SAFETY: `next` is below RING_FRAMES, so the slot lies inside the mapping.
        unsafe { self.ring.start().add(self.next * self.slot_bytes) }
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

    /// When the oldest frame in the ring arrived (ns, `CLOCK_REALTIME`), if there is one.
    pub fn oldest_ns(&self) -> Option<u64> {
        let header = self.header()?;
        Some(u64::from(header.tp_sec) * 1_000_000_000 + u64::from(header.tp_nsec))
    }

    /// Asks the processor for the slot after the next, which the kernel has written on another core: by the time that
    /// it is read, it is there.
    #[inline(always)]
    fn prefetch_after_next(&self) {
        let slot = (self.next + 2) % RING_FRAMES;
        // SAFETY: the slot lies inside the mapping.
        let slot = unsafe { self.ring.start().add(slot * self.slot_bytes) };
        // The packet header, and where the frame begins.
        for line in 0..SLOT_HEAD_LINES {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a prefetch reads and changes nothing that a program can see, and needs no more than SSE, which
            // every x86-64 processor has.
            unsafe {
                use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
                _mm_prefetch::<_MM_HINT_T0>(slot.as_ptr().add(line * LINE_BYTES).cast());
            }
            #[cfg(not(target_arch = "x86_64"))]
            let _ = (slot, line);
        }
    }

    /// Gives the oldest frame to `use_frame` and its slot back to the kernel.
    pub fn take(&mut self, use_frame: impl FnOnce(RingFrame<'_>)) {
        let Some(header) = self.header() else { return };
        let mac = usize::from(header.tp_mac);
        let captured = header.tp_snaplen as usize;
        let head = VLAN_TAG_BYTES + VIRTIO_HEADER_BYTES;
        // The kernel keeps to its slots; checked all the same, because all that follows relies on it.
        if mac >= size_of::<libc::tpacket2_hdr>() + head && mac + captured <= self.slot_bytes {
            // SAFETY: the slot is ours until the status is given back, and by the check above the range from the
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
            use_frame(RingFrame {
                bytes,
                truncated: header.tp_len != header.tp_snaplen,
            });
        }
        self.prefetch_after_next();
        // Release: our use of the slot is over before the kernel may fill it again.
        self.status()
            .store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % RING_FRAMES;
    }

    /// Frames that found the ring full, since the last call.
    pub fn take_overruns(&self) -> io::Result<u64> {
        // SAFETY: an all-zero tpacket_stats is a valid value of a plain C structure.
        let mut stats: libc::tpacket_stats = unsafe { std::mem::zeroed() };
        get_option_at(
            &self.socket,
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            &mut stats,
        )?;
        Ok(u64::from(stats.tp_drops))
    }

    /// The pending error of the socket, which this call clears; `ENETDOWN` when the interface went down or away.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        take_error(&self.socket)
    }
}

impl AsRawFd for Receiver {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

/// `before` is the virtio header in front of `frame` (little endian on every machine that Linux gives it to us).
fn complete_checksum(before: &[u8], frame: &mut [u8]) {
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
    ] = *before
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

/// Index, MTU and state of an interface.
pub struct InterfaceState {
    /// `ifindex`.
    pub index: u32,
    /// Largest payload of a frame.
    pub mtu_bytes: usize,
    /// Administratively up.
    pub up: bool,
}

/// Looks an interface up by name in the current network namespace.
///
/// # Errors
/// `ENODEV` when there is none.
pub fn interface_state(name: &str) -> io::Result<InterfaceState> {
    // SAFETY: an all-zero ifreq is a valid value of a plain C structure.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.is_empty() || name.len() >= request.ifr_name.len() {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    // Any socket will do for the question; a packet socket would need a privilege.
    let socket = UnixDatagram::unbound()?;
    let mut ask = |what| {
        // SAFETY: the three requests below read the name from, and write their answer into, the ifreq.
        if unsafe { libc::ioctl(socket.as_raw_fd(), what, &raw mut request) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(request.ifr_ifru)
    };
    // SAFETY: each request fills the member that is read.
    unsafe {
        let index = ask(libc::SIOCGIFINDEX)?.ifru_ifindex;
        let mtu = ask(libc::SIOCGIFMTU)?.ifru_mtu;
        let flags = ask(libc::SIOCGIFFLAGS)?.ifru_flags;
        Ok(InterfaceState {
            index: u32::try_from(index).map_err(io::Error::other)?,
            mtu_bytes: usize::try_from(mtu).map_err(io::Error::other)?,
            up: libc::c_int::from(flags) & libc::IFF_UP != 0,
        })
    }
}

/// A packet socket that receives nothing before it is bound.
///
/// # Errors
/// `EPERM` without `CAP_NET_RAW`.
pub fn packet_socket() -> io::Result<OwnedFd> {
    // SAFETY: a plain system call; the result is checked before it is owned.
    unsafe {
        let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
        if fd < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(OwnedFd::from_raw_fd(fd))
        }
    }
}

/// Binds a packet socket to an interface, for frames of `protocol` (0: none).
///
/// # Errors
/// The kernel's.
pub fn bind(socket: &OwnedFd, interface_index: u32, protocol: u16) -> io::Result<()> {
    // SAFETY: an all-zero sockaddr_ll is a valid value of a plain C structure.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as libc::c_ushort;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = to_int(interface_index)?;
    // SAFETY: pointer and size describe `address`.
    let result = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Lets the interface receive frames for any address while the socket is open.
///
/// # Errors
/// The kernel's.
pub fn promiscuous(socket: &OwnedFd, interface_index: u32) -> io::Result<()> {
    let membership = libc::packet_mreq {
        mr_ifindex: to_int(interface_index)?,
        mr_type: libc::PACKET_MR_PROMISC as libc::c_ushort,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set_option(socket, libc::PACKET_ADD_MEMBERSHIP, &membership)
}

/// Sets an option of a packet socket; `T` is the type that the option takes.
///
/// # Errors
/// The kernel's.
pub fn set_option<T: Copy>(socket: &OwnedFd, option: libc::c_int, value: &T) -> io::Result<()> {
    set_option_at(socket, libc::SOL_PACKET, option, value)
}

pub(crate) fn set_option_at<T: Copy>(
    socket: &OwnedFd,
    level: libc::c_int,
    option: libc::c_int,
    value: &T,
) -> io::Result<()> {
    // SAFETY: pointer and size describe `value`; every caller passes the type that the option takes.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Reads an option; `T` is the type that it has. Returns how many bytes of it the kernel gave.
pub(crate) fn get_option_at<T: Copy>(
    socket: &OwnedFd,
    level: libc::c_int,
    option: libc::c_int,
    value: &mut T,
) -> io::Result<usize> {
    let mut size = size_of::<T>() as libc::socklen_t;
    // SAFETY: pointer and size describe `value`; every caller passes the type that the option gives.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            option,
            ptr::from_mut(value).cast(),
            &raw mut size,
        )
    };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(size as usize)
    }
}

/// The pending error of a socket, which this call clears.
pub(crate) fn take_error(socket: &OwnedFd) -> io::Result<Option<io::Error>> {
    let mut error: libc::c_int = 0;
    get_option_at(socket, libc::SOL_SOCKET, libc::SO_ERROR, &mut error)?;
    Ok((error != 0).then(|| io::Error::from_raw_os_error(error)))
}

pub(crate) fn to_uint(value: usize) -> io::Result<libc::c_uint> {
    libc::c_uint::try_from(value).map_err(io::Error::other)
}

fn to_int(value: u32) -> io::Result<libc::c_int> {
    libc::c_int::try_from(value).map_err(io::Error::other)
}

// The status word is what `Receiver::status` takes the beginning of a slot for.
const _: () = assert!(offset_of!(libc::tpacket2_hdr, tp_status) == 0);
