# SPDX-License-Identifier: Apache-2.0
import pytest
from finsy import P4Schema
from finsy.p4entity import P4CounterEntry, P4MeterEntry, encode_entities
from finsy.proto import p4r

from weir.controlplane.entities import MeterCell
from weir.controlplane.translate import to_finsy
from weir.ptftests import entries
from weir.ptftests.model.chips import TOFINO1
from weir.ptftests.model.harness import ModelError
from weir.ptftests.model.program import ProgramError
from weir.ptftests.model.speaker import install, read_p4info, write_program
from weir.ptftests.model.switch import ModelSwitch, RefusedError

P4INFO = read_p4info(TOFINO1)
SCHEMA = P4Schema(P4INFO)
INSERT, MODIFY, DELETE = p4r.Update.INSERT, p4r.Update.MODIFY, p4r.Update.DELETE


@pytest.fixture
def switch(tmp_path, monkeypatch):
    install(TOFINO1, tmp_path / "bin")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    made = ModelSwitch(TOFINO1, write_program(TOFINO1, tmp_path), tmp_path)
    made.push(P4INFO)
    yield made
    made.close()


def encoded(entity):
    (found,) = encode_entities([to_finsy(entity)], SCHEMA)
    return found


def write(switch, operation, *entities):
    for entity in entities:
        switch.write(p4r.Update(type=operation, entity=encoded(entity)))


def adds(switch):
    """The `add` commands of all models so far, in order."""
    lines = (switch._folder / "commands").read_text().splitlines()
    return [line for line in lines if line.startswith("add ")]


def places(switch):
    """The addresses of verdicts in the newest model, by the cell that they are of."""
    found = {}
    for line in adds(switch):
        _, table, address, cell, *_ = line.split()
        if table.endswith(".verdict"):
            found[int(cell.split(":0b")[1], 2)] = int(address)
    return found


def frames(switch):
    return switch.pass_frames([(1, bytes(60))])


def test_entries_reach_the_model_when_they_are_written(switch):
    write(switch, INSERT, entries.forward(2, 3))
    assert len(adds(switch)) == 1
    assert frames(switch) == [(1, bytes(60))]
    assert len(adds(switch)) == 1


def test_a_deletion_starts_the_model_anew_with_the_entries_that_are_left(switch):
    write(switch, INSERT, entries.forward(2, 3), entries.forward(4, 1))
    write(switch, DELETE, entries.forward(2, 3))
    assert len(adds(switch)) == 2, "not before it is needed"
    frames(switch)
    assert [line.split()[2] for line in adds(switch)[2:]] == ["dst:0x000000000004"]


def test_a_higher_priority_has_a_higher_place_in_whatever_order_entries_come(switch):
    for priority in (50, 10, 70, 60, 20, 30):
        write(switch, INSERT, entries.verdict(priority, 0, "drop_packet", priority))
    found = places(switch)
    assert sorted(found, key=found.get) == [10, 20, 30, 50, 60, 70]
    assert all(0 <= place < 1024 for place in found.values())


def test_a_model_without_a_place_between_priorities_is_started_anew(switch):
    # Each halves the room below the one before.
    priorities = range(40, 20, -1)
    for priority in priorities:
        write(switch, INSERT, entries.verdict(priority, 0, "drop_packet", priority))
    frames(switch)
    found = places(switch)
    assert sorted(found, key=found.get) == sorted(priorities)
    assert len(set(found.values())) == len(priorities)


def test_an_entry_that_is_there_cannot_be_inserted_nor_a_missing_one_deleted(switch):
    write(switch, INSERT, entries.forward(2, 3))
    with pytest.raises(RefusedError, match="is there already") as refused:
        write(switch, INSERT, entries.forward(2, 4))
    assert refused.value.code == "ALREADY_EXISTS"
    with pytest.raises(RefusedError, match="is not there") as refused:
        write(switch, DELETE, entries.forward(5, 1))
    assert refused.value.code == "NOT_FOUND"


def test_what_was_written_is_read_back_and_gone_after_deletion(switch):
    written = [entries.forward(2, 3), entries.flood_group((1, 2)), entries.session(11, 3)]
    write(switch, INSERT, *written)
    wanted = [
        p4r.Entity(table_entry=p4r.TableEntry()),
        p4r.Entity(
            packet_replication_engine_entry=p4r.PacketReplicationEngineEntry(
                multicast_group_entry=p4r.MulticastGroupEntry()
            )
        ),
        p4r.Entity(
            packet_replication_engine_entry=p4r.PacketReplicationEngineEntry(
                clone_session_entry=p4r.CloneSessionEntry()
            )
        ),
    ]
    assert [list(switch.read(one)) for one in wanted] == [[encoded(entity)] for entity in written]
    write(switch, DELETE, *written)
    assert [list(switch.read(one)) for one in wanted] == [[], [], []]


def test_a_counter_is_what_the_memory_holds(switch):
    (found,) = switch.read(encoded(P4CounterEntry("met_counter", index=7)))
    assert (found.counter_entry.data.packet_count, found.counter_entry.data.byte_count) == (3, 180)


def test_a_cell_beyond_the_meter_is_refused(switch):
    with pytest.raises(RefusedError, match="cell 16384; valid: below 16384") as refused:
        write(switch, MODIFY, MeterCell("policer", 16384, 1000, 1000))
    assert refused.value.code == "OUT_OF_RANGE"


def test_a_meter_cell_can_be_set_and_unset(switch):
    write(switch, MODIFY, MeterCell("policer", 5, 1000, 1000))
    write(switch, MODIFY, P4MeterEntry("policer", index=5))
    assert frames(switch)


def test_a_port_of_another_pipe_is_refused(switch):
    with pytest.raises(RefusedError, match="port 132; valid: 0 to 63, of pipe 0"):
        write(switch, INSERT, entries.session(11, 132))


def test_a_session_beyond_ten_bits_is_refused(switch):
    with pytest.raises(RefusedError, match="valid: up to 1023"):
        write(switch, INSERT, entries.session(1024, 3))


def test_an_end_of_the_model_is_noted_and_the_next_frames_meet_a_new_one(switch):
    write(switch, INSERT, entries.forward(2, 3))
    with pytest.raises(ModelError):
        switch._on_model(lambda model: model.run(["abort"]))
    assert ["SIGABRT" in failure for failure in switch.failures] == [True]
    assert frames(switch) == [(1, bytes(60))]
    assert len(adds(switch)) == 2


def test_a_folder_without_a_context_is_no_program(tmp_path):
    with pytest.raises(ProgramError, match=r"context\.json"):
        ModelSwitch(TOFINO1, tmp_path / TOFINO1.binary, tmp_path)
