# SPDX-License-Identifier: Apache-2.0
"""Reading sources and assemblies; `tofino_test.py` compares the two for weir's programs."""

import pytest

import assembly
import parser_paths

SOURCE = """
const bit<16> TYPE_A = 0x0800;
header outer_t { bit<16> type; }
header inner_t { bit<4> kind; bit<12> rest; }
struct headers_t { outer_t outer; inner_t inner; }
parser P(packet_in packet, out headers_t hdr) {
    state start {
        packet.extract(hdr.outer);
        transition select(hdr.outer.type) {
            TYPE_A: parse_inner;   // a comment
            default: accept;
        }
    }

    state parse_inner {
        packet.extract(hdr.inner);
        transition select(hdr.inner.kind, hdr.outer.type) {
            (3 &&& 3, _): accept;
            (_, 0x0800): reject;
        }
    }
}
"""

ASSEMBLY = """
version:
  target: Tofino
phv ingress:
  ingress::hdr.outer.$valid: B1(0)
  ingress::hdr.inner.$valid: B1(1)
parser ingress:
  start: $entry
  hdr_len_adj: 2
  states:
    $entry:
      *:
        shift: 2
        load: { half : 2..3 }
        next: start
    start:
      match: [ half ]
      0x0800:
        0..1: H1  # ingress::hdr.outer.type
        B1: 1  # value 1 -> B1 bit[0]: ingress::hdr.outer.$valid
        clot 2 :
          start: 0
          length: 2
        load: { byte0 : 2 }
        shift: 2
        next: parse_inner
      0x****:
        B1: 1
        shift: 2
        next: end
    parse_inner:
      match: [ byte0 ]
      0b**11****:
        B1: 2
        clot 3 :
          start: 0
          length: 1
        shift: 2
        next: end
      0x**:
        next: end
parser egress:
  start: s
  hdr_len_adj: 0
  states:
    s:
      *:
        next: end
"""


@pytest.fixture
def source_file(tmp_path):
    path = tmp_path / "p.p4"
    path.write_text(SOURCE)
    return path


def read_paths(path):
    source = parser_paths.read_source([path], {})
    return list(parser_paths.all_paths(parser_paths.read_parser(path, "P", source), source, "start"))


def compiled(tmp_path, text=ASSEMBLY):
    path = tmp_path / "p.bfa"
    path.write_text(text)
    return assembly.read_assembly(path)["ingress"]


def test_every_arm_that_accepts_gets_a_packet(source_file):
    found = read_paths(source_file)
    assert {path.arms for path in found} == {(("start", 1),), (("start", 0), ("parse_inner", 0))}
    by_headers = {path.headers: path.packet for path in found}
    assert by_headers[frozenset({"outer"})][:2] != b"\x08\x00"
    inner = by_headers[frozenset({"outer", "inner"})]
    assert inner[:2] == b"\x08\x00"
    assert inner[2] >> 4 & 3 == 3


def test_the_assembly_parses_packets_on_the_paths_of_the_source(source_file, tmp_path):
    parser = compiled(tmp_path)
    for taken in read_paths(source_file):
        assert parser.parse(taken.packet) == (taken.headers, taken.header_bytes)


@pytest.mark.parametrize(
    ("pattern", "bits"),
    [("0x6*", "0110****"), ("0o0420*", "000100010000***"), ("0b1*", "001*"), ("6", "0110")],
)
def test_patterns_have_digits_of_any_base(pattern, bits):
    assert assembly.pattern_bits(pattern, len(bits)) == bits


def test_a_select_that_was_lost_is_found(source_file, tmp_path):
    lost = ASSEMBLY.replace("      match: [ half ]\n      0x0800:", "      *:").replace("0x****", "0x12**")
    parser = compiled(tmp_path, lost)
    assert any(
        parser.parse(taken.packet) != (taken.headers, taken.header_bytes) for taken in read_paths(source_file)
    )


def test_an_unknown_key_is_refused(source_file):
    source_file.write_text(SOURCE.replace("TYPE_A: parse", "TYPE_B: parse"))
    with pytest.raises(ValueError, match="TYPE_B"):
        read_paths(source_file)


def test_a_parser_with_a_cycle_is_refused(tmp_path):
    parser = compiled(tmp_path, ASSEMBLY.replace("        next: end", "        next: $entry"))
    with pytest.raises(assembly.AssemblyError, match="does not end"):
        parser.parse(bytes(64))


def test_pieces_that_bypass_the_pipeline_touch_or_are_three_bytes_apart(tmp_path):
    packet = b"\x08\x00\x30\x00"
    near = ASSEMBLY.replace("length: 2", "length: 1")
    with pytest.raises(
        assembly.AssemblyError, match="end before byte 3 and begin at byte 4; valid: a distance"
    ):
        compiled(tmp_path, near).parse(packet)
    inner = "clot 3 :\n          start: "
    assert compiled(tmp_path, near.replace(f"{inner}0", f"{inner}3")).parse(packet)
