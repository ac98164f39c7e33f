// SPDX-License-Identifier: Apache-2.0
// What tests of every target assume of their packet; `-DASSUMPTIONS=…` of p4testgen chooses one of these.
#include "assume.p4"

const bit<16> MOST_LENGTH  = 110;  // a tagged frame of 128 bytes has room for it
const bit<16> LEAST_LENGTH = 108;  // of IPv6 with extension headers of 48 bytes, and TCP

// What IP says of its length is not beyond the frame.
control AssumeLengths(in headers_t hdr, in metadata_t meta, in bit<9> egress_port, in bit<16> flood_group) {
    apply {
        if (hdr.ipv4.isValid()) {
            testgen_assume(hdr.ipv4.total_length <= MOST_LENGTH);
        } else if (hdr.ipv6.isValid()) {
            testgen_assume(hdr.ipv6.payload_length <= MOST_LENGTH - IPV6_BYTES);
        }
    }
}

// And the packet has left its meter red.
control AssumeRed(in headers_t hdr, in metadata_t meta, in bit<9> egress_port, in bit<16> flood_group) {
    AssumeLengths() assume_lengths;

    apply {
        testgen_assume(meta.policed == 1 && meta.report.colour == 2);
        assume_lengths.apply(hdr, meta, egress_port, flood_group);
    }
}

// The frame leaves: its lengths are right, whatever its headers, and it has a port.
control AssumeForwarded(in headers_t hdr, in metadata_t meta, in bit<9> egress_port, in bit<16> flood_group) {
    AssumeLengths() assume_lengths;

    apply {
        testgen_assume(meta.report.drop_reason == DROP_REASON_NONE && flood_group == 0);
        testgen_assume(egress_port >= 1 && egress_port <= 4);
        assume_lengths.apply(hdr, meta, egress_port, flood_group);
        if (hdr.ipv4.isValid()) {
            testgen_assume(hdr.ipv4.total_length >= LEAST_LENGTH);
        } else if (hdr.ipv6.isValid()) {
            testgen_assume(hdr.ipv6.payload_length >= LEAST_LENGTH - IPV6_BYTES);
        }
    }
}
