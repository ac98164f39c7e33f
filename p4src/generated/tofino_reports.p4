// SPDX-License-Identifier: Apache-2.0
// The Tofino programs for p4testgen, from a packet to the report of it, all at the place of ingress: ingress, the egress
// of the packet if it passed, then the egress of the copy that either of them mirrored. p4testgen makes no copies, and
// gives egress 15 bits of metadata too few. What leaves is the copy, with the report in front.
#include "assumptions.p4"

const bit<16> FRAME_BYTES = 128;  // of every test
const PortId_t REPORT_PORT = 4;

struct whole_metadata_t {
    ingress_metadata_t                       ingress;
    egress_metadata_t                        egress;
    egress_intrinsic_metadata_for_deparser_t for_egress_deparser;
}

parser WholeParser(packet_in packet, out headers_t hdr, out whole_metadata_t meta,
                   out ingress_intrinsic_metadata_t intrinsic) {
    WeirIngressParser() ingress_parser;

    state start {
        ingress_parser.apply(packet, hdr, meta.ingress, intrinsic);
        transition accept;
    }
}

control Whole(inout headers_t hdr, inout whole_metadata_t meta, in ingress_intrinsic_metadata_t intrinsic,
              in ingress_intrinsic_metadata_from_parser_t from_parser,
              inout ingress_intrinsic_metadata_for_deparser_t for_deparser,
              inout ingress_intrinsic_metadata_for_tm_t for_tm) {
    WeirIngress() ingress;
    WeirEgress() egress;
    WeirEgress() egress_of_copy;
    ASSUMPTIONS() assumptions;
    egress_intrinsic_metadata_t egress_intrinsic;
    egress_intrinsic_metadata_from_parser_t from_egress_parser;
    egress_intrinsic_metadata_for_deparser_t for_egress_deparser;
    egress_intrinsic_metadata_for_output_port_t for_port;
    egress_metadata_t egress_meta;

    apply {
        ingress.apply(hdr, meta.ingress, intrinsic, from_parser, for_deparser, for_tm);
        testgen_assume(meta.ingress.shared.report.cell < POLICER_CELLS);  // the chip has no more
        assumptions.apply(hdr, meta.ingress.shared, for_tm.ucast_egress_port, for_tm.mcast_grp_a);

        // An empty queue; the clock is left out, and with it the times of reports.
        egress_intrinsic.setValid();
        egress_intrinsic.egress_port = for_tm.ucast_egress_port;
        egress_intrinsic.enq_qdepth = 0;
        egress_intrinsic.egress_qid = 0;
        egress_intrinsic.deflection_flag = 0;
        egress_intrinsic.pkt_length = FRAME_BYTES + (bit<16>)FCS_BYTES;
        from_egress_parser.global_ver = 0;
        from_egress_parser.parser_err = 0;
        for_egress_deparser.drop_ctl = 0;
        for_egress_deparser.mirror_type = 0;
        egress_meta.why = WHY_ENQUEUED;
        egress_meta.congestion = 0;
        egress_meta.queue_occupancy = 0;
        egress_meta.report.collector = 0;
        egress_meta.report.queue_id = 0;
        hdr.mirror.setInvalid();
        if (for_deparser.mirror_type == MIRROR_REPORT) {
            testgen_assume(meta.ingress.shared.report.collector != 0);
            hdr.mirror = DROP_COPY(hdr, meta.ingress);
        } else {
            testgen_assume(for_deparser.drop_ctl == 0 && for_tm.mcast_grp_a == 0);
            testgen_assume(for_tm.ucast_egress_port >= 1 && for_tm.ucast_egress_port <= 4);
            egress.apply(hdr, egress_meta, egress_intrinsic, from_egress_parser, for_egress_deparser, for_port);
            // The first packet of a flow is mirrored; p4testgen does not know what registers begin with.
            testgen_assume(egress_meta.report.collector != 0 && egress_meta.why == WHY_ENQUEUED);
            hdr.mirror = QUEUE_COPY(hdr, egress_meta);
        }
        hdr.bridge.setInvalid();

        egress_intrinsic.egress_port = REPORT_PORT;
        egress_intrinsic.pkt_length = FRAME_BYTES + (bit<16>)BEFORE_MIRROR_BYTES;
        meta.egress.report.rewritten = 0;
        meta.egress.report.congested = 0;
        meta.for_egress_deparser.drop_ctl = 0;
        meta.for_egress_deparser.mirror_type = 0;
        egress_of_copy.apply(hdr, meta.egress, egress_intrinsic, from_egress_parser, meta.for_egress_deparser, for_port);
        testgen_assume(hdr.report_ethernet.isValid());
        for_deparser.drop_ctl = meta.for_egress_deparser.drop_ctl;
        for_deparser.mirror_type = 0;
        for_deparser.digest_type = 0;
        for_tm.mcast_grp_a = 0;
        for_tm.ucast_egress_port = REPORT_PORT;
        for_tm.bypass_egress = 1;
    }
}

// What egress takes for payload, ingress has in headers.
control WholeDeparser(packet_out packet, inout headers_t hdr, in whole_metadata_t meta,
                      in ingress_intrinsic_metadata_for_deparser_t for_deparser) {
    WeirEgressDeparser() egress_deparser;

    apply {
        egress_deparser.apply(packet, hdr, meta.egress, meta.for_egress_deparser);
        packet.emit(hdr.option_10);
        packet.emit(hdr.option_9);
        packet.emit(hdr.option_8);
        packet.emit(hdr.option_7);
        packet.emit(hdr.option_6);
        packet.emit(hdr.option_5);
        packet.emit(hdr.option_4);
        packet.emit(hdr.option_3);
        packet.emit(hdr.option_2);
        packet.emit(hdr.ipv4_options);
        packet.emit(hdr.ipv6_extension_1);
        packet.emit(hdr.ipv6_more_1);
        packet.emit(hdr.ipv6_more_2);
        packet.emit(hdr.ipv6_extension_2);
        packet.emit(hdr.ipv6_more_3);
        packet.emit(hdr.ipv6_more_4);
        packet.emit(hdr.tcp);
        packet.emit(hdr.udp);
    }
}

Pipeline(WholeParser(), Whole(), WholeDeparser(), WeirEgressParser(), WeirEgress(), WeirEgressDeparser()) reports;
Switch(reports) main;
