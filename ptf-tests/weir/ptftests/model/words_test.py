# SPDX-License-Identifier: Apache-2.0
import struct

import pytest

from weir.controlplane.targets.tofino import Encoded
from weir.ptftests.model import words
from weir.ptftests.model.chips import TOFINO1, TOFINO2


def blocks(data):
    """The blocks of a file: (kind, address, values)."""
    while data:
        kind = data[3:4].decode()
        if kind == "r":
            address, value = struct.unpack_from("<II", data, 4)
            yield kind, address, [value]
            data = data[12:]
        else:
            assert kind == "d"
            address, width, count = struct.unpack_from("<QII", data, 4)
            assert width == 128
            body, data = data[20 : 20 + 16 * count], data[20 + 16 * count :]
            yield (
                kind,
                address,
                [int.from_bytes(body[at : at + 16], "little") for at in range(0, len(body), 16)],
            )


def field(word, low, bits):
    return word >> low & ((1 << bits) - 1)


def test_a_mirror_session_names_its_port_and_is_enabled_last():
    written = list(blocks(TOFINO1.mirrors.session(11, 3, truncate_bytes=160)))
    base = 0x027A0000 + 11 * 32
    assert written[0] == ("r", base, [1 << 3 | 3 << 4])
    *_, (kind, address, [control]) = written
    assert (kind, address) == ("r", base + 20)
    assert (control & 0b11, field(control, 16, 14)) == (0b11, 160)


def test_a_mirror_session_without_truncation_takes_the_whole_frame():
    *_, (_, _, [control]) = blocks(TOFINO1.mirrors.session(1, 3))
    assert field(control, 16, 14) == 0x3FFF


def test_a_session_without_a_port_is_disabled():
    assert [values for _, _, values in blocks(TOFINO1.mirrors.session(11, None))] == [[0]]


def test_a_session_of_tofino_2_is_loaded_from_registers_and_enabled_last_in_each_slice():
    written = list(blocks(TOFINO2.mirrors.session(11, 3, truncate_bytes=160)))
    base = 0x04C80000
    assert written[:5] == [
        ("r", base + 0xC + 4 * at, [value]) for at, value in enumerate((0, 0, 0x4003, 0, 0))
    ]
    assert written[5] == ("r", base + 0x2000 + 4 * 11, [0])
    slices = [base + 0x10000 + 0x800 * number + 4 * 11 for number in range(4)]
    # The length has the FCS.
    assert written[6:] == [("r", at, [0b111 | 164 << 4]) for at in slices]
    disabled = list(blocks(TOFINO2.mirrors.session(11, None)))
    assert disabled == [("r", at, [0]) for at in slices]


def test_groups_of_tofino_2_have_five_bits_for_their_pipes():
    written = blocks(words.multicast(TOFINO2, {1: [1], 3: [7], 9: [0]}))
    registers = {address: values[0] for kind, address, values in written if kind == "r"}
    assert registers == {0x04D00000: 1 << 5 | 1 << 15, 0x04D00008: 1 << 5}


def test_each_multicast_group_has_a_tree_of_its_ports():
    memory = {}
    registers = {}
    for kind, address, values in blocks(words.multicast(TOFINO1, {1: [1, 2, 3, 4], 2: [7], 9: [0]})):
        if kind == "r":
            registers[address] = values[0]
        else:
            memory |= {address + place: value for place, value in enumerate(values)}
    # Pipe 0 of the groups 1 and 2, and of group 9.
    assert registers == {0x027F0000: 0b1_0001_0000, 0x027F0004: 0b1_0000}
    found = {}
    for group in (1, 2, 9):
        node = field(memory[0x6100100000 + group // 4], 20 * (group % 4), 20)
        first = memory[0x6100000000 + node // 2]
        assert (field(first, 0, 4), field(first, 4, 20)) == (1, 0)
        leaf = memory[0x6100000000 + field(first, 24, 20) // 2]
        assert (field(leaf, 0, 4), field(leaf, 7, 1)) == (9, 1)
        found[group] = field(leaf, 8, 64)
    assert found == {1: 0b11110, 2: 1 << 7, 9: 1}
    assert field(memory[0x6100100000], 0, 20) == 0, "there is no group 0"


def test_a_word_of_a_memory_is_written_beside_what_maps_its_row():
    memory = words.Memory(TOFINO1, stage=5, units=(19, 31))
    (_, map_address, [mapped]), (_, address, [word]) = blocks(memory.write(1024 + 6, [42]))
    # Unit 31 is row 2, column 7.
    assert address == 0x20000000000 | 5 << 33 | 2 << 30 | 2 << 14 | 7 << 10 | 6
    assert map_address == address | 1 << 18
    assert (mapped, word) == (1 ^ 0x3F, 42)


def test_filling_a_memory_writes_each_row_of_each_unit():
    written = list(blocks(words.Memory(TOFINO1, 0, (6, 18)).fill(7)))
    assert [values for _, _, values in written] == [[0x3F] * 1024, [7] * 1024, [0x3E] * 1024, [7] * 1024]


def test_a_meters_word_has_both_buckets_full():
    word = words.meter_word(Encoded(300, 20, 175, 1), Encoded(400, 19, 200, 20))
    assert (field(word, 0, 9), field(word, 9, 5)) == (300, 31 - 20)
    assert (field(word, 14, 9), field(word, 23, 5)) == (400, 31 - 19)
    assert (field(word, 28, 8), field(word, 36, 5)) == (175, 1)
    assert (field(word, 41, 8), field(word, 49, 5)) == (200, 20)
    assert field(word, 54, 23) == 350
    # The level of a large bucket lacks its low bits.
    assert field(word, 77, 23) == 200 << 14
    assert field(word, 100, 28) == 0


@pytest.mark.parametrize("burst", [1, 100, 255, 350, 1024])
def test_bursts_of_eight_significant_bits_are_exact(burst):
    assert words.bucket(TOFINO1, 1, burst).burst_bytes == burst


def test_a_rate_below_the_slowest_is_the_slowest():
    encoded = words.bucket(TOFINO1, 1, 350)
    assert (encoded.rate_mantissa, encoded.rate_exponent) == (1, 27)


@pytest.mark.parametrize(("rate", "burst"), [(0, 350), (1000, 0)])
def test_without_rate_or_burst_nothing_passes(rate, burst):
    assert words.bucket(TOFINO1, rate, burst) == words.RED
    word = words.meter_word(words.RED, words.RED)
    assert word == 0x7FFFFF << 54 | 0x7FFFFF << 77
