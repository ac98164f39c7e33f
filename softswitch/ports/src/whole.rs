// SPDX-License-Identifier: Apache-2.0
//! Frames that stay whole (GSO): segmentation and checksum, which a host left to its network card, are left to the
//! receiving host's card. Each frame of such a port has a lead: the number and bytes of its segments, then the virtio
//! header, which names the offloads.

use super::segments;
use super::virtio::{HEADER_BYTES, Offload};

/// Bytes of the size in a lead: frames and bytes on a wire, 32 bits each in the machine's byte order.
pub(crate) const SIZE_BYTES: usize = 8;
/// Bytes before each frame of a port whose frames stay whole.
pub const LEAD_BYTES: usize = SIZE_BYTES + HEADER_BYTES;

/// The segments of a frame: one Ethernet frame each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Size {
    /// Number of frames.
    pub frames: u64,
    /// Bytes of all of them, without FCS.
    pub bytes: u64,
}

impl Size {
    /// That of a frame with its lead; None if the lead is not whole.
    pub fn of(with_lead: &[u8]) -> Option<Self> {
        let (frames, rest) = with_lead.split_first_chunk()?;
        let (bytes, rest) = rest.split_first_chunk()?;
        (rest.len() >= HEADER_BYTES).then(|| Self {
            frames: u64::from(u32::from_ne_bytes(*frames)),
            bytes: u64::from(u32::from_ne_bytes(*bytes)),
        })
    }

    fn write(self, lead: &mut [u8]) {
        let number = |value: u64| u32::try_from(value).unwrap_or(u32::MAX).to_ne_bytes();
        if let Some((frames, rest)) = lead.split_first_chunk_mut() {
            *frames = number(self.frames);
            if let Some((bytes, _)) = rest.split_first_chunk_mut() {
                *bytes = number(self.bytes);
            }
        }
    }
}

/// How many frames of a wire a frame with its lead is.
pub(crate) fn frames_of(with_lead: &[u8]) -> u64 {
    Size::of(with_lead).map_or(1, |size| size.frames)
}

/// Completes the lead of a frame whose virtio header is in its place; false if the frame cannot stay whole.
pub(crate) fn complete(with_lead: &mut [u8], offload: Offload) -> bool {
    let (lead, frame) = with_lead.split_at_mut(LEAD_BYTES);
    let one = Size {
        frames: 1,
        bytes: frame.len() as u64,
    };
    let size = match (offload.segments, offload.checksum) {
        (None, _) => Some(one),
        (Some(_), None) => None,
        (Some(segments), Some(field)) => {
            segments::on_a_wire(frame, segments, field).and_then(|(frames, header_bytes)| {
                // A host may name more than its headers here; the kernel would copy as much once more.
                let header_bytes = u16::try_from(header_bytes).ok()?;
                lead[SIZE_BYTES + 2..SIZE_BYTES + 4].copy_from_slice(&header_bytes.to_ne_bytes());
                Some(Size {
                    frames,
                    bytes: one.bytes + (frames - 1) * u64::from(header_bytes),
                })
            })
        }
    };
    let Some(size) = size else { return false };
    size.write(lead);
    true
}

/// Puts a lead before a frame that leaves nothing to do: `room` is at least as many bytes as a lead.
pub(crate) fn with_plain_lead(room_and_frame: &mut [u8], room: usize) -> &[u8] {
    let with_lead = &mut room_and_frame[room - LEAD_BYTES..];
    with_lead[SIZE_BYTES..LEAD_BYTES].fill(0);
    complete(with_lead, Offload::default());
    with_lead
}
