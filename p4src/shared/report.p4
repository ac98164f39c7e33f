// SPDX-License-Identifier: Apache-2.0
// Telemetry Report Format 2.0 (P4.org Applications WG) as weir sends it; docs/spec/telemetry-report.md
// describes each field and has vectors in hex.
#ifndef WEIR_REPORT_P4
#define WEIR_REPORT_P4

#include "headers.p4"
#include "sizes.p4"

const bit<4>  REPORT_VERSION  = 2;
// RepType 1 (INT), InType 3 (the inner packet is an Ethernet frame).
const bit<16> REPORT_TYPES    = 0x1300;
// Queue id and occupancy (bit 3), ingress time (4), egress time (5), queue id and drop reason (15);
// the format counts bits from the most significant.
const bit<16> REP_MD_BITS     = 0x1C01;
const bit<16> WEIR_DOMAIN_ID  = 0x5745;
// Policer and colour (bit 0), wire length (1), packet number (2).
const bit<16> DS_MD_BITS      = 0xE000;

// Packets that a queue lost before this one (3): in reports of gaps alone.
const bit<16> DS_MD_BITS_LOST = 0xF000;

const bit<8>  MD_WORDS        = 9;   // 6 words of baseline and 3 of domain metadata
const bit<8>  LOST_WORDS      = 1;
const bit<8>  MAIN_WORDS      = 2;   // RepMdBits ... DSMdstatus
const bit<8>  REPORT_LENGTH_TO_THE_END = 255;  // for what eight bits cannot say
const bit<16> REPORT_BYTES    = 56;  // all report headers, without the inner packet and the word of lost packets
const bit<16> LOST_BYTES      = 4;

header report_group_t {
    bit<4>  version;
    bit<6>  hw_id;
    bit<22> sequence;
    bit<32> node_id;
}

header report_individual_t {
    bit<16> types_and_length;  // RepType, InType, and words after this one, the inner packet rounded up
    bit<8>  md_length;         // words
    bit<1>  dropped;
    bit<1>  congested;
    bit<1>  tracked;
    bit<1>  intermediate;
    bit<4>  reserved;
}

header report_main_t {
    bit<16> rep_md_bits;
    bit<16> domain_id;
    bit<16> ds_md_bits;
    bit<16> ds_md_status;
}

header report_baseline_t {
    bit<8>  queue_id;
    bit<24> queue_occupancy;
    bit<64> ingress_ns;
    bit<64> egress_ns;
    bit<8>  drop_queue_id;
    bit<8>  drop_reason;
    bit<16> pad;
}

header report_domain_t {
    bit<16> policer;
    bit<8>  colour;
    bit<8>  reserved;
    bit<32> wire_length;
    bit<32> packet_number;
}

header report_lost_t {
    bit<32> queue_lost;
}

#endif
