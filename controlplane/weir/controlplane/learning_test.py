# SPDX-License-Identifier: Apache-2.0
import pytest
from finsy import P4DigestList

from weir.controlplane.entities import Match, TableEntry
from weir.controlplane.errors import ReadError
from weir.controlplane.learning import FlowLearner, LearningStatus

BASE = 16


def announced(*ports, base=BASE, digest="flow_digest_t"):
    flows = [
        {"src": 1, "dst": 2, "protocol": 17, "src_port": port, "dst_port": 9, "base": base} for port in ports
    ]
    return P4DigestList(digest, list_id=1, timestamp=0, data=flows)


def cells(entries):
    return [dict(entry.args)["cell"] for entry in entries]


def test_a_new_flow_gets_a_cell_of_its_policers_pool():
    learner = FlowLearner({BASE: range(100, 102)})
    key = (
        Match("dst", 2),
        Match("dst_port", 9),
        Match("protocol", 17),
        Match("src", 1),
        Match("src_port", 5),
    )
    entry = TableEntry("flow_policer", key, "set_flow_cell", (("cell", 100),))
    assert learner.entries(announced(5)) == [entry]


def test_a_flow_that_is_announced_again_gets_no_second_entry():
    learner = FlowLearner({BASE: range(100, 102)})
    assert cells(learner.entries(announced(5, 5))) == [100]
    assert learner.entries(announced(5)) == []


def test_an_ipv6_flow_is_a_different_flow_in_a_separate_table():
    learner = FlowLearner({BASE: range(100, 102)})
    learner.entries(announced(5))
    (entry,) = learner.entries(announced(5, digest="flow_ipv6_digest_t"))
    assert (entry.table, cells([entry])) == ("flow_policer_ipv6", [101])


def test_flows_beyond_the_pool_are_counted_once_and_get_no_entry():
    learner = FlowLearner({BASE: range(100, 102)})
    assert cells(learner.entries(announced(1, 2, 3, 4, 3))) == [100, 101]
    assert learner.status(BASE) == LearningStatus(2, 0, 2)


def test_a_forgotten_flows_cell_goes_to_the_next_one():
    learner = FlowLearner({BASE: range(100, 101)})
    (entry,) = learner.entries(announced(1, 2))
    learner.forget(entry)
    assert cells(learner.entries(announced(2))) == [100]
    assert learner.status(BASE) == LearningStatus(1, 0, 0)


def test_a_flow_without_room_in_its_table_frees_its_cell_and_waits_until_a_flow_of_that_table_leaves():
    learner = FlowLearner({BASE: range(100, 104)})
    first, second = learner.entries(announced(1, 2))
    learner.refuse(second)
    assert learner.status(BASE) == LearningStatus(1, 3, 1)
    assert learner.entries(announced(2, 3)) == []
    assert learner.status(BASE) == LearningStatus(1, 3, 2)
    assert len(learner.entries(announced(4, digest="flow_ipv6_digest_t"))) == 1
    learner.forget(first)
    assert len(learner.entries(announced(2))) == 1
    assert learner.status(BASE) == LearningStatus(2, 2, 1)


def test_policers_do_not_share_their_pools():
    learner = FlowLearner({BASE: range(100, 101), 32: range(200, 201)})
    assert cells(learner.entries(announced(1))) == [100]
    assert cells(learner.entries(announced(2, base=32))) == [200]


def test_flows_of_an_earlier_phases_policers_are_skipped_and_counted():
    learner = FlowLearner({BASE: range(100, 101)})
    assert learner.entries(announced(1, 2, base=7)) == []
    assert learner.messages_skipped == 2
    assert cells(learner.entries(announced(1))) == [100]
    assert learner.status(BASE) == LearningStatus(1, 0, 0)


def test_digests_of_unknown_names_are_refused_with_the_valid_ones():
    learner = FlowLearner({BASE: range(100, 101)})
    with pytest.raises(ReadError, match=r"'other'; valid: flow_digest_t"):
        learner.entries(announced(1, digest="other"))


def test_adopted_flows_keep_their_cells():
    before = FlowLearner({BASE: range(100, 102)})
    entries = before.entries(announced(1, 2))
    after = FlowLearner({BASE: range(100, 102)})
    assert after.adopt(entries) == []
    assert after.status(BASE) == LearningStatus(2, 0, 0)
    assert after.entries(announced(1)) == []


def test_entries_whose_cells_are_in_no_pool_or_in_use_are_not_adopted():
    learner = FlowLearner({BASE: range(100, 102)})
    (entry,) = FlowLearner({BASE: range(200, 201)}).entries(announced(1))
    (one,) = learner.entries(announced(2))
    assert learner.adopt([entry, one]) == [entry, one]


def test_a_flow_is_idle_once_it_had_no_new_packets_for_the_limit():
    learner = FlowLearner({BASE: range(100, 102)})
    busy, silent = learner.entries(announced(1, 2))
    assert learner.idle({100: 5, 101: 5}, 0.0, {BASE: 10.0}) == []
    assert learner.idle({100: 6, 101: 5}, 9.9, {BASE: 10.0}) == []
    assert learner.idle({100: 7, 101: 5}, 10.0, {BASE: 10.0}) == [silent]
    learner.forget(silent)
    assert learner.idle({100: 7}, 19.9, {BASE: 10.0}) == []
    assert learner.idle({100: 7}, 20.0, {BASE: 10.0}) == [busy]


def test_a_policer_without_a_limit_keeps_its_flows():
    learner = FlowLearner({BASE: range(100, 102)})
    learner.entries(announced(1))
    learner.idle({100: 5}, 0.0, {})
    assert learner.idle({100: 5}, 1e9, {}) == []
