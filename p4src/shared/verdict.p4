// SPDX-License-Identifier: Apache-2.0
// (policer, colour) -> what happens to the packet. The target defines, before it includes this file,
//   UpdateChecksum(inout headers_t, in metadata_t)    of IPv4, for a DSCP and ECN that are still to be written.
#ifndef WEIR_VERDICT_P4
#define WEIR_VERDICT_P4

#include "drop_reasons.p4"

// Writes the new DSCP and ECN, and remembers what the sender wrote.
control Rewrite(inout headers_t hdr, inout metadata_t meta) {
    UpdateChecksum() new_checksum;

    apply {
        meta.report.rewritten = 1;
        if (hdr.ipv4.isValid()) {
            meta.report.original_dscp = hdr.ipv4.dscp;
            meta.report.original_ecn = hdr.ipv4.ecn;
            meta.report.original_checksum = hdr.ipv4.checksum;
            new_checksum.apply(hdr, meta);
            hdr.ipv4.dscp = meta.new_dscp;
            hdr.ipv4.ecn = meta.new_ecn;
        } else {
            meta.report.original_dscp = hdr.ipv6.dscp;
            meta.report.original_ecn = hdr.ipv6.ecn;
            hdr.ipv6.dscp = meta.new_dscp;
            hdr.ipv6.ecn = meta.new_ecn;
        }
    }
}

// The packet as it came in, for its report.
control Restore(inout headers_t hdr, in report_metadata_t report) {
    apply {
        if (report.rewritten == 1) {
            if (hdr.ipv4.isValid()) {
                hdr.ipv4.dscp = report.original_dscp;
                hdr.ipv4.ecn = report.original_ecn;
                hdr.ipv4.checksum = report.original_checksum;
            } else if (hdr.ipv6.isValid()) {
                hdr.ipv6.dscp = report.original_dscp;
                hdr.ipv6.ecn = report.original_ecn;
            }
        }
    }
}

control Verdict(inout headers_t hdr, inout metadata_t meta) {
    Rewrite() rewrite;

    action pass_packet() {}

    action drop_packet() {
        meta.report.drop_reason = DROP_REASON_POLICER;
    }

    action remark_dscp(bit<6> dscp) {
        meta.new_dscp = dscp;
    }

    // RFC 3168: only a packet of an ECN-capable transport can be marked.
    action mark_ce(bit<1> drop_not_ect) {
        meta.drop_not_ect = drop_not_ect;
    }

    table verdict {
        key = {
            meta.report.cell:   ternary @name("cell");
            meta.report.colour: exact   @name("colour");
        }
        actions = { pass_packet; drop_packet; remark_dscp; mark_ce; }
        const default_action = pass_packet;
        size = VERDICT_ENTRIES;
    }

    apply {
        switch (verdict.apply().action_run) {
            remark_dscp: {
                if (hdr.ipv4.isValid()) {
                    meta.new_ecn = hdr.ipv4.ecn;
                } else {
                    meta.new_ecn = hdr.ipv6.ecn;
                }
                rewrite.apply(hdr, meta);
            }
            mark_ce: {
                if (hdr.ipv4.isValid()) {
                    meta.new_dscp = hdr.ipv4.dscp;
                    meta.new_ecn = hdr.ipv4.ecn;
                } else {
                    meta.new_dscp = hdr.ipv6.dscp;
                    meta.new_ecn = hdr.ipv6.ecn;
                }
                if (meta.new_ecn != ECN_NOT_ECT) {
                    meta.new_ecn = ECN_CE;
                    rewrite.apply(hdr, meta);
                } else if (meta.drop_not_ect == 1) {
                    meta.report.drop_reason = DROP_REASON_NOT_ECT;
                }
            }
        }
    }
}

#endif
