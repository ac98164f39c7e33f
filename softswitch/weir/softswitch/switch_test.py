# SPDX-License-Identifier: Apache-2.0
from ipaddress import IPv4Address
from pathlib import Path
from random import Random
from typing import Any

import pytest
from finsy.proto import p4i, p4r
from google.protobuf import text_format

from weir.controlplane.errors import PlanError
from weir.softswitch import ControllerMessage, RequestRefusedError, SentFrame, VirtualSwitch
from weir_tests.softswitch.pipeline import CELL, PolicingSwitch, frame
from weir_tests.softswitch.token_buckets import Config
from weir_tests.softswitch.traffic import poisson, take

PROGRAMS = Path(__file__).parents[2] / "programs"
MS = 1_000_000


def learning_switch(ports: dict[int, str], seed: int = 1) -> VirtualSwitch:
    """The learning switch of the test programs: floods to group 1 and sends a digest per new address."""
    switch = VirtualSwitch(ports, seed=seed)
    p4info = p4i.P4Info()
    text_format.Parse((PROGRAMS / "l2_learning.p4info.txtpb").read_text(), p4info)
    switch.set_pipeline(p4info, (PROGRAMS / "l2_learning.json").read_bytes())
    replicas = [p4r.Replica(egress_port=port, instance=1) for port in ports]
    group = p4r.MulticastGroupEntry(multicast_group_id=1, replicas=replicas)
    entry = p4r.PacketReplicationEngineEntry(multicast_group_entry=group)
    switch.insert(p4r.Entity(packet_replication_engine_entry=entry))
    digest = p4r.DigestEntry(
        digest_id=p4info.digests[0].preamble.id,
        config=p4r.DigestEntry.Config(max_timeout_ns=5 * MS, max_list_size=10, ack_timeout_ns=100 * MS),
    )
    switch.insert(p4r.Entity(digest_entry=digest))
    return switch


def ethernet(destination: int, source: int, length_bytes: int = 100) -> bytes:
    header = destination.to_bytes(6, "big") + source.to_bytes(6, "big") + b"\x88\xb5"
    return header + bytes(length_bytes - len(header))


def test_a_frame_leaves_after_rate_and_delay_of_its_port() -> None:
    # 8 Mbit/s is a byte per microsecond. The bucket suffices for the first frame; the second waits for 100
    # tokens.
    switch = learning_switch({1: "", 2: "rate=8Mbit/s,burst=100B,delay=3ms"})
    at_ns = 1_000
    sent = [*switch.process(1, ethernet(2, 1), at_ns), *switch.process(1, ethernet(2, 1), at_ns)]
    sent += switch.run_until_idle(at_ns + 50 * MS)
    frames = [event for event in sent if isinstance(event, SentFrame)]
    assert [(event.port, event.time_ns) for event in frames] == [
        (2, at_ns + 3 * MS),
        (2, at_ns + 3 * MS + 100_000),
    ]
    assert switch.port_stats(2)["tx_bytes"] == 200
    assert switch.stats()["dataplane"]["received"] == 2


def test_digests_are_sent_when_their_timeout_expires() -> None:
    switch = learning_switch({1: "", 2: ""})
    assert not any(isinstance(e, ControllerMessage) for e in switch.process(1, ethernet(2, 7), 1 * MS))
    switch.process(2, ethernet(1, 8), 2 * MS)
    (message,) = switch.run_until(60 * MS)
    assert isinstance(message, ControllerMessage)
    assert message.time_ns == 6 * MS
    assert message.message.digest.timestamp == 6 * MS
    assert len(message.message.digest.data) == 2
    ack = p4r.DigestListAck(
        digest_id=message.message.digest.digest_id, list_id=message.message.digest.list_id
    )
    assert switch.send(p4r.StreamMessageRequest(digest_ack=ack)) == []


def test_the_number_of_steps_makes_no_difference() -> None:
    def run(steps: int) -> list[object]:
        switch = learning_switch({1: "", 2: "rate=2Mbit/s,burst=3kB,delay=7ms", 3: "delay=1ms"}, seed=5)
        events: list[object] = []
        for number, (time_ns, length) in enumerate(take(poisson(Random(3), 400_000.0), 300)):
            for step in range(steps):
                events += switch.run_until(
                    switch.now_ns + (time_ns - switch.now_ns) * (step + 1) // (steps + 1)
                )
            events += switch.process(1, ethernet(2, number, max(length, 60)), time_ns)
        return events + list(switch.run_until_idle(10**12))

    assert run(0) == run(7)


def test_a_batch_gives_the_events_of_single_packets_with_the_same_seed() -> None:
    config = Config(125_000, 15_000)
    arrivals = take(poisson(Random(1), 250_000.0), 500)
    packets = [(1, frame(length, at), time_ns) for at, (time_ns, length) in enumerate(arrivals)]
    kind = p4i.MeterSpec.SINGLE_RATE_TWO_COLOR
    batch = PolicingSwitch.start(kind, config, seed=9).switch.process_batch(packets)
    single = PolicingSwitch.start(kind, config, seed=9).switch
    assert batch == [event for packet in packets for event in single.process(*packet)]


def test_a_time_before_the_current_one_is_refused_and_changes_nothing() -> None:
    switch = learning_switch({1: "", 2: ""})
    switch.run_until(1_000)
    with pytest.raises(ValueError, match="999 ns is before the switch's time 1000 ns"):
        switch.process(1, ethernet(2, 1), 999)
    with pytest.raises(ValueError, match="must not go back"):
        switch.process_batch([(1, ethernet(2, 1), 2_000), (1, ethernet(2, 1), 1_999)])
    assert switch.now_ns == 1_000
    assert switch.stats()["dataplane"]["received"] == 0


@pytest.mark.parametrize(
    ("ports", "problem"),
    [
        ({1: "rate=5"}, "port 1: .*the unit is missing"),
        ({1: "colour=red"}, "there is no option `colour`"),
        ({510: ""}, "port 510 is the CPU port"),
        ({511: ""}, "port 511 is the drop port"),
    ],
)
def test_ports_are_refused_by_number_and_option(ports: dict[int, str], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        VirtualSwitch(ports)


def test_refused_updates_have_their_codes_and_texts() -> None:
    switch = PolicingSwitch.start(p4i.MeterSpec.TWO_RATE_THREE_COLOR, Config(1, 1, 1, 1), seed=1)
    meter_id = switch.pipeline.schema.meters["policer"].id
    good = p4r.Entity(meter_entry=p4r.MeterEntry(meter_id=meter_id, index=p4r.Index(index=CELL)))
    bad = p4r.Entity(meter_entry=p4r.MeterEntry(meter_id=meter_id, index=p4r.Index(index=1 << 40)))
    with pytest.raises(RequestRefusedError) as refused:
        switch.switch.modify(good, bad)
    assert refused.value.code == "UNKNOWN"
    (element,) = refused.value.elements
    assert (element.index, element.code) == (1, "OUT_OF_RANGE")
    assert "policer" in element.message
    with pytest.raises(ValueError, match=r"not a serialized p4\.v1\.WriteRequest"):
        switch.switch._switch.write(b"\xff")


def test_the_pipeline_is_read_back() -> None:
    switch = learning_switch({1: ""})
    request = p4r.GetForwardingPipelineConfigRequest(device_id=1)
    config = switch.get_forwarding_pipeline_config(request).config
    assert config.p4_device_config == (PROGRAMS / "l2_learning.json").read_bytes()
    assert switch.capabilities(p4r.CapabilitiesRequest()).p4runtime_api_version


def experiment(**client: str) -> dict[str, Any]:
    return {
        "name": "police",
        "hosts": {"client": client, "server": {}},
        "flows": [{"name": "one", "from": "server", "to": "client", "duration": "1 s"}],
        "phases": [
            {"name": "free"},
            {
                "name": "policed",
                "policers": [
                    {"name": "p", "rate": "1 Mbit/s", "burst": "3000 B", "match": [{"to": "client"}]}
                ],
            },
        ],
    }


def offer(switch: VirtualSwitch, packets: int, step_ns: int) -> list[SentFrame]:
    """IPv4 frames of 1000 bytes from the server to the client at a pace; the frames that reach the client."""
    server, client = switch.hosts["server"], switch.hosts["client"]
    ends = bytes.fromhex((client.mac + server.mac).replace(":", ""))
    addresses = IPv4Address(server.ip).packed + IPv4Address(client.ip).packed
    header = b"\x45\0" + (986).to_bytes(2, "big") + b"\0\0\x40\0\x40\xfd\0\0" + addresses
    arriving = ends + b"\x08\0" + header + bytes(1000 - 34)
    events = switch.process_batch([(server.port, arriving, n * step_ns) for n in range(packets)])
    events += switch.run_until_idle(10_000 * MS)
    return [event for event in events if isinstance(event, SentFrame) and event.port == client.port]


def test_a_switch_of_an_experiment_polices_and_delays_as_its_phase_says() -> None:
    free = offer(VirtualSwitch.of_experiment(experiment(delay="3 ms")), 100, MS)
    assert [frame.time_ns for frame in free] == [n * MS + 3 * MS for n in range(100)]
    # 1 Mbit/s is 125 bytes per ms. 99 ms refill 12,375 bytes and the burst is 3,000: 15 frames of 1,000.
    policed = offer(VirtualSwitch.of_experiment(experiment(), "policed"), 100, MS)
    assert len(policed) == 15


def test_a_switch_of_an_experiment_has_the_queues_of_its_hosts() -> None:
    # 8 Mbit/s is a frame per ms; the queue holds 5 beyond those that the bucket of 3 kB passes at once.
    queued = VirtualSwitch.of_experiment(experiment(rate="8 Mbit/s", queue="5000 B"))
    sent = offer(queued, 100, 0)
    assert len(sent) == 8
    assert queued.port_stats(queued.hosts["client"].port)["queue_drops"] == 92


def test_a_phase_that_the_experiment_lacks_is_named() -> None:
    with pytest.raises(PlanError, match="no phase 'nonesuch'; valid: free, policed"):
        VirtualSwitch.of_experiment(experiment(), "nonesuch")
