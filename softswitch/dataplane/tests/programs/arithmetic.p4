// SPDX-License-Identifier: Apache-2.0
// Arithmetic on 8, 64 and 256 bits, signed and unsigned: wrapping, saturating, shifts, casts, comparisons, slices.
#include <core.p4>
#include <v1model.p4>

header order_t {
    bit<8> operation;
}

header bytes_t {
    bit<8> a;
    bit<8> b;
    bit<8> result;
}

header signed_t {
    int<8> a;
    int<8> b;
    int<16> result;
}

header wide_t {
    bit<256> a;
    bit<256> b;
    bit<256> result;
}

struct headers_t {
    order_t order;
    bytes_t bytes;
    signed_t signed;
    wide_t wide;
}

struct metadata_t {
}

parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.order);
        transition select(hdr.order.operation) {
            0x10 &&& 0xf0: bytes;
            0x20 &&& 0xf0: signed;
            0x30 &&& 0xf0: wide;
        }
    }
    state bytes {
        packet.extract(hdr.bytes);
        transition accept;
    }
    state signed {
        packet.extract(hdr.signed);
        transition accept;
    }
    state wide {
        packet.extract(hdr.wide);
        transition accept;
    }
}

control VerifyChecksumImpl(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control BytesImpl(inout bytes_t h, in bit<8> operation) {
    apply {
        if (operation == 0x11) {
            h.result = h.a + h.b;
        } else if (operation == 0x12) {
            h.result = h.a |+| h.b;
        } else if (operation == 0x13) {
            h.result = h.a |-| h.b;
        } else if (operation == 0x14) {
            h.result = h.a << h.b;
        } else if (operation == 0x15) {
            h.result = h.a >> h.b;
        } else if (operation == 0x16) {
            h.result = h.a * h.b;
        } else if (operation == 0x17) {
            h.result = ~h.a ^ h.b;
        } else if (operation == 0x18) {
            h.result = -h.a;
        } else if (operation == 0x19) {
            h.result[7:4] = h.a[3:0];
            h.result[3:0] = h.b[7:4];
        } else if (operation == 0x1a) {
            h.result = h.a > h.b ? h.a : h.b;
        }
    }
}

control SignedImpl(inout signed_t h, in bit<8> operation) {
    apply {
        if (operation == 0x21) {
            h.result = (int<16>) (h.a + h.b);
        } else if (operation == 0x22) {
            h.result = (int<16>) (h.a |+| h.b);
        } else if (operation == 0x23) {
            h.result = (int<16>) (h.a |-| h.b);
        } else if (operation == 0x24) {
            h.result = (int<16>) (h.a >> 2);
        } else if (operation == 0x25) {
            h.result = (int<16>) h.a * (int<16>) h.b;
        } else if (operation == 0x26) {
            h.result = h.a < h.b ? 16s1 : -16s1;
        } else if (operation == 0x27) {
            h.result = (int<16>) (bit<16>) (bit<8>) h.a;
        }
    }
}

control WideImpl(inout wide_t h, in bit<8> operation) {
    apply {
        if (operation == 0x31) {
            h.result = h.a + h.b;
        } else if (operation == 0x32) {
            h.result = h.a |+| h.b;
        } else if (operation == 0x33) {
            h.result = h.a |-| h.b;
        } else if (operation == 0x34) {
            h.result = h.a << 200;
        } else if (operation == 0x35) {
            h.result = h.a >> h.b[7:0];
        } else if (operation == 0x36) {
            h.result = h.a * h.b;
        } else if (operation == 0x37) {
            h.result = h.a < h.b ? 256w1 : 256w2;
        } else if (operation == 0x38) {
            h.result = h.a[7:0] ++ h.b[247:0];
        }
    }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {
        standard_metadata.egress_spec = standard_metadata.ingress_port;
        BytesImpl.apply(hdr.bytes, hdr.order.operation);
        SignedImpl.apply(hdr.signed, hdr.order.operation);
        WideImpl.apply(hdr.wide, hdr.order.operation);
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
