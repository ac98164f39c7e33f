// SPDX-License-Identifier: Apache-2.0
use super::*;

const TCP: ChecksumField = ChecksumField {
    start: 34,
    offset: 16,
};

/// Ethernet, IPv4 and a TCP header with all flags set; the checksum field is not that of a pseudo header.
fn frame(payload_bytes: usize) -> Vec<u8> {
    let mut frame = vec![0; 54];
    put(&mut frame, 12, 0x0800);
    frame[14] = 0x45;
    put(&mut frame, 16, (40 + payload_bytes) as u16);
    put(&mut frame, 18, 0xFFFF); // identification: wraps
    frame[38..42].copy_from_slice(&(u32::MAX - 1).to_be_bytes()); // sequence number: wraps
    frame[46] = 0x50;
    frame[47] = 0xFF;
    frame.extend((0..payload_bytes).map(|byte| byte as u8));
    frame
}

fn all(frame: &[u8], segments: Segments, field: ChecksumField) -> Option<Vec<Vec<u8>>> {
    let mut found = Vec::new();
    let mut buffer = Vec::new();
    cut(frame, (segments, field), (&mut buffer, 4), |segment| {
        assert_eq!(segment[..4], [0; 4]);
        found.push(segment[4..].to_vec());
    })
    .then_some(found)
}

const SEGMENTS: Segments = Segments {
    transport: Transport::Tcp,
    payload_bytes: 100,
};

#[test]
fn the_payload_is_divided_in_order_and_numbers_wrap() {
    let frame = frame(250);
    let found = all(&frame, SEGMENTS, TCP).unwrap();
    let payload: Vec<u8> = found
        .iter()
        .flat_map(|segment| segment[54..].to_vec())
        .collect();
    assert_eq!(payload, frame[54..]);
    assert_eq!(
        found.iter().map(Vec::len).collect::<Vec<_>>(),
        [154, 154, 104]
    );
    let numbers = |at| {
        found
            .iter()
            .map(move |segment| get(segment, at))
            .collect::<Vec<_>>()
    };
    assert_eq!(numbers(18), [0xFFFF, 0, 1]);
    assert_eq!(numbers(38), [0xFFFF, 0, 0]);
    assert_eq!(numbers(40), [0xFFFE, 98, 198]);
    assert_eq!(
        found.iter().map(|segment| segment[47]).collect::<Vec<_>>(),
        [0xF6, 0x76, 0x7F]
    );
    assert_eq!(count(&frame[..80], frame.len(), SEGMENTS, Some(TCP)), 3);
}

#[test]
fn headers_that_do_not_say_how_are_refused() {
    let good = frame(250);
    for (at, value) in [(12, 0x86), (46, 0x40), (46, 0xFF)] {
        let mut bad = good.clone();
        bad[at] = value;
        let cut = all(
            &bad[..if value == 0xFF { 80 } else { bad.len() }],
            SEGMENTS,
            TCP,
        );
        assert_eq!(cut, None, "byte {at} is {value:#x}");
    }
    for (start, offset) in [(33, 16), (34, 19), (usize::MAX - 20, 16), (400, 16)] {
        assert_eq!(all(&good, SEGMENTS, ChecksumField { start, offset }), None);
    }
    for length in 0..54 {
        assert_eq!(all(&good[..length], SEGMENTS, TCP), None);
    }
    let unknown = Segments {
        transport: Transport::Unknown,
        ..SEGMENTS
    };
    assert_eq!(all(&good, unknown, TCP), None);
}
