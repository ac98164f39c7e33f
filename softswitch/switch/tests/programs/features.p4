// SPDX-License-Identifier: Apache-2.0
// What `entities.p4` has not: action profiles and selectors, idle timeouts, a value set, a translated port number, and
// a table with initial entries that a controller may change.
#include <core.p4>
#include <v1model.p4>

@p4runtime_translation("", 32)
type bit<9> port_id_t;

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> ether_type;
}

header tag_t {
    bit<8> hop;
    bit<8> path;
    bit<16> ether_type;
}

struct headers_t {
    ethernet_t ethernet;
    tag_t tag;
}

struct metadata_t {
    port_id_t translated;
}

parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    @id(1) value_set<bit<16>>(4) tagged_types;

    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            tagged_types: parse_tag;
            default: accept;
        }
    }

    state parse_tag {
        packet.extract(hdr.tag);
        transition accept;
    }
}

control VerifyChecksumImpl(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    action_profile(16) hops;
    @max_group_size(8)
    action_selector(HashAlgorithm.crc16, 32, 14) paths;
    direct_counter(CounterType.packets_and_bytes) learned_counter;

    action set_hop(bit<8> hop) {
        hdr.ethernet.src[7:0] = hop;
    }

    action set_port(bit<9> port) {
        standard_metadata.egress_spec = port;
    }

    action set_path(bit<9> port, bit<8> path) {
        standard_metadata.egress_spec = port;
        hdr.ethernet.src[15:8] = path;
    }

    action set_translated(port_id_t port) {
        standard_metadata.egress_spec = (bit<9>) port;
    }

    action drop() {
        mark_to_drop(standard_metadata);
    }

    table next_hop {
        key = {
            hdr.ethernet.dst: exact;
        }
        actions = { set_hop; NoAction; }
        implementation = hops;
        size = 64;
    }

    table next_hop_too {
        key = {
            hdr.ethernet.ether_type: exact;
        }
        actions = { set_hop; NoAction; }
        implementation = hops;
        size = 64;
    }

    table route {
        key = {
            hdr.ethernet.dst: lpm;
            hdr.ethernet.src: selector;
            hdr.ethernet.ether_type: selector;
        }
        actions = { set_path; set_port; drop; }
        implementation = paths;
        size = 64;
    }

    table learned {
        key = {
            hdr.ethernet.src: exact;
        }
        actions = { NoAction; drop; }
        default_action = NoAction();
        counters = learned_counter;
        support_timeout = true;
        size = 64;
    }
    table by_port {
        key = {
            meta.translated: exact;
        }
        actions = { set_translated; NoAction; }
        size = 64;
    }

    table initial {
        key = {
            hdr.ethernet.src: ternary;
        }
        actions = { set_port; NoAction; }
        entries = {
            0x0000000000E1 &&& 0x0000000000FF: set_port(1);
            0x0000000000E0 &&& 0x0000000000F0: set_port(2);
        }
        size = 64;
    }

    apply {
        meta.translated = (port_id_t) standard_metadata.ingress_port;
        learned.apply();
        next_hop.apply();
        if (next_hop_too.apply().hit) {
            hdr.ethernet.src[47:40] = 0xAA;
        }
        by_port.apply();
        initial.apply();
        route.apply();
        if (hdr.tag.isValid()) {
            hdr.tag.hop = hdr.tag.hop + 1;
        }
    }
}

control EgressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply { }
}

control ComputeChecksumImpl(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control DeparserImpl(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.tag);
    }
}

V1Switch(ParserImpl(), VerifyChecksumImpl(), IngressImpl(), EgressImpl(), ComputeChecksumImpl(), DeparserImpl()) main;
