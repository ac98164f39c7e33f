// SPDX-License-Identifier: Apache-2.0
//! Settings of a network card, read from its driver by the ioctl of ethtool(8). Kernel interface: `linux/ethtool.h`.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;

use super::socket::interface_request;

const SIOCETHTOOL: libc::c_ulong = 0x8946;
const GET_DRIVER: u32 = 0x03;
const GET_FLAGS: u32 = 0x25;
const GET_CHANNELS: u32 = 0x3c;
const FLAG_STRIPS_VLAN_TAGS: u32 = 1 << 8;

/// The settings of a network card that matter to reception through AF_XDP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Card {
    /// Receive queues; 1 if the driver does not say.
    pub receive_queues: u32,
    /// VLAN tags are taken off frames before a program sees them.
    pub strips_vlan_tags: bool,
    /// It is no card but a link to another interface of this machine.
    pub is_veth: bool,
}

/// `struct ethtool_value`.
#[repr(C)]
struct Value {
    command: u32,
    value: u32,
}

/// `struct ethtool_channels`.
#[repr(C)]
#[derive(Default)]
struct Channels {
    command: u32,
    most: [u32; 4],
    receive: u32,
    send: u32,
    other: u32,
    combined: u32,
}

/// `struct ethtool_drvinfo`.
#[repr(C)]
struct Driver {
    command: u32,
    name: [u8; 32],
    rest: [u8; 160],
}

impl Card {
    /// Reads the settings of an interface.
    ///
    /// # Errors
    /// The kernel's, except that a driver does not know a request.
    pub fn of(interface: &str) -> io::Result<Self> {
        let mut channels = Channels {
            command: GET_CHANNELS,
            ..Channels::default()
        };
        let mut flags = Value {
            command: GET_FLAGS,
            value: 0,
        };
        let mut driver = Driver {
            command: GET_DRIVER,
            name: [0; 32],
            rest: [0; 160],
        };
        // SAFETY: each structure is that of its command.
        unsafe {
            ask(interface, &mut channels)?;
            ask(interface, &mut flags)?;
            ask(interface, &mut driver)?;
        }
        Ok(Self {
            receive_queues: (channels.receive + channels.combined).max(1),
            strips_vlan_tags: flags.value & FLAG_STRIPS_VLAN_TAGS != 0,
            is_veth: driver.name.starts_with(b"veth\0"),
        })
    }
}

/// Has the driver fill the structure, or leave it as it is if it does not know the command.
///
/// # Safety
/// `T` is the structure of the command that it begins with.
unsafe fn ask<T>(interface: &str, structure: &mut T) -> io::Result<()> {
    let mut request = interface_request(interface)?;
    request.ifr_ifru.ifru_data = std::ptr::from_mut(structure).cast();
    let socket = UnixDatagram::unbound()?;
    // SAFETY: the request names the interface and points to the structure, which outlives the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) };
    let error = io::Error::last_os_error();
    if result < 0 && error.raw_os_error() != Some(libc::EOPNOTSUPP) {
        return Err(error);
    }
    Ok(())
}
