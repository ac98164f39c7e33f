// SPDX-License-Identifier: Apache-2.0
// Header unions and a stack of them: extraction to the next element, the last one's field, push, pop, assignment.
#include <core.p4>
#include <v1model.p4>

header order_t {
    bit<8> operation;
    bit<8> count;
}

header byte_t {
    bit<8> kind;
    bit<8> data;
}

header word_t {
    bit<8> kind;
    bit<24> data;
}

header_union item_t {
    byte_t byte;
    word_t word;
}

struct headers_t {
    order_t order;
    item_t single;
    item_t[3] items;
}

struct metadata_t {
    bit<8> left;
    bit<8> last;
}

parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.order);
        meta.left = hdr.order.count;
        transition next_item;
    }
    state next_item {
        transition select(meta.left) {
            0: accept;
            default: item;
        }
    }
    state item {
        meta.left = meta.left - 1;
        transition select(packet.lookahead<bit<8>>()) {
            1: item_byte;
            2: item_word;
        }
    }
    state item_byte {
        packet.extract(hdr.items.next.byte);
        meta.last = hdr.items.last.byte.data;
        transition next_item;
    }
    state item_word {
        packet.extract(hdr.items.next.word);
        transition next_item;
    }
}

control VerifyChecksumImpl(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {
        standard_metadata.egress_spec = standard_metadata.ingress_port;
        hdr.order.count = meta.last;
        if (hdr.order.operation == 1) {
            hdr.items.push_front(1);
            hdr.items[0].word.setValid();
            hdr.items[0].word.kind = 2;
            hdr.items[0].word.data = 0xcccccc;
        } else if (hdr.order.operation == 2) {
            hdr.items.pop_front(1);
        } else if (hdr.order.operation == 3) {
            // The member that was valid before becomes invalid.
            hdr.items[0].byte.setValid();
            hdr.items[0].byte.kind = 1;
            hdr.items[0].byte.data = 0xee;
        } else if (hdr.order.operation == 4) {
            hdr.single = hdr.items[1];
            hdr.items[1].byte.setInvalid();
            hdr.items[1].word.setInvalid();
        } else if (hdr.order.operation == 5 && hdr.items[0].isValid() && !hdr.items[1].isValid()) {
            hdr.order.operation = 0x55;
        }
    }
}

control EgressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {
        // The length follows the headers.
        if (hdr.order.operation == 3) {
            hdr.order.count = (bit<8>) standard_metadata.packet_length;
        }
    }
}

control ComputeChecksumImpl(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control DeparserImpl(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.order);
        packet.emit(hdr.single);
        packet.emit(hdr.items);
    }
}

V1Switch(ParserImpl(), VerifyChecksumImpl(), IngressImpl(), EgressImpl(), ComputeChecksumImpl(), DeparserImpl()) main;
