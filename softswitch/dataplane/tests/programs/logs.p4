// SPDX-License-Identifier: Apache-2.0
// What a program can say: messages with values of all kinds from every control, and statements that may be false.
#include <core.p4>
#include <v1model.p4>

header probe_t {
    bit<8> operation;
    int<8> change;
    bit<128> wide;
}

struct headers_t {
    probe_t probe;
}

struct metadata_t {
}

parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.probe);
        log_msg("operation {}", { hdr.probe.operation });
        transition accept;
    }
}

control VerifyChecksumImpl(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {
        standard_metadata.egress_spec = standard_metadata.ingress_port;
        if (hdr.probe.operation == 1) {
            log_msg("plain");
            log_msg("wide {} narrow {} true {}",
                { hdr.probe.wide, (bit<8>) hdr.probe.change, hdr.probe.change < 0 });
        }
        clone(CloneType.I2E, 7);
        assert(hdr.probe.operation != 2);
        hdr.probe.operation = hdr.probe.operation + 0x10;
    }
}

control EgressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {
        assume(hdr.probe.operation != 0x13);
    }
}

control ComputeChecksumImpl(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control DeparserImpl(packet_out packet, in headers_t hdr) {
    apply {
        assert(hdr.probe.operation != 0x14);
        packet.emit(hdr.probe);
    }
}

V1Switch(ParserImpl(), VerifyChecksumImpl(), IngressImpl(), EgressImpl(), ComputeChecksumImpl(), DeparserImpl()) main;
