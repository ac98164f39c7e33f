// SPDX-License-Identifier: Apache-2.0
// Lengths that contradict each other. What the parser has looked at already is not looked at again.
control CheckLengths(in headers_t hdr, inout metadata_t meta, in bit<32> frame_bytes) {
    apply {
        if (hdr.vlan.isValid()) {
            if ((bit<32>)hdr.ipv4.total_length + (bit<32>)(ETHERNET_BYTES + VLAN_BYTES) > frame_bytes) {
                meta.report.drop_reason = DROP_REASON_IPV4_LENGTH;
            }
        } else if ((bit<32>)hdr.ipv4.total_length + (bit<32>)ETHERNET_BYTES > frame_bytes) {
            meta.report.drop_reason = DROP_REASON_IPV4_LENGTH;
        }
        // Without options the parser has seen to it.
        if (hdr.ipv4_options.isValid()) {
            if (hdr.ipv4.total_length < meta.flow.transport_bytes + (bit<16>)(hdr.ipv4.ihl ++ 2w0)) {
                meta.report.drop_reason = DROP_REASON_IPV4_OVERLAP;
            }
        }
    }
}

control CheckLengthsIpv6(in headers_t hdr, inout metadata_t meta, in bit<32> frame_bytes) {
    apply {
        if (hdr.vlan.isValid()) {
            if ((bit<32>)hdr.ipv6.payload_length + (bit<32>)(ETHERNET_BYTES + VLAN_BYTES + IPV6_BYTES)
                    > frame_bytes) {
                meta.report.drop_reason = DROP_REASON_IPV6_LENGTH;
            }
        } else if ((bit<32>)hdr.ipv6.payload_length + (bit<32>)(ETHERNET_BYTES + IPV6_BYTES) > frame_bytes) {
            meta.report.drop_reason = DROP_REASON_IPV6_LENGTH;
        }
        if (hdr.ipv6.payload_length < meta.flow.transport_bytes + meta.flow.extension_bytes) {
            meta.report.drop_reason = DROP_REASON_IPV6_OVERLAP;
        }
    }
}
