// SPDX-License-Identifier: Apache-2.0
// What becomes of a packet: clones from ingress and egress, resubmit, recirculate, multicast, truncation, and which
// metadata each of them preserves.
#include <core.p4>
#include <v1model.p4>

header order_t {
    bit<8> operation;
    bit<8> instance_type;
    bit<8> kept;
    bit<8> lost;
    bit<8> rid;
    bit<16> length;
}

struct headers_t {
    order_t order;
}

struct metadata_t {
    @field_list(1)
    bit<8> kept;
    @field_list(2)
    bit<8> lost;
}

parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.order);
        transition accept;
    }
}

control VerifyChecksumImpl(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {
        // Of standard metadata only instance_type and packet_length reach another pass: ingress_port is 0 there.
        standard_metadata.egress_spec = 1 | standard_metadata.ingress_port;
        if (standard_metadata.instance_type == 0) {
            meta.kept = 0x11;
            meta.lost = 0x22;
            if (hdr.order.operation == 1) {
                hdr.order.operation = 0xaa;
                // The clone is the packet as it arrived, so without this 0xaa; its port is the session's.
                clone_preserving_field_list(CloneType.I2E, 5, 1);
            } else if (hdr.order.operation == 2) {
                hdr.order.operation = 0xaa;
                resubmit_preserving_field_list(1);
            } else if (hdr.order.operation == 4) {
                standard_metadata.mcast_grp = 7;
            } else if (hdr.order.operation == 6) {
                truncate(9);
            } else if (hdr.order.operation == 8) {
                mark_to_drop(standard_metadata);
                clone(CloneType.I2E, 5);
            }
        } else {
            hdr.order.instance_type = (bit<8>) standard_metadata.instance_type;
            hdr.order.kept = meta.kept;
            hdr.order.lost = meta.lost;
            hdr.order.length = (bit<16>) standard_metadata.packet_length;
        }
    }
}

control EgressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {
        if (standard_metadata.instance_type == 1 || standard_metadata.instance_type == 2
            || standard_metadata.instance_type == 5) {
            hdr.order.instance_type = (bit<8>) standard_metadata.instance_type;
            hdr.order.kept = meta.kept;
            hdr.order.lost = meta.lost;
            hdr.order.rid = (bit<8>) standard_metadata.egress_rid;
            hdr.order.length = (bit<16>) standard_metadata.packet_length;
        } else if (hdr.order.operation == 3) {
            hdr.order.operation = 0xbb;
            recirculate_preserving_field_list(1);
        } else if (hdr.order.operation == 5) {
            hdr.order.operation = 0xcc;
            clone_preserving_field_list(CloneType.E2E, 6, 2);
        }
    }
}

control ComputeChecksumImpl(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control DeparserImpl(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.order);
    }
}

V1Switch(ParserImpl(), VerifyChecksumImpl(), IngressImpl(), EgressImpl(), ComputeChecksumImpl(), DeparserImpl()) main;
