// SPDX-License-Identifier: Apache-2.0
// The Tofino programs for p4testgen: ingress as it is, then the frame leaves without egress, with bridge_t in front.
// p4testgen gives egress 15 bits of metadata too few, so that all it reads there begins at a wrong bit.
#include "assumptions.p4"

control IngressAlone(inout headers_t hdr, inout ingress_metadata_t meta, in ingress_intrinsic_metadata_t intrinsic,
                     in ingress_intrinsic_metadata_from_parser_t from_parser,
                     inout ingress_intrinsic_metadata_for_deparser_t for_deparser,
                     inout ingress_intrinsic_metadata_for_tm_t for_tm) {
    WeirIngress() ingress;
    ASSUMPTIONS() assumptions;

    apply {
        ingress.apply(hdr, meta, intrinsic, from_parser, for_deparser, for_tm);
        for_tm.bypass_egress = 1;
        testgen_assume(meta.shared.report.cell < POLICER_CELLS);  // p4testgen does not know that the chip has no more
        assumptions.apply(hdr, meta.shared, for_tm.ucast_egress_port, for_tm.mcast_grp_a);
    }
}

Pipeline(WeirIngressParser(), IngressAlone(), WeirIngressDeparser(), WeirEgressParser(), WeirEgress(),
         WeirEgressDeparser()) without_egress;
Switch(without_egress) main;
