// SPDX-License-Identifier: Apache-2.0
// Puts the headers of a report in front of a mirrored packet, of which `mirrored_bytes` are there.
#ifndef WEIR_MAKE_REPORT_P4
#define WEIR_MAKE_REPORT_P4

#include "drop_reasons.p4"

// `report_bytes` is the length of the whole report frame, to which the target cuts the mirrored packet.
control MakeReport(inout headers_t hdr, inout report_metadata_t report, in bit<16> mirrored_bytes,
                   in bit<64> ingress_ns, in bit<64> egress_ns, out bool wanted, out bit<32> report_bytes) {
    action set_collector(bit<48> src_mac, bit<48> dst_mac, bit<32> src, bit<32> dst, bit<16> src_port,
                         bit<16> dst_port, bit<32> node_id, bit<16> inner_bytes) {
        report.inner_bytes = inner_bytes;

        hdr.report_ethernet.setValid();
        hdr.report_ethernet.dst = dst_mac;
        hdr.report_ethernet.src = src_mac;
        hdr.report_ethernet.ether_type = ETHERTYPE_IPV4;

        hdr.report_ipv4.setValid();
        hdr.report_ipv4.version = 4;
        hdr.report_ipv4.ihl = 5;
        hdr.report_ipv4.dscp = 0;
        hdr.report_ipv4.ecn = 0;
        // An atomic datagram (RFC 6864): never fragmented, so its identification means nothing.
        hdr.report_ipv4.identification = 0;
        hdr.report_ipv4.flags = 2;
        hdr.report_ipv4.fragment_offset = 0;
        hdr.report_ipv4.ttl = 64;
        hdr.report_ipv4.protocol = PROTOCOL_UDP;
        hdr.report_ipv4.checksum = 0;
        hdr.report_ipv4.src = src;
        hdr.report_ipv4.dst = dst;

        hdr.report_udp.setValid();
        hdr.report_udp.src_port = src_port;
        hdr.report_udp.dst_port = dst_port;
        // No checksum (RFC 768): the switch has not read the bytes behind the headers.
        hdr.report_udp.checksum = 0;

        hdr.report_group.setValid();
        hdr.report_group.version = REPORT_VERSION;
        hdr.report_group.hw_id = 0;
        hdr.report_group.sequence = 0;
        hdr.report_group.node_id = node_id;
    }

    action no_collector() {}

    table collector {
        key = { report.collector: exact @name("collector"); }
        actions = { set_collector; @defaultonly no_collector; }
        const default_action = no_collector;
        size = COLLECTORS;
    }

    // What does not depend on the collector.
    @hidden action fill() {
        hdr.report_individual.setValid();
        hdr.report_individual.md_length = MD_WORDS;
        hdr.report_individual.dropped = 0;
        hdr.report_individual.congested = 0;
        hdr.report_individual.tracked = 0;
        hdr.report_individual.intermediate = 0;
        hdr.report_individual.reserved = 0;

        hdr.report_main.setValid();
        hdr.report_main.rep_md_bits = REP_MD_BITS;
        hdr.report_main.domain_id = WEIR_DOMAIN_ID;
        hdr.report_main.ds_md_bits = DS_MD_BITS;
        hdr.report_main.ds_md_status = 0;

        // A packet that ingress dropped never had a queue nor an egress time: those are 0.
        hdr.report_baseline.setValid();
        hdr.report_baseline.queue_id = report.queue_id;
        hdr.report_baseline.queue_occupancy = report.queue_occupancy;
        hdr.report_baseline.ingress_ns = ingress_ns;
        hdr.report_baseline.egress_ns = egress_ns;
        hdr.report_baseline.drop_queue_id = report.queue_id;
        hdr.report_baseline.drop_reason = report.drop_reason;
        hdr.report_baseline.pad = 0;

        hdr.report_domain.setValid();
        hdr.report_domain.policer = report.cell;
        hdr.report_domain.colour = 0;
        hdr.report_domain.reserved = 0;
        hdr.report_domain.wire_length = report.wire_length;
        hdr.report_domain.packet_number = report.packet_number;
    }

    // One operation on a field in each action, and no comparison of two fields: Tofino has neither.
    @hidden action take_surplus() {
        report.surplus = report.inner_bytes |-| mirrored_bytes;
    }

    @hidden action cut() {
        report.inner_bytes = report.inner_bytes - report.surplus;
    }

    @hidden action add_lengths() {
        hdr.report_ipv4.total_length = report.inner_bytes + (IPV4_BYTES + UDP_BYTES + REPORT_BYTES);
        hdr.report_udp.length = report.inner_bytes + (UDP_BYTES + REPORT_BYTES);
        report.words = report.inner_bytes + (4 * (bit<16>)(MAIN_WORDS + MD_WORDS) + 3);
    }

    @hidden action round_down() {
        report.words = report.words >> 2;
    }

    @hidden action take_excess() {
        report.surplus = report.words |-| (bit<16>)REPORT_LENGTH_TO_THE_END;
    }

    @hidden action set_colour() {
        hdr.report_domain.colour[1:0] = report.colour;
    }

    @hidden action set_report_length() {
        hdr.report_individual.types_and_length = report.words + REPORT_TYPES;
    }

    apply {
        report_bytes = 0;
        wanted = collector.apply().hit;
        if (wanted) {
            fill();
            // The inner packet is cut to what the collector wants, or whole if it is shorter.
            take_surplus();
            cut();
            add_lengths();
            round_down();
            report_bytes = (bit<32>)report.inner_bytes
                + (bit<32>)(ETHERNET_BYTES + IPV4_BYTES + UDP_BYTES + REPORT_BYTES);
            if (report.drop_reason != DROP_REASON_NONE) {
                hdr.report_individual.dropped = 1;
            }
            if (report.congested == 1) {
                hdr.report_individual.congested = 1;
            }
            if (report.tracked == 1) {
                hdr.report_individual.tracked = 1;
            }
            if (report.queue_lost != 0) {
                hdr.report_lost.setValid();
                hdr.report_lost.queue_lost = report.queue_lost;
                hdr.report_main.ds_md_bits = DS_MD_BITS_LOST;
                hdr.report_individual.md_length = MD_WORDS + LOST_WORDS;
                report.words = report.words + (bit<16>)LOST_WORDS;
                hdr.report_ipv4.total_length = hdr.report_ipv4.total_length + LOST_BYTES;
                hdr.report_udp.length = hdr.report_udp.length + LOST_BYTES;
                report_bytes = report_bytes + (bit<32>)LOST_BYTES;
            }
            take_excess();
            if (report.surplus != 0) {
                report.words = (bit<16>)REPORT_LENGTH_TO_THE_END;
            }
            set_colour();
            set_report_length();
        }
    }
}

#endif
