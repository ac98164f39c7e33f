# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from weir.controlplane.entities import Match, TableEntry
from weir.ptftests.expect import OUTER_BYTES, decode, vectors
from weir.ptftests.fitted import in_cells, in_sessions, on_ports
from weir.ptftests.scripts import FOLDER, Script, ScriptError, read

CELLS = 16_384


@pytest.fixture(name="script")
def _script(tmp_path: Path):
    def written(text: str) -> Script:
        path = tmp_path / "x.stf"
        path.write_text(f"# test 1\n{text}packet 1 00ff\n")
        (script,) = read(path)
        return script

    return written


def entry(script: Script, table: str) -> TableEntry:
    """The script's entry of a table."""
    return next(one for one in script.written if isinstance(one, TableEntry) and one.table == table)


def test_entries_name_the_ports_of_the_target(script):
    text = """\
add classify 1 ingress_port:0b*0*1 police(cell:0x3)
add forward dst:0x5 set_egress(port:0x2)
add forward dst:0x6 set_egress(port:0x8)
add forward dst:0x7 set_egress(port:0x1ff)
mirroring_add 5 1
"""
    before = script(text)
    there = on_ports(before, {1: 8, 2: 9, 3: 3, 4: 4})
    classify, *forwards, session = there.written
    assert classify.matches == (Match("ingress_port", 0, 5),)  # of port 8
    # 8 is no port of the script, 1 none of the target.
    assert [dict(entry.args)["port"] for entry in forwards] == [9, 1, 0x1FF]
    assert session.ports == (8,)
    assert (there.port, there.frame) == (before.port, before.frame)


def test_an_entry_for_another_port_than_the_packets_is_refused(script):
    before = script("add classify 1 ingress_port:0b*1* police(cell:0x3)\n")
    with pytest.raises(ScriptError, match="does not match 1"):
        on_ports(before, {1: 8})


def test_a_policers_cell_comes_below_the_limit_with_all_that_matches_it(script):
    text = """\
add classify 1 dst:0x* police_shared(cell:0xE00A,watched:0x1)
add verdict 1 cell:0b111***********1* pass_packet()
"""
    there = in_cells(script(text), CELLS)
    assert dict(entry(there, "classify").args) == {"cell": 0xE00A % CELLS, "watched": 1}
    assert entry(there, "verdict").matches == (Match("cell", 0x2002, 0xE002),)
    small = script(text.replace("0xE00A", "0x200A"))
    assert in_cells(small, CELLS) == small


def test_reports_name_the_cell_and_other_frames_stay(script):
    text = "add classify 1 dst:0x* police_shared(cell:0xE00A,watched:0x1)\n"
    frame = bytes(range(100)).hex()
    report = next(iter(vectors().values())).payload.hex()
    before = script(text + f"expect 2 {frame}\nexpect 3 {'0' * 2 * OUTER_BYTES}{report}\n")
    there = in_cells(before, CELLS).expected
    assert there[2] == (frame,)
    assert decode(bytes.fromhex(there[3][0])[OUTER_BYTES:]).policer == 0x200A


def test_a_hashed_policer_beyond_the_limit_gets_one_cell(script):
    text = """\
add classify 1 dst:0x* police_hashed(base:0x4100,mask:0x00F0,watched:0x0)
add pre_colour 1 cell:0b*1 come_in_red()
"""
    there = in_cells(script(text), CELLS)
    assert dict(entry(there, "classify").args) == {"base": 0x100, "mask": 0, "watched": 0}
    assert entry(there, "pre_colour").matches == (Match("cell", 0, 1),)


def test_of_a_known_flow_the_cell_is_its_own(script):
    text = """\
add classify 1 dst:0x* police_learned(base:0x8000,mask:0x0007,watched:0x0)
add flow_policer src:0x1 set_flow_cell(cell:0x0030)
add verdict 1 cell:0b11**** pass_packet()
"""
    there = in_cells(script(text), CELLS)
    assert dict(entry(there, "classify").args) == {"base": 0, "mask": 0, "watched": 0}
    assert dict(entry(there, "flow_policer").args) == {"cell": 0x30}
    assert entry(there, "verdict").matches == (Match("cell", 0x30, 0x30),)


def test_an_entry_that_did_not_match_the_policers_cell_is_refused(script):
    text = """\
add classify 1 dst:0x* police_shared(cell:0xE000,watched:0x1)
add verdict 1 cell:0b*1 pass_packet()
"""
    with pytest.raises(ScriptError, match="does not match 57344"):
        in_cells(script(text), CELLS)


def test_sessions_are_those_that_drivers_give(script):
    there = in_sessions(
        script("add report 1 cell:0b*1 report_drops(session:0xFFFFFFFF,collector:0x2)\n"), 200
    )
    assert dict(entry(there, "report").args) == {"session": 1 + 0xFFFFFFFF % 200, "collector": 2}


@pytest.mark.parametrize("name", ["tofino1", "tofino2", "tofino1_reports", "tofino2_reports"])
def test_all_generated_scripts_fit(name):
    for script in read(FOLDER / f"{name}.stf"):
        there = on_ports(in_cells(in_sessions(script, 200), CELLS), {1: 8, 2: 9, 3: 10, 4: 11})
        for one in there.written:
            args = dict(one.args) if isinstance(one, TableEntry) else {}
            assert max(args.get("cell", 0), args.get("base", 0) + args.get("mask", 0)) < CELLS
