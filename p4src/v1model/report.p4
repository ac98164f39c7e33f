// SPDX-License-Identifier: Apache-2.0
// Ingress decides which dropped packets are mirrored; egress turns the mirrored copy into a report.
control MirrorDrops(inout metadata_t meta, in standard_metadata_t standard_metadata) {
    action report_drops(bit<32> session, collector_t collector) {
        meta.report.collector = collector;
        meta.report.ingress_us = standard_metadata.ingress_global_timestamp;
        clone_preserving_field_list(CloneType.I2E, session, REPORT_FIELD_LIST);
    }

    action no_report() {}

    table report {
        key = { meta.report.cell: ternary @name("cell"); }
        actions = { report_drops; no_report; }
        const default_action = no_report;
        size = REPORT_ENTRIES;
    }

    apply {
        report.apply();
    }
}

control MakeReport(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    register<bit<32>, collector_t>(COLLECTORS) sequence;
    counter<collector_t>(COLLECTORS, CounterType.packets_and_bytes) report_counter;

    action set_collector(bit<48> src_mac, bit<48> dst_mac, bit<32> src, bit<32> dst, bit<16> src_port,
                         bit<16> dst_port, bit<32> node_id, bit<16> inner_bytes) {
        hdr.report_ethernet.setValid();
        hdr.report_ethernet.dst = dst_mac;
        hdr.report_ethernet.src = src_mac;
        hdr.report_ethernet.ether_type = ETHERTYPE_IPV4;

        // The inner packet is cut to what the collector wants, or whole if it is shorter.
        bit<16> inner = inner_bytes;
        if (meta.report.wire_length < (bit<32>)inner_bytes) {
            inner = (bit<16>)meta.report.wire_length;
        }

        hdr.report_ipv4.setValid();
        hdr.report_ipv4.version = 4;
        hdr.report_ipv4.ihl = 5;
        hdr.report_ipv4.dscp = 0;
        hdr.report_ipv4.ecn = 0;
        hdr.report_ipv4.total_length = IPV4_BYTES + UDP_BYTES + REPORT_BYTES + inner;
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
        hdr.report_udp.length = UDP_BYTES + REPORT_BYTES + inner;
        // No checksum (RFC 768): the switch has not read the bytes behind the headers.
        hdr.report_udp.checksum = 0;

        hdr.report_group.setValid();
        hdr.report_group.version = REPORT_VERSION;
        hdr.report_group.hw_id = 0;
        hdr.report_group.sequence = 0;
        hdr.report_group.node_id = node_id;

        hdr.report_individual.setValid();
        hdr.report_individual.rep_type = REP_TYPE_INT;
        hdr.report_individual.in_type = IN_TYPE_ETHERNET;
        hdr.report_individual.report_length = MAIN_WORDS + MD_WORDS + (bit<8>)((inner + 3) >> 2);
        hdr.report_individual.md_length = MD_WORDS;
        hdr.report_individual.dropped = 1;
        hdr.report_individual.congested = 0;
        hdr.report_individual.tracked = 0;
        hdr.report_individual.intermediate = 0;
        hdr.report_individual.reserved = 0;

        hdr.report_main.setValid();
        hdr.report_main.rep_md_bits = REP_MD_BITS;
        hdr.report_main.domain_id = WEIR_DOMAIN_ID;
        hdr.report_main.ds_md_bits = DS_MD_BITS;
        hdr.report_main.ds_md_status = 0;

        // A packet that its policer dropped never had a queue nor an egress time.
        hdr.report_baseline.setValid();
        hdr.report_baseline.queue_id = 0;
        hdr.report_baseline.queue_occupancy = 0;
        hdr.report_baseline.ingress_ns = (bit<64>)meta.report.ingress_us * 1000;
        hdr.report_baseline.egress_ns = 0;
        hdr.report_baseline.drop_queue_id = 0;
        hdr.report_baseline.drop_reason = meta.report.drop_reason;
        hdr.report_baseline.pad = 0;

        hdr.report_domain.setValid();
        hdr.report_domain.policer = meta.report.cell;
        hdr.report_domain.colour = (bit<8>)meta.report.colour;
        hdr.report_domain.reserved = 0;
        hdr.report_domain.wire_length = meta.report.wire_length;
        hdr.report_domain.packet_number = meta.report.packet_number;

        truncate((bit<32>)(ETHERNET_BYTES + IPV4_BYTES + UDP_BYTES + REPORT_BYTES + inner));
    }

    action no_collector() {
        mark_to_drop(standard_metadata);
    }

    table collector {
        key = { meta.report.collector: exact @name("collector"); }
        actions = { set_collector; no_collector; }
        const default_action = no_collector;
        size = COLLECTORS;
    }

    apply {
        if (collector.apply().hit) {
            bit<32> next;
            @atomic {
                sequence.read(next, meta.report.collector);
                hdr.report_group.sequence = next[21:0];
                sequence.write(meta.report.collector, next + 1);
            }
            report_counter.count(meta.report.collector);
        }
    }
}
