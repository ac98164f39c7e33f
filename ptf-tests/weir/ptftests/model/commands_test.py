# SPDX-License-Identifier: Apache-2.0
import pytest
from finsy import P4Schema
from finsy.p4entity import encode_entities

from weir.controlplane.translate import to_finsy
from weir.ptftests import entries
from weir.ptftests.model.chips import TOFINO1
from weir.ptftests.model.commands import BadEntryError, Names
from weir.ptftests.model.speaker import read_p4info

P4INFO = read_p4info(TOFINO1)
NAMES = Names(P4INFO)


def encoded(entry):
    (entity,) = encode_entities([to_finsy(entry)], P4Schema(P4INFO))
    return entity.table_entry


def test_an_exact_entry_has_no_address_and_all_digits_of_its_key():
    assert NAMES.add(encoded(entries.forward(0x2, 3)), None) == (
        "add WeirIngress.forward.forward dst:0x000000000002 WeirIngress.forward.set_egress(port:0x3)"
    )


def test_a_ternary_key_is_written_bit_by_bit():
    command = NAMES.add(encoded(entries.verdict((0x0100, 0xFF00), 2, "drop_packet")), 7)
    assert command.startswith("add WeirIngress.verdict.verdict 7 ")
    assert " cell:0b00000001********" in command
    assert command.endswith("WeirIngress.verdict.drop_packet()")


def test_fields_of_a_ternary_entry_that_match_anything_are_written_too():
    command = NAMES.add(encoded(entries.police_shared(300, src=entries.ip("10.0.0.1"))), 7)
    assert f" src:0b{0x0A000001:032b} dst:0b{'*' * 32} " in command
    assert f" dst_port:0b{'*' * 16} " in command


def test_an_unknown_table_is_refused_with_those_that_are_valid():
    entry = encoded(entries.forward(0x2, 3))
    entry.table_id = 1
    with pytest.raises(BadEntryError, match="no table 1; valid:"):
        NAMES.add(entry, None)


def test_an_action_of_another_table_is_refused():
    entry = encoded(entries.forward(0x2, 3))
    entry.action.action.action_id = encoded(entries.verdict(1, 2, "drop_packet")).action.action.action_id
    with pytest.raises(BadEntryError, match=r"WeirIngress\.forward\.forward: no such action"):
        NAMES.add(entry, None)


def test_a_missing_parameter_is_refused():
    entry = encoded(entries.forward(0x2, 3))
    del entry.action.action.params[:]
    with pytest.raises(BadEntryError, match=r"parameters \[\]; valid: \[1\]"):
        NAMES.add(entry, None)
