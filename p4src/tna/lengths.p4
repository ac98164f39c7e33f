// SPDX-License-Identifier: Apache-2.0
// The parser has looked at the lengths of packets without options and extension headers, and knows no more: ingress is
// not told how long a frame is.
control CheckLengths(in headers_t hdr, inout metadata_t meta, in bit<32> frame_bytes) {
    apply {}
}

control CheckLengthsIpv6(in headers_t hdr, inout metadata_t meta, in bit<32> frame_bytes) {
    apply {}
}
