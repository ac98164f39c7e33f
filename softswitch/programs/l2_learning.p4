// SPDX-License-Identifier: Apache-2.0
// A learning switch: a new source address is announced by a digest, an unknown destination is flooded through
// multicast group 1, and no frame goes back to the port it came from.
#include <core.p4>
#include <v1model.p4>

const bit<16> FLOOD_GROUP = 1;

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> ether_type;
}

struct headers_t {
    ethernet_t ethernet;
}

struct metadata_t {
}

struct learn_t {
    bit<48> src;
    bit<9> port;
}

parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition accept;
    }
}

control VerifyChecksumImpl(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    action learn() {
        digest<learn_t>(1, { hdr.ethernet.src, standard_metadata.ingress_port });
    }

    action known() { }

    // Known means known at this port: a station that moved is announced again.
    table source {
        key = {
            hdr.ethernet.src: exact;
            standard_metadata.ingress_port: exact;
        }
        actions = { known; learn; }
        default_action = learn();
        size = 65536;
    }

    action forward(bit<9> port) {
        standard_metadata.egress_spec = port;
    }

    action flood() {
        standard_metadata.mcast_grp = FLOOD_GROUP;
    }

    table destination {
        key = {
            hdr.ethernet.dst: exact;
        }
        actions = { forward; flood; }
        default_action = flood();
        size = 65536;
    }

    apply {
        if (hdr.ethernet.isValid()) {
            source.apply();
            destination.apply();
        } else {
            mark_to_drop(standard_metadata);
        }
    }
}

control EgressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {
        if (standard_metadata.egress_port == standard_metadata.ingress_port) {
            mark_to_drop(standard_metadata);
        }
    }
}

control ComputeChecksumImpl(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control DeparserImpl(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
    }
}

V1Switch(ParserImpl(), VerifyChecksumImpl(), IngressImpl(), EgressImpl(), ComputeChecksumImpl(), DeparserImpl()) main;
