# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from weir.controlplane.attach import Attachment, CollectorEndpoint, HostPort, attachment_of
from weir.controlplane.config import ConfigError, load_experiment, parse_experiment
from weir.controlplane.entities import CloneSession, Match, MeterCell, MulticastGroup, TableEntry, changes
from weir.controlplane.errors import PlanError
from weir.controlplane.phase_plan import FlowKey, PhasePlan
from weir.controlplane.pipeline import load_pipeline
from weir.controlplane.plan import Plan, make_plan, measured_pairs

DEMO = Path(__file__).parents[3] / "experiments" / "demo.yaml"
COLLECTOR = CollectorEndpoint(
    port=9,
    mac="02:00:00:00:00:09",
    ip="10.0.0.9",
    udp_port=32766,
    switch_mac="02:00:00:00:00:fe",
    switch_ip="10.0.0.254",
)
HASHED = """\
name: hashed
hosts: {a: {}, b: {}, c: {}}
flows: [{name: f, from: a, to: b, duration: 1 s, measured: true}]
policers:
  - {name: odd, rate: 12 bit/s, burst: 9 kB, match: [{from: c, protocol: udp, dst_port: 53, dscp: 46}]}
  - {name: each, rate: 8 Mbit/s, burst: 20 ms, mode: per_flow_hashed, cells: 4,
     match: [{from: [a, a], to: b}, {}]}
"""


def hosts(*names: str) -> dict[str, HostPort]:
    return {
        name: HostPort(number, f"02:00:00:00:00:{number:02x}", f"10.0.0.{number}")
        for number, name in enumerate(names, 1)
    }


def attached(where: dict[str, HostPort]) -> Attachment:
    return Attachment(where, {"collector": COLLECTOR})


@pytest.fixture(name="demo")
def _demo() -> Plan:
    return make_plan(
        load_experiment(DEMO),
        attached(hosts("client", "server1", "server2", "background1", "background2")),
    )


@pytest.fixture(name="hashed")
def _hashed() -> PhasePlan:
    return make_plan(parse_experiment(HASHED), attached(hosts("a", "b", "c"))).phase("main")


def table(phase: PhasePlan, name: str) -> list[TableEntry]:
    return [entity for entity in phase.entities if isinstance(entity, TableEntry) and entity.table == name]


def test_every_host_is_forwarded_to_and_flooded_to_once(demo: Plan) -> None:
    phase = demo.phase("shared")
    assert MulticastGroup(1, (1, 2, 3, 4, 5)) in phase.entities
    assert table(phase, "forward")[1] == TableEntry(
        "forward", (Match("dst", 0x02_00_00_00_00_02),), "set_egress", (("port", 2),)
    )
    assert len(table(phase, "forward")) == 5


def test_the_shared_policer_takes_the_flows_of_all_servers(demo: Plan) -> None:
    # 10.0.0.1 is 0x0a000001; the client is host 1, the servers 2 to 5
    assert table(demo.phase("shared"), "classify") == [
        TableEntry(
            "classify",
            (Match("dst", 0x0A000001), Match("src", 0x0A000000 + server)),
            "police_shared",
            (("cell", 1), ("watched", 0)),
            1,
        )
        for server in (2, 3, 4, 5)
    ]


def test_rate_and_burst_are_in_bytes_on_the_switch(demo: Plan) -> None:
    # 40 Mbit/s = 5,000,000 B/s, of which 20 ms are 100,000 B
    assert MeterCell("policer", 1, 5_000_000, 100_000) in demo.phase("shared").entities
    policer = demo.phase("shared").policers[0]
    assert (policer.effective_rate_bps, policer.effective_burst_bytes, policer.notes) == (
        40_000_000,
        100_000,
        (),
    )


def test_a_colour_aware_policer_takes_the_colour_from_the_drop_precedence_of_assured_forwarding() -> None:
    aware = "meter: tr3c, peak_rate: 16 Mbit/s, peak_burst: 30 kB, colour_aware: true"
    text = HASHED.replace("hosts:", "switch: {target: tofino}\nhosts:").replace(
        "rate: 12 bit/s", "rate: 1 Mbit/s"
    )
    text = text.replace("mode: per_flow_hashed", f"{aware}, mode: per_flow_hashed")
    phase = make_plan(parse_experiment(text), attached(hosts("a", "b", "c"))).phase("main")
    # RFC 2597, section 6: AF11 is 001010, AF12 001100, AF13 001110; each class adds 8.
    (each,) = [policer for policer in phase.policers if policer.name == "each"]
    cells = Match("cell", each.index, 0xFFFC)
    pre_colours = {entry.matches: entry.action for entry in table(phase, "pre_colour")}
    assert pre_colours == {
        (cells, Match("dscp", codepoint)): action
        for action, codepoints in {
            "come_in_yellow": (0b001100, 0b010100, 0b011100, 0b100100),
            "come_in_red": (0b001110, 0b010110, 0b011110, 0b100110),
        }.items()
        for codepoint in codepoints
    }


def test_phases_have_meter_cells_of_their_own(demo: Plan) -> None:
    assert [[policer.index for policer in phase.policers] for phase in demo.phases] == [[1], [2, 3]]


def test_red_is_dropped_and_drops_are_reported_per_policer(demo: Plan) -> None:
    phase = demo.phase("separate")
    assert table(phase, "verdict") == [
        TableEntry("verdict", (Match("cell", cell), Match("colour", 2)), "drop_packet", (), 1)
        for cell in (2, 3)
    ]
    assert table(phase, "report") == [
        TableEntry("report", (Match("cell", cell),), "report_drops", (("collector", 1), ("session", 1)), 1)
        for cell in (2, 3)
    ]


def test_reports_go_to_the_collector_whole_and_are_cut_by_the_pipeline(demo: Plan) -> None:
    phase = demo.phase("shared")
    assert CloneSession(1, (9,), truncate_bytes=0) in phase.entities
    (entry,) = table(phase, "collector")
    assert dict(entry.args) == {
        "src_mac": 0x02_00_00_00_00_FE,
        "dst_mac": 0x02_00_00_00_00_09,
        "src": 0x0A0000FE,
        "dst": 0x0A000009,
        "src_port": 32766,
        "dst_port": 32766,
        "node_id": 1,
        "inner_bytes": 128,
    }


def test_the_truth_of_a_pair_follows_from_the_policers(demo: Plan) -> None:
    one, other = FlowKey("server1", "client"), FlowKey("server2", "client")
    assert demo.phase("shared").truth(one, other) == "shared"
    assert demo.phase("separate").truth(one, other) == "separate"
    policer = demo.phase("separate").policer_of(other)
    assert policer is not None
    assert policer.name == "right"


PIPES = """\
name: pipes
switch: {{target: {target}}}
hosts: {{near: {{port: 4}}, far: {{port: 132}}, client: {{port: 260}}}}
flows: [{{name: f, from: near, to: client, duration: 1 s}}]
policers: [{{name: p, rate: 8 Mbit/s, burst: 20 kB, {policer}}}]
"""


def on_pipes(target: str, policer: str) -> PhasePlan:
    experiment = parse_experiment(PIPES.format(target=target, policer=policer))
    (phase,) = make_plan(experiment, attachment_of(experiment)).phases
    return phase


@pytest.mark.parametrize("target", ["tofino", "tofino2"])
def test_each_pipe_of_a_tofino_has_a_bucket_of_a_shared_policer(target: str) -> None:
    phase = on_pipes(target, "match: [{to: client}]")
    assert [note for note in phase.notes if "pipes" in note] == [
        "warning: policer p: its packets come in through ports of pipes 0, 1, each of which polices "
        "separately: up to 2 times the rate passes; valid: senders at ports of one pipe"
    ]
    near, far = FlowKey("near", "client"), FlowKey("far", "client")
    assert (phase.truth(near, far), phase.truth(near, near)) == ("separate", "shared")


@pytest.mark.parametrize(
    ("target", "policer"),
    [
        ("tofino", "match: [{from: near, to: client}]"),
        ("tofino", "mode: per_flow_learned, flows: 4, match: [{to: client}]"),
        ("softswitch", "match: [{to: client}]"),
        ("bmv2", "match: [{to: client}]"),
    ],
)
def test_senders_of_one_pipe_and_switches_of_one_state_have_no_note_of_pipes(
    target: str, policer: str
) -> None:
    phase = on_pipes(target, policer)
    assert not any("pipe" in note for note in phase.notes)


def test_a_switch_of_one_state_has_one_bucket_whatever_the_ports() -> None:
    phase = on_pipes("softswitch", "match: [{to: client}]")
    assert phase.truth(FlowKey("near", "client"), FlowKey("far", "client")) == "shared"


def test_two_flows_without_a_policer_do_not_share_one(demo: Plan) -> None:
    upstream = FlowKey("client", "server1")
    assert demo.phase("shared").policer_of(upstream) is None
    assert demo.phase("shared").truth(upstream, upstream) == "separate"


def test_every_two_measured_flows_are_a_pair() -> None:
    assert measured_pairs(load_experiment(DEMO)) == (("measured1", "measured2"),)


def test_earlier_policers_have_the_higher_priority(hashed: PhasePlan) -> None:
    assert [(entry.action, entry.priority) for entry in table(hashed, "classify")] == [
        ("police_shared", 2),
        ("police_hashed", 1),
        ("police_hashed", 1),
    ]


def test_a_match_becomes_one_entry_without_the_fields_that_it_leaves_open(hashed: PhasePlan) -> None:
    entries = table(hashed, "classify")
    assert entries[0].matches == (
        Match("dscp", 46),
        Match("dst_port", 53),
        Match("has_ports", 1),
        Match("protocol", 17),
        Match("src", 0x0A000003),
    )
    assert entries[2].matches == ()


def test_a_hashed_policer_has_aligned_cells_that_one_entry_covers(hashed: PhasePlan) -> None:
    each = hashed.policers[1]
    assert (each.index, each.cells) == (4, 4)
    assert [cell.index for cell in hashed.entities if isinstance(cell, MeterCell)] == [1, 4, 5, 6, 7]
    assert table(hashed, "verdict")[1].matches == (Match("cell", 4, 0xFFFC), Match("colour", 2))
    assert table(hashed, "classify")[1].args == (("base", 4), ("mask", 3), ("watched", 0))


def test_a_rate_that_is_no_whole_number_of_bytes_is_rounded_and_said(hashed: PhasePlan) -> None:
    assert hashed.policers[0].rate_bytes_per_s == 2  # 1.5 B/s
    assert hashed.notes == ("policer odd: 12 bit/s is set as 16 bit/s: a meter has whole bytes per second",)


def test_the_cell_of_a_hashed_flow_is_known_with_its_ports(hashed: PhasePlan) -> None:
    # crc32 of Perl's Compress::Zlib over 0a000001 0a000002 06 1389 1451 is 0x13c5fbe6; its low 2 bits are 2.
    assert hashed.cell_of(FlowKey("a", "b", 6, 5001, 5201)) == 4 + 2
    with pytest.raises(PlanError, match="which cell of each a → b meets depends on its ports"):
        hashed.cell_of(FlowKey("a", "b"))


def test_flows_in_different_cells_of_one_policer_are_separate(hashed: PhasePlan) -> None:
    keys = [FlowKey("a", "b", 6, port, 5201) for port in range(5001, 5010)]
    cells = {hashed.cell_of(key) for key in keys}
    assert cells <= {4, 5, 6, 7}
    assert len(cells) > 1
    other = next(key for key in keys if hashed.cell_of(key) != hashed.cell_of(keys[0]))
    assert hashed.truth(keys[0], other) == "separate"
    assert hashed.truth(keys[0], keys[0]) == "shared"


def test_a_policer_that_matches_ports_needs_those_of_the_flow(hashed: PhasePlan) -> None:
    with pytest.raises(PlanError, match="which policer c → b meets depends on its ports"):
        hashed.policer_of(FlowKey("c", "b", protocol=17, dscp=46))


def test_the_next_phase_changes_only_what_differs(demo: Plan) -> None:
    update = changes(demo.phase("shared").entities, demo.phase("separate").entities)
    moved = "table classify [dst=10.0.0.1 src=10.0.0.{}] priority {}"
    assert [entity.key for entity in update.modify] == [
        "meter policer cell 2",
        "meter policer cell 3",
        moved.format(3, 1),
        moved.format(5, 1),
    ]
    assert sorted(entity.key for entity in update.insert) == [
        moved.format(2, 2),
        moved.format(4, 2),
        "table report [cell=2] priority 1",
        "table report [cell=3] priority 1",
        "table verdict [cell=2 colour=2] priority 1",
        "table verdict [cell=3 colour=2] priority 1",
    ]
    assert sorted(entity.key for entity in update.delete) == [
        moved.format(2, 1),
        moved.format(4, 1),
        "table report [cell=1] priority 1",
        "table verdict [cell=1 colour=2] priority 1",
    ]


def test_the_same_phase_again_changes_nothing(demo: Plan) -> None:
    assert len(changes(demo.phase("shared").entities, demo.phase("shared").entities)) == 0


def test_a_host_without_a_port_is_named() -> None:
    with pytest.raises(PlanError) as error:
        make_plan(parse_experiment(HASHED), attached(hosts("a", "b")))
    assert str(error.value) == "no switch port for host c; valid: a port for each host of the experiment"


def test_two_hosts_on_one_port_are_named() -> None:
    where = {**hosts("a", "b", "c"), "c": HostPort(2, "02:00:00:00:00:07", "10.0.0.7")}
    with pytest.raises(PlanError) as error:
        make_plan(parse_experiment(HASHED), attached(where))
    assert str(error.value) == "hosts b and c both have port 2; valid: one each"


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("mac", "02:00", "'02:00' is not a MAC address; valid: such as 02:00:00:00:00:01"),
        ("ip", "10.0.0", "'10.0.0' is not an IPv4 address; valid: such as 10.0.0.1"),
    ],
)
def test_an_address_that_is_none_is_named(field: str, value: str, message: str) -> None:
    where = hosts("a", "b", "c")
    bad = HostPort(3, value, "10.0.0.3") if field == "mac" else HostPort(3, "02:00:00:00:00:03", value)
    with pytest.raises(PlanError) as error:
        make_plan(parse_experiment(HASHED), attached({**where, "c": bad}))
    assert str(error.value) == message


def test_an_unknown_phase_is_named(demo: Plan) -> None:
    with pytest.raises(PlanError) as error:
        demo.phase("third")
    assert str(error.value) == "no phase 'third'; valid: shared, separate"


RICH = """\
name: rich
hosts: {a: {}, b: {}}
flows: [{name: f, from: a, to: b, duration: 9 s, measured: true}]
telemetry:
  collectors:
    near: {port: 8, mac: "02:00:00:00:00:08", address: 10.0.0.8}
    far: {port: 8, mac: "02:00:00:00:00:08", address: 10.0.1.8, udp_port: 5000}
phases:
  - name: one
    policers:
      - name: colours
        meter: tr3c
        rate: 8 Mbit/s
        burst: 20 ms
        peak_rate: 16 Mbit/s
        peak_burst: 30 kB
        verdict: {green: mark_ce, yellow: remark_dscp 10, red: mark_ce_or_drop}
        reports: {drops: false, enqueues: 100, congested_at: 50, collector: far}
        match: [{from: a}]
      - name: learned
        rate: 8 Mbit/s
        burst: 20 ms
        mode: per_flow_learned
        cells: 16
        flows: 40
        match: [{}]
    changes:
      - {at: 1 s, policer: colours, rate: 4 Mbit/s, burst: 10 kB}
      - {at: 2 s, policer: colours, match: [{from: b}]}
"""


def test_learned_policers_of_a_phase_have_together_no_more_flows_than_the_switchs_table() -> None:
    another = """\
      - {name: more, rate: 8 Mbit/s, burst: 20 ms, mode: per_flow_learned, cells: 4, flows: %d, match: [{}]}
    changes:
"""
    for flows, fits in ((16_344, True), (16_345, False)):
        experiment = parse_experiment(RICH.replace("    changes:\n", another % flows))
        if fits:
            make_plan(experiment, attachment_of(experiment))
            continue
        with pytest.raises(PlanError) as error:
            make_plan(experiment, attachment_of(experiment))
        assert str(error.value) == (
            "phase one: flows of learned, more: 16385 in sum, more than the switch's table of learned flows "
            "holds; valid: at most 16384"
        )


@pytest.fixture(name="rich")
def _rich() -> PhasePlan:
    experiment = parse_experiment(RICH)
    return make_plan(experiment, attachment_of(experiment)).phase("one")


def test_a_three_colour_policer_has_both_buckets_and_a_verdict_for_each_colour(rich: PhasePlan) -> None:
    colours, _ = rich.policers
    assert colours.meter_cell(1) == MeterCell("policer", 1, 1_000_000, 20_000, 2_000_000, 30_000)
    assert [(entry.matches[1].value, entry.action, entry.args) for entry in table(rich, "verdict")[:3]] == [
        (0, "mark_ce", (("drop_not_ect", 0),)),
        (1, "remark_dscp", (("dscp", 10),)),
        (2, "mark_ce", (("drop_not_ect", 1),)),
    ]


def test_enqueues_are_reported_to_the_collector_that_is_named(rich: PhasePlan) -> None:
    (entry,) = table(rich, "report_enqueues")
    assert dict(entry.args) == {"collector": 2, "session": 2, "every": 100, "congested_at": 50}
    assert dict(table(rich, "classify")[0].args)["watched"] == 1
    # Drops are reported to the first collector, and only by the second policer.
    assert [dict(entry.args) for entry in table(rich, "report")] == [{"collector": 1, "session": 1}]
    assert [dict(entry.args)["dst_port"] for entry in table(rich, "collector")] == [32766, 5000]
    assert CloneSession(2, (8,)) in rich.entities


def test_a_learned_policer_has_hashed_cells_and_then_cells_for_its_flows(rich: PhasePlan) -> None:
    _, learned = rich.policers
    assert learned.cells == 64
    assert learned.index % 64 == 0
    assert learned.learned_cells == range(learned.index + 16, learned.index + 56)
    action, args = table(rich, "classify")[1].action, dict(table(rich, "classify")[1].args)
    assert (action, args["base"], args["mask"]) == ("police_learned", learned.index, 15)
    one, other = FlowKey("a", "b", 6, 1, 2, 9), FlowKey("b", "a", 6, 1, 2, 9)
    assert rich.truth(one, other) == "separate"


def test_each_change_is_what_is_on_the_switch_from_then_on(rich: PhasePlan) -> None:
    first, second = rich.steps
    update = changes(rich.entities, first.plan.entities)
    assert (update.insert, update.delete) == ((), ())
    assert update.modify == (MeterCell("policer", 1, 500_000, 10_000, 2_000_000, 30_000),)
    update = changes(first.plan.entities, second.plan.entities)
    assert [entry.table for entry in (*update.insert, *update.delete)] == ["classify", "classify"]
    assert update.modify == ()


def test_a_change_of_the_ground_truth_about_measured_flows_is_refused(rich: PhasePlan) -> None:
    one, other = FlowKey("a", "b", 6, 1, 2), FlowKey("a", "b", 6, 3, 4)
    with pytest.raises(PlanError, match="share a policer changes in phase one; valid: "):
        rich.truth(one, other)


def test_hosts_and_the_collector_are_where_a_run_would_put_them() -> None:
    experiment = parse_experiment(HASHED.replace("b: {}", "b: {address: 10.0.0.1, port: 7}"))
    where = attachment_of(experiment)
    assert [(host.port, host.ip) for host in where.hosts.values()] == [
        (1, "10.0.0.2"),
        (7, "10.0.0.1"),
        (3, "10.0.0.3"),
    ]
    assert where.hosts["a"].mac == "02:00:0a:00:00:02"
    assert where.collectors["collector"].port == 8


def test_a_host_at_the_last_port_leaves_none_for_a_collector_that_the_file_does_not_give() -> None:
    last = HASHED.replace("b: {}", "b: {port: 509}")
    with pytest.raises(PlanError) as error:
        attachment_of(parse_experiment(last))
    assert str(error.value) == (
        "hosts.b.port: none is left for the collector after 509; "
        "valid: below 509, or telemetry.collectors with a port"
    )
    given = "telemetry: {collectors: {far: {port: 8, address: 10.0.9.9, mac: '02:00:00:00:09:09'}}}\n"
    assert attachment_of(parse_experiment(last + given)).collectors["far"].port == 8
    assert attachment_of(parse_experiment(last.replace("509", "508"))).collectors["collector"].port == 509


def test_flows_without_a_policer_share_the_bucket_of_their_common_queue() -> None:
    shaped = HASHED.replace("b: {}", "b: {rate: 1 Mbit/s}").replace(", {}]}", "]}")
    experiment = parse_experiment(shaped.replace("from: [a, a], to: b", "from: c, to: a"))
    phase = make_plan(experiment, attachment_of(experiment)).phase("main")
    one, other, elsewhere = FlowKey("a", "b"), FlowKey("c", "b", 6, 1, 2), FlowKey("b", "c")
    assert phase.policer_of(one) is phase.policer_of(other) is None
    assert phase.truth(one, other) == "shared"
    assert phase.truth(one, elsewhere) == "separate"
    assert phase.truth(elsewhere, elsewhere) == "separate"


def test_drops_at_the_queue_of_a_shaped_host_are_reported() -> None:
    experiment = parse_experiment(HASHED.replace("b: {}", "b: {rate: 1 Mbit/s}"))
    phase = make_plan(experiment, attachment_of(experiment)).phase("main")
    assert table(phase, "report_queue") == [
        TableEntry(
            "report_queue", (Match("port", 2),), "report_queue_drops", (("collector", 1), ("session", 1))
        )
    ]


def test_packets_for_a_queue_without_deflection_are_numbered() -> None:
    text = HASHED.replace("name: hashed", "name: hashed\nswitch: {target: bmv2}")
    experiment = parse_experiment(text.replace("b: {}", "b: {rate: 1 Mbit/s}"))
    phase = make_plan(experiment, attachment_of(experiment)).phase("main")
    actions = [entry.action for entry in table(phase, "forward")]
    assert actions == ["set_egress", "set_numbered_egress", "set_egress"]


def test_a_match_holds_for_ipv6_too_where_its_hosts_have_addresses() -> None:
    six = HASHED.replace("a: {}, b: {}", "a: {address6: '2001:db8::a'}, b: {address6: '2001:db8::b'}")
    experiment = parse_experiment(six)
    phase = make_plan(experiment, attachment_of(experiment)).phase("main")
    # The first policer matches traffic of c, which has no IPv6 address; the last match is {}, all traffic.
    assert [entry.key for entry in table(phase, "classify_ipv6")] == [
        "table classify_ipv6 [dst=2001:db8::b src=2001:db8::a] priority 1",
        "table classify_ipv6 [any] priority 1",
    ]
    both = [table(phase, name)[-1] for name in ("classify", "classify_ipv6")]
    assert (both[0].action, both[0].args) == (both[1].action, both[1].args)


def test_a_switch_has_counters_and_sequences_for_as_many_collectors_as_an_experiment_may_have() -> None:
    sequences = load_pipeline().schema.registers["sequence"].size
    one = "{port: 9, mac: '02:00:00:00:00:09', address: 10.0.0.9}"

    def with_collectors(count: int) -> str:
        named = ", ".join(f"c{number}: {one}" for number in range(count))
        return f"{HASHED}telemetry: {{collectors: {{{named}}}}}\n"

    # Collector id 0 means none.
    assert len(parse_experiment(with_collectors(sequences - 1)).telemetry.collectors) == sequences - 1
    with pytest.raises(ConfigError, match="collectors"):
        parse_experiment(with_collectors(sequences))
