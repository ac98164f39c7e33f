// SPDX-License-Identifier: Apache-2.0
// One-to-one address translation between an inside network at port 1 and an outside network at port 2. The
// controller gets the first packets of unknown inside hosts, and can send packets through any port.
#include <core.p4>
#include <v1model.p4>

const bit<9> INSIDE = 1;
const bit<9> OUTSIDE = 2;
const bit<9> CPU = 510;
const bit<16> ETHER_IPV4 = 0x0800;
const bit<8> PROTOCOL_UDP = 17;

@controller_header("packet_in")
header packet_in_t {
    bit<16> ingress_port;
}

@controller_header("packet_out")
header packet_out_t {
    bit<16> egress_port;
}

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> ether_type;
}

header ipv4_t {
    bit<4> version;
    bit<4> ihl;
    bit<8> tos;
    bit<16> total_length;
    bit<16> id;
    bit<3> flags;
    bit<13> fragment_offset;
    bit<8> ttl;
    bit<8> protocol;
    bit<16> checksum;
    bit<32> src;
    bit<32> dst;
}

header udp_t {
    bit<16> src_port;
    bit<16> dst_port;
    bit<16> length;
    bit<16> checksum;
}

struct headers_t {
    packet_in_t packet_in;
    packet_out_t packet_out;
    ethernet_t ethernet;
    ipv4_t ipv4;
    udp_t udp;
}

struct metadata_t {
    bit<1> translated;
}

parser NatParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        transition select(standard.ingress_port) {
            CPU: from_controller;
            default: ethernet;
        }
    }
    state from_controller {
        packet.extract(hdr.packet_out);
        transition ethernet;
    }
    state ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHER_IPV4: ipv4;
            default: accept;
        }
    }
    state ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.ihl, hdr.ipv4.fragment_offset, hdr.ipv4.protocol) {
            (5, 0, PROTOCOL_UDP): udp;
            default: accept;
        }
    }
    state udp {
        packet.extract(hdr.udp);
        transition accept;
    }
}

control VerifyNatChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control NatIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    direct_counter(CounterType.packets_and_bytes) outbound_counter;

    action drop() {
        mark_to_drop(standard);
    }

    action to_controller() {
        hdr.packet_in.setValid();
        hdr.packet_in.ingress_port = (bit<16>) standard.ingress_port;
        standard.egress_spec = CPU;
    }

    action translate_source(bit<32> address) {
        hdr.ipv4.src = address;
        meta.translated = 1;
        standard.egress_spec = OUTSIDE;
    }

    action translate_destination(bit<32> address) {
        hdr.ipv4.dst = address;
        meta.translated = 1;
        standard.egress_spec = INSIDE;
    }

    table outbound {
        key = {
            hdr.ipv4.src: exact;
        }
        actions = { translate_source; to_controller; }
        default_action = to_controller();
        counters = outbound_counter;
        size = 1024;
    }

    table inbound {
        key = {
            hdr.ipv4.dst: exact;
        }
        actions = { translate_destination; drop; }
        default_action = drop();
        size = 1024;
    }

    apply {
        if (hdr.packet_out.isValid()) {
            standard.egress_spec = (bit<9>) hdr.packet_out.egress_port;
            hdr.packet_out.setInvalid();
        } else if (!hdr.ipv4.isValid()) {
            drop();
        } else if (standard.ingress_port == INSIDE) {
            outbound.apply();
        } else {
            inbound.apply();
        }
    }
}

control NatEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply { }
}

control ComputeNatChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(meta.translated == 1 && hdr.ipv4.ihl == 5,
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.total_length, hdr.ipv4.id, hdr.ipv4.flags,
              hdr.ipv4.fragment_offset, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
        update_checksum_with_payload(meta.translated == 1 && hdr.udp.isValid() && hdr.udp.checksum != 0,
            { hdr.ipv4.src, hdr.ipv4.dst, 8w0, hdr.ipv4.protocol, hdr.udp.length,
              hdr.udp.src_port, hdr.udp.dst_port, hdr.udp.length },
            hdr.udp.checksum, HashAlgorithm.csum16);
    }
}

control NatDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.udp);
    }
}

V1Switch(NatParser(), VerifyNatChecksum(), NatIngress(), NatEgress(), ComputeNatChecksum(), NatDeparser()) main;
