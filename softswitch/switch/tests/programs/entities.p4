// SPDX-License-Identifier: Apache-2.0
// One of each: every P4Runtime entity and match kind that the switch serves, and headers for packet-ins and -outs.
#include <core.p4>
#include <v1model.p4>

const bit<9> CPU_PORT = 510;
const bit<32> CLONE_SESSION = 5;

@controller_header("packet_in")
header packet_in_t {
    bit<9> ingress_port;
    bit<7> reason;
}

@controller_header("packet_out")
header packet_out_t {
    bit<9> egress_port;
    @padding bit<7> pad;
}

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> ether_type;
}

struct headers_t {
    packet_out_t packet_out;
    packet_in_t packet_in;
    ethernet_t ethernet;
}

struct metadata_t {
    bit<2> colour;
    bit<2> entry_colour;
    bit<8> class;
}

parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    state start {
        transition select(standard_metadata.ingress_port) {
            CPU_PORT: parse_packet_out;
            default: parse_ethernet;
        }
    }

    state parse_packet_out {
        packet.extract(hdr.packet_out);
        transition parse_ethernet;
    }

    state parse_ethernet {
        packet.extract(hdr.ethernet);
        transition accept;
    }
}

control VerifyChecksumImpl(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    meter(64, MeterType.bytes) policer;
    counter(64, CounterType.packets_and_bytes) class_counter;
    direct_meter<bit<2>>(MeterType.packets) entry_meter;
    direct_counter(CounterType.packets_and_bytes) entry_counter;
    register<bit<12>>(16) last_class;

    action set_class(bit<8> class) {
        meta.class = class;
        entry_meter.read(meta.entry_colour);
        entry_counter.count();
    }

    // p4c wants the direct resources in every action of the table.
    action no_class() {
        entry_meter.read(meta.entry_colour);
        entry_counter.count();
    }

    table classify {
        key = {
            hdr.ethernet.ether_type: ternary;
            hdr.ethernet.src: range;
            standard_metadata.ingress_port: optional;
        }
        actions = { set_class; no_class; }
        const default_action = no_class();
        meters = entry_meter;
        counters = entry_counter;
        size = 128;
    }

    action to_port(bit<9> port) {
        standard_metadata.egress_spec = port;
    }

    action to_controller(bit<7> reason) {
        hdr.packet_in.setValid();
        hdr.packet_in.ingress_port = standard_metadata.ingress_port;
        hdr.packet_in.reason = reason;
        standard_metadata.egress_spec = CPU_PORT;
    }

    action to_group(bit<16> group) {
        standard_metadata.mcast_grp = group;
    }

    action to_port_and_clone(bit<9> port) {
        standard_metadata.egress_spec = port;
        clone(CloneType.I2E, CLONE_SESSION);
    }

    action drop() {
        mark_to_drop(standard_metadata);
    }

    table forward {
        key = {
            hdr.ethernet.dst: exact;
        }
        actions = { to_port; to_controller; to_group; to_port_and_clone; @defaultonly drop; }
        default_action = drop();
        size = 128;
    }

    table reserved {
        key = {
            hdr.ethernet.dst: exact;
        }
        actions = { drop; @defaultonly NoAction; }
        const default_action = NoAction();
        const entries = {
            0x0180C2000000: drop();
        }
    }

    apply {
        if (hdr.packet_out.isValid()) {
            standard_metadata.egress_spec = hdr.packet_out.egress_port;
            hdr.packet_out.setInvalid();
        } else {
            classify.apply();
            policer.execute_meter((bit<32>) meta.class, meta.colour);
            class_counter.count((bit<32>) meta.class);
            last_class.write(0, (bit<12>) meta.class);
            forward.apply();
            reserved.apply();
            if (meta.colour == 2) {
                mark_to_drop(standard_metadata);
            }
        }
    }
}

control EgressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply { }
}

control ComputeChecksumImpl(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control DeparserImpl(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.ethernet);
    }
}

V1Switch(ParserImpl(), VerifyChecksumImpl(), IngressImpl(), EgressImpl(), ComputeChecksumImpl(), DeparserImpl()) main;
