// SPDX-License-Identifier: Apache-2.0
//! Packet-ins and packet-outs: the controller header before a frame ↔ P4Runtime metadata.

#[cfg(test)]
mod tests;

use weir_p4runtime::p4::v1::{PacketIn, PacketMetadata, PacketOut};

use super::bytestring::{canonical, check, padded};
use super::failure::{Failure, listed_ids};
use super::pipeline::{MetadataView, Pipeline};

/// The frame that enters the CPU port: the header built from the metadata, then the payload.
///
/// # Errors
/// `INVALID_ARGUMENT` or `OUT_OF_RANGE` for metadata that does not match the P4Info's.
pub fn packet_out(pipeline: &Pipeline, packet: &PacketOut) -> Result<Vec<u8>, Failure> {
    let fields = pipeline.packet_out.as_deref().unwrap_or_default();
    let mut frame = header(fields, &packet.metadata)?;
    frame.extend_from_slice(&packet.payload);
    Ok(frame)
}

/// The packet-in for a frame sent to the CPU port; None when the frame is shorter than the header.
#[inline]
pub fn packet_in(pipeline: Option<&Pipeline>, frame: &[u8]) -> Option<PacketIn> {
    let fields = pipeline
        .and_then(|p| p.packet_in.as_deref())
        .unwrap_or_default();
    let (metadata, payload) = split_header(fields, frame)?;
    Some(PacketIn {
        payload: payload.to_vec(),
        metadata,
    })
}

fn header(fields: &[MetadataView], given: &[PacketMetadata]) -> Result<Vec<u8>, Failure> {
    for metadata in given {
        if !fields.iter().any(|field| field.id == metadata.metadata_id) {
            return Err(Failure::invalid(format!(
                "packet_out: no metadata has id {}; valid are {}",
                metadata.metadata_id,
                listed_ids(fields.iter().map(|f| (f.id, f.name.as_str())))
            )));
        }
    }
    let mut bits = BitWriter::default();
    for field in fields {
        let place = || format!("packet_out: metadata {} (id {})", field.name, field.id);
        let mut values = given.iter().filter(|m| m.metadata_id == field.id);
        let value = match (values.next(), values.next()) {
            (Some(metadata), None) => {
                check(&metadata.value, field.width_bits, place)?;
                padded(&metadata.value, field.width_bits)
            }
            (Some(_), Some(_)) => {
                return Err(Failure::invalid(format!("{}: given twice", place())));
            }
            (None, _) if field.padding => padded(&[0], field.width_bits),
            (None, _) => return Err(Failure::invalid(format!("{}: missing", place()))),
        };
        bits.push(&value, field.width_bits);
    }
    Ok(bits.bytes)
}

#[inline]
fn split_header<'a>(
    fields: &[MetadataView],
    frame: &'a [u8],
) -> Option<(Vec<PacketMetadata>, &'a [u8])> {
    let total_bits: u64 = fields.iter().map(|field| u64::from(field.width_bits)).sum();
    let bytes = usize::try_from(total_bits / 8).ok()?;
    let (header, payload) = frame.split_at_checked(bytes)?;
    let mut at = 0;
    let metadata = fields.iter().map(|field| {
        let value = canonical(&read_bits(header, at, field.width_bits));
        at += field.width_bits as usize;
        PacketMetadata {
            metadata_id: field.id,
            value,
        }
    });
    Some((metadata.collect(), payload))
}

/// Packs values bit by bit, most significant first, in the layout of P4 headers.
#[derive(Default)]
struct BitWriter {
    bytes: Vec<u8>,
    bits: usize,
}

impl BitWriter {
    /// Appends the last `width_bits` of `value`.
    fn push(&mut self, value: &[u8], width_bits: u32) {
        let skip = value.len() * 8 - width_bits as usize;
        for bit in skip..value.len() * 8 {
            if self.bits.is_multiple_of(8) {
                self.bytes.push(0);
            }
            if value[bit / 8] & (0x80 >> (bit % 8)) != 0
                && let Some(last) = self.bytes.last_mut()
            {
                *last |= 0x80 >> (self.bits % 8);
            }
            self.bits += 1;
        }
    }
}

/// The `width_bits` bits that start at bit `at`, right-aligned.
#[inline]
fn read_bits(bytes: &[u8], at: usize, width_bits: u32) -> Vec<u8> {
    let width = width_bits as usize;
    let mut value = vec![0_u8; width.div_ceil(8)];
    let unused = value.len() * 8 - width;
    for bit in 0..width {
        let from = at + bit;
        if bytes[from / 8] & (0x80 >> (from % 8)) != 0 {
            let to = unused + bit;
            value[to / 8] |= 0x80 >> (to % 8);
        }
    }
    value
}
