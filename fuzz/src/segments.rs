// SPDX-License-Identifier: Apache-2.0
//! Frames that a host left to its network card to cut: sound ones, whose segments are checked field by field, and mutated
//! ones, whose payload must stay whole.

use weir_ports::segments::{count, cut, on_a_wire};
use weir_ports::virtio::{ChecksumField, HEADER_BYTES, Offload, Segments, Transport};

use crate::bytes;
use crate::choices::Choices;

const ROOM: usize = 4;

/// A sound frame of segments, and where its headers are.
struct Whole {
    frame: Vec<u8>,
    network: usize,
    transport: usize,
    payload: usize,
    is_ipv6: bool,
    is_tcp: bool,
}

/// Cuts one sound frame, and one that was changed. True: the changed one was cut too.
pub fn run(choices: &mut Choices<'_>) -> Result<bool, String> {
    let whole = whole(choices);
    let segments = Segments {
        transport: if whole.is_tcp {
            Transport::Tcp
        } else {
            Transport::Udp
        },
        payload_bytes: choices.usize(1..1_500),
    };
    let field = ChecksumField {
        start: whole.transport,
        offset: if whole.is_tcp { 16 } else { 6 },
    };
    let found = all(&whole.frame, segments, field).ok_or("a sound frame is not cut")?;
    let counted = count(
        &whole.frame[..whole.payload],
        whole.frame.len(),
        segments,
        Some(field),
    );
    if counted != found.len() as u64 {
        return Err(format!(
            "{} segments were counted as {counted}",
            found.len()
        ));
    }
    same_size(&whole.frame, segments, field, &found)?;
    let mut ahead = 0;
    for segment in &found {
        let payload = &segment[whole.payload..];
        if !whole.frame[whole.payload + ahead..].starts_with(payload) {
            return Err(format!("the payload from byte {ahead} on is another"));
        }
        sound(&whole, segment, ahead)?;
        ahead += payload.len();
    }
    if whole.payload + ahead != whole.frame.len() {
        return Err(format!("{ahead} bytes of payload are left"));
    }
    let mut changed = whole.frame;
    bytes::mutate(choices, &mut changed);
    let mut header = [0; HEADER_BYTES];
    choices.fill(&mut header);
    let random = Offload::read(header);
    let segments = if choices.bool() {
        segments
    } else {
        random.segments.unwrap_or(segments)
    };
    let field = if choices.bool() {
        field
    } else {
        random.checksum.unwrap_or(field)
    };
    count(&changed, changed.len(), segments, Some(field));
    let cut = all(&changed, segments, field);
    if let Some(found) = &cut {
        same_size(&changed, segments, field, found)?;
    }
    let longest = cut.iter().flatten().map(Vec::len).max().unwrap_or(0);
    if longest > changed.len() {
        return Err(format!(
            "a segment of {longest} bytes of a frame of {}",
            changed.len()
        ));
    }
    Ok(cut.is_some())
}

/// `on_a_wire` gives the number and the bytes of the segments that `cut` makes.
fn same_size(
    frame: &[u8],
    segments: Segments,
    field: ChecksumField,
    found: &[Vec<u8>],
) -> Result<(), String> {
    if segments.transport != Transport::Tcp {
        return Ok(());
    }
    let bytes: usize = found.iter().map(Vec::len).sum();
    let said = on_a_wire(frame, segments, field);
    let said = said.map(|(frames, header_bytes)| {
        let more_headers = (frames as usize - 1) * header_bytes;
        (frames as usize, frame.len() + more_headers)
    });
    if said == Some((found.len(), bytes)) {
        return Ok(());
    }
    let number = found.len();
    Err(format!(
        "{number} segments of {bytes} bytes in all, said to be {said:?}"
    ))
}

fn all(frame: &[u8], segments: Segments, field: ChecksumField) -> Option<Vec<Vec<u8>>> {
    let (mut found, mut buffer) = (Vec::new(), Vec::new());
    let cut = cut(frame, (segments, field), (&mut buffer, ROOM), |segment| {
        found.push(segment[ROOM..].to_vec());
    });
    cut.then_some(found)
}

/// Checks a segment's lengths, numbers and checksums.
fn sound(whole: &Whole, segment: &[u8], ahead: usize) -> Result<(), String> {
    let number = |frame: &[u8], at: usize| u64::from(frame[at]) << 8 | u64::from(frame[at + 1]);
    let (network, transport) = (&segment[whole.network..], &segment[whole.transport..]);
    let (length, addresses) = if whole.is_ipv6 {
        (number(network, 4) + 40, &network[8..40])
    } else {
        if ones_complement_sum(&network[..whole.transport - whole.network]) != 0xFFFF {
            return Err("the IPv4 header's checksum is wrong".to_owned());
        }
        (number(network, 2), &network[12..20])
    };
    if length != network.len() as u64 {
        return Err(format!(
            "{} bytes say that they are {length}",
            network.len()
        ));
    }
    let protocol = if whole.is_tcp { 6 } else { 17 };
    let mut covered = addresses.to_vec();
    covered.extend((transport.len() as u32).to_be_bytes());
    covered.extend([0, 0, 0, protocol]);
    covered.extend(transport);
    if ones_complement_sum(&covered) != 0xFFFF {
        return Err("the transport's checksum is wrong".to_owned());
    }
    let sequence = |transport: &[u8]| number(transport, 4) << 16 | number(transport, 6);
    if whole.is_tcp {
        let first = sequence(&whole.frame[whole.transport..]);
        if sequence(transport) != (first + ahead as u64) & 0xFFFF_FFFF {
            return Err(format!("a wrong sequence number after {ahead} bytes"));
        }
    } else if number(transport, 4) != transport.len() as u64 {
        return Err("a wrong length of a datagram".to_owned());
    }
    Ok(())
}

fn whole(choices: &mut Choices<'_>) -> Whole {
    let (is_ipv6, is_tcp) = (choices.bool(), choices.bool());
    let mut frame = vec![0; 12];
    for _ in 0..choices.usize(0..=2) {
        frame.extend([0x81, 0x00, 0x20, choices.u8(..)]);
    }
    frame.extend(if is_ipv6 { [0x86, 0xDD] } else { [0x08, 0x00] });
    let network = frame.len();
    let options = 4 * choices.usize(0..=10);
    let ip_bytes = if is_ipv6 { 40 } else { 20 + options };
    let header_bytes = if is_tcp {
        20 + 4 * choices.usize(0..=10)
    } else {
        8
    };
    let payload_bytes = choices.usize(1..5_000);
    let length = header_bytes + payload_bytes;
    let protocol = if is_tcp { 6 } else { 17 };
    let mut ip = vec![0; ip_bytes];
    choices.fill(&mut ip);
    if is_ipv6 {
        ip[4..6].copy_from_slice(&(length as u16).to_be_bytes());
        (ip[0], ip[6]) = (0x60, protocol);
    } else {
        ip[2..4].copy_from_slice(&((ip_bytes + length) as u16).to_be_bytes());
        (ip[0], ip[9]) = (0x40 | (ip_bytes / 4) as u8, protocol);
    }
    let mut pseudo = if is_ipv6 {
        ip[8..40].to_vec()
    } else {
        ip[12..20].to_vec()
    };
    pseudo.extend((length as u32).to_be_bytes());
    pseudo.extend([0, 0, 0, protocol]);
    frame.extend(ip);
    let transport = frame.len();
    let mut header = vec![0; header_bytes];
    choices.fill(&mut header);
    let sum = ones_complement_sum(&pseudo).to_be_bytes();
    if is_tcp {
        header[12] = (header_bytes as u8 / 4) << 4;
        header[16..18].copy_from_slice(&sum);
    } else {
        header[6..8].copy_from_slice(&sum);
    }
    frame.extend(header);
    let payload = frame.len();
    let mut data = vec![0; payload_bytes];
    choices.fill(&mut data);
    frame.extend(data);
    Whole {
        frame,
        network,
        transport,
        payload,
        is_ipv6,
        is_tcp,
    }
}

/// RFC 1071, word by word.
fn ones_complement_sum(bytes: &[u8]) -> u16 {
    let words = bytes
        .chunks(2)
        .map(|word| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0)));
    let sum = words.fold(0, |sum, word| {
        let sum = sum + word;
        (sum & 0xFFFF) + (sum >> 16)
    });
    sum as u16
}
