// SPDX-License-Identifier: Apache-2.0
// What is malformed in itself ends the parser with an error; a frame that ends too early does so anyway.
// It then has its drop reason.
error { Malformed }

parser WeirParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_IPV4: parse_ipv4;
            ETHERTYPE_IPV6: parse_ipv6;
            ETHERTYPE_VLAN: parse_vlan;
            default: accept;
        }
    }

    state parse_vlan {
        packet.extract(hdr.vlan);
        transition select(hdr.vlan.ether_type) {
            ETHERTYPE_IPV4: parse_ipv4;
            ETHERTYPE_IPV6: parse_ipv6;
            default: accept;
        }
    }

    // Only a first fragment has ports. A total length that ends within the headers would take ports from the padding.
    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.fragment_offset, hdr.ipv4.protocol,
                          hdr.ipv4.total_length) {
            (4, 5, _, _, 0..19): ipv4_overlap;
            (4, 5, 0, PROTOCOL_TCP, 20..39): ipv4_overlap;
            (4, 5, 0, PROTOCOL_TCP, _): parse_tcp;
            (4, 5, 0, PROTOCOL_UDP, 20..27): ipv4_overlap;
            (4, 5, 0, PROTOCOL_UDP, _): parse_udp;
            (4, 5, _, _, _): accept;
            (4, 6..15, _, _, _): parse_ipv4_options;
            (4, _, _, _, _): ipv4_header_length;
            default: ipv4_version;
        }
    }

    state parse_ipv4_options {
        packet.extract(hdr.ipv4_options, (bit<32>)(hdr.ipv4.ihl - 5) << 5);
        transition select(hdr.ipv4.fragment_offset, hdr.ipv4.protocol) {
            (0, PROTOCOL_TCP): parse_tcp;
            (0, PROTOCOL_UDP): parse_udp;
            default: accept;
        }
    }

    state parse_ipv6 {
        packet.extract(hdr.ipv6);
        meta.flow.protocol = hdr.ipv6.next_header;
        transition select(hdr.ipv6.version, hdr.ipv6.next_header) {
            (6, PROTOCOL_TCP): parse_tcp;
            (6, PROTOCOL_UDP): parse_udp;
            (6, PROTOCOL_HOP_BY_HOP): parse_ipv6_extension_1;
            (6, PROTOCOL_ROUTING): parse_ipv6_extension_1;
            (6, PROTOCOL_DESTINATION): parse_ipv6_extension_1;
            (6, PROTOCOL_FRAGMENT): parse_ipv6_fragment_1;
            (6, _): accept;
            default: ipv6_version;
        }
    }

    // Four extension headers of at most 72 bytes each are followed. What is behind a longer one, or a fifth, stays
    // unread: the packet has no ports then, and its protocol is that of the first header that was not read.

    state parse_ipv6_extension_1 {
        transition select(packet.lookahead<bit<16>>()[7:0]) {
            0 &&& 0xF8: follow_ipv6_extension_1;
            8: follow_ipv6_extension_1;
            default: accept;
        }
    }

    state follow_ipv6_extension_1 {
        packet.extract(hdr.ipv6_extension_1, ((bit<32>)packet.lookahead<bit<16>>()[7:0] << 6) + 48);
        meta.flow.extension_bytes = meta.flow.extension_bytes + ((bit<16>)hdr.ipv6_extension_1.length << 3) + 8;
        meta.flow.protocol = hdr.ipv6_extension_1.next_header;
        transition select(hdr.ipv6_extension_1.next_header) {
            PROTOCOL_TCP: parse_tcp;
            PROTOCOL_UDP: parse_udp;
            PROTOCOL_HOP_BY_HOP: parse_ipv6_extension_2;
            PROTOCOL_ROUTING: parse_ipv6_extension_2;
            PROTOCOL_DESTINATION: parse_ipv6_extension_2;
            PROTOCOL_FRAGMENT: parse_ipv6_fragment_2;
            default: accept;
        }
    }

    state parse_ipv6_fragment_1 {
        bit<32> begin = packet.lookahead<bit<32>>();
        packet.extract(hdr.ipv6_extension_1, 48);
        meta.flow.extension_bytes = meta.flow.extension_bytes + 8;
        meta.flow.protocol = hdr.ipv6_extension_1.next_header;
        transition select(begin[15:3], hdr.ipv6_extension_1.next_header) {
            (0, PROTOCOL_TCP): parse_tcp;
            (0, PROTOCOL_UDP): parse_udp;
            (0, PROTOCOL_HOP_BY_HOP): parse_ipv6_extension_2;
            (0, PROTOCOL_ROUTING): parse_ipv6_extension_2;
            (0, PROTOCOL_DESTINATION): parse_ipv6_extension_2;
            (0, PROTOCOL_FRAGMENT): parse_ipv6_fragment_2;
            default: accept;
        }
    }

    state parse_ipv6_extension_2 {
        transition select(packet.lookahead<bit<16>>()[7:0]) {
            0 &&& 0xF8: follow_ipv6_extension_2;
            8: follow_ipv6_extension_2;
            default: accept;
        }
    }

    state follow_ipv6_extension_2 {
        packet.extract(hdr.ipv6_extension_2, ((bit<32>)packet.lookahead<bit<16>>()[7:0] << 6) + 48);
        meta.flow.extension_bytes = meta.flow.extension_bytes + ((bit<16>)hdr.ipv6_extension_2.length << 3) + 8;
        meta.flow.protocol = hdr.ipv6_extension_2.next_header;
        transition select(hdr.ipv6_extension_2.next_header) {
            PROTOCOL_TCP: parse_tcp;
            PROTOCOL_UDP: parse_udp;
            PROTOCOL_HOP_BY_HOP: parse_ipv6_extension_3;
            PROTOCOL_ROUTING: parse_ipv6_extension_3;
            PROTOCOL_DESTINATION: parse_ipv6_extension_3;
            PROTOCOL_FRAGMENT: parse_ipv6_fragment_3;
            default: accept;
        }
    }

    state parse_ipv6_fragment_2 {
        bit<32> begin = packet.lookahead<bit<32>>();
        packet.extract(hdr.ipv6_extension_2, 48);
        meta.flow.extension_bytes = meta.flow.extension_bytes + 8;
        meta.flow.protocol = hdr.ipv6_extension_2.next_header;
        transition select(begin[15:3], hdr.ipv6_extension_2.next_header) {
            (0, PROTOCOL_TCP): parse_tcp;
            (0, PROTOCOL_UDP): parse_udp;
            (0, PROTOCOL_HOP_BY_HOP): parse_ipv6_extension_3;
            (0, PROTOCOL_ROUTING): parse_ipv6_extension_3;
            (0, PROTOCOL_DESTINATION): parse_ipv6_extension_3;
            (0, PROTOCOL_FRAGMENT): parse_ipv6_fragment_3;
            default: accept;
        }
    }

    state parse_ipv6_extension_3 {
        transition select(packet.lookahead<bit<16>>()[7:0]) {
            0 &&& 0xF8: follow_ipv6_extension_3;
            8: follow_ipv6_extension_3;
            default: accept;
        }
    }

    state follow_ipv6_extension_3 {
        packet.extract(hdr.ipv6_extension_3, ((bit<32>)packet.lookahead<bit<16>>()[7:0] << 6) + 48);
        meta.flow.extension_bytes = meta.flow.extension_bytes + ((bit<16>)hdr.ipv6_extension_3.length << 3) + 8;
        meta.flow.protocol = hdr.ipv6_extension_3.next_header;
        transition select(hdr.ipv6_extension_3.next_header) {
            PROTOCOL_TCP: parse_tcp;
            PROTOCOL_UDP: parse_udp;
            PROTOCOL_HOP_BY_HOP: parse_ipv6_extension_4;
            PROTOCOL_ROUTING: parse_ipv6_extension_4;
            PROTOCOL_DESTINATION: parse_ipv6_extension_4;
            PROTOCOL_FRAGMENT: parse_ipv6_fragment_4;
            default: accept;
        }
    }

    state parse_ipv6_fragment_3 {
        bit<32> begin = packet.lookahead<bit<32>>();
        packet.extract(hdr.ipv6_extension_3, 48);
        meta.flow.extension_bytes = meta.flow.extension_bytes + 8;
        meta.flow.protocol = hdr.ipv6_extension_3.next_header;
        transition select(begin[15:3], hdr.ipv6_extension_3.next_header) {
            (0, PROTOCOL_TCP): parse_tcp;
            (0, PROTOCOL_UDP): parse_udp;
            (0, PROTOCOL_HOP_BY_HOP): parse_ipv6_extension_4;
            (0, PROTOCOL_ROUTING): parse_ipv6_extension_4;
            (0, PROTOCOL_DESTINATION): parse_ipv6_extension_4;
            (0, PROTOCOL_FRAGMENT): parse_ipv6_fragment_4;
            default: accept;
        }
    }

    state parse_ipv6_extension_4 {
        transition select(packet.lookahead<bit<16>>()[7:0]) {
            0 &&& 0xF8: follow_ipv6_extension_4;
            8: follow_ipv6_extension_4;
            default: accept;
        }
    }

    state follow_ipv6_extension_4 {
        packet.extract(hdr.ipv6_extension_4, ((bit<32>)packet.lookahead<bit<16>>()[7:0] << 6) + 48);
        meta.flow.extension_bytes = meta.flow.extension_bytes + ((bit<16>)hdr.ipv6_extension_4.length << 3) + 8;
        meta.flow.protocol = hdr.ipv6_extension_4.next_header;
        transition select(hdr.ipv6_extension_4.next_header) {
            PROTOCOL_TCP: parse_tcp;
            PROTOCOL_UDP: parse_udp;
            default: accept;
        }
    }

    state parse_ipv6_fragment_4 {
        bit<32> begin = packet.lookahead<bit<32>>();
        packet.extract(hdr.ipv6_extension_4, 48);
        meta.flow.extension_bytes = meta.flow.extension_bytes + 8;
        meta.flow.protocol = hdr.ipv6_extension_4.next_header;
        transition select(begin[15:3], hdr.ipv6_extension_4.next_header) {
            (0, PROTOCOL_TCP): parse_tcp;
            (0, PROTOCOL_UDP): parse_udp;
            default: accept;
        }
    }

    state parse_tcp {
        packet.extract(hdr.tcp);
        transition accept;
    }

    state parse_udp {
        packet.extract(hdr.udp);
        transition accept;
    }

    state ipv4_overlap {
        meta.report.drop_reason = DROP_REASON_IPV4_OVERLAP;
        verify(false, error.Malformed);
        transition accept;
    }

    state ipv4_version {
        meta.report.drop_reason = DROP_REASON_IPV4_VERSION;
        verify(false, error.Malformed);
        transition accept;
    }

    state ipv4_header_length {
        meta.report.drop_reason = DROP_REASON_IPV4_HEADER_LENGTH;
        verify(false, error.Malformed);
        transition accept;
    }

    state ipv6_version {
        meta.report.drop_reason = DROP_REASON_IPV6_VERSION;
        verify(false, error.Malformed);
        transition accept;
    }
}

control WeirVerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control WeirComputeChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(
            hdr.report_ipv4.isValid(),
            {
                hdr.report_ipv4.version, hdr.report_ipv4.ihl, hdr.report_ipv4.dscp, hdr.report_ipv4.ecn,
                hdr.report_ipv4.total_length, hdr.report_ipv4.identification, hdr.report_ipv4.flags,
                hdr.report_ipv4.fragment_offset, hdr.report_ipv4.ttl, hdr.report_ipv4.protocol,
                hdr.report_ipv4.src, hdr.report_ipv4.dst
            },
            hdr.report_ipv4.checksum,
            HashAlgorithm.csum16);
    }
}

control WeirDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}
