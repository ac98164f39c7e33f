// SPDX-License-Identifier: Apache-2.0
// Every match kind, on fields of 8 and of 128 bits, from the control plane and as const entries.
#include <core.p4>
#include <v1model.p4>

header probe_t {
    bit<8> table_number;
    bit<8> result;
    bit<8> narrow;
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
        transition accept;
    }
}

control VerifyChecksumImpl(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    action set(bit<8> value) {
        hdr.probe.result = value;
    }

    table ranges {
        key = {
            hdr.probe.wide: range;
            hdr.probe.narrow: range;
        }
        actions = { set; }
        default_action = set(0xdd);
    }

    table prefixes {
        key = {
            hdr.probe.wide: lpm;
        }
        actions = { set; }
        default_action = set(0xdd);
    }

    table masks {
        key = {
            hdr.probe.wide: ternary;
            hdr.probe.narrow: optional;
        }
        actions = { set; }
        default_action = set(0xdd);
    }

    table constants {
        key = {
            hdr.probe.narrow: range;
            hdr.probe.wide: ternary;
        }
        actions = { set; }
        const default_action = set(0xdd);
        const entries = {
            (1..5, _): set(1);
            (4..9, 0xf000 &&& 0xf000): set(2);
            (4..9, _): set(3);
        }
    }

    table prioritised {
        key = {
            hdr.probe.narrow: ternary;
        }
        actions = { set; }
        entries = {
            priority = 20: 0x11: set(2);
            const priority = 10: 0x10 &&& 0xf0: set(1);
        }
    }

    apply {
        standard_metadata.egress_spec = standard_metadata.ingress_port;
        if (hdr.probe.table_number == 1) {
            ranges.apply();
        } else if (hdr.probe.table_number == 2) {
            prefixes.apply();
        } else if (hdr.probe.table_number == 3) {
            masks.apply();
        } else if (hdr.probe.table_number == 4) {
            constants.apply();
        } else if (hdr.probe.table_number == 5) {
            prioritised.apply();
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
        packet.emit(hdr.probe);
    }
}

V1Switch(ParserImpl(), VerifyChecksumImpl(), IngressImpl(), EgressImpl(), ComputeChecksumImpl(), DeparserImpl()) main;
