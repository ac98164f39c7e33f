// SPDX-License-Identifier: Apache-2.0
// weir on Tofino 1 and 2. This file only wires the controls together; tofino1.p4 and tofino2.p4 name the chip.
#define WEIR_TOFINO

#include "../shared/version.p4"
#include "types.p4"
#include "../shared/drop_reasons.p4"
#include "flows.p4"
#include "lengths.p4"
#include "parser.p4"
#include "../shared/malformed.p4"
#include "../shared/forward.p4"
#include "police.p4"
#include "../shared/classify.p4"
#include "../shared/verdict.p4"
#include "queue.p4"
#include "../shared/make_report.p4"
#include "report.p4"

control WeirIngress(inout headers_t hdr, inout ingress_metadata_t meta, in ingress_intrinsic_metadata_t intrinsic,
                    in ingress_intrinsic_metadata_from_parser_t from_parser,
                    inout ingress_intrinsic_metadata_for_deparser_t for_deparser,
                    inout ingress_intrinsic_metadata_for_tm_t for_tm) {
    Counter<bit<64>, bit<9>>(PORTS, CounterType_t.PACKETS_AND_BYTES) ingress_port_counter;
    Counter<bit<64>, drop_reason_t>(DROP_REASONS, CounterType_t.PACKETS_AND_BYTES) drop_counter;
    TakeComplements() take_complements;
    TakeProtocol() take_protocol;
    FindCut() find_cut;
    Forward() forward;
    Classify() classify;
    SendDigest() send_digest;
    Police() police;
    Verdict() verdict;
    MirrorDrops() mirror_drops;

    @hidden action pad() {
        meta.wire_length = max(meta.wire_length, 60);
    }

    apply {
        ingress_port_counter.count(intrinsic.ingress_port, FCS_BYTES);
        meta.shared.report.ingress_time = intrinsic.ingress_mac_tstamp;
        take_complements.apply(hdr, meta);
        take_protocol.apply(hdr, meta.shared.flow);
        forward.apply(hdr, meta.shared, for_tm.ucast_egress_port, for_tm.mcast_grp_a);

        // Ingress is not told how long a frame is: IP is, and a frame has at least 60 bytes.
        if (hdr.ipv4.isValid()) {
            if (hdr.vlan.isValid()) {
                meta.wire_length = hdr.ipv4.total_length + (ETHERNET_BYTES + VLAN_BYTES);
            } else {
                meta.wire_length = hdr.ipv4.total_length + ETHERNET_BYTES;
            }
        } else if (hdr.ipv6.isValid()) {
            if (hdr.vlan.isValid()) {
                meta.wire_length = hdr.ipv6.payload_length + (ETHERNET_BYTES + VLAN_BYTES + IPV6_BYTES);
            } else {
                meta.wire_length = hdr.ipv6.payload_length + (ETHERNET_BYTES + IPV6_BYTES);
            }
        }
        pad();

        if (from_parser.parser_err != 0) {
            find_cut.apply(hdr, meta.shared, meta.shared.report.drop_reason);
        } else if (meta.shared.report.drop_reason == DROP_REASON_NONE) {
            classify.apply(hdr, meta.shared, intrinsic.ingress_port, 0);
            if (meta.shared.unlearned == 1) {
                send_digest.apply(hdr, meta.shared, for_deparser);
            }
            if (meta.shared.policed == 1) {
                police.apply(meta.shared);
                verdict.apply(hdr, meta.shared);
            }
        }
        if (meta.shared.report.drop_reason != DROP_REASON_NONE) {
            drop_counter.count(meta.shared.report.drop_reason, FCS_BYTES);
            for_deparser.drop_ctl = 1;
            mirror_drops.apply(meta, for_deparser);
        } else {
            for_tm.deflect_on_drop = 1;
        }

        hdr.bridge.setValid();
        hdr.bridge.kind = BEFORE_FRAME;
        hdr.bridge.flooded = 0;
        if (for_tm.mcast_grp_a != 0) {
            hdr.bridge.flooded = 1;
        }
        hdr.bridge.watched = meta.shared.observed;
        hdr.bridge.tracked = meta.shared.report.tracked;
        hdr.bridge.colour = meta.shared.report.colour;
        hdr.bridge.ingress_port = intrinsic.ingress_port;
        hdr.bridge.egress_port = for_tm.ucast_egress_port;
        hdr.bridge.cell = meta.shared.report.cell;
        hdr.bridge.flow_hash = meta.shared.flow_hash;
        hdr.bridge.original_word = 0;
        hdr.bridge.original_checksum = 0;
        if (meta.shared.report.rewritten == 1) {
            hdr.bridge.original_word = meta.shared.report.original_word;
            hdr.bridge.original_checksum = meta.shared.report.original_checksum;
        }
        hdr.bridge.packet_number = meta.shared.report.packet_number;
        hdr.bridge.ingress_time = meta.shared.report.ingress_time;
    }
}

control WeirEgress(inout headers_t hdr, inout egress_metadata_t meta, in egress_intrinsic_metadata_t intrinsic,
                   in egress_intrinsic_metadata_from_parser_t from_parser,
                   inout egress_intrinsic_metadata_for_deparser_t for_deparser,
                   inout egress_intrinsic_metadata_for_output_port_t for_port) {
    Counter<bit<64>, bit<9>>(PORTS, CounterType_t.PACKETS_AND_BYTES) egress_port_counter;
    Queue() queue;
    Restore() restore;
    MakeReport() make_report;
    SendReport() send_report;
    bool wanted;
    bit<16> mirrored_bytes;
    bit<32> report_bytes;

    apply {
        if (hdr.mirror.isValid()) {
            meta.report.collector = hdr.mirror.collector;
            meta.report.cell = hdr.mirror.cell;
            meta.report.colour = hdr.mirror.colour;
            meta.report.tracked = hdr.mirror.tracked;
            meta.report.wire_length = (bit<32>)hdr.mirror.wire_length;
            meta.report.packet_number = hdr.mirror.packet_number;
            meta.report.queue_lost = 0;
            meta.report.queue_occupancy = hdr.mirror.queue_occupancy[23:0];
            meta.report.queue_id = hdr.mirror.queue_id;
            meta.report.original_word = hdr.mirror.original_word;
            meta.report.original_checksum = hdr.mirror.original_checksum;
            if (hdr.mirror.original_word != 0) {
                meta.report.rewritten = 1;
            }
            if (hdr.mirror.why == WHY_CONGESTED) {
                meta.report.congested = 1;
            } else if (hdr.mirror.why == DROP_REASON_QUEUE) {
                meta.report.congested = 1;
                meta.report.drop_reason = DROP_REASON_QUEUE;
            } else {
                meta.report.drop_reason = hdr.mirror.why;
            }
            meta.report.ingress_time = hdr.mirror.ingress_time;
            meta.report.egress_time = hdr.mirror.egress_time;
            mirrored_bytes = intrinsic.pkt_length - (bit<16>)BEFORE_MIRROR_BYTES;
            restore.apply(hdr, meta.report);
            make_report.apply(hdr, meta.report, mirrored_bytes, (bit<64>)hdr.mirror.ingress_time,
                              (bit<64>)hdr.mirror.egress_time, wanted, report_bytes);
            if (wanted) {
                send_report.apply(hdr, hdr.mirror.collector, intrinsic.egress_port);
            } else {
                for_deparser.drop_ctl = 1;
            }
        } else if (hdr.bridge.flooded == 1 && intrinsic.egress_port == hdr.bridge.ingress_port) {
            // A flooded packet does not go back where it came from.
            for_deparser.drop_ctl = 1;
        } else {
            if (intrinsic.deflection_flag == 0) {
                egress_port_counter.count(intrinsic.egress_port, BEFORE_FRAME_BYTES);
            }
            queue.apply(hdr, meta, intrinsic, from_parser, for_deparser);
        }
    }
}

Pipeline(WeirIngressParser(), WeirIngress(), WeirIngressDeparser(), WeirEgressParser(), WeirEgress(),
         WeirEgressDeparser()) pipe;

SEPARATE_CLOTS
@pa_auto_init_metadata
@pkginfo(name="weir", version=WEIR_PIPELINE_VERSION, organization="weir")
Switch(pipe) main;
