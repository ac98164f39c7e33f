# SPDX-License-Identifier: Apache-2.0
import pytest

from weir.controlplane.entities import CloneSession, Match, TableEntry
from weir.ptftests.scripts import ScriptError, on_ports, read

SCRIPT = """# test 7
add C.classify.classify 1 src:0x*0a proto:0b*1 dscp:0x* C.police(cell:0x3,watched:0x0)
mirroring_add 5 3
packet 1 00ff
expect 2 0*FF$
expect 3
"""


@pytest.fixture
def file(tmp_path):
    def write(text):
        path = tmp_path / "x.stf"
        path.write_text(text)
        return path

    return write


def test_a_script_is_entries_a_frame_and_what_must_leave(file):
    (script,) = read(file(SCRIPT))
    entry = TableEntry(
        "classify",
        (Match("proto", 1, 1), Match("src", 0x0A, 0xFF)),
        "police",
        (("cell", 3), ("watched", 0)),
        2,
    )
    assert script.written == (entry, CloneSession(5, (3,)))
    assert (script.name, script.port, script.frame) == ("x 7", 1, b"\0\xff")
    assert script.problem({2: [b"\x05\xff"], 3: [b"any"], 4: []}) is None


@pytest.mark.parametrize(
    ("left", "says"),
    [
        ({2: [b"\x05\xff"]}, "0 frames left through port 3, 1 had to"),
        ({2: [b"\x05\xfe"], 3: [b""]}, "port 2 sent 05fe, not 0*ff"),
        ({2: [b"\x05\xff"], 3: [b""], 4: [b""]}, "1 frames left through port 4, 0 had to"),
    ],
)
def test_a_difference_is_named(file, left, says):
    (script,) = read(file(SCRIPT))
    assert script.problem(left) == says


def test_entries_name_the_ports_of_the_target(file):
    text = """# test 1
add classify 1 ingress_port:0b*0*1 police(cell:0x3)
add forward dst:0x5 set_egress(port:0x2)
add forward dst:0x6 set_egress(port:0x8)
add forward dst:0x7 set_egress(port:0x1ff)
mirroring_add 5 1
packet 1 00ff
"""
    (script,) = read(file(text))
    there = on_ports(script, {1: 8, 2: 9, 3: 3, 4: 4})
    classify, *forwards, session = there.written
    assert classify.matches == (Match("ingress_port", 0, 5),)  # of port 8
    # 8 is no port of the script, 1 none of the target.
    assert [dict(entry.args)["port"] for entry in forwards] == [9, 1, 0x1FF]
    assert session.ports == (8,)
    assert (there.port, there.frame) == (script.port, script.frame)


def test_an_entry_for_another_port_than_the_packets_is_refused(file):
    (script,) = read(file("# test 1\nadd classify 1 ingress_port:0b*1* police(cell:0x3)\npacket 1 00ff\n"))
    with pytest.raises(ScriptError, match="does not match port 1"):
        on_ports(script, {1: 8})


@pytest.mark.parametrize("line", ["frobnicate 3", "packet 1"])
def test_an_unknown_line_is_named(file, line):
    with pytest.raises(ScriptError, match=f"test x 7: '{line}'"):
        list(read(file(SCRIPT + line + "\n")))
