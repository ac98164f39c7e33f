// SPDX-License-Identifier: Apache-2.0
// Parser value sets of one field and of two, asked between constants; `state` tells which transition was taken.
#include <core.p4>
#include <v1model.p4>

header probe_t {
    bit<16> tag;
    bit<4> kind;
    bit<4> unused;
    bit<8> state;
}

struct headers_t {
    probe_t probe;
}

struct metadata_t {
    bit<8> state;
}

struct pair_t {
    bit<16> tag;
    bit<4> kind;
}

parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    value_set<bit<16>>(4) tags;
    value_set<pair_t>(2) pairs;

    state start {
        packet.extract(hdr.probe);
        transition select(hdr.probe.tag) {
            0x0001: constant_before;
            tags: tagged;
            0x0002: constant_after;
            default: second;
        }
    }
    state constant_before {
        meta.state = 1;
        transition accept;
    }
    state tagged {
        meta.state = 2;
        transition accept;
    }
    state constant_after {
        meta.state = 3;
        transition accept;
    }
    state second {
        transition select(hdr.probe.tag, hdr.probe.kind) {
            pairs: paired;
            default: accept;
        }
    }
    state paired {
        meta.state = 4;
        transition accept;
    }
}

control VerifyChecksumImpl(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {
        hdr.probe.state = meta.state;
        standard_metadata.egress_spec = standard_metadata.ingress_port;
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
        packet.emit(hdr.probe);
    }
}

V1Switch(ParserImpl(), VerifyChecksumImpl(), IngressImpl(), EgressImpl(), ComputeChecksumImpl(), DeparserImpl()) main;
