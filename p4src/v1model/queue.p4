// SPDX-License-Identifier: Apache-2.0
// What egress learns from the queue of a packet, and mirrors.
// Packets that pass ingress for a port get numbers without a gap, so that a gap in egress is what the queue dropped.
// Copies of flooded packets have none: ingress does not know their ports.
control NumberPackets(inout metadata_t meta, in standard_metadata_t standard_metadata) {
    register<bit<32>, bit<9>>(PORTS) last_number;

    apply {
        @atomic {
            last_number.read(meta.queue_number, standard_metadata.egress_spec);
            meta.queue_number = meta.queue_number + 1;
            last_number.write(standard_metadata.egress_spec, meta.queue_number);
        }
        meta.only_numbered = ~meta.observed;
        meta.observed = 1;
    }
}

control Queue(inout metadata_t meta, in standard_metadata_t standard_metadata) {
    // 0: this flow's next packet is reported.
    register<bit<16>, flow_hash_t>(FLOW_COUNTS) until_report;
    register<bit<32>, bit<9>>(PORTS) last_number;
    bit<32> mirror_session = 0;
    bit<16> report_every = 0;
    bit<24> congestion = 0;
    bit<9> queue_port;
    bit<16> until = 0;
    bit<32> last;

    action report_enqueued(bit<32> session, collector_t collector, bit<16> every, bit<24> congested_at) {
        mirror_session = session;
        meta.report.collector = collector;
        report_every = every;
        congestion = congested_at;
    }

    action no_enqueue_report() {}

    table report_enqueues {
        key = { meta.report.cell: ternary @name("cell"); }
        actions = { report_enqueued; no_enqueue_report; }
        const default_action = no_enqueue_report;
        size = REPORT_ENTRIES;
    }

    action report_queue_drops(bit<32> session, collector_t collector) {
        mirror_session = session;
        meta.report.collector = collector;
    }

    action no_queue_report() {}

    table report_queue {
        key = { queue_port: exact @name("port"); }
        actions = { report_queue_drops; no_queue_report; }
        const default_action = no_queue_report;
        size = PORTS;
    }

    apply {
        meta.report.wire_length = standard_metadata.packet_length;
        meta.report.queue_id = (bit<8>)standard_metadata.priority;
        meta.report.queue_occupancy = (bit<24>)standard_metadata.enq_qdepth;
        meta.report.ingress_time = standard_metadata.ingress_global_timestamp;
        queue_port = standard_metadata.egress_port;
        if (standard_metadata.instance_type == INSTANCE_DEFLECTED) {
            // Its queue was full, and it never left it.
            queue_port = standard_metadata.egress_spec;
            meta.report.drop_reason = DROP_REASON_QUEUE;
            meta.report.congested = 1;
            meta.report.queue_lost = 0;
        } else {
            meta.report.egress_time = standard_metadata.egress_global_timestamp;
            if (meta.only_numbered == 0) {
                switch (report_enqueues.apply().action_run) {
                    report_enqueued: {
                        @atomic {
                            until_report.read(until, meta.flow_hash);
                            if (until == 0) {
                                until_report.write(meta.flow_hash, report_every - 1);
                            } else {
                                until_report.write(meta.flow_hash, until - 1);
                                meta.report.collector = 0;
                            }
                        }
                        if (congestion != 0 && meta.report.queue_occupancy >= congestion) {
                            meta.report.congested = 1;
                        }
                    }
                }
            }
            if (meta.numbered == 1) {
                @atomic {
                    last_number.read(last, queue_port);
                    last_number.write(queue_port, meta.queue_number);
                }
                meta.report.queue_lost = meta.queue_number - last - 1;
            }
        }
        if (meta.report.queue_lost != 0 || meta.report.drop_reason != DROP_REASON_NONE) {
            meta.report.congested = 1;
            report_queue.apply();
        }
        if (meta.report.collector != 0 && meta.report.drop_reason == DROP_REASON_NONE) {
            clone_preserving_field_list(CloneType.E2E, mirror_session, REPORT_FIELD_LIST);
        }
    }
}
