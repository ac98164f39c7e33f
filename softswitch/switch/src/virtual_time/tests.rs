// SPDX-License-Identifier: Apache-2.0
use std::collections::BTreeMap;

use tonic::Code;
use weir_dataplane::{Port, PortConfig, Shaper, SwitchConfig};
use weir_p4runtime::p4::v1::{PacketOut, StreamMessageRequest, stream_message_request};

use super::*;

/// Three ports, the second of 8 Mbit/s (1 byte per microsecond) with a bucket of one 100-byte frame.
fn switch() -> VirtualSwitch {
    let shaper = Some(Shaper {
        rate_bps: 8_000_000,
        burst_bytes: 100,
    });
    let mut ports: BTreeMap<Port, PortConfig> =
        (1..4).map(|p| (p, PortConfig::default())).collect();
    if let Some(second) = ports.get_mut(&2) {
        second.shaper = shaper;
    }
    let config = NodeConfig {
        switch: SwitchConfig::default(),
        one_of_several: false,
        cpu_port: Some(510),
        ports,
    };
    VirtualSwitch::new(config, 1).expect("an event descriptor")
}

#[test]
fn time_does_not_go_back() {
    let mut switch = switch();
    switch.dataplane.run_until(1_000).expect("forwards");
    let error = switch
        .dataplane
        .receive(1, &[0; 60], 999)
        .expect_err("backwards");
    assert_eq!((error.asked_ns, error.now_ns), (999, 1_000));
    assert_eq!(switch.dataplane.now_ns(), 1_000);
}

#[test]
fn requests_get_the_status_of_the_service() {
    let mut switch = switch();
    let request = WriteRequest {
        device_id: 1,
        ..WriteRequest::default()
    };
    let status = switch.write(request).expect_err("no pipeline");
    assert_eq!(status.code(), Code::FailedPrecondition);
    let request = ReadRequest {
        device_id: 7,
        ..ReadRequest::default()
    };
    let status = switch.read(request).expect_err("another device");
    assert_eq!(status.code(), Code::NotFound);
}

#[test]
fn a_packet_out_needs_a_pipeline() {
    let update = stream_message_request::Update::Packet(PacketOut::default());
    let message = StreamMessageRequest {
        update: Some(update),
    };
    let failure = switch().dataplane.send(&message).expect_err("no pipeline");
    assert_eq!(failure.code, Code::FailedPrecondition);
}
