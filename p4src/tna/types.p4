// SPDX-License-Identifier: Apache-2.0
#ifndef WEIR_TNA_TYPES_P4
#define WEIR_TNA_TYPES_P4

#include "../shared/headers.p4"
#include "../shared/report.p4"
#include "../shared/metadata.p4"

// The first byte of what reaches egress: this before a frame (bridge_t), a collector before a copy (mirror_t).
const bit<8> BEFORE_FRAME = 255;

const MirrorType_t MIRROR_REPORT    = 1;
const DigestType_t DIGEST_FLOW      = 1;
const DigestType_t DIGEST_FLOW_IPV6 = 2;

// Lengths and byte counts of the hardware include the FCS, and what egress finds in front of the frame.
const bit<32> FCS_BYTES           = 4;
const bit<32> BEFORE_FRAME_BYTES  = 30;  // bridge_t and the FCS
const bit<32> BEFORE_MIRROR_BYTES = 36;  // mirror_t and the FCS

// What a copy's `why` says beside the reasons for which packets are dropped.
const drop_reason_t WHY_ENQUEUED  = 0;
const drop_reason_t WHY_CONGESTED = 1;

// From the ingress of every frame to its egress. Fields begin at bytes: each is a container of its own.
header bridge_t {
    bit<8>      kind;
    @padding bit<7> pad_1;
    bit<1>      flooded;
    @padding bit<7> pad_2;
    bit<1>      watched;
    @padding bit<5> pad_4;
    bit<1>      tracked;
    colour_t    colour;
    @padding bit<7> pad_5;
    bit<9>      ingress_port;
    @padding bit<7> pad_6;
    bit<9>      egress_port;
    cell_t      cell;
    flow_hash_t flow_hash;
    bit<16>     original_word;
    bit<16>     original_checksum;
    bit<32>     packet_number;
    bit<48>     ingress_time;
}

// In front of a mirrored copy: what its report says. The hardware puts no more than 32 bytes there.
header mirror_t {
    collector_t   collector;
    cell_t        cell;
    drop_reason_t why;
    @padding bit<5> pad;
    bit<1>        tracked;
    colour_t      colour;
    bit<8>        queue_id;
    bit<32>       queue_occupancy;
    bit<16>       original_word;  // 0: it was not rewritten
    bit<16>       original_checksum;
    bit<16>       wire_length;
    bit<32>       packet_number;
    bit<48>       ingress_time;
    bit<48>       egress_time;
}

// What ingress says in front of the copy of a packet that it drops, and egress in front of one that it reports.
#define DROP_COPY(hdr, meta) { \
        meta.shared.report.collector, meta.shared.report.cell, meta.shared.report.drop_reason, 0, \
        hdr.bridge.tracked, hdr.bridge.colour, 0, 0, 0, 0, meta.wire_length, meta.shared.report.packet_number, \
        meta.shared.report.ingress_time, 0 }
#define QUEUE_COPY(hdr, meta) { \
        meta.report.collector, hdr.bridge.cell, meta.why, 0, \
        hdr.bridge.tracked, hdr.bridge.colour, meta.report.queue_id, meta.queue_occupancy, \
        hdr.bridge.original_word, hdr.bridge.original_checksum, meta.wire_length, hdr.bridge.packet_number, \
        hdr.bridge.ingress_time, meta.report.egress_time }

// Options and extension headers are carried in pieces: the hardware cannot extract a length that it has just read.
header ipv4_option_t {
    bit<32> word;
}

header ipv6_extension_t {
    bit<8>  next_header;
    bit<8>  length;  // words of 8 bytes after the first
    bit<13> begin;   // of a fragment header: the offset
    bit<35> data;
}

header ipv6_extension_more_t {
    bit<64> data;
}

// One for both directions: egress makes reports, and ingress has none of their headers.
struct headers_t {
    bridge_t            bridge;
    mirror_t            mirror;

    ethernet_t          report_ethernet;
    ipv4_t              report_ipv4;
    udp_t               report_udp;
    report_group_t      report_group;
    report_individual_t report_individual;
    report_main_t       report_main;
    report_baseline_t   report_baseline;
    report_domain_t     report_domain;
    report_lost_t       report_lost;

    ethernet_t            ethernet;
    vlan_t                vlan;
    ipv4_t                ipv4;
    ipv4_option_t         option_10;
    ipv4_option_t         option_9;
    ipv4_option_t         option_8;
    ipv4_option_t         option_7;
    ipv4_option_t         option_6;
    ipv4_option_t         option_5;
    ipv4_option_t         option_4;
    ipv4_option_t         option_3;
    ipv4_option_t         option_2;
    ipv4_option_t         ipv4_options;  // the last word: all of them are there
    ipv6_t                ipv6;
    ipv6_extension_t      ipv6_extension_1;
    ipv6_extension_more_t ipv6_more_1;
    ipv6_extension_more_t ipv6_more_2;
    ipv6_extension_t      ipv6_extension_2;
    ipv6_extension_more_t ipv6_more_3;
    ipv6_extension_more_t ipv6_more_4;
    ports_t               tcp;
    ports_t               udp;
}

struct ingress_metadata_t {
    metadata_t  shared;
    MirrorId_t  session;
    bit<16>     wire_length;
    // The complements of what came in, for the checksum of what a policer rewrites.
    bit<16>     not_checksum;
    bit<16>     not_first_word;
}

struct egress_metadata_t {
    report_metadata_t report;
    MirrorId_t        session;
    drop_reason_t     why;
    bit<32>           queue_occupancy;
    bit<32>           congestion;
    bit<16>           wire_length;
}

#endif
