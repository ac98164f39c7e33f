// SPDX-License-Identifier: Apache-2.0
// Variable-length fields: in a header, in a stack, in a variable; compared and assigned; in a checksum's input.
#include <core.p4>
#include <v1model.p4>

header order_t {
    bit<8> operation;
    bit<8> result;
    bit<16> checksum;
}

header option_t {
    bit<8> bytes;
    varbit<64> data;
    bit<8> tail;
}

struct headers_t {
    order_t order;
    option_t first;
    option_t[2] rest;
}

struct metadata_t {
}

parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.order);
        packet.extract(hdr.first, (bit<32>) packet.lookahead<bit<8>>() * 8);
        packet.extract(hdr.rest.next, (bit<32>) packet.lookahead<bit<8>>() * 8);
        packet.extract(hdr.rest.next, (bit<32>) packet.lookahead<bit<8>>() * 8);
        transition accept;
    }
}

control VerifyChecksumImpl(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {
        standard_metadata.egress_spec = standard_metadata.ingress_port;
        hdr.order.result = 0;
        if (hdr.first.data == hdr.rest[0].data) {
            hdr.order.result = hdr.order.result | 1;
        }
        if (hdr.first.data != hdr.rest[1].data) {
            hdr.order.result = hdr.order.result | 2;
        }
        if (hdr.rest[0] == hdr.rest[1]) {
            hdr.order.result = hdr.order.result | 4;
        }
        if (hdr.order.operation == 1) {
            hdr.rest.pop_front(1);
        } else if (hdr.order.operation == 2) {
            varbit<64> kept = hdr.first.data;
            hdr.first.data = hdr.rest[0].data;
            hdr.rest[0].data = kept;
        } else if (hdr.order.operation == 3) {
            hdr.first = hdr.rest[1];
        }
    }
}

control EgressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {
        if (hdr.order.operation == 2 || hdr.order.operation == 3) {
            hdr.order.operation = (bit<8>) standard_metadata.packet_length;
        }
    }
}

control ComputeChecksumImpl(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(true, { hdr.first.bytes, hdr.first.data, hdr.first.tail }, hdr.order.checksum,
            HashAlgorithm.xor16);
    }
}

control DeparserImpl(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.order);
        packet.emit(hdr.first);
        packet.emit(hdr.rest);
    }
}

V1Switch(ParserImpl(), VerifyChecksumImpl(), IngressImpl(), EgressImpl(), ComputeChecksumImpl(), DeparserImpl()) main;
