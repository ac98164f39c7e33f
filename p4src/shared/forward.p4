// SPDX-License-Identifier: Apache-2.0
// Destination MAC -> port. A miss goes to the flood group, so that ARP and neighbour discovery simply work.
#ifndef WEIR_FORWARD_P4
#define WEIR_FORWARD_P4

control Forward(in headers_t hdr, inout metadata_t meta, inout bit<9> egress_port, inout bit<16> flood_group) {
    action set_egress(bit<9> port) {
        egress_port = port;
    }

    // Where the switch cannot say which packets a full queue dropped, egress counts the gaps.
    action set_numbered_egress(bit<9> port) {
        egress_port = port;
        meta.numbered = 1;
    }

    action flood(bit<16> group) {
        flood_group = group;
    }

    table forward {
        key = { hdr.ethernet.dst: exact @name("dst"); }
        actions = { set_egress; set_numbered_egress; flood; }
        default_action = flood(1);
        size = FORWARD_ENTRIES;
    }

    apply {
        forward.apply();
    }
}

#endif
