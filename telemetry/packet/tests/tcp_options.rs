// SPDX-License-Identifier: Apache-2.0
//! TCP options: each kind, all ways in which they can end, DSACK.

use weir_packet::{
    LinkType, OptionsEnd, Packet, SackBlock, TcpOptions, Timestamps, sequence_before,
};

/// A TCP segment with these options, padded to whole words; `captured` bytes of the options are kept.
fn options_of(options: &[u8], captured: usize) -> TcpOptions {
    let mut padded = options.to_vec();
    padded.resize(options.len().div_ceil(4) * 4, 0);
    let tcp_bytes = 20 + padded.len();
    let mut frame = vec![
        0x45,
        0,
        0,
        u8::try_from(20 + tcp_bytes).expect("short"),
        0,
        0,
        0,
        0,
        64,
        6,
        0,
        0,
    ];
    frame.extend([10, 0, 0, 2, 10, 0, 0, 1]);
    frame.extend([0; 12]);
    frame.extend([
        u8::try_from(tcp_bytes / 4).expect("short") << 4,
        0x10,
        0,
        0,
        0,
        0,
        0,
        0,
    ]);
    frame.extend(&padded[..captured.min(padded.len())]);
    let packet = Packet::parse(LinkType::RawIp, &frame, 20 + tcp_bytes).expect("valid");
    packet.tcp().expect("TCP").options()
}

fn sack(blocks: &[(u32, u32)]) -> Vec<u8> {
    let mut option = vec![5, u8::try_from(2 + 8 * blocks.len()).expect("short")];
    for (start, end) in blocks {
        option.extend(start.to_be_bytes());
        option.extend(end.to_be_bytes());
    }
    option
}

#[test]
fn the_options_of_a_linux_syn_are_read() {
    // MSS 1460, SACK permitted, timestamps 0x11223344 / 0, NOP, window scale 7.
    let bytes = [
        2, 4, 0x05, 0xb4, 4, 2, 8, 10, 0x11, 0x22, 0x33, 0x44, 0, 0, 0, 0, 1, 3, 3, 7,
    ];
    let options = options_of(&bytes, 40);
    assert_eq!(options.mss_bytes, Some(1460));
    assert_eq!(options.window_scale, Some(7));
    assert!(options.sack_permitted);
    assert_eq!(
        options.timestamps,
        Some(Timestamps {
            value: 0x1122_3344,
            echo_reply: 0
        })
    );
    assert_eq!(
        (options.sack.as_slice(), options.end),
        (&[][..], OptionsEnd::Complete)
    );
}

#[test]
fn four_sack_blocks_are_read_in_order() {
    let blocks = [(100, 200), (300, 400), (500, 600), (u32::MAX, 10)];
    let options = options_of(&[vec![1, 1], sack(&blocks)].concat(), 40);
    let expected: Vec<_> = blocks
        .iter()
        .map(|&(start, end)| SackBlock { start, end })
        .collect();
    assert_eq!(options.sack.as_slice(), expected);
    assert_eq!(options.end, OptionsEnd::Complete);
}

#[test]
fn a_cut_among_the_options_keeps_what_came_before() {
    let bytes = [vec![1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2], sack(&[(1, 2)])].concat();
    for captured in 12..bytes.len() {
        let options = options_of(&bytes, captured);
        assert_eq!(options.end, OptionsEnd::Cut, "{captured} bytes captured");
        assert_eq!(
            options.timestamps,
            Some(Timestamps {
                value: 1,
                echo_reply: 2
            })
        );
        assert_eq!(options.sack.as_slice(), []);
    }
}

#[test]
fn impossible_option_lengths_end_the_options() {
    for malformed in [
        vec![8, 0, 0, 0],
        vec![8, 1, 0, 0],
        vec![254, 40, 0, 0],
        vec![1, 1, 1, 8],
    ] {
        assert_eq!(
            options_of(&malformed, 40).end,
            OptionsEnd::Malformed,
            "{malformed:?}"
        );
    }
}

#[test]
fn unknown_kinds_and_wrong_lengths_are_passed_over() {
    // Kind 30 (MPTCP) of 4 bytes; an MSS of 3 bytes; then a window scale.
    let options = options_of(&[30, 4, 9, 9, 2, 3, 1, 3, 3, 5], 40);
    assert_eq!(
        (options.mss_bytes, options.window_scale, options.end),
        (None, Some(5), OptionsEnd::Complete)
    );
}

#[test]
fn dsack_is_below_the_ack_or_inside_the_second_block() {
    let dsack = |blocks: &[(u32, u32)], ack| {
        options_of(&sack(blocks), 40)
            .sack
            .dsack(ack)
            .map(|b| (b.start, b.end))
    };
    // RFC 2883 section 4.1.1: ACK 4000, block 3000-3500 was received twice.
    assert_eq!(dsack(&[(3000, 3500)], 4000), Some((3000, 3500)));
    assert_eq!(dsack(&[(3500, 4000)], 4000), Some((3500, 4000)));
    // RFC 2883 section 4.1.2: duplicate above the ACK, so inside the second block.
    assert_eq!(
        dsack(&[(5000, 5500), (4500, 5500)], 4000),
        Some((5000, 5500))
    );
    // A plain SACK; the first block is not inside the second.
    assert_eq!(dsack(&[(5000, 5500), (7000, 7500)], 4000), None);
    assert_eq!(dsack(&[(5000, 5500)], 4000), None);
    // The same across the wrap of the sequence space.
    assert_eq!(dsack(&[(u32::MAX - 10, 5)], 100), Some((u32::MAX - 10, 5)));
    assert_eq!(dsack(&[(5, 10)], u32::MAX - 10), None);
    assert_eq!(dsack(&[], 0), None);
}

#[test]
fn sequence_numbers_compare_across_the_wrap() {
    assert!(sequence_before(1, 2) && !sequence_before(2, 1) && !sequence_before(2, 2));
    assert!(sequence_before(u32::MAX, 0) && !sequence_before(0, u32::MAX));
}
