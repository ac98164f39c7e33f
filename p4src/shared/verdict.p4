// SPDX-License-Identifier: Apache-2.0
// (policer, colour) -> what happens to the packet. The target defines, before it includes this file,
//   UpdateChecksum(inout headers_t, in metadata_t)    of IPv4, for the first word that `original_word` was.
#ifndef WEIR_VERDICT_P4
#define WEIR_VERDICT_P4

#include "drop_reasons.p4"

// What a policer may rewrite is in the first word of an IP header, and in the checksum of IPv4's.
control Remember(in headers_t hdr, inout report_metadata_t report) {
    apply {
        if (hdr.ipv4.isValid()) {
            report.original_word = hdr.ipv4.version ++ hdr.ipv4.ihl ++ hdr.ipv4.dscp ++ hdr.ipv4.ecn;
            report.original_checksum = hdr.ipv4.checksum;
        } else {
            report.original_word = hdr.ipv6.version ++ hdr.ipv6.dscp ++ hdr.ipv6.ecn ++ hdr.ipv6.flow_label[19:16];
        }
    }
}

// The packet as it came in, for its report.
control Restore(inout headers_t hdr, in report_metadata_t report) {
    apply {
        if (report.rewritten == 1) {
            if (hdr.ipv4.isValid()) {
                hdr.ipv4.version = report.original_word[15:12];
                hdr.ipv4.ihl = report.original_word[11:8];
                hdr.ipv4.dscp = report.original_word[7:2];
                hdr.ipv4.ecn = report.original_word[1:0];
                hdr.ipv4.checksum = report.original_checksum;
            } else if (hdr.ipv6.isValid()) {
                hdr.ipv6.version = report.original_word[15:12];
                hdr.ipv6.dscp = report.original_word[11:6];
                hdr.ipv6.ecn = report.original_word[5:4];
                hdr.ipv6.flow_label[19:16] = report.original_word[3:0];
            }
        }
    }
}

control Verdict(inout headers_t hdr, inout metadata_t meta) {
    Remember() remember;
    UpdateChecksum() new_checksum;

    action pass_packet() {}

    action drop_packet() {
        meta.report.drop_reason = DROP_REASON_POLICER;
    }

    action remark_dscp(bit<6> dscp) {
        meta.new_dscp = dscp;
        meta.report.rewritten = 1;
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
        remember.apply(hdr, meta.report);
        switch (verdict.apply().action_run) {
            // Through a hash, which moves bits anywhere: Tofino's other ways cannot.
            remark_dscp: {
                if (hdr.ipv4.isValid()) {
                    @in_hash { hdr.ipv4.dscp = meta.new_dscp; }
                } else {
                    @in_hash { hdr.ipv6.dscp = meta.new_dscp; }
                }
            }
            mark_ce: {
                if (hdr.ipv4.isValid() && hdr.ipv4.ecn != ECN_NOT_ECT) {
                    hdr.ipv4.ecn = ECN_CE;
                    meta.report.rewritten = 1;
                } else if (hdr.ipv6.isValid() && hdr.ipv6.ecn != ECN_NOT_ECT) {
                    hdr.ipv6.ecn = ECN_CE;
                    meta.report.rewritten = 1;
                } else if (meta.drop_not_ect == 1) {
                    meta.report.drop_reason = DROP_REASON_NOT_ECT;
                }
            }
        }
        if (meta.report.rewritten == 1 && hdr.ipv4.isValid()) {
            new_checksum.apply(hdr, meta);
        }
    }
}

#endif
