// SPDX-License-Identifier: Apache-2.0
// What telling flows apart takes of the target: the hash of a flow, and the digest that announces a new one.
// IEEE 802.3's CRC-32 over the 5-tuple in network order; `weir.controlplane.cells` computes the same.
control FlowHash(in headers_t hdr, in metadata_t meta, out flow_hash_t flow_hash) {
    bit<32> crc;

    apply {
        hash(crc, HashAlgorithm.crc32, 32w0,
             { hdr.ipv4.src, hdr.ipv4.dst, hdr.ipv4.protocol, meta.flow.src_port, meta.flow.dst_port },
             64w0x100000000);
        flow_hash = crc[15:0];
    }
}

control FlowHashIpv6(in headers_t hdr, in metadata_t meta, out flow_hash_t flow_hash) {
    bit<32> crc;

    apply {
        hash(crc, HashAlgorithm.crc32, 32w0,
             { hdr.ipv6.src, hdr.ipv6.dst, meta.flow.protocol, meta.flow.src_port, meta.flow.dst_port },
             64w0x100000000);
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

// The receiver of a digest means nothing to P4Runtime.
const bit<32> CONTROLLER = 1;

// One place for each digest: every call of `digest` would be a list of its own in the compiler's output.
control AnnounceFlow(in headers_t hdr, inout metadata_t meta) {
    apply {
        flow_digest_t flow = { hdr.ipv4.src, hdr.ipv4.dst, hdr.ipv4.protocol, meta.flow.src_port,
                               meta.flow.dst_port, meta.report.cell };
        digest(CONTROLLER, flow);
    }
}

control AnnounceFlowIpv6(in headers_t hdr, inout metadata_t meta) {
    apply {
        flow_ipv6_digest_t flow = { hdr.ipv6.src, hdr.ipv6.dst, meta.flow.protocol, meta.flow.src_port,
                                    meta.flow.dst_port, meta.report.cell };
        digest(CONTROLLER, flow);
    }
}

control CountUnlearned(in metadata_t meta) {
    counter<cell_t>(POLICER_CELLS, CounterType.packets) unlearned_counter;

    apply {
        unlearned_counter.count(meta.report.cell);
    }
}
