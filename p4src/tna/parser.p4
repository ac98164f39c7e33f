// SPDX-License-Identifier: Apache-2.0
parser WeirIngressParser(packet_in packet, out headers_t hdr, out ingress_metadata_t meta,
                         out ingress_intrinsic_metadata_t intrinsic) {
    state start {
        packet.extract(intrinsic);
        packet.advance(PORT_METADATA_SIZE);
        transition parse_ethernet;
    }

    state parse_ethernet {
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

    // The hardware matches on four bytes: those of a header without options are looked at before it is extracted.
    state parse_ipv4 {
        transition select(packet.lookahead<bit<8>>()) {
            0x45: look_at_ipv4;
            0x40 &&& 0xF0: parse_ipv4_options;
            default: ipv4_version;
        }
    }

    state parse_ipv4_options {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.ihl) {
            6: parse_option_1;
            7: parse_option_2;
            8: parse_option_3;
            9: parse_option_4;
            10: parse_option_5;
            11: parse_option_6;
            12: parse_option_7;
            13: parse_option_8;
            14: parse_option_9;
            15: parse_option_10;
            default: ipv4_header_length;
        }
    }

    state parse_option_10 {
        packet.extract(hdr.option_10);
        transition parse_option_9;
    }

    state parse_option_9 {
        packet.extract(hdr.option_9);
        transition parse_option_8;
    }

    state parse_option_8 {
        packet.extract(hdr.option_8);
        transition parse_option_7;
    }

    state parse_option_7 {
        packet.extract(hdr.option_7);
        transition parse_option_6;
    }

    state parse_option_6 {
        packet.extract(hdr.option_6);
        transition parse_option_5;
    }

    state parse_option_5 {
        packet.extract(hdr.option_5);
        transition parse_option_4;
    }

    state parse_option_4 {
        packet.extract(hdr.option_4);
        transition parse_option_3;
    }

    state parse_option_3 {
        packet.extract(hdr.option_3);
        transition parse_option_2;
    }

    state parse_option_2 {
        packet.extract(hdr.option_2);
        transition parse_option_1;
    }

    state parse_option_1 {
        packet.extract(hdr.ipv4_options);
        transition parse_ipv4_payload;
    }

    // Only a first fragment has ports. A total length that ends within the headers would take ports from the padding.
    state look_at_ipv4 {
        transition select(packet.lookahead<bit<64>>()[12:0], packet.lookahead<bit<80>>()[7:0]) {
            (0, PROTOCOL_TCP): look_at_ipv4_tcp;
            (0, PROTOCOL_UDP): look_at_ipv4_udp;
            default: look_at_ipv4_alone;
        }
    }

    state look_at_ipv4_tcp {
        transition select(packet.lookahead<bit<32>>()[15:0]) {
            0 &&& 0xFFE0: ipv4_overlap;
            32 &&& 0xFFF8: ipv4_overlap;
            default: parse_ipv4_tcp;
        }
    }

    state look_at_ipv4_udp {
        transition select(packet.lookahead<bit<32>>()[15:0]) {
            0 &&& 0xFFF0: ipv4_overlap;
            16 &&& 0xFFF8: ipv4_overlap;
            24 &&& 0xFFFC: ipv4_overlap;
            default: parse_ipv4_udp;
        }
    }

    state look_at_ipv4_alone {
        transition select(packet.lookahead<bit<32>>()[15:0]) {
            0 &&& 0xFFF0: ipv4_overlap;
            16 &&& 0xFFFC: ipv4_overlap;
            default: parse_ipv4_alone;
        }
    }

    state parse_ipv4_tcp {
        packet.extract(hdr.ipv4);
        transition parse_tcp;
    }

    state parse_ipv4_udp {
        packet.extract(hdr.ipv4);
        transition parse_udp;
    }

    state parse_ipv4_alone {
        packet.extract(hdr.ipv4);
        transition accept;
    }

    state parse_ipv4_payload {
        transition select(hdr.ipv4.fragment_offset, hdr.ipv4.protocol) {
            (0, PROTOCOL_TCP): parse_tcp;
            (0, PROTOCOL_UDP): parse_udp;
            default: accept;
        }
    }

    state parse_ipv6 {
        packet.extract(hdr.ipv6);
        transition select(hdr.ipv6.version) {
            6: parse_ipv6_payload;
            default: ipv6_version;
        }
    }

    state parse_ipv6_payload {
        transition select(hdr.ipv6.next_header, hdr.ipv6.payload_length) {
            (PROTOCOL_TCP, 0 &&& 0xFFF0): ipv6_overlap;
            (PROTOCOL_TCP, 16 &&& 0xFFFC): ipv6_overlap;
            (PROTOCOL_TCP, _): parse_tcp;
            (PROTOCOL_UDP, 0 &&& 0xFFF8): ipv6_overlap;
            (PROTOCOL_UDP, _): parse_udp;
            (PROTOCOL_HOP_BY_HOP, _): parse_ipv6_extension_1;
            (PROTOCOL_ROUTING, _): parse_ipv6_extension_1;
            (PROTOCOL_DESTINATION, _): parse_ipv6_extension_1;
            (PROTOCOL_FRAGMENT, _): parse_ipv6_fragment_1;
            default: accept;
        }
    }

    // Two extension headers of at most 24 bytes each are followed. What is behind a longer one, or a third, stays
    // unread: the packet has no ports then, and its protocol is that of the first header that was not read.

    state parse_ipv6_extension_1 {
        transition select(packet.lookahead<bit<16>>()[7:0]) {
            0: parse_ipv6_extension_1_of_8;
            1: parse_ipv6_extension_1_of_16;
            2: parse_ipv6_extension_1_of_24;
            default: accept;
        }
    }

    state parse_ipv6_extension_1_of_8 {
        packet.extract(hdr.ipv6_extension_1);
        transition after_ipv6_extension_1;
    }

    state parse_ipv6_extension_1_of_16 {
        packet.extract(hdr.ipv6_extension_1);
        packet.extract(hdr.ipv6_more_1);
        transition after_ipv6_extension_1;
    }

    state parse_ipv6_extension_1_of_24 {
        packet.extract(hdr.ipv6_extension_1);
        packet.extract(hdr.ipv6_more_1);
        packet.extract(hdr.ipv6_more_2);
        transition after_ipv6_extension_1;
    }

    state after_ipv6_extension_1 {
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
        packet.extract(hdr.ipv6_extension_1);
        transition select(hdr.ipv6_extension_1.begin, hdr.ipv6_extension_1.next_header) {
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
            0: parse_ipv6_extension_2_of_8;
            1: parse_ipv6_extension_2_of_16;
            2: parse_ipv6_extension_2_of_24;
            default: accept;
        }
    }

    state parse_ipv6_extension_2_of_8 {
        packet.extract(hdr.ipv6_extension_2);
        transition after_ipv6_extension_2;
    }

    state parse_ipv6_extension_2_of_16 {
        packet.extract(hdr.ipv6_extension_2);
        packet.extract(hdr.ipv6_more_3);
        transition after_ipv6_extension_2;
    }

    state parse_ipv6_extension_2_of_24 {
        packet.extract(hdr.ipv6_extension_2);
        packet.extract(hdr.ipv6_more_3);
        packet.extract(hdr.ipv6_more_4);
        transition after_ipv6_extension_2;
    }

    state after_ipv6_extension_2 {
        transition select(hdr.ipv6_extension_2.next_header) {
            PROTOCOL_TCP: parse_tcp;
            PROTOCOL_UDP: parse_udp;
            default: accept;
        }
    }

    state parse_ipv6_fragment_2 {
        packet.extract(hdr.ipv6_extension_2);
        transition select(hdr.ipv6_extension_2.begin, hdr.ipv6_extension_2.next_header) {
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

    state ipv4_version {
        packet.extract(hdr.ipv4);
        meta.shared.report.drop_reason = DROP_REASON_IPV4_VERSION;
        transition accept;
    }

    state ipv4_header_length {
        meta.shared.report.drop_reason = DROP_REASON_IPV4_HEADER_LENGTH;
        transition accept;
    }

    state ipv4_overlap {
        packet.extract(hdr.ipv4);
        meta.shared.report.drop_reason = DROP_REASON_IPV4_OVERLAP;
        transition accept;
    }

    state ipv6_overlap {
        meta.shared.report.drop_reason = DROP_REASON_IPV6_OVERLAP;
        transition accept;
    }

    state ipv6_version {
        meta.shared.report.drop_reason = DROP_REASON_IPV6_VERSION;
        transition accept;
    }
}

control WeirIngressDeparser(packet_out packet, inout headers_t hdr, in ingress_metadata_t meta,
                            in ingress_intrinsic_metadata_for_deparser_t for_deparser) {
    Checksum() ipv4_checksum;
    Mirror() drop_mirror;
    @name(".flow_digest_t") Digest<flow_digest_t>(DIGEST_FLOW) flow_digest;
    @name(".flow_ipv6_digest_t") Digest<flow_ipv6_digest_t>(DIGEST_FLOW_IPV6) flow_ipv6_digest;

    apply {
        if (meta.shared.report.rewritten == 1) {
            // RFC 1624, equation 3: HC' = ~(~HC + ~m + m'), of the first word of the header. A wrong one stays wrong.
            hdr.ipv4.checksum = ipv4_checksum.update({
                meta.not_checksum, meta.not_first_word,
                hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp, hdr.ipv4.ecn
            });
        }
        if (for_deparser.mirror_type == MIRROR_REPORT) {
            drop_mirror.emit<mirror_t>(meta.session, DROP_COPY(hdr, meta));
        }
        if (for_deparser.digest_type == DIGEST_FLOW) {
            flow_digest.pack({
                hdr.ipv4.src, hdr.ipv4.dst, hdr.ipv4.protocol, meta.shared.flow.src_port, meta.shared.flow.dst_port,
                meta.shared.base
            });
        }
        if (for_deparser.digest_type == DIGEST_FLOW_IPV6) {
            flow_ipv6_digest.pack({
                hdr.ipv6.src, hdr.ipv6.dst, meta.shared.flow.protocol, meta.shared.flow.src_port,
                meta.shared.flow.dst_port, meta.shared.base
            });
        }
        packet.emit(hdr);
    }
}

parser WeirEgressParser(packet_in packet, out headers_t hdr, out egress_metadata_t meta,
                        out egress_intrinsic_metadata_t intrinsic) {
    state start {
        packet.extract(intrinsic);
        transition select(packet.lookahead<bit<8>>()) {
            BEFORE_FRAME: parse_frame;
            default: parse_mirror;
        }
    }

    // Nothing of a frame is read in egress: it is payload.
    state parse_frame {
        packet.extract(hdr.bridge);
        transition accept;
    }

    // Nor of a copy, unless what its policer rewrote must be put back.
    state parse_mirror {
        packet.extract(hdr.mirror);
        transition select(hdr.mirror.original_word) {
            0: accept;
            default: parse_ethernet;
        }
    }

    state parse_ethernet {
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

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition accept;
    }

    state parse_ipv6 {
        packet.extract(hdr.ipv6);
        transition accept;
    }
}

control WeirEgressDeparser(packet_out packet, inout headers_t hdr, in egress_metadata_t meta,
                           in egress_intrinsic_metadata_for_deparser_t for_deparser) {
    Checksum() report_checksum;
    Mirror() queue_mirror;

    apply {
        hdr.report_ipv4.checksum = report_checksum.update({
            hdr.report_ipv4.version, hdr.report_ipv4.ihl, hdr.report_ipv4.dscp, hdr.report_ipv4.ecn,
            hdr.report_ipv4.total_length, hdr.report_ipv4.identification, hdr.report_ipv4.flags,
            hdr.report_ipv4.fragment_offset, hdr.report_ipv4.ttl, hdr.report_ipv4.protocol,
            hdr.report_ipv4.src, hdr.report_ipv4.dst
        });
        if (for_deparser.mirror_type == MIRROR_REPORT) {
            queue_mirror.emit<mirror_t>(meta.session, QUEUE_COPY(hdr, meta));
        }
        packet.emit(hdr.report_ethernet);
        packet.emit(hdr.report_ipv4);
        packet.emit(hdr.report_udp);
        packet.emit(hdr.report_group);
        packet.emit(hdr.report_individual);
        packet.emit(hdr.report_main);
        packet.emit(hdr.report_baseline);
        packet.emit(hdr.report_domain);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.vlan);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ipv6);
    }
}
