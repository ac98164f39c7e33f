// SPDX-License-Identifier: Apache-2.0
// Which policer cell a packet meets, if any.
control Classify(in headers_t hdr, inout metadata_t meta, in standard_metadata_t standard_metadata) {
    bit<16> src_port = 0;
    bit<16> dst_port = 0;

    // All matching flows share one bucket.
    action police_shared(cell_t cell) {
        meta.policed = true;
        meta.report.cell = cell;
    }

    // A flow's bucket is base + (hash of its 5-tuple and mask); mask + 1 is a power of two.
    action police_hashed(cell_t base, cell_t mask) {
        bit<32> flow_hash;
        hash(flow_hash, HashAlgorithm.crc32, 32w0,
             { hdr.ipv4.src, hdr.ipv4.dst, hdr.ipv4.protocol, src_port, dst_port }, 64w0x100000000);
        meta.policed = true;
        meta.report.cell = base + (flow_hash[15:0] & mask);
    }

    action no_policer() {}

    table classify {
        key = {
            standard_metadata.ingress_port: ternary @name("ingress_port");
            hdr.ipv4.src:      ternary @name("src");
            hdr.ipv4.dst:      ternary @name("dst");
            hdr.ipv4.protocol: ternary @name("protocol");
            src_port:          ternary @name("src_port");
            dst_port:          ternary @name("dst_port");
            hdr.ipv4.dscp:     ternary @name("dscp");
        }
        actions = { police_shared; police_hashed; no_policer; }
        const default_action = no_policer;
        size = CLASSIFY_ENTRIES;
    }

    apply {
        if (hdr.ports.isValid()) {
            src_port = hdr.ports.src;
            dst_port = hdr.ports.dst;
        }
        if (hdr.ipv4.isValid()) {
            classify.apply();
        }
    }
}
