# SPDX-License-Identifier: Apache-2.0
import pytest

from weir.controlplane.config import parse_experiment
from weir.controlplane.errors import UnsupportedByTargetError
from weir.controlplane.targets import TARGETS, target_of

EXPERIMENT = """\
name: tiny
switch: {{target: {target}}}
hosts: {{a: {{{a}}}, b: {{{b}}}}}
flows: [{{name: f, from: a, to: b, duration: 1 s}}]
policers: [{{name: p, rate: 8 Mbit/s, burst: 20 ms, match: [{{to: b}}], {policer}}}]
"""

AWARE = "meter: tr3c, peak_rate: 16 Mbit/s, peak_burst: 30 kB, colour_aware: true"


def experiment_for(target, a="", b="", policer="mode: shared"):
    return parse_experiment(EXPERIMENT.format(target=target, a=a, b=b, policer=policer))


def test_the_embedded_switch_shapes_and_delays():
    queue = "rate: 1 Mbit/s, burst: 9 kB, queue: 9 kB"
    asked = experiment_for("softswitch", "delay: 1 ms, jitter: 1 ms", queue)
    assert target_of(asked).name == "softswitch"


def test_every_target_of_the_schema_is_there():
    assert set(TARGETS) == {"softswitch", "bmv2", "tofino", "tofino2"}


@pytest.mark.parametrize(
    ("target", "words", "message"),
    [
        ("bmv2", {"a": "delay: 1 ms"}, "hosts.a.delay: ports delay nothing; valid: no delay and jitter"),
        (
            "bmv2",
            {"a": "line_rate: 1 Gbit/s"},
            "hosts.a.line_rate: ports have the rate that the switch gives them; valid: no line_rate",
        ),
        (
            "bmv2",
            {"b": "rate: 1 Mbit/s, burst: 9 kB"},
            "hosts.b.burst: queues are served in packets and have no burst; valid: no burst",
        ),
        (
            "bmv2",
            {"b": "rate: 1 Mbit/s, queue: 9 kB"},
            "hosts.b.queue: queues are limited in packets; valid: queue_packets",
        ),
        (
            "tofino",
            {"b": "rate: 1 Mbit/s, queue_packets: 9"},
            "hosts.b.queue_packets: queues are not limited in packets; valid: queue",
        ),
        (
            "bmv2",
            {"policer": "meter: sr3c, excess_burst: 9 kB"},
            "policer p of phase main: no sr3c meter; valid: sr2c, tr3c",
        ),
        *(
            (
                target,
                {"policer": AWARE},
                "policer p of phase main: colour_aware: meters are colour-blind; valid: colour_aware: false",
            )
            for target in ("softswitch", "bmv2")
        ),
        (
            "softswitch",
            {"policer": "length: l1"},
            "policer p of phase main: meters do not count l1; valid: frame",
        ),
    ],
)
def test_what_a_target_does_not_declare_is_refused_by_key(target, words, message):
    with pytest.raises(UnsupportedByTargetError) as error:
        target_of(experiment_for(target, **words))
    assert str(error.value) == f"{message} (target {target})"


@pytest.mark.parametrize("target", ["tofino", "tofino2"])
def test_a_meter_of_tofino_can_be_colour_aware(target):
    assert target_of(experiment_for(target, policer=AWARE)).name == target


@pytest.mark.parametrize("truncate", ["94 B", "127 B", "130 B"])
def test_reports_of_a_tofino2_end_at_a_word(truncate):
    asked = EXPERIMENT.format(target="TARGET", a="", b="", policer="mode: shared")
    asked += f"telemetry: {{truncate: {truncate}}}\n"
    assert target_of(parse_experiment(asked.replace("TARGET", "tofino"))).name == "tofino"
    with pytest.raises(UnsupportedByTargetError) as error:
        target_of(parse_experiment(asked.replace("TARGET", "tofino2")))
    assert str(error.value) == (
        "telemetry.truncate: reports are cut at multiples of 4 bytes; valid: a multiple of 4 B "
        "(target tofino2)"
    )
    asked = asked.replace(truncate, "96 B").replace("TARGET", "tofino2")
    assert target_of(parse_experiment(asked)).name == "tofino2"


def test_a_link_that_loses_needs_a_switch_that_can_lose():
    with pytest.raises(UnsupportedByTargetError, match=r"hosts\.a\.loss: ports lose nothing at random"):
        target_of(experiment_for("bmv2", "loss: 1 %"))
