// SPDX-License-Identifier: Apache-2.0
// Which policer cell a packet meets, if any. The target defines, before it includes this file,
//   FlowHash(in headers_t, in metadata_t, out flow_hash_t)          of an IPv4 flow, and FlowHashIpv6;
//   AnnounceFlow(in headers_t, inout metadata_t)                    a digest of a new flow, and AnnounceFlowIpv6;
//   CountUnlearned(in metadata_t)                                   `unlearned_counter`;
//   TakeColour(in headers_t, inout metadata_t)                      that a packet brings along, where the meter asks;
//   CheckLengths(in headers_t, inout metadata_t, in bit<32> bytes)  of an IPv4 packet in its frame, and
//     CheckLengthsIpv6: a drop reason if they contradict each other.
// When a flow is counted and announced, `meta.report.cell` is still the first cell of its policer; when its colour is
// taken, that or the flow's own.
#ifndef WEIR_CLASSIFY_P4
#define WEIR_CLASSIFY_P4

#include "drop_reasons.p4"

control TakePorts(in headers_t hdr, inout flow_metadata_t flow) {
    apply {
        if (hdr.tcp.isValid()) {
            flow.has_ports = 1;
            flow.src_port = hdr.tcp.src;
            flow.dst_port = hdr.tcp.dst;
            flow.transport_bytes = TCP_BYTES;
        } else if (hdr.udp.isValid()) {
            flow.has_ports = 1;
            flow.src_port = hdr.udp.src;
            flow.dst_port = hdr.udp.dst;
            flow.transport_bytes = UDP_BYTES;
        }
    }
}

// `frame_bytes` is without the FCS.
control Classify(in headers_t hdr, inout metadata_t meta, in bit<9> ingress_port, in bit<32> frame_bytes) {
    FlowHash() flow_hash;
    FlowHashIpv6() flow_hash_ipv6;
    AnnounceFlow() announce_flow;
    CheckLengths() check_lengths;
    CheckLengthsIpv6() check_lengths_ipv6;
    AnnounceFlowIpv6() announce_flow_ipv6;
    CountUnlearned() count_unlearned;
    TakeColour() take_colour;
    TakePorts() take_ports;

    // All matching flows share one bucket.
    action police_shared(cell_t cell, bit<1> watched) {
        meta.policed = 1;
        meta.report.cell = cell;
        meta.observed = watched;
    }

    // A flow's bucket is base + (hash of its 5-tuple and mask); mask + 1 is a power of two.
    action police_hashed(cell_t base, cell_t mask, bit<1> watched) {
        meta.policed = 1;
        meta.report.cell = base;
        meta.mask = mask;
        meta.observed = watched;
    }

    // A flow's bucket is its own, in flow_policer; a hashed one until the control plane has given it that.
    action police_learned(cell_t base, cell_t mask, bit<1> watched) {
        meta.policed = 1;
        meta.report.cell = base;
        meta.mask = mask;
        meta.observed = watched;
    }

    action no_policer() {}

    action set_flow_cell(cell_t cell) {
        meta.report.cell = cell;
        meta.mask = 0;
        meta.report.tracked = 1;
    }

    action new_flow() {}

    // Two actions, not one: Tofino does one operation at a time.
    @hidden action mask_hash() {
        meta.bucket = meta.flow_hash & meta.mask;
    }

    @hidden action add_bucket() {
        meta.report.cell = meta.report.cell + meta.bucket;
    }

    table classify {
        key = {
            ingress_port:         ternary @name("ingress_port");
            hdr.ipv4.src:         ternary @name("src");
            hdr.ipv4.dst:         ternary @name("dst");
            hdr.ipv4.protocol:    ternary @name("protocol");
            meta.flow.src_port:   ternary @name("src_port");
            meta.flow.dst_port:   ternary @name("dst_port");
            hdr.ipv4.dscp:        ternary @name("dscp");
            meta.flow.has_ports:  ternary @name("has_ports");
        }
        actions = { police_shared; police_hashed; police_learned; no_policer; }
        const default_action = no_policer;
        size = CLASSIFY_ENTRIES;
    }

    table classify_ipv6 {
        key = {
            ingress_port:         ternary @name("ingress_port");
            hdr.ipv6.src:         ternary @name("src");
            hdr.ipv6.dst:         ternary @name("dst");
            meta.flow.protocol:   ternary @name("protocol");
            meta.flow.src_port:   ternary @name("src_port");
            meta.flow.dst_port:   ternary @name("dst_port");
            hdr.ipv6.dscp:        ternary @name("dscp");
            meta.flow.has_ports:  ternary @name("has_ports");
        }
        actions = { police_shared; police_hashed; police_learned; no_policer; }
        const default_action = no_policer;
        size = CLASSIFY_IPV6_ENTRIES;
    }

    table flow_policer {
        key = {
            hdr.ipv4.src:       exact @name("src");
            hdr.ipv4.dst:       exact @name("dst");
            hdr.ipv4.protocol:  exact @name("protocol");
            meta.flow.src_port: exact @name("src_port");
            meta.flow.dst_port: exact @name("dst_port");
        }
        actions = { set_flow_cell; @defaultonly new_flow; }
        const default_action = new_flow;
        size = LEARNED_FLOWS;
    }

    table flow_policer_ipv6 {
        key = {
            hdr.ipv6.src:       exact @name("src");
            hdr.ipv6.dst:       exact @name("dst");
            meta.flow.protocol: exact @name("protocol");
            meta.flow.src_port: exact @name("src_port");
            meta.flow.dst_port: exact @name("dst_port");
        }
        actions = { set_flow_cell; @defaultonly new_flow; }
        const default_action = new_flow;
        size = LEARNED_IPV6_FLOWS;
    }

    apply {
        take_ports.apply(hdr, meta.flow);
        if (hdr.ipv4.isValid()) {
            check_lengths.apply(hdr, meta, frame_bytes);
            if (meta.report.drop_reason == DROP_REASON_NONE) {
                switch (classify.apply().action_run) {
                    police_learned: {
                        if (flow_policer.apply().miss) {
                            count_unlearned.apply(meta);
                            announce_flow.apply(hdr, meta);
                        }
                    }
                }
                if (meta.mask != 0 || meta.observed == 1) {
                    flow_hash.apply(hdr, meta, meta.flow_hash);
                }
            }
        } else if (hdr.ipv6.isValid()) {
            check_lengths_ipv6.apply(hdr, meta, frame_bytes);
            if (meta.report.drop_reason == DROP_REASON_NONE) {
                switch (classify_ipv6.apply().action_run) {
                    police_learned: {
                        if (flow_policer_ipv6.apply().miss) {
                            count_unlearned.apply(meta);
                            announce_flow_ipv6.apply(hdr, meta);
                        }
                    }
                }
                if (meta.mask != 0 || meta.observed == 1) {
                    flow_hash_ipv6.apply(hdr, meta, meta.flow_hash);
                }
            }
        }
        take_colour.apply(hdr, meta);
        if (meta.mask != 0) {
            mask_hash();
            add_bucket();
        }
    }
}

#endif
