// SPDX-License-Identifier: Apache-2.0
// Destination MAC -> port. A miss goes to the flood group, so that ARP simply works.
control Forward(in headers_t hdr, inout standard_metadata_t standard_metadata) {
    action set_egress(bit<9> port) {
        standard_metadata.egress_spec = port;
    }

    action flood(bit<16> group) {
        standard_metadata.mcast_grp = group;
    }

    table forward {
        key = { hdr.ethernet.dst: exact @name("dst"); }
        actions = { set_egress; flood; }
        default_action = flood(1);
        size = FORWARD_ENTRIES;
    }

    apply {
        forward.apply();
    }
}
