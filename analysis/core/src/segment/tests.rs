// SPDX-License-Identifier: Apache-2.0
use proptest::prelude::*;
use weir_packet::LinkType;

use super::{Segment, plain};

/// Frames that the fast path may accept: most of the fields it checks are right, all other bytes are random.
fn nearly_plain() -> impl Strategy<Value = Vec<u8>> {
    let fields = (
        prop::bool::ANY,
        prop::sample::select(vec![0x45, 0x46, 0x60, 0x4f, 0x15]),
        prop::sample::select(vec![0_u16, 20, 40, 52, 72, 73, 1500, 65_535]),
        prop::sample::select(vec![6_u8, 6, 6, 17, 44, 0]),
        prop::sample::select(vec![0_u16, 0x4000, 0x2000, 0x1fff, 0x8000]),
        prop::sample::select(vec![5_u8, 8, 11, 13, 15, 4, 0]),
        0..130_usize,
    );
    let options = prop::sample::select(vec![
        vec![1, 1, 8, 10],
        vec![2, 4, 5, 0xb4, 4, 2, 8, 10],
        vec![1, 1, 5, 18],
        vec![0],
        vec![8, 10, 1, 1],
    ]);
    (fields, options, prop::collection::vec(any::<u8>(), 130)).prop_map(
        |((ipv6, first, length, protocol, fragment, words, captured), options, mut frame)| {
            let put = |frame: &mut Vec<u8>, at: usize, bytes: &[u8]| {
                frame[at..at + bytes.len()].copy_from_slice(bytes);
            };
            let tcp_at = if ipv6 {
                put(&mut frame, 12, &[0x86, 0xdd, first | 0x20]);
                put(&mut frame, 18, &length.to_be_bytes());
                put(&mut frame, 20, &[protocol]);
                54
            } else {
                put(&mut frame, 12, &[0x08, 0x00, first]);
                put(&mut frame, 16, &length.to_be_bytes());
                put(&mut frame, 20, &fragment.to_be_bytes());
                put(&mut frame, 23, &[protocol]);
                34
            };
            put(&mut frame, tcp_at + 12, &[words << 4]);
            put(&mut frame, tcp_at + 20, &options);
            frame.truncate(captured);
            frame
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    /// The fast path may decline a frame, and otherwise agrees with the full parser.
    #[test]
    fn a_plain_segment_reads_as_the_whole_parser_reads_it(frame in nearly_plain(), wire in 0_u32..2000) {
        let mut short = Segment::EMPTY;
        if plain::read(&frame, wire, &mut short) {
            prop_assert_eq!(Some(short), Segment::parse_any(LinkType::Ethernet, &frame, wire));
        }
    }
}

/// Otherwise the test above would prove nothing.
#[test]
fn plain_segments_of_both_versions_take_the_short_way() {
    let mut ipv4 = vec![0; 14 + 20 + 32];
    ipv4[12..18].copy_from_slice(&[0x08, 0x00, 0x45, 0, 0, 52]);
    ipv4[23] = 6;
    ipv4[46] = 0x80;
    let mut ipv6 = vec![0; 14 + 40 + 20];
    ipv6[12..21].copy_from_slice(&[0x86, 0xdd, 0x60, 0, 0, 0, 0, 20, 6]);
    ipv6[66] = 0x50;
    for frame in [ipv4, ipv6] {
        let mut segment = Segment::EMPTY;
        assert!(plain::read(&frame, 66, &mut segment));
        assert_eq!(segment.payload_length, 0);
        assert!(segment.tcp.is_some());
        let cut = &frame[..frame.len() - 13];
        assert!(
            !plain::read(cut, 66, &mut segment),
            "a cut header is left to the whole parser"
        );
    }
}

/// A capture by `tcpdump -i any` shows the lengths that one on the card does.
#[test]
fn the_length_is_that_of_the_ethernet_frame_whatever_the_link_header() {
    let mut ip = vec![0; 40];
    ip[..4].copy_from_slice(&[0x45, 0, 0x05, 0xdc]);
    (ip[9], ip[32]) = (6, 0x50);
    let mut cooked = [0_u8; 20];
    let headers: [(LinkType, &[u8]); 7] = [
        (
            LinkType::Ethernet,
            &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0],
        ),
        (LinkType::RawIp, &[]),
        (
            LinkType::LinuxCookedV1,
            &[0, 0, 0, 1, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0],
        ),
        (LinkType::LinuxCookedV2, {
            cooked[0] = 8;
            &cooked
        }),
        (LinkType::Ppp, &[0xff, 3, 0, 0x21]),
        (LinkType::Ppp, &[0x21]),
        (LinkType::BsdLoopback, &[2, 0, 0, 0]),
    ];
    for (link_type, header) in headers {
        let frame = [header, &ip].concat();
        let wire_length = header.len() as u32 + 1500;
        let segment = Segment::parse(link_type, &frame, wire_length).expect("IPv4");
        assert_eq!(segment.wire_length, 1514, "{link_type:?}");
    }
}
