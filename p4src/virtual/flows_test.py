# SPDX-License-Identifier: Apache-2.0
"""Per-flow policers: hashed cells, learned cells, and the treatment of flows without a learned cell."""

import ipaddress
import zlib

import pytest

from virtual import frames as f
from virtual.under_test import PipelineUnderTest, digests, drop, entry, reports
from weir.controlplane.entities import MeterCell

BASE, MASK = 64, 15
LEARNED_CELL = 200
MODES = pytest.mark.parametrize("version", [4, 6])


def addresses(version: int) -> tuple[bytes, bytes]:
    names = ("10.0.0.2", "10.0.0.1") if version == 4 else ("2001:db8::2", "2001:db8::1")
    src, dst = (ipaddress.ip_address(name).packed for name in names)
    return src, dst


def five_tuple(version: int, src_port: int, protocol: int = f.TCP, dst_port: int = 40000) -> bytes:
    ports = src_port.to_bytes(2, "big") + dst_port.to_bytes(2, "big")
    return b"".join(addresses(version)) + bytes([protocol]) + ports


def hashed_cell(key: bytes) -> int:
    return BASE + (zlib.crc32(key) & MASK)


def table(version: int, name: str) -> str:
    return name if version == 4 else f"{name}_ipv6"


def packet(version: int, payload: bytes, protocol: int = f.TCP, **fields) -> bytes:
    return (f.ipv4 if version == 4 else f.ipv6)(payload, protocol, **fields)


def classify(version: int, action: str):
    return entry(table(version, "classify"), action, priority=1, base=BASE, mask=MASK, watched=0)


def learn(version: int, src_port: int, cell: int = LEARNED_CELL):
    src, dst = (int.from_bytes(address, "big") for address in addresses(version))
    key = {"src": src, "dst": dst, "protocol": f.TCP, "src_port": src_port, "dst_port": 40000}
    return entry(table(version, "flow_policer"), "set_flow_cell", key, cell=cell)


def met(switch: PipelineUnderTest) -> dict[int, int]:
    cells = [*range(BASE, BASE + MASK + 1), LEARNED_CELL, LEARNED_CELL + 1]
    counts = {cell: switch.packets("met_counter", cell) for cell in cells}
    return {cell: count for cell, count in counts.items() if count}


@MODES
def test_a_hashed_flow_meets_the_cell_of_the_crc_of_its_five_tuple(version):
    switch = PipelineUnderTest(classify(version, "police_hashed"))
    expected: dict[int, int] = {}
    for port in range(5000, 5040):
        switch.send(packet(version, f.tcp(port)))
        cell = hashed_cell(five_tuple(version, port))
        expected[cell] = expected.get(cell, 0) + 1
    assert met(switch) == expected
    assert len(expected) > 10


def test_fragments_and_other_protocols_hash_without_ports():
    switch = PipelineUnderTest(classify(4, "police_hashed"))
    switch.send(f.ipv4(f.tcp(), fragment=0x2005))
    switch.send(f.ipv4(f.tcp(), 47))
    cells = [hashed_cell(five_tuple(4, 0, protocol, 0)) for protocol in (f.TCP, 47)]
    assert met(switch) == {cell: cells.count(cell) for cell in cells}


@MODES
def test_a_learned_flow_has_its_own_cell_and_its_reports_say_that_it_is_tracked(version):
    switch = PipelineUnderTest(
        classify(version, "police_learned"),
        learn(version, 5001),
        drop(),
        MeterCell("policer", LEARNED_CELL, 1, 1),
    )
    switch.enable_digests()
    events = switch.send(packet(version, f.tcp(5001)))
    (report,) = reports(events)
    assert (report.policer, report.tracked, report.dropped) == (LEARNED_CELL, 1, 1)
    assert digests(events) == []
    assert met(switch) == {LEARNED_CELL: 1}
    assert switch.packets("unlearned_counter", BASE) == 0


@MODES
def test_a_new_flow_is_announced_and_meets_a_hashed_cell_until_it_is_learned(version):
    switch = PipelineUnderTest(classify(version, "police_learned"))
    switch.enable_digests()
    frame = packet(version, f.tcp(5001))
    (announced,) = digests(switch.send(frame))
    src, dst = addresses(version)
    numbers = [int.from_bytes(member, "big") for member in announced]
    assert numbers == [
        int.from_bytes(src, "big"),
        int.from_bytes(dst, "big"),
        f.TCP,
        5001,
        40000,
        BASE,
    ]
    hashed = hashed_cell(five_tuple(version, 5001))
    assert met(switch) == {hashed: 1}
    assert switch.packets("unlearned_counter", BASE) == 1
    switch.write(learn(version, 5001))
    assert digests(switch.send(frame)) == []
    assert met(switch) == {hashed: 1, LEARNED_CELL: 1}
    assert switch.packets("unlearned_counter", BASE) == 1


@MODES
def test_a_flood_of_new_flows_meets_only_hashed_cells_and_is_counted(version):
    switch = PipelineUnderTest(classify(version, "police_learned"), learn(version, 5001))
    for port in range(10_000, 12_000):
        switch.send(packet(version, f.tcp(port)))
    switch.send(packet(version, f.tcp(5001)))
    found = met(switch)
    assert found.pop(LEARNED_CELL) == 1
    assert sum(found.values()) == 2_000
    assert len(found) == MASK + 1
    assert switch.packets("unlearned_counter", BASE) == 2_000


@MODES
def test_flows_that_differ_in_one_field_are_different_flows(version):
    switch = PipelineUnderTest(classify(version, "police_learned"), learn(version, 5001))
    other = {"src": "10.0.0.3"} if version == 4 else {"src": "2001:db8::3"}
    for frame in (
        packet(version, f.tcp(5002)),
        packet(version, f.tcp(5001, 40001)),
        packet(version, f.udp(5001), f.UDP),
        packet(version, f.tcp(5001), **other),
    ):
        switch.send(frame)
    assert LEARNED_CELL not in met(switch)
    assert switch.packets("unlearned_counter", BASE) == 4
