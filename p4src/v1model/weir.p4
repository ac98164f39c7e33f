// SPDX-License-Identifier: Apache-2.0
// weir on v1model (bmv2 and the embedded switch). This file only wires the controls together.
#define V1MODEL_VERSION 20200408
#include <core.p4>
#include <v1model.p4>

#include "../shared/version.p4"
#include "types.p4"
#include "parser.p4"
#include "forward.p4"
#include "classify.p4"
#include "police.p4"
#include "report.p4"

control WeirIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    counter<bit<9>>(PORTS, CounterType.packets_and_bytes) ingress_port_counter;
    Forward() forward;
    Classify() classify;
    Police() police;
    MirrorDrops() mirror_drops;

    apply {
        ingress_port_counter.count(standard_metadata.ingress_port);
        forward.apply(hdr, standard_metadata);
        classify.apply(hdr, meta, standard_metadata);
        if (meta.policed) {
            police.apply(meta, standard_metadata);
            if (meta.dropped) {
                mirror_drops.apply(meta, standard_metadata);
            }
        }
    }
}

control WeirEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    counter<bit<9>>(PORTS, CounterType.packets_and_bytes) egress_port_counter;
    MakeReport() make_report;

    apply {
        if (standard_metadata.instance_type == INSTANCE_INGRESS_CLONE) {
            make_report.apply(hdr, meta, standard_metadata);
        } else if (standard_metadata.instance_type == INSTANCE_REPLICATION
                   && standard_metadata.egress_port == standard_metadata.ingress_port) {
            // A flooded packet does not go back where it came from.
            mark_to_drop(standard_metadata);
        } else {
            egress_port_counter.count(standard_metadata.egress_port);
        }
    }
}

@pkginfo(name="weir", version=WEIR_PIPELINE_VERSION, organization="weir")
V1Switch(WeirParser(), WeirVerifyChecksum(), WeirIngress(), WeirEgress(), WeirComputeChecksum(),
         WeirDeparser()) main;
