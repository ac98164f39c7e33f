// SPDX-License-Identifier: Apache-2.0
#ifndef WEIR_TYPES_P4
#define WEIR_TYPES_P4

#include "../shared/headers.p4"
#include "../shared/report.p4"

// What survives from the ingress of a packet to the egress of its mirrored copy.
const bit<8> REPORT_FIELD_LIST = 1;

const bit<32> INSTANCE_INGRESS_CLONE = 1;
const bit<32> INSTANCE_REPLICATION   = 5;

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

    ethernet_t ethernet;
    vlan_t     vlan;
    ipv4_t     ipv4;
    ports_t    ports;
}

struct report_metadata_t {
    @field_list(REPORT_FIELD_LIST) collector_t   collector;
    @field_list(REPORT_FIELD_LIST) cell_t        cell;
    @field_list(REPORT_FIELD_LIST) colour_t      colour;
    @field_list(REPORT_FIELD_LIST) drop_reason_t drop_reason;
    @field_list(REPORT_FIELD_LIST) bit<32>       wire_length;
    @field_list(REPORT_FIELD_LIST) bit<32>       packet_number;
    @field_list(REPORT_FIELD_LIST) bit<48>       ingress_us;
}

struct metadata_t {
    bool              policed;
    bool              dropped;
    report_metadata_t report;
}

#endif
