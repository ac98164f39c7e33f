# SPDX-License-Identifier: Apache-2.0
"""The scapy layer against the specification's vectors and against recorded reports of switches."""

import doctest
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("scapy", reason="scapy is not installed: pip install -e .[dev]")

from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet

from weir.ptftests.expect import decode, frames, malformed, vectors
from weir.telemetry import report_layer
from weir.telemetry.captures import read_pcap
from weir.telemetry.report_layer import Report, TelemetryReport, refusal

VECTORS, MALFORMED = vectors(), malformed()
OF_INNER = ("src", "dst", "src_port", "dst_port", "protocol")
CAPTURES = sorted((Path(__file__).parents[2] / "captures").glob("*.pcap"))


def values(datagram: Packet) -> dict[str, int | str]:
    """The fields of a datagram and of its first report, by the vectors' names."""
    first = datagram.reports[0]
    found: dict[str, Any] = {name: datagram.getfieldval(name) for name in ("node_id", "hw_id", "sequence")}
    for field in first.fields_desc:
        value = first.getfieldval(field.name)
        if value is not None:
            found[field.name] = int(value) if hasattr(value, "value") else value
    return found


@pytest.mark.parametrize("name", VECTORS)
def test_every_field_of_a_vector_is_shown_by_name(name: str) -> None:
    vector = VECTORS[name]
    datagram = TelemetryReport(vector.payload)
    assert len(datagram.reports) == int(vector.values.get("reports", 1))
    found = values(datagram)
    for key, value in vector.values.items():
        if key in OF_INNER or key in ("reports", "inner_bytes"):
            continue
        if key == "domain_hex":
            assert found["domain_data"].hex() == value
        else:
            assert found[{"domain_bits": "ds_md_bits"}.get(key, key)] == int(value), key
    inner = datagram.reports[0].payload
    assert len(inner) == int(vector.values["inner_bytes"])
    if "src" in vector.values:
        assert (inner[IP].src, inner[IP].dst) == (vector.values["src"], vector.values["dst"])
        assert (inner[TCP].sport, inner[TCP].dport) == (
            int(vector.values["src_port"]),
            int(vector.values["dst_port"]),
        )


@pytest.mark.parametrize("name", VECTORS)
def test_a_dissected_report_is_built_again(name: str) -> None:
    assert bytes(TelemetryReport(VECTORS[name].payload)) == VECTORS[name].payload


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_datagrams_are_refused_by_name_and_stay_bytes(name: str) -> None:
    vector = MALFORMED[name]
    assert refusal(vector.payload) == vector.values["error"]
    frame = IP() / UDP(dport=report_layer.UDP_PORT) / vector.payload
    assert TelemetryReport not in IP(bytes(frame))


def test_lengths_are_computed_when_a_report_is_built() -> None:
    inner = Ether() / IP() / TCP()
    report = Report(inner_type=3, rep_md_bits="queue+drop", domain_id=0x5745, ds_md_bits="verdict", policer=4)
    built = TelemetryReport(bytes(TelemetryReport(node_id=9, reports=[report / inner])))
    (again,) = built.reports
    assert (again.metadata_length, again.report_length) == (3, 2 + 3 + 14)
    assert (again.policer, again[TCP].dport) == (4, 80)


def test_a_whole_frame_of_the_specification_is_dissected() -> None:
    (frame,) = frames().values()
    assert Ether(frame)[TelemetryReport].node_id == 168496141


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_recorded_reports_of_switches_have_the_expected_fields(capture: Path) -> None:
    records = list(read_pcap(capture))
    assert records
    for record in records:
        datagram = Ether(record.frame)[TelemetryReport]
        (report,) = datagram.reports
        expected = decode(record.frame[42:])
        assert bytes(report.payload) == expected.inner
        found = values(datagram)
        for name in expected.__slots__:
            if name not in ("inner", "queue_lost"):
                assert found[name] == getattr(expected, name), name
        assert found.get("queue_lost", 0) == expected.queue_lost


def test_examples() -> None:
    assert doctest.testmod(report_layer).failed == 0
