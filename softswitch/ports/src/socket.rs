// SPDX-License-Identifier: Apache-2.0
//! Packet sockets, options of sockets, and the state of an interface. Kernel interface: `packet(7)`, `netdevice(7)`.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::ptr;

/// Frames of every protocol, for [`bind`].
pub const ETH_P_ALL: u16 = libc::ETH_P_ALL as u16;
/// Send buffer: room for frames that the receiver has not read yet.
const SEND_BUFFER_BYTES: libc::c_int = 4 << 20;
/// Receive buffer: room for frames that are longer than a ring's slots.
const RECEIVE_BUFFER_BYTES: libc::c_int = 16 << 20;

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
    let mut request = interface_request(name)?;
    // Any socket can carry the requests; a packet socket would need a privilege.
    let socket = UnixDatagram::unbound()?;
    let mut request_member = |code| {
        // SAFETY: the three requests below read the name from, and write their answer into, the ifreq.
        if unsafe { libc::ioctl(socket.as_raw_fd(), code, &raw mut request) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(request.ifr_ifru)
    };
    // SAFETY: each request fills the member that is read.
    unsafe {
        let index = request_member(libc::SIOCGIFINDEX)?.ifru_ifindex;
        let mtu = request_member(libc::SIOCGIFMTU)?.ifru_mtu;
        let flags = request_member(libc::SIOCGIFFLAGS)?.ifru_flags;
        Ok(InterfaceState {
            index: u32::try_from(index).map_err(io::Error::other)?,
            mtu_bytes: usize::try_from(mtu).map_err(io::Error::other)?,
            up: libc::c_int::from(flags) & libc::IFF_UP != 0,
        })
    }
}

/// A request about an interface, for `ioctl(2)`.
///
/// # Errors
/// `ENODEV` for a text that is no interface's name.
pub(crate) fn interface_request(name: &str) -> io::Result<libc::ifreq> {
    // SAFETY: an all-zero ifreq is a valid value of a plain C structure.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.is_empty() || name.len() >= request.ifr_name.len() {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(request)
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
    let address = link_address(interface_index, protocol)?;
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

/// The address of an interface, for frames of `protocol` (0: none, or that in the frame).
pub(crate) fn link_address(interface_index: u32, protocol: u16) -> io::Result<libc::sockaddr_ll> {
    // SAFETY: an all-zero sockaddr_ll is a valid value of a plain C structure.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as libc::c_ushort;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = to_int(interface_index)?;
    Ok(address)
}

/// Makes the interface receive frames for any address while the socket is open.
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

/// Has a socket receive no frame.
///
/// # Errors
/// The kernel's.
pub(crate) fn accept_nothing(socket: &OwnedFd) -> io::Result<()> {
    let mut filter = libc::sock_filter {
        code: (libc::BPF_RET | libc::BPF_K) as u16,
        jt: 0,
        jf: 0,
        k: 0,
    };
    let program = libc::sock_fprog {
        len: 1,
        filter: &raw mut filter,
    };
    set_option_at(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

/// Sets an option of a packet socket; `T` is the type of the option.
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
    // SAFETY: pointer and size describe `value`; every caller passes the type of the option.
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

/// Reads an option; `T` is its type. Returns the number of bytes that the kernel wrote.
pub(crate) fn get_option_at<T: Copy>(
    socket: &OwnedFd,
    level: libc::c_int,
    option: libc::c_int,
    value: &mut T,
) -> io::Result<usize> {
    let mut size = size_of::<T>() as libc::socklen_t;
    // SAFETY: pointer and size describe `value`; every caller passes the type of the option.
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

/// Enlarges the send buffer, as far as the process may.
pub(crate) fn enlarge_send_buffer(socket: &OwnedFd) {
    let bytes = SEND_BUFFER_BYTES;
    // SO_SNDBUFFORCE needs a privilege that a user namespace does not give; SO_SNDBUF is capped. A smaller buffer
    // works too, so neither failure is an error.
    if set_option_at(socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &bytes).is_err() {
        let _ = set_option_at(socket, libc::SOL_SOCKET, libc::SO_SNDBUF, &bytes);
    }
}

/// Enlarges the receive buffer, as far as the process may; see [`enlarge_send_buffer`].
pub(crate) fn enlarge_receive_buffer(socket: &OwnedFd) {
    let bytes = RECEIVE_BUFFER_BYTES;
    if set_option_at(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &bytes).is_err() {
        let _ = set_option_at(socket, libc::SOL_SOCKET, libc::SO_RCVBUF, &bytes);
    }
}

/// Receives a frame without blocking; returns its length, which may exceed that of `buffer`.
///
/// # Errors
/// The kernel's.
pub(crate) fn receive(socket: &impl AsRawFd, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: pointer and length describe `buffer`.
    let received = unsafe {
        libc::recv(
            socket.as_raw_fd(),
            buffer.as_mut_ptr().cast(),
            buffer.len(),
            libc::MSG_DONTWAIT | libc::MSG_TRUNC,
        )
    };
    usize::try_from(received).map_err(|_| io::Error::last_os_error())
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
