// SPDX-License-Identifier: Apache-2.0
// The v1model program for p4testgen, with assumptions of its packets.
#define main whole
#include "../v1model/weir.p4"
#undef main
#include "assumptions.p4"

control IngressAssumed(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    WeirIngress() ingress;
    ASSUMPTIONS() assumptions;

    apply {
        ingress.apply(hdr, meta, standard_metadata);
        assumptions.apply(hdr, meta, standard_metadata.egress_spec, standard_metadata.mcast_grp);
    }
}

V1Switch(WeirParser(), WeirVerifyChecksum(), IngressAssumed(), WeirEgress(), WeirComputeChecksum(),
         WeirDeparser()) main;
