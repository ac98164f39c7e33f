# SPDX-License-Identifier: Apache-2.0
"""The Wireshark dissector, run by tshark, against the specification's vectors and reports of switches."""

import ipaddress
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from weir.ptftests.expect import Report, decode, malformed, vectors
from weir.telemetry.captures import Record, read_pcap, write_pcap

pytestmark = pytest.mark.skipif(
    shutil.which("tshark") is None, reason="tshark: not on PATH; sudo apt-get install tshark"
)

DISSECTOR = Path(__file__).with_name("telemetry_report.lua")
CAPTURES = sorted((Path(__file__).parents[1] / "captures").glob("*.pcap"))
LAYER = "telemetry_report"
OF_INNER = {
    "src": "ip.src",
    "dst": "ip.dst",
    "src_port": "tcp.srcport",
    "dst_port": "tcp.dstport",
    "protocol": "ip.proto",
}
NUMBERS = [
    "version",
    "node_id",
    "hw_id",
    "sequence",
    "rep_type",
    "inner_type",
    "report_length",
    "metadata_length",
    "dropped",
    "congested",
    "tracked",
    "intermediate",
    "metadata_bits",
    "domain_id",
    "domain_bits",
    "domain_status",
    "ingress_interface",
    "egress_interface",
    "hop_latency",
    "queue_id",
    "queue_occupancy",
    "ingress_ns",
    "egress_ns",
    "logical_ingress_interface",
    "logical_egress_interface",
    "tx_utilization",
    "buffer_id",
    "buffer_occupancy",
    "drop_queue_id",
    "drop_reason",
    "policer",
    "colour",
    "wire_length",
    "packet_number",
    "queue_lost",
]
NAMES = [*NUMBERS, "domain_data", "inner"]


def tshark(capture: Path, *more: str) -> list[dict[str, list[str]]]:
    """The values of each packet's fields, by name without the layer's; those of the inner packet are last."""
    names = [f"{LAYER}.{name}" for name in NAMES] + [*OF_INNER.values(), "_ws.expert.message"]
    command = ["tshark", "-n", "-r", str(capture), "-X", f"lua_script:{DISSECTOR}", "-T", "fields", *more]
    command += [
        "-E",
        "separator=/t",
        "-E",
        "aggregator=|",
        *(word for name in names for word in ("-e", name)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "Lua: Error" not in done.stderr, done.stderr
    packets = []
    for line in done.stdout.splitlines():
        values = [value.split("|") if value else [] for value in line.split("\t")]
        packets.append(dict(zip((name.removeprefix(f"{LAYER}.") for name in names), values, strict=True)))
    return packets


def number(value: str) -> int:
    """A number as tshark prints it."""
    return int(value, 16) if value.startswith("0x") else int(value)


def datagram(payload: bytes) -> bytes:
    """A frame to the reports' port."""
    udp = struct.pack("!HHHH", 32766, 32766, 8 + len(payload), 0) + payload
    addresses = ipaddress.IPv4Address("10.0.0.254").packed + ipaddress.IPv4Address("10.0.0.9").packed
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0x4000, 64, 17, 0) + addresses
    return bytes(12) + b"\x08\x00" + ip + udp


@pytest.fixture(scope="module")
def dissected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, list[str]]]:
    """The fields of each vector, by its name. Wireshark calls no dissector for an empty datagram."""
    everything = {name: one for name, one in {**vectors(), **malformed()}.items() if one.payload}
    capture = tmp_path_factory.mktemp("vectors") / "vectors.pcap"
    write_pcap(capture, [Record(n, datagram(one.payload)) for n, one in enumerate(everything.values())])
    return dict(zip(everything, tshark(capture), strict=True))


@pytest.mark.parametrize("name", vectors())
def test_every_field_of_a_vector_is_shown_by_name(
    name: str, dissected: dict[str, dict[str, list[str]]]
) -> None:
    found, values = dissected[name], dict(vectors()[name].values)
    reports, inner_bytes = int(values.pop("reports", 1)), int(values.pop("inner_bytes"))
    assert len(found["rep_type"]) == reports
    if reports == 1:
        assert len(bytes.fromhex("".join(found["inner"]))) == inner_bytes
    if "domain_hex" in values:
        assert "".join(found["domain_data"]) == values.pop("domain_hex")
    for key, value in values.items():
        if key in OF_INNER:
            assert found[OF_INNER[key]][-1] == value, key
        else:
            assert number(found[key][0]) == int(value), key


@pytest.mark.parametrize("name", [name for name, one in malformed().items() if one.payload])
def test_what_must_be_refused_is_named(name: str, dissected: dict[str, dict[str, list[str]]]) -> None:
    error = malformed()[name].values["error"]
    assert f"not a report weir reads: {error}" in dissected[name]["_ws.expert.message"]


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_every_field_of_reports_that_a_switch_made_is_shown(capture: Path) -> None:
    for record, found in zip(read_pcap(capture), tshark(capture), strict=True):
        report = decode(record.frame[42:])
        for name in Report.__slots__:
            if name == "inner":
                assert bytes.fromhex(found["inner"][0]) == report.inner
            elif name != "queue_lost" or report.queue_lost:
                assert number(found[name][0]) == int(getattr(report, name)), name
        assert not any(message.startswith("not a report") for message in found["_ws.expert.message"])


def test_the_port_is_a_preference(tmp_path: Path) -> None:
    frame = bytearray(datagram(vectors()["red-tcp-1514-cut-to-128"].payload))
    frame[34:38] = (4444).to_bytes(2, "big") * 2
    capture = tmp_path / "other-port.pcap"
    write_pcap(capture, [Record(0, bytes(frame))])
    (without,) = tshark(capture)
    assert not without["policer"]
    (found,) = tshark(capture, "-o", f"{LAYER}.port:4444")
    assert found["policer"] == ["3"]
