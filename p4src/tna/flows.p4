// SPDX-License-Identifier: Apache-2.0
// What telling flows apart takes of the target: the protocol behind extension headers, the hash of a flow, and the
// digest that announces a new one.
// IEEE 802.3's CRC-32 over the 5-tuple in network order; `weir.controlplane.cells` computes the same.
control TakeProtocol(in headers_t hdr, inout flow_metadata_t flow) {
    apply {
        if (hdr.ipv6_extension_2.isValid()) {
            flow.protocol = hdr.ipv6_extension_2.next_header;
        } else if (hdr.ipv6_extension_1.isValid()) {
            flow.protocol = hdr.ipv6_extension_1.next_header;
        } else if (hdr.ipv6.isValid()) {
            flow.protocol = hdr.ipv6.next_header;
        }
    }
}

control FlowHash(in headers_t hdr, in metadata_t meta, out flow_hash_t flow_hash) {
    Hash<bit<32>>(HashAlgorithm_t.CRC32) crc32;
    bit<32> crc;

    apply {
        crc = crc32.get({ hdr.ipv4.src, hdr.ipv4.dst, hdr.ipv4.protocol, meta.flow.src_port, meta.flow.dst_port });
        flow_hash = crc[15:0];
    }
}

control FlowHashIpv6(in headers_t hdr, in metadata_t meta, out flow_hash_t flow_hash) {
    Hash<bit<32>>(HashAlgorithm_t.CRC32) crc32;
    bit<32> crc;

    apply {
        crc = crc32.get({ hdr.ipv6.src, hdr.ipv6.dst, meta.flow.protocol, meta.flow.src_port, meta.flow.dst_port });
        flow_hash = crc[15:0];
    }
}

struct flow_digest_t {
    bit<32> src;
    bit<32> dst;
    bit<8>  protocol;
    bit<16> src_port;
    bit<16> dst_port;
    cell_t  base;
}

struct flow_ipv6_digest_t {
    bit<128> src;
    bit<128> dst;
    bit<8>   protocol;
    bit<16>  src_port;
    bit<16>  dst_port;
    cell_t   base;
}

control AnnounceFlow(in headers_t hdr, inout metadata_t meta) {
    apply {
        meta.unlearned = 1;
        meta.base = meta.report.cell;
    }
}

control AnnounceFlowIpv6(in headers_t hdr, inout metadata_t meta) {
    apply {
        meta.unlearned = 1;
        meta.base = meta.report.cell;
    }
}

control CountUnlearned(in metadata_t meta) {
    apply {}
}

// Counts and announces flows of both kinds in one place, behind the tables; the deparser makes the digest.
control SendDigest(in headers_t hdr, in metadata_t meta,
                   inout ingress_intrinsic_metadata_for_deparser_t for_deparser) {
    Counter<bit<32>, cell_t>(POLICER_CELLS, CounterType_t.PACKETS) unlearned_counter;

    apply {
        unlearned_counter.count(meta.base);
        if (hdr.ipv4.isValid()) {
            for_deparser.digest_type = DIGEST_FLOW;
        } else {
            for_deparser.digest_type = DIGEST_FLOW_IPV6;
        }
    }
}
