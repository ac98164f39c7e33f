// SPDX-License-Identifier: Apache-2.0
// Reports packets that a full queue dropped: what deflect-on-drop shows a program.
//
// The first byte of a frame is its egress port, the second its priority. A frame that was dropped and deflected gets a
// header in front that says what the program saw; others leave as they came, but for the number of their queue.

#include <core.p4>
#include <v1model.p4>

const bit<32> INSTANCE_DEFLECTED = 7;

header frame_t {
    bit<8> port;
    bit<8> priority;
}

header drop_t {
    bit<8>  egress_port;
    bit<8>  original_port;
    bit<32> enq_qdepth;
    bit<32> deq_qdepth;
}

struct headers_t {
    drop_t  drop;
    frame_t frame;
}

struct metadata_t {}

parser DeflectionParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                        inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.frame);
        transition accept;
    }
}

control NoVerify(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control DeflectionIngress(inout headers_t hdr, inout metadata_t meta,
                          inout standard_metadata_t standard_metadata) {
    apply {
        standard_metadata.egress_spec = (bit<9>)hdr.frame.port;
        standard_metadata.priority = (bit<3>)hdr.frame.priority;
    }
}

control DeflectionEgress(inout headers_t hdr, inout metadata_t meta,
                         inout standard_metadata_t standard_metadata) {
    apply {
        if (standard_metadata.instance_type == INSTANCE_DEFLECTED) {
            hdr.drop.setValid();
            hdr.drop.egress_port = (bit<8>)standard_metadata.egress_port;
            hdr.drop.original_port = (bit<8>)standard_metadata.egress_spec;
            hdr.drop.enq_qdepth = (bit<32>)standard_metadata.enq_qdepth;
            hdr.drop.deq_qdepth = (bit<32>)standard_metadata.deq_qdepth;
        }
    }
}

control NoUpdate(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control DeflectionDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(DeflectionParser(), NoVerify(), DeflectionIngress(), DeflectionEgress(), NoUpdate(),
         DeflectionDeparser()) main;
