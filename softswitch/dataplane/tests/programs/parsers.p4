// SPDX-License-Identifier: Apache-2.0
// The parser's language: select by mask, range and tuple, look-ahead, advance, a subparser, a loop over a stack, verify,
// and the error that each failure leaves in parser_error.
#include <core.p4>
#include <v1model.p4>

error {
    Unwanted
}

header order_t {
    bit<8> operation;
    bit<8> result;
    bit<8> parser_error;
}

header label_t {
    bit<7> value;
    bit<1> bottom;
}

header option_t {
    bit<8> bytes;
    varbit<32> data;
}

header pair_t {
    bit<8> first;
    bit<8> second;
}

struct headers_t {
    order_t order;
    label_t[3] labels;
    option_t option;
    pair_t pair;
}

struct metadata_t {
    bit<8> result;
}

parser LabelParser(packet_in packet, out label_t[3] labels, inout bit<8> last) {
    state start {
        packet.extract(labels.next);
        transition select(labels.last.bottom) {
            0: start;
            1: done;
        }
    }
    state done {
        last = (bit<8>) labels.last.value;
        transition accept;
    }
}

parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    LabelParser() label_parser;

    state start {
        packet.extract(hdr.order);
        transition select(hdr.order.operation) {
            1: labels;
            2: look;
            3: skip;
            4: check;
            5: options;
            6: several;
            0x10..0x17: ranged;
            0x20 &&& 0xf4: masked;
            0x30: no_match;
            0x31: odd_advance;
            default: accept;
        }
    }
    state labels {
        label_parser.apply(packet, hdr.labels, meta.result);
        transition accept;
    }
    state look {
        // The second of the bytes that are not taken.
        meta.result = packet.lookahead<bit<16>>()[7:0];
        transition accept;
    }
    state skip {
        packet.advance((bit<32>) packet.lookahead<bit<8>>() * 8);
        packet.extract(hdr.pair);
        transition accept;
    }
    state check {
        packet.extract(hdr.pair);
        verify(hdr.pair.first < hdr.pair.second, error.Unwanted);
        meta.result = 4;
        transition accept;
    }
    state options {
        packet.extract(hdr.option, (bit<32>) packet.lookahead<bit<8>>() * 8);
        meta.result = 5;
        transition accept;
    }
    state several {
        packet.extract(hdr.pair);
        transition select(hdr.pair.first, hdr.pair.second, packet.lookahead<bit<4>>()) {
            (1, 2..9, 0xf): tuple_first;
            (1, _, 0x8 &&& 0x8): tuple_second;
            (_, 0xff, _): tuple_third;
        }
    }
    state tuple_first {
        meta.result = 0x61;
        transition accept;
    }
    state tuple_second {
        meta.result = 0x62;
        transition accept;
    }
    state tuple_third {
        meta.result = 0x63;
        transition accept;
    }
    state ranged {
        meta.result = 0x10;
        transition accept;
    }
    state masked {
        meta.result = 0x20;
        transition accept;
    }
    state no_match {
        transition select(hdr.order.result) {
            1: accept;
        }
    }
    state odd_advance {
        packet.advance((bit<32>) hdr.order.result);
        transition accept;
    }
}

control VerifyChecksumImpl(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {
        standard_metadata.egress_spec = standard_metadata.ingress_port;
        hdr.order.result = meta.result;
        if (standard_metadata.parser_error == error.PacketTooShort) {
            hdr.order.parser_error = 1;
        } else if (standard_metadata.parser_error == error.NoMatch) {
            hdr.order.parser_error = 2;
        } else if (standard_metadata.parser_error == error.StackOutOfBounds) {
            hdr.order.parser_error = 3;
        } else if (standard_metadata.parser_error == error.HeaderTooShort) {
            hdr.order.parser_error = 4;
        } else if (standard_metadata.parser_error == error.Unwanted) {
            hdr.order.parser_error = 5;
        } else if (standard_metadata.parser_error == error.ParserInvalidArgument) {
            hdr.order.parser_error = 6;
        } else if (standard_metadata.parser_error != error.NoError) {
            hdr.order.parser_error = 0xff;
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
