// SPDX-License-Identifier: Apache-2.0
parser WeirParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_VLAN: parse_vlan;
            ETHERTYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }

    state parse_vlan {
        packet.extract(hdr.vlan);
        transition select(hdr.vlan.ether_type) {
            ETHERTYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }

    // Ports are where they are expected only without options and in a first fragment.
    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.ihl, hdr.ipv4.fragment_offset, hdr.ipv4.protocol) {
            (5, 0, PROTOCOL_TCP): parse_ports;
            (5, 0, PROTOCOL_UDP): parse_ports;
            default: accept;
        }
    }

    state parse_ports {
        packet.extract(hdr.ports);
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
