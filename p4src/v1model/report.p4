// SPDX-License-Identifier: Apache-2.0
// Which dropped packets are mirrored, and the last step of what egress makes of a mirrored copy.
control MirrorDrops(inout metadata_t meta, in standard_metadata_t standard_metadata) {
    action report_drops(bit<32> session, collector_t collector) {
        meta.report.collector = collector;
        clone_preserving_field_list(CloneType.I2E, session, REPORT_FIELD_LIST);
    }

    action no_report() {}

    table report {
        key = { meta.report.cell: ternary @name("cell"); }
        actions = { report_drops; no_report; }
        const default_action = no_report;
        size = REPORT_ENTRIES;
    }

    apply {
        meta.report.wire_length = standard_metadata.packet_length;
        meta.report.ingress_time = standard_metadata.ingress_global_timestamp;
        report.apply();
    }
}

// The sequence number is given last, so that a gap in it is a report that was lost on the way.
control SendReport(inout headers_t hdr, in metadata_t meta, in bit<32> report_bytes) {
    register<bit<32>, collector_t>(COLLECTORS) sequence;
    counter<collector_t>(COLLECTORS, CounterType.packets_and_bytes) report_counter;
    bit<32> next;

    apply {
        @atomic {
            sequence.read(next, meta.report.collector);
            hdr.report_group.sequence = next[21:0];
            sequence.write(meta.report.collector, next + 1);
        }
        report_counter.count(meta.report.collector);
        truncate(report_bytes);
    }
}
