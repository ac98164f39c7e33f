// SPDX-License-Identifier: Apache-2.0
// Says of each packet what v1model says of its way through the queue.
//
// The first byte of a frame is its egress port, 0xff for multicast group 1; the second is its priority. Frames leave with a
// header in front.

#include <core.p4>
#include <v1model.p4>

const bit<8> TO_GROUP = 0xff;

header frame_t {
    bit<8> port;
    bit<8> priority;
}

header queue_t {
    bit<48> ingress_time_us;
    bit<32> enq_timestamp_us;
    bit<32> enq_qdepth;
    bit<32> deq_timedelta_us;
    bit<32> deq_qdepth;
    bit<48> egress_time_us;
}

struct headers_t {
    queue_t queue;
    frame_t frame;
}

struct metadata_t {}

parser QueueingParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                      inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.frame);
        transition accept;
    }
}

control NoVerify(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control QueueingIngress(inout headers_t hdr, inout metadata_t meta,
                        inout standard_metadata_t standard_metadata) {
    apply {
        if (hdr.frame.port == TO_GROUP) {
            standard_metadata.mcast_grp = 1;
        } else {
            standard_metadata.egress_spec = (bit<9>)hdr.frame.port;
        }
        standard_metadata.priority = (bit<3>)hdr.frame.priority;
    }
}

control QueueingEgress(inout headers_t hdr, inout metadata_t meta,
                       inout standard_metadata_t standard_metadata) {
    apply {
        hdr.queue.setValid();
        hdr.queue.ingress_time_us = standard_metadata.ingress_global_timestamp;
        hdr.queue.enq_timestamp_us = standard_metadata.enq_timestamp;
        hdr.queue.enq_qdepth = (bit<32>)standard_metadata.enq_qdepth;
        hdr.queue.deq_timedelta_us = standard_metadata.deq_timedelta;
        hdr.queue.deq_qdepth = (bit<32>)standard_metadata.deq_qdepth;
        hdr.queue.egress_time_us = standard_metadata.egress_global_timestamp;
    }
}

control NoUpdate(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control QueueingDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(QueueingParser(), NoVerify(), QueueingIngress(), QueueingEgress(), NoUpdate(), QueueingDeparser()) main;
