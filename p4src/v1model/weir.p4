// SPDX-License-Identifier: Apache-2.0
// weir on v1model (bmv2 and the embedded switch). This file only wires the controls together.
#define V1MODEL_VERSION 20200408
#include <core.p4>
#include <v1model.p4>

#include "../shared/version.p4"
#include "types.p4"
#include "../shared/drop_reasons.p4"
#include "parser.p4"
#include "../shared/malformed.p4"
#include "../shared/forward.p4"
#include "flows.p4"
#include "lengths.p4"
#include "police.p4"
#include "../shared/classify.p4"
#include "../shared/verdict.p4"
#include "queue.p4"
#include "../shared/make_report.p4"
#include "report.p4"

control WeirIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    counter<bit<9>>(PORTS, CounterType.packets_and_bytes) ingress_port_counter;
    counter<drop_reason_t>(DROP_REASONS, CounterType.packets_and_bytes) drop_counter;
    FindCut() find_cut;
    Forward() forward;
    Classify() classify;
    Police() police;
    Verdict() verdict;
    MirrorDrops() mirror_drops;
    NumberPackets() number_packets;

    apply {
        ingress_port_counter.count(standard_metadata.ingress_port);
        if (standard_metadata.parser_error == error.NoError) {
            forward.apply(hdr, meta, standard_metadata.egress_spec, standard_metadata.mcast_grp);
            classify.apply(hdr, meta, standard_metadata.ingress_port, standard_metadata.packet_length);
            if (meta.policed == 1) {
                police.apply(meta, standard_metadata);
                verdict.apply(hdr, meta);
            }
        } else if (standard_metadata.parser_error == error.PacketTooShort) {
            find_cut.apply(hdr, meta, meta.report.drop_reason);
        }
        if (meta.report.drop_reason == DROP_REASON_NONE) {
            if (meta.numbered == 1) {
                number_packets.apply(meta, standard_metadata);
            }
        } else {
            drop_counter.count(meta.report.drop_reason);
            mark_to_drop(standard_metadata);
            mirror_drops.apply(meta, standard_metadata);
        }
    }
}

control WeirEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    counter<bit<9>>(PORTS, CounterType.packets_and_bytes) egress_port_counter;
    Queue() queue;
    Restore() restore;
    MakeReport() make_report;
    SendReport() send_report;
    bool wanted;
    bit<32> report_bytes;

    apply {
        if (standard_metadata.instance_type == INSTANCE_NORMAL) {
            egress_port_counter.count(standard_metadata.egress_port);
        } else if (standard_metadata.instance_type == INSTANCE_REPLICATION) {
            if (standard_metadata.egress_port == standard_metadata.ingress_port) {
                // A flooded packet does not go back where it came from.
                mark_to_drop(standard_metadata);
                meta.observed = 0;
            } else {
                egress_port_counter.count(standard_metadata.egress_port);
            }
        } else {
            meta.for_collector = 1;
            // A copy for a collector may also have been deflected, and is still that copy.
            if (standard_metadata.instance_type == INSTANCE_DEFLECTED && meta.report.collector == 0) {
                meta.observed = 1;
            }
        }
        if (meta.observed == 1) {
            queue.apply(meta, standard_metadata);
        }
        if (meta.for_collector == 1) {
            restore.apply(hdr, meta.report);
            // v1model's clock has microseconds.
            make_report.apply(hdr, meta.report, meta.report.wire_length[15:0],
                              (bit<64>)meta.report.ingress_time * 1000, (bit<64>)meta.report.egress_time * 1000,
                              wanted, report_bytes);
            if (wanted) {
                send_report.apply(hdr, meta, report_bytes);
            } else {
                mark_to_drop(standard_metadata);
            }
        }
    }
}

@pkginfo(name="weir", version=WEIR_PIPELINE_VERSION, organization="weir")
V1Switch(WeirParser(), WeirVerifyChecksum(), WeirIngress(), WeirEgress(), WeirComputeChecksum(),
         WeirDeparser()) main;
