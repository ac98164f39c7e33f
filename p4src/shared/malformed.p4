// SPDX-License-Identifier: Apache-2.0
// What is wrong with a packet, so that it is dropped and counted before anybody meters it.
#ifndef WEIR_MALFORMED_P4
#define WEIR_MALFORMED_P4

#include "drop_reasons.p4"

// In which header a frame ended that the parser could not follow: the first one that is announced and not there.
control FindCut(in headers_t hdr, in metadata_t meta, inout drop_reason_t reason) {
    bit<16> ether_type = 0;

    apply {
        if (hdr.vlan.isValid()) {
            ether_type = hdr.vlan.ether_type;
        } else if (hdr.ethernet.isValid()) {
            ether_type = hdr.ethernet.ether_type;
        }
        if (!hdr.ethernet.isValid()) {
            reason = DROP_REASON_CUT_ETHERNET;
        } else if (ether_type == ETHERTYPE_VLAN) {
            reason = DROP_REASON_CUT_VLAN;
        } else if (ether_type == ETHERTYPE_IPV4) {
            if (!hdr.ipv4.isValid()) {
                reason = DROP_REASON_CUT_IPV4;
            } else if (hdr.ipv4.ihl != 5 && !hdr.ipv4_options.isValid()) {
                reason = DROP_REASON_CUT_IPV4_OPTIONS;
            } else {
                reason = DROP_REASON_CUT_TRANSPORT;
            }
        } else if (!hdr.ipv6.isValid()) {
            reason = DROP_REASON_CUT_IPV6;
        } else if (meta.flow.protocol == PROTOCOL_TCP || meta.flow.protocol == PROTOCOL_UDP) {
            reason = DROP_REASON_CUT_TRANSPORT;
        } else {
            reason = DROP_REASON_CUT_IPV6_EXTENSION;
        }
    }
}

#endif
