// SPDX-License-Identifier: Apache-2.0
// Every hash algorithm of v1model over the same bytes, and what base and size do to the value.
#include <core.p4>
#include <v1model.p4>

header order_t {
    bit<8> algorithm;
    bit<64> result;
}

header input_t {
    bit<72> data;
}

struct headers_t {
    order_t order;
    input_t input;
}

struct metadata_t {
}

const bit<64> ALL = 0xffffffffffffffff;

parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.order);
        packet.extract(hdr.input);
        transition accept;
    }
}

control VerifyChecksumImpl(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {
        standard_metadata.egress_spec = standard_metadata.ingress_port;
        if (hdr.order.algorithm == 1) {
            hash(hdr.order.result, HashAlgorithm.crc16, 64w0, { hdr.input.data }, ALL);
        } else if (hdr.order.algorithm == 2) {
            hash(hdr.order.result, HashAlgorithm.crc16_custom, 64w0, { hdr.input.data }, ALL);
        } else if (hdr.order.algorithm == 3) {
            hash(hdr.order.result, HashAlgorithm.crc32, 64w0, { hdr.input.data }, ALL);
        } else if (hdr.order.algorithm == 4) {
            hash(hdr.order.result, HashAlgorithm.crc32_custom, 64w0, { hdr.input.data }, ALL);
        } else if (hdr.order.algorithm == 5) {
            hash(hdr.order.result, HashAlgorithm.csum16, 64w0, { hdr.input.data }, ALL);
        } else if (hdr.order.algorithm == 6) {
            hash(hdr.order.result, HashAlgorithm.xor16, 64w0, { hdr.input.data }, ALL);
        } else if (hdr.order.algorithm == 7) {
            hash(hdr.order.result, HashAlgorithm.identity, 64w0, { hdr.input.data[23:0] }, ALL);
        } else if (hdr.order.algorithm == 8) {
            // 0xcbf43926 % 1000 = 262, and 5.
            hash(hdr.order.result, HashAlgorithm.crc32, 64w5, { hdr.input.data }, 64w1000);
        } else if (hdr.order.algorithm == 9) {
            // Fields that are no whole bytes are joined bit by bit: 0x39, 0x1.
            hash(hdr.order.result, HashAlgorithm.identity, 64w0, { hdr.input.data[7:0], hdr.input.data[35:32] }, ALL);
        } else if (hdr.order.algorithm == 10) {
            hash(hdr.order.result, HashAlgorithm.random, 64w100, { hdr.input.data }, 64w16);
        } else if (hdr.order.algorithm == 11) {
            random(hdr.order.result, 64w1000, 64w1015);
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
        packet.emit(hdr);
    }
}

V1Switch(ParserImpl(), VerifyChecksumImpl(), IngressImpl(), EgressImpl(), ComputeChecksumImpl(), DeparserImpl()) main;
