// SPDX-License-Identifier: Apache-2.0
//! Reports from an interface's packet ring: also those that are addressed to another host (a mirror port).

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;
use std::{fmt, io};

use nix::net::if_::if_indextoname;
use weir_packet::LinkType;
use weir_ports::block_ring::BlockRing;
use weir_ports::socket::interface_state;

use super::frame::{Frame, datagram};
use super::{Datagram, Received};
use crate::error::CollectorError;

/// The kernel hands a block that is not full over after a millisecond, when its timer's tick comes.
pub(super) const HOLDS_BACK: Duration = Duration::from_millis(20);

/// The ring of one interface.
pub(crate) struct InterfaceSource {
    ring: BlockRing,
    name: String,
    index: u32,
    port: u16,
    /// It went down, and when this was looked up last it had neither come up nor gone.
    down: bool,
    ignored: u64,
    kernel_drops: u64,
}

impl InterfaceSource {
    pub(super) fn open(name: &str, port: u16, ring_bytes: u32) -> Result<Self, CollectorError> {
        let failed = |source| CollectorError::Interface {
            name: name.to_owned(),
            source,
        };
        let state = interface_state(name).map_err(failed)?;
        let ring_bytes = usize::try_from(ring_bytes).unwrap_or(usize::MAX);
        Ok(Self {
            ring: BlockRing::open(state.index, ring_bytes, Some(port)).map_err(failed)?,
            name: name.to_owned(),
            index: state.index,
            port,
            down: false,
            ignored: 0,
            kernel_drops: 0,
        })
    }

    pub(super) fn receive(&mut self, take_in: &mut impl FnMut(&Datagram<'_>)) -> Received {
        let (port, mut ignored, mut last_ns) = (self.port, 0, None);
        self.ring.take_block(|frame| {
            let frame = Frame {
                link_type: LinkType::Ethernet,
                bytes: frame.bytes,
                wire_length: frame.wire_length,
                time_ns: frame.time_ns,
            };
            last_ns = Some(frame.time_ns);
            match datagram(&frame, port) {
                Some(datagram) => take_in(&datagram),
                None => ignored += 1,
            }
        });
        self.ignored += ignored;
        last_ns.map_or(Received::Nothing, Received::Until)
    }

    /// Whether reports can still come. The kernel says once that an interface went down, and says no more when one that
    /// is down is deleted; a deletion begins with going down, a moment before the name is gone.
    pub(super) fn check(&mut self) -> Result<(), CollectorError> {
        let gone = |source| CollectorError::Interface {
            name: self.name.clone(),
            source,
        };
        let error = self.ring.take_error().map_err(gone)?;
        if error.is_none() && !self.down {
            return Ok(());
        }
        // By its index: the name may be another one's by now, and its own may be new.
        // nix gives an empty name for an index that no interface has.
        let name = if_indextoname(self.index).unwrap_or_default();
        if name.is_empty() {
            return Err(gone(
                error.unwrap_or_else(|| io::Error::from_raw_os_error(libc::ENETDOWN)),
            ));
        }
        // It may have been renamed since the line above: then the name is nobody's or another one's, and the next
        // check looks again.
        self.down = !interface_state(&name.to_string_lossy())
            .is_ok_and(|state| state.index == self.index && state.up);
        Ok(())
    }

    pub(super) fn look_up_kernel_drops(&mut self) {
        // The kernel's count begins again at 0 with each look.
        self.kernel_drops += self.ring.take_drops().unwrap_or(0);
    }

    pub(super) const fn kernel_drops(&self) -> u64 {
        self.kernel_drops
    }

    pub(super) const fn ignored(&self) -> u64 {
        self.ignored
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) const fn port(&self) -> u16 {
        self.port
    }
}

impl AsFd for InterfaceSource {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }
}

impl fmt::Debug for InterfaceSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InterfaceSource")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
