// SPDX-License-Identifier: Apache-2.0
//! Hand-made frames: every expected value is explained beside its bytes.

use weir_packet::{FlowKey, Header, LinkType, Packet, PacketError, UnsupportedLinkType};

const MACS: &str = "020000000001 020000000002";
/// 10.0.0.2 → 10.0.0.1, total length 0x05dc = 1500, id 0x1234, DF, TTL 64, protocol 6.
const IPV4: &str = "45 02 05dc 1234 4000 40 06 0000 0a000002 0a000001";
/// 5001 → 40000, seq 0x01020304, ack 0x0a0b0c0d, data offset 8, flags ACK|PSH, window 0x01f6.
const TCP: &str = "1389 9c40 01020304 0a0b0c0d 80 18 01f6 0000 0000";
/// NOP, NOP, timestamps 1000 and 2000.
const TCP_OPTIONS: &str = "01 01 08 0a 000003e8 000007d0";
/// fd00::2 → fd00::1, traffic class 0xb8, payload length 32, hop limit 64; the next header is to be filled in.
const IPV6_ADDRESSES: &str = "fd000000000000000000000000000002 fd000000000000000000000000000001";
const UDP: &str = "0035 d431 0014 0000";

fn hex(parts: &[&str]) -> Vec<u8> {
    let digits: Vec<u8> = parts
        .concat()
        .bytes()
        .filter(u8::is_ascii_hexdigit)
        .collect();
    digits
        .chunks_exact(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).expect("ASCII"), 16).expect("hex"))
        .collect()
}

fn ethernet(frame: &[u8]) -> Packet<'_> {
    Packet::parse(LinkType::Ethernet, frame, frame.len()).expect("a valid frame")
}

#[test]
fn every_field_of_a_tcp_segment_cut_behind_its_options_is_read() {
    let frame = hex(&[MACS, "0800", IPV4, TCP, TCP_OPTIONS]);
    let packet = Packet::parse(LinkType::Ethernet, &frame, 1514).expect("valid");

    let ip = packet.ip().expect("IP");
    assert_eq!(ip.identification(), Some(0x1234));
    assert_eq!(
        (ip.total_length(), ip.header_length(), ip.payload_length()),
        (1500, 20, 1480)
    );
    assert_eq!(ip.traffic_class(), 0x02);
    assert!(!packet.is_fragment());

    let tcp = packet.tcp().expect("TCP");
    assert_eq!((tcp.src_port(), tcp.dst_port()), (5001, 40000));
    assert_eq!(
        (tcp.seq(), tcp.ack(), tcp.window()),
        (0x0102_0304, 0x0a0b_0c0d, 0x01f6)
    );
    let flags = tcp.flags();
    assert!(flags.ack() && flags.psh());
    assert!(
        !(flags.syn() || flags.fin() || flags.rst() || flags.urg() || flags.ece() || flags.cwr())
    );
    assert_eq!(tcp.header_length(), 32);
    // 1500 − 20 − 32, although no byte of it was captured.
    assert_eq!(tcp.payload_length(), 1448);
    assert_eq!(tcp.payload(), b"");
    assert_eq!(tcp.sequence_length(), 1448);

    let flow = packet.flow().expect("a flow");
    let expected = FlowKey {
        src: "10.0.0.2".parse().expect("address"),
        dst: "10.0.0.1".parse().expect("address"),
        src_port: 5001,
        dst_port: 40000,
        protocol: 6,
    };
    assert_eq!(flow, expected);
    assert_eq!(flow.reversed().reversed(), flow);
    assert_eq!(
        flow.reversed().to_string(),
        "10.0.0.1:40000 > 10.0.0.2:5001 protocol 6"
    );
}

#[test]
fn syn_and_fin_take_one_sequence_number_each() {
    // Total length 40: no payload; data offset 5; flags SYN|FIN.
    let frame = hex(&[
        MACS,
        "0800",
        "45000028 00000000 40060000 0a000002 0a000001",
        "1389 9c40 00000000 00000000 50 03 ffff 0000 0000",
    ]);
    assert_eq!(ethernet(&frame).tcp().expect("TCP").sequence_length(), 2);
}

#[test]
fn ethernet_padding_is_not_payload() {
    // Total length 0x2a = 42: IPv4 20, TCP 20, 2 bytes of payload; then 4 bytes of padding.
    let frame = hex(&[
        MACS,
        "0800",
        "4500002a 00000000 40060000 0a000002 0a000001",
        "1389 9c40 00000000 00000000 50 10 ffff 0000 0000",
        "aabb 00000000",
    ]);
    let packet = ethernet(&frame);
    let tcp = packet.tcp().expect("TCP");
    assert_eq!(
        (tcp.payload_length(), tcp.payload()),
        (2, &[0xaa, 0xbb][..])
    );
}

#[test]
fn stacked_vlan_tags_are_read_outermost_first() {
    // 802.1ad 100, 802.1Q 4095 with priority bits set, which are not part of the id.
    let frame = hex(&[
        MACS,
        "88a8 0064",
        "8100 ffff",
        "0800",
        IPV4,
        TCP,
        TCP_OPTIONS,
    ]);
    let packet = ethernet(&frame);
    assert_eq!(packet.link().vlan_ids().collect::<Vec<_>>(), [100, 4095]);
    assert_eq!(packet.link().header_length(), 22);
    assert_eq!(packet.ports(), Some((5001, 40000)));
}

#[test]
fn ip_is_found_behind_pppoe_and_mpls_labels() {
    let expected = ethernet(&hex(&[MACS, "0800", IPV4, TCP, TCP_OPTIONS])).flow();
    // Version 1, type 1, code 0, session 0x0042, length 1502; then PPP's number of IPv4, of MPLS.
    let pppoe = "8864 11 00 0042 05de";
    // Label 16 and 17 with TTL 64; the bit of the last label is 0x100.
    let (label, last) = ("00010040", "00011140");
    for (headers, header_length, tags) in [
        (vec![pppoe, "0021"], 22, vec![]),
        (vec!["8100 0007", pppoe, "0021"], 26, vec![7]),
        (vec![pppoe, "21"], 21, vec![]),
        (vec![pppoe, "0281", last], 26, vec![]),
        (vec!["8847", last], 18, vec![]),
        (vec!["8100 0007 8848", label, label, last], 30, vec![7]),
    ] {
        let frame = hex(&[MACS, &headers.concat(), IPV4, TCP, TCP_OPTIONS]);
        let packet = ethernet(&frame);
        assert_eq!(packet.flow(), expected, "{headers:?}");
        let link = packet.link();
        assert_eq!(
            (link.outer_length(), link.header_length()),
            (14, header_length)
        );
        assert_eq!(link.vlan_ids().collect::<Vec<_>>(), tags);
    }
    let v6 = hex(&[
        MACS,
        pppoe,
        "0057",
        "60000000 0008 11 40",
        IPV6_ADDRESSES,
        UDP,
    ]);
    assert_eq!(ethernet(&v6).ports(), Some((53, 54321)));
}

#[test]
fn other_content_of_pppoe_and_mpls_is_not_ip() {
    for (headers, ether_type) in [
        // LCP echo request; an Ethernet pseudowire with its control word.
        ("8864 11 00 0042 000a c021 09 01 0008 00000000", 0x8864),
        ("8847 00011140 00000000", 0x8847),
        ("8847 00011140", 0x8847),
    ] {
        let frame = hex(&[MACS, headers]);
        let packet = ethernet(&frame);
        assert_eq!(
            (packet.link().ether_type(), packet.ip()),
            (ether_type, None)
        );
        assert_eq!(packet.link().header_length(), 14);
    }
}

#[test]
fn ipv4_options_move_the_transport_header() {
    // IHL 6: one word of options (router alert). Total length 24 + 20 + 0.
    let frame = hex(&[
        MACS,
        "0800",
        "4600002c 00000000 40110000 0a000002 0a000001 94040000",
        UDP,
        "000102030405060708090a0b",
    ]);
    let packet = ethernet(&frame);
    let udp = packet.udp().expect("UDP");
    assert_eq!(
        (udp.src_port(), udp.dst_port(), udp.payload_length()),
        (53, 54321, 12)
    );
    assert_eq!(udp.payload().len(), 12);
}

#[test]
fn only_the_first_fragment_shows_ports() {
    // MF set, offset 0.
    let first = hex(&[
        MACS,
        "0800",
        "450005dc 00072000 40110000 0a000002 0a000001",
        UDP,
    ]);
    let packet = ethernet(&first);
    assert!(packet.is_fragment());
    assert_eq!(packet.ports(), Some((53, 54321)));

    // Offset 0xb9 × 8 = 1480, MF clear: what looks like a UDP header is payload.
    let last = hex(&[
        MACS,
        "0800",
        "4500001c 000700b9 40110000 0a000002 0a000001",
        UDP,
    ]);
    let packet = ethernet(&last);
    let ip = packet.ip().expect("IP");
    assert_eq!(
        (
            ip.fragment_offset_bytes(),
            ip.more_fragments(),
            ip.identification()
        ),
        (1480, false, Some(7))
    );
    assert!(packet.is_fragment());
    assert_eq!(
        (packet.transport(), packet.transport_error(), packet.flow()),
        (None, None, None)
    );
}

#[test]
fn segmentation_offload_leaves_the_length_to_the_wire() {
    let frame = hex(&[
        MACS,
        "0800",
        "45000000 00000000 40060000 0a000002 0a000001",
        TCP,
        TCP_OPTIONS,
    ]);
    let packet = Packet::parse(LinkType::Ethernet, &frame, 14 + 20 + 32 + 64_000).expect("valid");
    assert_eq!(packet.tcp().expect("TCP").payload_length(), 64_000);
    // A wire length of 673 MB is a damaged record's: as segments it would take seconds.
    let damaged = Packet::parse(LinkType::Ethernet, &frame, 673_000_000);
    assert!(damaged.map_or(true, |packet| packet.tcp().is_none()));
    let without_length = hex(&[
        MACS,
        "86dd",
        "60000000 0000 06 40",
        IPV6_ADDRESSES,
        TCP,
        TCP_OPTIONS,
    ]);
    let of = |wire_length| Packet::parse(LinkType::Ethernet, &without_length, wire_length);
    let whole = of(14 + 40 + 32 + 500_000).expect("valid");
    assert_eq!(whole.tcp().expect("TCP").payload_length(), 500_000);
    assert!(of(673_000_000).map_or(true, |packet| packet.tcp().is_none()));
}

#[test]
fn ipv6_extension_headers_are_walked_to_the_transport() {
    // Hop-by-hop (8 bytes), destination options (16 bytes: length field 1), then UDP: 8 + 16 + 8 = 32.
    let frame = hex(&[
        MACS,
        "86dd",
        "6b800000 0020 00 40",
        IPV6_ADDRESSES,
        "3c 00 010400000000",
        "11 01 010c 000000000000000000000000",
        "0035 d431 0008 0000",
    ]);
    let packet = ethernet(&frame);
    let ip = packet.ip().expect("IP");
    assert_eq!(
        (ip.total_length(), ip.header_length(), ip.payload_length()),
        (72, 64, 8)
    );
    assert_eq!(
        (ip.protocol(), ip.traffic_class(), ip.identification()),
        (17, 0xb8, None)
    );
    assert_eq!(
        (ip.src().to_string(), ip.dst().to_string()),
        ("fd00::2".to_owned(), "fd00::1".to_owned())
    );
    assert_eq!(packet.ports(), Some((53, 54321)));
}

#[test]
fn an_ipv6_fragment_says_where_it_belongs() {
    let fragment = |offset_and_more: &str| {
        hex(&[
            MACS,
            "86dd",
            "60000000 0010 2c 40",
            IPV6_ADDRESSES,
            "11 00",
            offset_and_more,
            "89abcdef",
            UDP,
        ])
    };
    // Offset 1448 = 181 × 8 and MF: 181 << 3 | 1 = 0x05a9.
    let middle = fragment("05a9");
    let packet = ethernet(&middle);
    let ip = packet.ip().expect("IP");
    assert_eq!(
        (ip.fragment_offset_bytes(), ip.more_fragments()),
        (1448, true)
    );
    assert_eq!(
        (ip.identification(), ip.protocol()),
        (Some(0x89ab_cdef), 17)
    );
    assert_eq!(packet.flow(), None);

    let first = fragment("0001");
    assert!(ethernet(&first).is_fragment());
    assert_eq!(ethernet(&first).ports(), Some((53, 54321)));

    // RFC 6946: a fragment header on a whole packet.
    let atomic = fragment("0000");
    assert!(!ethernet(&atomic).is_fragment());
    assert_eq!(ethernet(&atomic).ports(), Some((53, 54321)));
}

#[test]
fn all_link_types_lead_to_the_same_flow() {
    let ip = hex(&[IPV4, TCP, TCP_OPTIONS]);
    let expected = ethernet(&hex(&[MACS, "0800", IPV4, TCP, TCP_OPTIONS])).flow();
    let cooked_v1 = "0000 0001 0006 0200000000020000 0800";
    let cooked_v2 = "0800 0000 00000003 0001 00 06 0200000000020000";
    for (link_type, frame) in [
        (LinkType::RawIp, ip.clone()),
        (
            LinkType::LinuxCookedV1,
            [hex(&[cooked_v1]), ip.clone()].concat(),
        ),
        (
            LinkType::LinuxCookedV2,
            [hex(&[cooked_v2]), ip.clone()].concat(),
        ),
        (LinkType::Ppp, [hex(&["ff 03 0021"]), ip.clone()].concat()),
        (LinkType::Ppp, [hex(&["0021"]), ip.clone()].concat()),
        (LinkType::Ppp, [hex(&["21"]), ip.clone()].concat()),
        (
            LinkType::BsdLoopback,
            [hex(&["00000002"]), ip.clone()].concat(),
        ),
        (
            LinkType::BsdLoopback,
            [hex(&["02000000"]), ip.clone()].concat(),
        ),
    ] {
        let packet = Packet::parse(link_type, &frame, frame.len()).expect("valid");
        assert_eq!(packet.flow(), expected, "{link_type:?}");
    }
    let v6 = hex(&["60000000 0008 11 40", IPV6_ADDRESSES, UDP]);
    let packet = Packet::parse(LinkType::RawIp, &v6, v6.len()).expect("valid");
    assert_eq!(
        packet.flow().expect("a flow").to_string(),
        "[fd00::2]:53 > [fd00::1]:54321 protocol 17"
    );
    for family in ["18000000", "0000001c", "1e000000"] {
        let frame = [hex(&[family]), v6.clone()].concat();
        let packet = Packet::parse(LinkType::BsdLoopback, &frame, frame.len()).expect("valid");
        assert_eq!(packet.ports(), Some((53, 54321)), "{family}");
    }
    // Families of other protocols; LCP.
    for (link_type, header) in [
        (LinkType::BsdLoopback, "10000000"),
        (LinkType::BsdLoopback, "02000001"),
        (LinkType::Ppp, "ff 03 c021"),
    ] {
        let frame = [hex(&[header]), v6.clone()].concat();
        let packet = Packet::parse(link_type, &frame, frame.len()).expect("valid");
        assert_eq!((packet.link().ether_type(), packet.ip()), (0, None));
    }
}

#[test]
fn pcap_link_types_are_mapped_and_others_refused_by_number_and_name() {
    for (code, link_type) in [
        (0, LinkType::BsdLoopback),
        (9, LinkType::Ppp),
        (108, LinkType::BsdLoopback),
        (1, LinkType::Ethernet),
        (12, LinkType::RawIp),
        (101, LinkType::RawIp),
        (113, LinkType::LinuxCookedV1),
        (228, LinkType::RawIp),
        (276, LinkType::LinuxCookedV2),
    ] {
        assert_eq!(LinkType::from_pcap(code), Ok(link_type));
    }
    for (code, text) in [
        (105, "link type 105 (IEEE 802.11) is not supported"),
        (150, "link type 150 is not supported"),
    ] {
        assert_eq!(LinkType::from_pcap(code), Err(UnsupportedLinkType(code)));
        assert_eq!(UnsupportedLinkType(code).to_string(), text);
    }
}

#[test]
fn what_is_not_ip_has_no_flow_and_is_no_error() {
    let arp = hex(&[MACS, "0806", "0001080006040001"]);
    let packet = ethernet(&arp);
    assert_eq!(
        (packet.link().ether_type(), packet.ip(), packet.flow()),
        (0x0806, None, None)
    );

    // ICMP has a flow without ports.
    let icmp = hex(&[
        MACS,
        "0800",
        "4500001c 00000000 40010000 0a000002 0a000001",
        "0800000000000000",
    ]);
    let flow = ethernet(&icmp).flow().expect("a flow");
    assert_eq!((flow.src_port, flow.dst_port, flow.protocol), (0, 0, 1));
}

#[test]
fn a_cut_header_is_named_with_what_it_needs() {
    let whole = hex(&[MACS, "8100 0064 0800", IPV4, TCP, TCP_OPTIONS]);
    let error =
        |link_type, length| Packet::parse(link_type, &whole[..length], 1518).expect_err("cut");
    let cut = |header, needed, available| PacketError::Cut {
        header,
        needed,
        available,
    };
    assert_eq!(error(LinkType::Ethernet, 13), cut(Header::Ethernet, 14, 13));
    assert_eq!(error(LinkType::Ethernet, 17), cut(Header::Vlan, 4, 3));
    assert_eq!(error(LinkType::Ethernet, 37), cut(Header::Ipv4, 20, 19));
    assert_eq!(
        error(LinkType::LinuxCookedV1, 15),
        cut(Header::LinuxCookedV1, 16, 15)
    );
    assert_eq!(
        error(LinkType::LinuxCookedV2, 19),
        cut(Header::LinuxCookedV2, 20, 19)
    );
    assert_eq!(error(LinkType::RawIp, 0), cut(Header::Ip, 1, 0));
    assert_eq!(error(LinkType::Ppp, 0), cut(Header::Ppp, 1, 0));
    assert_eq!(
        error(LinkType::BsdLoopback, 3),
        cut(Header::BsdLoopback, 4, 3)
    );
    for (headers, expected) in [
        ("8864 11 00 0042 05", cut(Header::Pppoe, 6, 5)),
        ("8864 11 00 0042 05de 00", cut(Header::Ppp, 2, 1)),
        ("8847 00010040 000111", cut(Header::Mpls, 4, 3)),
    ] {
        let frame = hex(&[MACS, headers]);
        assert_eq!(
            Packet::parse(LinkType::Ethernet, &frame, 1518),
            Err(expected)
        );
    }
    assert_eq!(
        error(LinkType::Ethernet, 13).to_string(),
        "Ethernet header is cut: it needs 14 bytes, 13 are there"
    );
}

#[test]
fn a_cut_transport_header_keeps_the_addresses() {
    let whole = hex(&[MACS, "0800", IPV4, TCP, TCP_OPTIONS]);
    let packet = Packet::parse(LinkType::Ethernet, &whole[..53], 1514).expect("IP is whole");
    assert_eq!(packet.ip().expect("IP").src().to_string(), "10.0.0.2");
    assert_eq!(
        packet.transport_error(),
        Some(PacketError::Cut {
            header: Header::Tcp,
            needed: 20,
            available: 19
        })
    );
    // A key with ports 0 would name another flow.
    assert_eq!((packet.transport(), packet.flow()), (None, None));
}

#[test]
fn impossible_header_lengths_are_named() {
    let field = |frame: &[u8], link_type| match Packet::parse(link_type, frame, frame.len()) {
        Ok(packet) => packet.transport_error(),
        Err(error) => Some(error),
    };
    for (bytes, expected) in [
        (
            hex(&["44000014 00000000 40060000 0a000002 0a000001"]),
            (Header::Ipv4, "IHL", 4),
        ),
        (
            hex(&["45000013 00000000 40060000 0a000002 0a000001"]),
            (Header::Ipv4, "total length", 19),
        ),
        (
            hex(&["55000014 00000000 40060000 0a000002 0a000001"]),
            (Header::Ip, "version", 5),
        ),
        (
            hex(&[IPV4, "1389 9c40 01020304 0a0b0c0d 40 18 01f6 0000 0000"]),
            (Header::Tcp, "data offset", 4),
        ),
        // Data offset 15 words in a packet that carries 20 bytes.
        (
            hex(&[
                "45000028 00000000 40060000 0a000002 0a000001",
                "1389 9c40 00000000 00000000 f0 10 0000 0000 0000",
            ]),
            (Header::Tcp, "data offset", 15),
        ),
        (
            hex(&[
                "4500001c 00000000 40110000 0a000002 0a000001",
                "0035 d431 0007 0000",
            ]),
            (Header::Udp, "length", 7),
        ),
    ] {
        let Some(PacketError::Malformed {
            header,
            field,
            value,
            ..
        }) = field(&bytes, LinkType::RawIp)
        else {
            panic!("not called malformed: {expected:?}");
        };
        assert_eq!((header, field, value), expected);
    }
}
