# SPDX-License-Identifier: Apache-2.0
"""The binary under bmv2's name: ports over nanomsg and in files, captures, the log, and what it refuses."""

import contextlib
import itertools
import json
import os
import queue
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pynng
import pytest
from bmv2_process import PATIENCE_S, Bmv2Process
from finsy.proto import p4r, p4r_grpc
from google.protobuf import text_format
from scenarios import run_scenario, wait_until

PACKET_IN, PACKET_OUT, INFO_REQUEST, INFO_REPLY = 3, 4, 5, 6
# An Ethernet header alone, which no network interface would carry.
FRAME = bytes.fromhex("ffffffffffff 0200000000aa 88b5")
Compiled = Callable[[str], tuple[Path, Path]]


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def message(kind: int, port: int, frame: bytes) -> bytes:
    return struct.pack("=iii", kind, port, len(frame)) + frame


@pytest.mark.parametrize("transport", ["ipc", "tcp"])
def test_frames_of_all_ports_are_messages_on_a_nanomsg_socket(
    weir_switch: Path, compiled: Compiled, tmp_path: Path, transport: str
) -> None:
    address = f"ipc://{tmp_path}/packets" if transport == "ipc" else f"tcp://127.0.0.1:{free_port()}"
    log = tmp_path / "switch.log"
    options = ["--no-p4", "--packet-in", address, "--log-file", str(log), "--log-flush"]
    with Bmv2Process(weir_switch, tmp_path, *options) as switch:
        switch.flood(*compiled("l2_learning"), [1, 7, 510])
        with pynng.Pair0(dial=address, recv_timeout=PATIENCE_S * 1000) as peer:
            peer.send(struct.pack("=iii", INFO_REQUEST, 1, 1))
            assert struct.unpack("=iiii", peer.recv()) == (INFO_REPLY, 1, 1, 1)
            peer.send(b"too short")
            peer.send(message(PACKET_IN, 1, FRAME))
            left = sorted(peer.recv() for _ in range(2))
            assert left == sorted(message(PACKET_OUT, port, FRAME) for port in (7, 510))
        # The socket takes the next peer after the first has gone.
        with pynng.Pair0(dial=address, recv_timeout=PATIENCE_S * 1000) as peer:
            peer.send(message(PACKET_IN, 7, FRAME))
            assert {peer.recv()[4] for _ in range(2)} == {1, 510 & 0xFF}
    lines = (tmp_path / "switch.log.txt").read_text()
    for expected in (
        "[bmv2] [D]",
        "[0.0] [cxt 0] Processing packet received on port 1\n",
        "[0.0] [cxt 0] Table 'IngressImpl.destination': miss\n",
        "[0.0] [cxt 0] Action entry is IngressImpl.flood - \n",
        "Transmitting packet of size 14 out of port 510\n",
        "Dropping packet at the end of egress\n",
        "a message of 9 bytes; its header alone has 12",
    ):
        assert expected in lines, lines


def test_digests_are_notifications_on_a_nanomsg_socket(
    weir_switch: Path, compiled: Compiled, tmp_path: Path
) -> None:
    notifications, packets = (f"ipc://{tmp_path}/{name}" for name in ("notifications", "packets"))
    _, program = compiled("l2_learning")
    addresses = ["--packet-in", packets, "--notifications-addr", notifications]
    with (
        Bmv2Process(weir_switch, tmp_path, *addresses, "--device-id", "3", str(program)),
        pynng.Sub0(dial=notifications, topics=b"LEA|", recv_timeout=200) as subscriber,
        pynng.Pair0(dial=packets) as peer,
    ):
        hosts, published = itertools.count(1), b""

        def heard() -> bool:
            # A host that is new each time: what the switch sends before it has taken the subscriber is lost.
            nonlocal published
            address = (0x0200000000 << 8 | next(hosts)).to_bytes(6, "big")
            peer.send(message(PACKET_IN, 7, FRAME[:6] + address + FRAME[12:]))
            with contextlib.suppress(pynng.Timeout):
                published = subscriber.recv()
            return published != b""

        wait_until(heard, "a list of samples came")
    topic, device, context, number, _, count = struct.unpack("=4sQiiQI", published[:32])
    assert (topic, device, context, number) == (b"LEA|", 3, 0, 1)
    samples = published[32:]
    assert len(samples) == count * 8
    assert samples[:4] + samples[6:8] == bytes.fromhex("02000000") + (7).to_bytes(2, "big")


def test_idle_entries_are_notifications_with_their_handles_in_thrift(
    weir_switch: Path, compiled: Compiled, tmp_path: Path
) -> None:
    notifications = f"ipc://{tmp_path}/notifications"
    _, program = compiled("features")
    addresses = ["--packet-in", f"ipc://{tmp_path}/packets", "--notifications-addr", notifications]
    with (
        Bmv2Process(weir_switch, tmp_path, *addresses, "--device-id", "3", str(program)) as switch,
        pynng.Sub0(dial=notifications, topics=b"AGE|", recv_timeout=PATIENCE_S * 1000) as subscriber,
    ):
        (thrift,) = (line.rpartition(":")[2] for line in switch.said if line.startswith("Thrift server"))
        cli = [sys.executable, "-m", "weir.cli.simple_switch", "--thrift-port", thrift]

        def runtime(*lines: str) -> str:
            said = subprocess.run(cli, input="\n".join(lines), capture_output=True, text=True, check=True)
            return said.stdout

        said = runtime(*(f"table_add IngressImpl.learned NoAction {key} =>" for key in ("1", "2")))
        assert said.count("Entry has been added with handle") == 2, said
        # The second entry expires again and again, so a subscriber that came late hears of it too.
        runtime("table_set_timeout IngressImpl.learned 1 100")
        topic, device, context, _, table, count = struct.unpack("=4sQiQiI", subscriber.recv()[:32])
        published = subscriber.recv()
    tables = [
        table for pipeline in json.loads(program.read_text())["pipelines"] for table in pipeline["tables"]
    ]
    (learned,) = (table["id"] for table in tables if table["name"] == "IngressImpl.learned")
    assert (topic, device, context, table, count) == (b"AGE|", 3, 0, learned, 1)
    assert published[32:] == (1).to_bytes(4, sys.byteorder)


def test_changes_of_ports_are_notifications(on_interfaces: dict[str, Any]) -> None:
    # The topic, device 0 and one port, then its number and whether it is up.
    assert [struct.unpack("=4sQI16xii", bytes.fromhex(sent)) for sent in on_interfaces["port_states"]] == [
        (b"PRT|", 0, 1, 2, 0),
        (b"PRT|", 0, 1, 2, 1),
    ]


def test_who_asks_for_a_pipeline_before_one_was_set_gets_an_error_as_from_bmv2(
    weir_switch: Path, compiled: Compiled, tmp_path: Path
) -> None:
    p4info, program = compiled("l2_learning")
    # bmv2's own program is none that a controller has set.
    with (
        Bmv2Process(
            weir_switch, tmp_path, "--packet-in", f"ipc://{tmp_path}/packets", str(program)
        ) as switch,
        grpc.insecure_channel(switch.address) as channel,
    ):
        p4runtime = p4r_grpc.P4RuntimeStub(channel)
        request = p4r.GetForwardingPipelineConfigRequest()
        with pytest.raises(grpc.RpcError) as refused:
            p4runtime.GetForwardingPipelineConfig(request)
        assert refused.value.code() == grpc.StatusCode.FAILED_PRECONDITION
        switch.flood(p4info, program, [1])
        assert p4runtime.GetForwardingPipelineConfig(request).config.p4info.tables


def test_a_program_can_be_set_without_a_stream_as_long_as_no_controller_has_one(
    weir_switch: Path, compiled: Compiled, tmp_path: Path
) -> None:
    p4info, program = compiled("l2_learning")
    request = p4r.SetForwardingPipelineConfigRequest(
        action=p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT
    )
    request.config.p4_device_config = program.read_bytes()
    text_format.Parse(p4info.read_text(), request.config.p4info)
    with (
        Bmv2Process(weir_switch, tmp_path, "--packet-in", f"ipc://{tmp_path}/packets", "--no-p4") as switch,
        grpc.insecure_channel(switch.address) as channel,
    ):
        p4runtime = p4r_grpc.P4RuntimeStub(channel)
        p4runtime.SetForwardingPipelineConfig(request)
        requests: queue.SimpleQueue[p4r.StreamMessageRequest | None] = queue.SimpleQueue()
        requests.put(p4r.StreamMessageRequest(arbitration={"device_id": 0, "election_id": {"low": 1}}))
        stream = p4runtime.StreamChannel(iter(requests.get, None))
        assert next(stream).arbitration.status.code == 0
        with pytest.raises(grpc.RpcError) as refused:
            p4runtime.SetForwardingPipelineConfig(request)
        assert refused.value.code() == grpc.StatusCode.PERMISSION_DENIED
        requests.put(None)


def capture(*frames: tuple[int, bytes]) -> bytes:
    """A pcap file of frames with their times in s."""
    header = struct.pack("=IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    records = [struct.pack("=IIII", time, 0, len(frame), len(frame)) + frame for time, frame in frames]
    return header + b"".join(records)


def frames(path: Path) -> list[bytes]:
    """The frames of a pcap file."""
    rest = path.read_bytes()[24:]
    found = []
    while rest:
        length = struct.unpack("=IIII", rest[:16])[2]
        found.append(rest[16 : 16 + length])
        rest = rest[16 + length :]
    return found


def test_frames_come_from_files_and_go_to_files(
    weir_switch: Path, compiled: Compiled, tmp_path: Path
) -> None:
    for port in (1, 2):
        os.mkfifo(tmp_path / f"pcap{port}_in.pcap")
    ports = ["-i 1@pcap1", "-i 2@pcap2"]
    with Bmv2Process(weir_switch, tmp_path, "--no-p4", "--use-files", "0", *ports) as switch:
        added = [line for line in switch.said if line.startswith("Adding interface ")]
        assert added == [f"Adding interface pcap{port} as port {port} (files)" for port in (1, 2)]
        # As on bmv2, a group may name a port that the switch does not have.
        switch.flood(*compiled("l2_learning"), [1, 2, 7])
        sent = {1: [FRAME + b"a", FRAME + b"c"], 2: [FRAME + b"b"]}
        # Both pipes are open before anything is written, in the order in which the switch opens them.
        with (
            (tmp_path / "pcap1_in.pcap").open("wb") as first,
            (tmp_path / "pcap2_in.pcap").open("wb") as second,
        ):
            second.write(capture((20, sent[2][0])))
            first.write(capture((10, sent[1][0]), (30, sent[1][1])))
        out = {port: tmp_path / f"pcap{port}_out.pcap" for port in (1, 2)}
        wait_until(lambda: len(frames(out[2])) == 2 and len(frames(out[1])) == 1, "all frames had left")
        # Written at once, so that a switch that is killed leaves whole files.
        assert frames(out[2]) == sent[1]
        assert frames(out[1]) == sent[2]


@pytest.fixture(scope="module")
def on_interfaces(weir_switch: Path, compiled: Compiled, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What the scenario with network interfaces observed."""
    folder = tmp_path_factory.mktemp("as_bmv2")
    return run_scenario("as_bmv2_scenario.py", weir_switch, *compiled("l2_learning"), folder)


def test_each_port_has_captures_of_both_directions(on_interfaces: dict[str, Any]) -> None:
    frames = [on_interfaces["frame"], on_interfaces["inside_frame"]]
    # What the switch itself sent does not come back to it.
    assert on_interfaces["captured"] == {
        "s1_in.pcap": frames,
        "s1_out.pcap": [],
        "s2_in.pcap": [],
        "s2_out.pcap": frames,
    }
    assert on_interfaces["link_types"] == [1]


def test_what_another_program_sends_through_a_ports_interface_is_received(
    on_interfaces: dict[str, Any],
) -> None:
    assert on_interfaces["received_from_inside"] == on_interfaces["inside_frame"]


def test_frames_pass_and_are_dumped_in_the_log(on_interfaces: dict[str, Any]) -> None:
    frame = on_interfaces["frame"]
    assert on_interfaces["received"] == frame
    lines = on_interfaces["console"]
    dumped = frame[: 2 * 8]
    assert [line.split("] ")[-1] for line in lines if " packet of length 60 " in line] == [
        f"Received packet of length 60 on port 1: {dumped}",
        f"Sending packet of length 60 on port 2: {dumped}",
    ]
    assert not any("[D]" in line for line in lines), "level info has no lines of level debug"


def test_an_interface_that_tc_makes_slow_fills_the_queue_of_its_port(
    weir_switch: Path, compiled: Compiled, tmp_path: Path
) -> None:
    found = run_scenario("as_bmv2_slow_scenario.py", weir_switch, *compiled("l2_learning"), tmp_path)
    if reason := found.get("no tbf"):
        pytest.skip(f"kernel: no queueing discipline tbf: {reason}")
    arrived = found["arrived"]
    assert len(arrived) + found["dropped"] == found["sent"]
    # The queue holds 64 frames besides those in the kernel.
    assert found["dropped"] > 0
    assert len(arrived) > 64
    assert arrived == sorted(arrived)
    # The bucket lets two frames pass at once.
    assert found["took_s"] > 0.9 * found["at_rate_s"] - 0.01, found
    assert found["later"] == list(range(found["sent"], found["sent"] + 10))
    assert found["tapped"] == len(arrived) + 10, "tcpdump on the port sees the frames that leave"


def test_frames_of_an_mtu_that_has_grown_since_the_start_pass(
    weir_switch: Path, compiled: Compiled, tmp_path: Path
) -> None:
    found = run_scenario("as_bmv2_mtu_scenario.py", weir_switch, *compiled("l2_learning"), tmp_path)
    assert found["arrived"] == [1514, 9014]


def test_what_has_no_effect_is_said_on_standard_error(on_interfaces: dict[str, Any]) -> None:
    said = on_interfaces["errors"]
    assert "simple_switch_grpc: --nanolog: no events are published" in said
    assert "simple_switch_grpc: --debugger: there is no debugger" in said


def test_a_service_beyond_the_loopback_is_warned_of(weir_switch: Path, tmp_path: Path) -> None:
    name = tmp_path / "simple_switch_grpc"
    name.symlink_to(weir_switch)
    # The port cannot be bound, so the program ends by itself.
    command = [str(name), "--no-p4", "--", "--grpc-server-addr", "192.0.2.1:9559"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert ended.returncode == 1
    assert "P4Runtime on 192.0.2.1:9559 is open to the network, without TLS" in ended.stderr
    assert "--grpc-server-addr: cannot listen on 192.0.2.1:9559" in ended.stderr


@pytest.mark.parametrize("words", [["as-bmv2"], ["simple_switch_grpc"], ["simple_switch"]])
def test_mistakes_are_one_line_and_exit_code_1(weir_switch: Path, tmp_path: Path, words: list[str]) -> None:
    name = tmp_path / words[0]
    name.symlink_to(weir_switch)
    command = [str(weir_switch), *words] if words == ["as-bmv2"] else [str(name)]
    ended = subprocess.run([*command, "-i", "1@a"], capture_output=True, text=True, timeout=PATIENCE_S)
    assert ended.returncode == 1
    assert ended.stderr.count("\n") == 1
    assert "no program was given" in ended.stderr
