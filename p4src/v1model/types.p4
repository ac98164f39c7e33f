// SPDX-License-Identifier: Apache-2.0
#ifndef WEIR_TYPES_P4
#define WEIR_TYPES_P4

#include "../shared/headers.p4"
#include "../shared/report.p4"

// What survives from a packet to the egress of its mirrored copy.
#define REPORT_FIELD_LIST 1
#define MIRRORED @field_list(REPORT_FIELD_LIST)
#include "../shared/metadata.p4"

const bit<32> INSTANCE_NORMAL      = 0;
const bit<32> INSTANCE_REPLICATION = 5;
// The embedded switch's own: a packet that a full queue dropped, on its way to the port that the queue names.
const bit<32> INSTANCE_DEFLECTED   = 7;

header ipv4_options_t {
    varbit<320> options;
}

// Hop-by-hop options, routing, fragment, destination options (RFC 8200, section 4).
header ipv6_extension_t {
    bit<8>      next_header;
    bit<8>      length;  // words of 8 bytes after the first
    varbit<560> data;
}

struct headers_t {
    // The encapsulation of a report comes first on the wire, before the packet that it reports.
    ethernet_t          report_ethernet;
    ipv4_t              report_ipv4;
    udp_t               report_udp;
    report_group_t      report_group;
    report_individual_t report_individual;
    report_main_t       report_main;
    report_baseline_t   report_baseline;
    report_domain_t     report_domain;
    report_lost_t       report_lost;

    ethernet_t       ethernet;
    vlan_t           vlan;
    ipv4_t           ipv4;
    ipv4_options_t   ipv4_options;
    ipv6_t           ipv6;
    ipv6_extension_t ipv6_extension_1;
    ipv6_extension_t ipv6_extension_2;
    ipv6_extension_t ipv6_extension_3;
    ipv6_extension_t ipv6_extension_4;
    ports_t          tcp;
    ports_t          udp;
}

#endif
