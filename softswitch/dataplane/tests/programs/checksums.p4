// SPDX-License-Identifier: Apache-2.0
// Checksums verified and updated, with conditions, over constants and over the payload.
#include <core.p4>
#include <v1model.p4>

header order_t {
    bit<8> operation;
    bit<8> wrong;
    bit<16> sum;
}

header data_t {
    bit<16> value;
}

struct headers_t {
    order_t order;
    data_t data;
}

struct metadata_t {
}

parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.order);
        transition select(hdr.order.operation) {
            0x80 &&& 0x80: data;
            default: accept;
        }
    }
    state data {
        packet.extract(hdr.data);
        transition accept;
    }
}

control VerifyChecksumImpl(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.order.operation & 0x7f == 1, { 8w0xab, hdr.order.operation, hdr.data.value }, hdr.order.sum,
            HashAlgorithm.csum16);
        verify_checksum_with_payload(hdr.order.operation & 0x7f == 2, { hdr.order.operation, 8w0 }, hdr.order.sum,
            HashAlgorithm.csum16);
    }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {
        standard_metadata.egress_spec = standard_metadata.ingress_port;
        hdr.order.wrong = (bit<8>) standard_metadata.checksum_error;
    }
}

control EgressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply { }
}

control ComputeChecksumImpl(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.order.operation & 0x7f == 3 && hdr.data.isValid(), { 8w0xab, hdr.order.operation, hdr.data.value },
            hdr.order.sum, HashAlgorithm.csum16);
        update_checksum_with_payload(hdr.order.operation & 0x7f == 4, { hdr.order.operation, 8w0 }, hdr.order.sum,
            HashAlgorithm.csum16);
        update_checksum_with_payload(hdr.order.operation & 0x7f == 5, { hdr.order.operation }, hdr.order.sum,
            HashAlgorithm.crc16);
    }
}

control DeparserImpl(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(ParserImpl(), VerifyChecksumImpl(), IngressImpl(), EgressImpl(), ComputeChecksumImpl(), DeparserImpl()) main;
