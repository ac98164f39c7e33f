// SPDX-License-Identifier: Apache-2.0
// The v1model program for p4testgen, from a packet to the report of it, all at the place of ingress: ingress, the egress of
// the packet if it passed, then the egress of the copy that either of them mirrored. p4testgen makes no copy of a dropped
// packet, takes nothing of a nested struct to one, and knows no `truncate`. What leaves is the report.
#define V1MODEL_VERSION 20200408
#include <core.p4>
#include <v1model.p4>
#include "assume.p4"

// All mirror sessions of tests are one, which `testgen.py` adds; inner packets are whole.
#define clone_preserving_field_list(kind, number, fields) testgen_assume(number == 7)
#define truncate(bytes) testgen_assume(bytes >= meta.report.wire_length + 98)

#define main whole
#include "../v1model/weir.p4"
#undef main
#include "assumptions.p4"

const bit<9> REPORT_PORT = 4;
const bit<32> INSTANCE_INGRESS_CLONE = 1;
const bit<32> INSTANCE_EGRESS_CLONE  = 2;

control Whole(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    WeirIngress() ingress;
    WeirEgress() egress;
    WeirEgress() egress_of_copy;
    ASSUMPTIONS() assumptions;
    metadata_t copied;

    apply {
        ingress.apply(hdr, meta, standard_metadata);
        assumptions.apply(hdr, meta, standard_metadata.egress_spec, standard_metadata.mcast_grp);
        if (meta.report.drop_reason == DROP_REASON_NONE) {
            testgen_assume(standard_metadata.mcast_grp == 0);
            testgen_assume(standard_metadata.egress_spec >= 1 && standard_metadata.egress_spec < REPORT_PORT);
            standard_metadata.egress_port = standard_metadata.egress_spec;
            standard_metadata.instance_type = INSTANCE_NORMAL;
            egress.apply(hdr, meta, standard_metadata);
            standard_metadata.instance_type = INSTANCE_EGRESS_CLONE;
        } else {
            standard_metadata.instance_type = INSTANCE_INGRESS_CLONE;
        }
        testgen_assume(meta.report.collector != 0 && meta.report.collector < COLLECTORS);

        // What the field list of mirrors takes along is in here, and nothing else.
        copied = meta;
        copied.policed = 0;
        copied.observed = 0;
        copied.numbered = 0;
        copied.only_numbered = 0;
        copied.for_collector = 0;
        copied.flow_hash = 0;
        copied.queue_number = 0;
        standard_metadata.egress_port = REPORT_PORT;
        egress_of_copy.apply(hdr, copied, standard_metadata);
        testgen_assume(hdr.report_ethernet.isValid());
        standard_metadata.egress_spec = REPORT_PORT;
        standard_metadata.mcast_grp = 0;
    }
}

control NoEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {}
}

V1Switch(WeirParser(), WeirVerifyChecksum(), Whole(), NoEgress(), WeirComputeChecksum(), WeirDeparser()) main;
