# SPDX-License-Identifier: Apache-2.0
import pytest

from weir.controlplane.entities import CloneSession, Match, TableEntry
from weir.ptftests.scripts import ScriptError, read

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


@pytest.mark.parametrize("line", ["frobnicate 3", "packet 1"])
def test_an_unknown_line_is_named(file, line):
    with pytest.raises(ScriptError, match=f"test x 7: '{line}'"):
        list(read(file(SCRIPT + line + "\n")))
