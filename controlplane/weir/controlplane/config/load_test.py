# SPDX-License-Identifier: Apache-2.0
"""Each case is a file with one mistake, and the one error line for it."""

from pathlib import Path
from string import ascii_letters

import pytest

from weir.controlplane.config import (
    ConfigError,
    Source,
    experiment_of,
    load_experiment,
    parse_experiment,
)

VALID = """\
name: tiny
hosts:
  a: {delay: 10 ms}
  b: {delay: 10 ms, rate: 100 Mbit/s, burst: 15 kB, queue: 64 kB}
flows:
  - {name: one, from: a, to: b, duration: 4 s}
policers:
  - {name: p, rate: 8 Mbit/s, burst: 20 ms, match: [{to: b}]}
"""

DEMO = Path(__file__).parents[4] / "experiments" / "demo.yaml"
ALL_RATES = "valid: bit/s, kbit/s, Mbit/s, Gbit/s, Tbit/s, such as '40 Mbit/s'"
ALL_BURSTS = (
    "valid: a time (ns, us, ms, s, min) at the rate, "
    "or a size (B, kB, MB, GB, KiB, MiB, GiB), such as '20 ms'"
)
NAME_RULE = "valid: 1 to 32 of A-Z a-z 0-9 _ -, the first a letter or digit"


def test_the_file_that_the_cases_change_is_valid() -> None:
    experiment = parse_experiment(VALID)
    assert experiment.effective_phases()[0].name == "main"
    assert experiment.hosts["b"].rate == 100_000_000
    assert experiment.flows[0].congestion_control == "cubic"
    assert experiment.effective_phases()[0].policers[0].match[0].destination == ("b",)


def test_the_demo_is_two_phases_of_one_and_two_policers() -> None:
    experiment = load_experiment(DEMO)
    assert [[policer.name for policer in phase.policers] for phase in experiment.effective_phases()] == [
        ["common"],
        ["left", "right"],
    ]
    assert [flow.name for flow in experiment.flows if flow.measured] == ["measured1", "measured2"]


@pytest.mark.parametrize("name", ["bbr-dominant", "when-to-use-bbr"])
def test_a_campaign_is_named_as_one_in_a_single_line(name: str) -> None:
    path = DEMO.with_name(f"{name}.yaml")
    with pytest.raises(ConfigError) as error:
        load_experiment(path)
    (line,) = error.value.lines
    assert line.endswith(": this is a campaign, not one experiment; valid: `weir campaign` of this file")


def test_the_name_of_a_kernel_is_read_as_it_is_written() -> None:
    for written in ("6.10", "'6.10'", "6.12", "007", "bbr3"):
        experiment = parse_experiment(VALID + f"time: virtual\nkernel: {written}\n")
        assert experiment.kernel == written.strip("'")
    anchored = parse_experiment(VALID + "time: virtual\nkernel: &same 6.10\ndescription: *same\n")
    assert (anchored.kernel, anchored.description) == ("6.10", "6.10")


def test_a_kernel_of_data_that_is_a_number_must_be_quoted() -> None:
    source = Source.parse(VALID, "x.yaml")
    with pytest.raises(
        ConfigError, match=r"kernel: 6\.1 is a number; valid: the kernel's name in quotes, such as '6\.1'"
    ):
        experiment_of(source.data | {"kernel": 6.10}, source)


def test_settings_of_a_host_are_text_or_whole_numbers() -> None:
    settings = "{net.ipv4.tcp_ecn: 1, net.ipv4.tcp_rmem: 4096 131072 6291456}"
    experiment = parse_experiment(VALID.replace("a: {delay: 10 ms}", f"a: {{sysctl: {settings}}}"))
    assert experiment.hosts["a"].sysctl == {
        "net.ipv4.tcp_ecn": "1",
        "net.ipv4.tcp_rmem": "4096 131072 6291456",
    }


CASES = {
    "unknown key": (
        ("duration: 4 s}", "duration: 4 s, congestion: bbr}"),
        "x.yaml:6: flows[0].congestion: unknown key (did you mean 'congestion_control'?); "
        "valid: name, from, to, protocol, ip_version, congestion_control, start, duration, measured, rate, "
        "pacing, writes, replay, datagram",
    ),
    "UDP without a rate": (
        ("duration: 4 s}", "duration: 4 s, protocol: udp}"),
        "x.yaml:6: flows[0].rate: missing for protocol udp; valid: such as '10 Mbit/s', or a replay",
    ),
    "a congestion control of UDP": (
        ("duration: 4 s}", "duration: 4 s, protocol: udp, rate: 1 Mbit/s, congestion_control: bbr}"),
        "x.yaml:6: flows[0].congestion_control: has no effect on UDP; valid: leave it out, or protocol: tcp",
    ),
    "datagrams of TCP": (
        ("duration: 4 s}", "duration: 4 s, datagram: 100 B}"),
        "x.yaml:6: flows[0].datagram: has no effect on TCP; valid: leave it out, or protocol: udp",
    ),
    "a flow over IPv6 to a host that has none": (
        ("duration: 4 s}", "duration: 4 s, ip_version: 6}"),
        "x.yaml:6: flows[0].ip_version: a and b have no IPv6 address; valid: 4, or hosts with an address6",
    ),
    "an unknown version of IP": (
        ("duration: 4 s}", "duration: 4 s, ip_version: 5}"),
        "x.yaml:6: flows[0].ip_version: 5 is not known; valid: 4, 6",
    ),
    "an IPv4 address for IPv6": (
        ("{delay: 10 ms}\n  b", "{address6: 10.0.0.1}\n  b"),
        "x.yaml:3: hosts.a.address6: '10.0.0.1' is not an IPv6 address; valid: such as 2001:db8::1",
    ),
    "an unknown time": (
        ("flows:", "time: fast\nflows:"),
        "x.yaml:5: time: 'fast' is not known; valid: real, virtual",
    ),
    "a kernel that is no name": (
        ("flows:", "kernel: [6.12]\nflows:"),
        "x.yaml:5: kernel: ['6.12'] is not the name of a kernel; valid: a name of `weir kernel list`",
    ),
    "a setting that is not of a network namespace": (
        ("{delay: 10 ms}\n  b", "{sysctl: {kernel.panic: 1}}\n  b"),
        "x.yaml:3: hosts.a.sysctl.kernel.panic: 'kernel.panic' is not a setting of a network namespace; "
        "valid: such as net.ipv4.tcp_ecn",
    ),
    "a setting's value that is a list": (
        ("{delay: 10 ms}\n  b", "{sysctl: {net.ipv4.tcp_ecn: [1]}}\n  b"),
        "x.yaml:3: hosts.a.sysctl.net.ipv4.tcp_ecn: [1] is not the value of a setting; "
        "valid: a whole number, or a line of text",
    ),
    "unknown key at the top": (
        ("flows:", "sed: 2\nflows:"),
        "x.yaml:5: sed: unknown key (did you mean 'seed'?); "
        "valid: name, description, seed, time, kernel, switch, hosts, flows, background, policers, phases, "
        "telemetry, capture, analysis",
    ),
    "a background from nowhere": (
        (
            "policers:",
            "background: [{name: b, from: nobody, to: b, duration: 1 s, rate: 1 Mbit/s}]\npolicers:",
        ),
        "x.yaml:7: background[0].from: no host 'nobody'; valid: a, b",
    ),
    "a background whose flows are larger than its largest": (
        (
            "policers:",
            "background: [{name: b, from: a, to: b, duration: 1 s, rate: 1 Mbit/s, "
            "mean_size: 90 kB, largest_size: 80 kB}]\npolicers:",
        ),
        "x.yaml:7: background[0].largest_size: 80000 B is not more than the mean; valid: more than 90000 B",
    ),
    "a matrix, which is a campaign's": (
        ("flows:", "matrix: {rate: [1, 2]}\nflows:"),
        "x.yaml:5: matrix: this is a campaign, not one experiment; valid: `weir campaign` of this file",
    ),
    "longer than iperf3's longest test": (
        ("duration: 4 s", "duration: 86401 s"),
        "x.yaml:6: flows[0].duration: 86401 s is more than iperf3 has; valid: at most 86400 s",
    ),
    "learned without flows": (
        ("burst: 20 ms", "burst: 20 ms, mode: per_flow_learned"),
        "x.yaml:8: policers[0].flows: missing for mode per_flow_learned; "
        "valid: how many flows can have a bucket, such as 1000",
    ),
    "idle time of flows that are not learned": (
        ("burst: 20 ms", "burst: 20 ms, idle: 5 s"),
        "x.yaml:8: policers[0].idle: has no effect in mode shared; "
        "valid: leave it out, or mode: per_flow_learned",
    ),
    "three colours without a peak": (
        ("burst: 20 ms", "burst: 20 ms, meter: tr3c, peak_burst: 9 kB"),
        "x.yaml:8: policers[0].peak_rate: missing for a tr3c meter; valid: such as '80 Mbit/s'",
    ),
    "a peak below the committed rate": (
        ("burst: 20 ms", "burst: 20 ms, meter: tr3c, peak_burst: 9 kB, peak_rate: 7 Mbit/s"),
        "x.yaml:8: policers[0].peak_rate: 7 Mbit/s is less than the committed rate; valid: at least 8 Mbit/s",
    ),
    "an excess burst of a plain bucket": (
        ("burst: 20 ms", "burst: 20 ms, excess_burst: 9 kB"),
        "x.yaml:8: policers[0].excess_burst: has no effect on a sr2c meter; "
        "valid: leave it out, or meter: sr3c",
    ),
    "two types of meters": (
        (
            "  - {name: p, rate: 8 Mbit/s, burst: 20 ms,",
            "  - {name: a, rate: 8 Mbit/s, burst: 9 kB, meter: sr3c, excess_burst: 9 kB, match: [{to: a}]}\n"
            "  - {name: p, rate: 8 Mbit/s, burst: 20 ms, meter: tr3c, peak_rate: 9 Mbit/s, peak_burst: 9 kB,",
        ),
        "x.yaml:9: policers[1].meter: tr3c together with sr3c: all cells of the meter are of one type; "
        "valid: sr2c, sr3c, or another experiment",
    ),
    "an unknown verdict": (
        ("burst: 20 ms", "burst: 20 ms, verdict: {red: remark_dscp 64}"),
        "x.yaml:8: policers[0].verdict.red: 'remark_dscp 64' is no verdict; "
        "valid: pass, drop, remark_dscp 0 to 63, mark_ce, mark_ce_or_drop",
    ),
    "a verdict of a colour that the meter lacks": (
        ("burst: 20 ms", "burst: 20 ms, verdict: {yellow: drop}"),
        "x.yaml:8: policers[0].verdict.yellow: a sr2c meter has no yellow; "
        "valid: leave it out, or meter: sr3c or tr3c",
    ),
    "a colour that the meter has no bucket for": (
        ("burst: 20 ms", "burst: 20 ms, colour_aware: true"),
        "x.yaml:8: policers[0].colour_aware: a sr2c meter knows two colours of three; "
        "valid: leave it out, or meter: sr3c or tr3c",
    ),
    "a collector that is not there": (
        ("burst: 20 ms", "burst: 20 ms, reports: {collector: c}"),
        "x.yaml:8: policers[0].reports.collector: no collector 'c'; valid: none",
    ),
    "an invalid address": (
        ("a: {delay: 10 ms}", "a: {delay: 10 ms, address: 10.0.0.256}"),
        "x.yaml:3: hosts.a.address: '10.0.0.256' is not an IPv4 address; valid: such as 10.0.0.1",
    ),
    "a port of two hosts": (
        ("a: {delay: 10 ms}\n  b: {", "a: {port: 4}\n  b: {port: 4, "),
        "x.yaml:4: hosts.b.port: 4 is also that of host a; valid: a different one for each",
    ),
    "a change of a policer that is not there": (
        (
            "policers:\n  - {name: p, rate: 8 Mbit/s, burst: 20 ms, match: [{to: b}]}",
            "phases:\n  - name: one\n    policers:\n"
            "      - {name: p, rate: 8 Mbit/s, burst: 20 ms, match: [{to: b}]}\n"
            "    changes: [{at: 1 s, policer: q, rate: 4 Mbit/s}]",
        ),
        "x.yaml:11: phases[0].changes[0].policer: no policer 'q'; valid: p",
    ),
    "a change after the end": (
        (
            "policers:\n  - {name: p, rate: 8 Mbit/s, burst: 20 ms, match: [{to: b}]}",
            "phases:\n  - name: one\n    policers:\n"
            "      - {name: p, rate: 8 Mbit/s, burst: 20 ms, match: [{to: b}]}\n"
            "    changes: [{at: 4 s, policer: p, rate: 4 Mbit/s, burst: 20 ms}]",
        ),
        "x.yaml:11: phases[0].changes[0].at: 4 s is out of order or too late; "
        "valid: 0 ns to less than 4 s, the last flow's end",
    ),
    "a change in time, after one that is too late": (
        (
            "policers:\n  - {name: p, rate: 8 Mbit/s, burst: 20 ms, match: [{to: b}]}",
            "phases:\n  - name: one\n    policers:\n"
            "      - {name: p, rate: 8 Mbit/s, burst: 20 ms, match: [{to: b}]}\n"
            "    changes: [{at: 5 s, policer: p, rate: 4 Mbit/s}, {at: 1 s, policer: p, rate: 2 Mbit/s}]",
        ),
        "x.yaml:11: phases[0].changes[0].at: 5 s is out of order or too late; "
        "valid: 0 ns to less than 4 s, the last flow's end",
    ),
    "a change of nothing": (
        (
            "policers:\n  - {name: p, rate: 8 Mbit/s, burst: 20 ms, match: [{to: b}]}",
            "phases:\n  - name: one\n    policers:\n"
            "      - {name: p, rate: 8 Mbit/s, burst: 20 ms, match: [{to: b}]}\n"
            "    changes: [{at: 1 s, policer: p, rate: 8 Mbit/s}]",
        ),
        "x.yaml:11: phases[0].changes[0]: changes nothing of p; "
        "valid: a new value of rate, burst, peak_rate, peak_burst, excess_burst, match",
    ),
    "a change of a host that is not there": (
        (
            "policers:\n  - {name: p, rate: 8 Mbit/s, burst: 20 ms, match: [{to: b}]}",
            "phases: [{name: one, changes: [{at: 1 s, host: c, delay: 4 ms}]}]",
        ),
        "x.yaml:7: phases[0].changes[0].host: no host 'c'; valid: a, b",
    ),
    "a change of neither policer nor host": (
        (
            "policers:\n  - {name: p, rate: 8 Mbit/s, burst: 20 ms, match: [{to: b}]}",
            "phases: [{name: one, changes: [{at: 1 s, rate: 4 Mbit/s}]}]",
        ),
        "x.yaml:7: phases[0].changes[0]: changes a policer or the link to a host; "
        "valid: one of policer, host",
    ),
    "a new rate of a host without one": (
        (
            "policers:\n  - {name: p, rate: 8 Mbit/s, burst: 20 ms, match: [{to: b}]}",
            "phases: [{name: one, changes: [{at: 1 s, host: a, rate: 4 Mbit/s}]}]",
        ),
        "x.yaml:7: phases[0].changes[0].rate: a has no rate at the start; valid: give hosts.a a rate",
    ),
    "a change of a link's membership": (
        (
            "policers:\n  - {name: p, rate: 8 Mbit/s, burst: 20 ms, match: [{to: b}]}",
            "phases: [{name: one, changes: [{at: 1 s, host: a, delay: 4 ms, match: [{to: b}]}]}]",
        ),
        "x.yaml:7: phases[0].changes[0].match: is not of a link; valid: rate, burst, delay, jitter, loss",
    ),
    "a change of a link to what it is": (
        (
            "policers:\n  - {name: p, rate: 8 Mbit/s, burst: 20 ms, match: [{to: b}]}",
            "phases: [{name: one, changes: [{at: 1 s, host: a, delay: 10 ms}]}]",
        ),
        "x.yaml:7: phases[0].changes[0]: changes nothing of a; "
        "valid: a new value of rate, burst, delay, jitter, loss",
    ),
    "sockets sampled all the time": (
        ("hosts:", "capture: {sockets: 10 us}\nhosts:"),
        "x.yaml:2: capture.sockets: 10 us is too short; valid: at least 1 ms",
    ),
    "a link that reorders nothing": (
        ("a: {delay: 10 ms}", "a: {delay: 10 ms, reorder: true}"),
        "x.yaml:3: hosts.a.reorder: has no effect without jitter; valid: give it a jitter, or leave it out",
    ),
    "unit missing": (
        ("rate: 8 Mbit/s", "rate: 8"),
        f"x.yaml:8: policers[0].rate: 8 has no unit; {ALL_RATES}",
    ),
    "unknown unit": (
        ("rate: 8 Mbit/s", "rate: 8 Mb/s"),
        f"x.yaml:8: policers[0].rate: unknown unit 'Mb/s' of a rate; {ALL_RATES}",
    ),
    "burst without unit": (
        ("burst: 20 ms", "burst: 20"),
        f"x.yaml:8: policers[0].burst: 20 has no unit; {ALL_BURSTS}",
    ),
    "zero rate": (
        ("rate: 8 Mbit/s", "rate: 0 Mbit/s"),
        "x.yaml:8: policers[0].rate: 0 Mbit/s is less than one byte per second; "
        "valid: at least 8 bit/s, such as '40 Mbit/s'",
    ),
    "burst beyond the largest number of bytes": (
        ("rate: 8 Mbit/s, burst: 20 ms", "rate: 9000000 Tbit/s, burst: 1 min"),
        "x.yaml:8: policers[0].burst: a bucket of 67500000000000000000 B at 9000000 Tbit/s "
        "is too large; valid: at most 9223372036854775807 B",
    ),
    "peak burst beyond the largest number of bytes": (
        (
            "rate: 8 Mbit/s, burst: 20 ms",
            "meter: tr3c, rate: 8 Mbit/s, burst: 20 ms, peak_rate: 9000000 Tbit/s, peak_burst: 1 min",
        ),
        "x.yaml:8: policers[0].peak_burst: a bucket of 67500000000000000000 B at 9000000 Tbit/s "
        "is too large; valid: at most 9223372036854775807 B",
    ),
    "excess burst beyond the largest number of bytes": (
        (
            "rate: 8 Mbit/s, burst: 20 ms",
            "meter: sr3c, rate: 9000000 Tbit/s, burst: 20 ms, excess_burst: 1 min",
        ),
        "x.yaml:8: policers[0].excess_burst: a bucket of 67500000000000000000 B at 9000000 Tbit/s "
        "is too large; valid: at most 9223372036854775807 B",
    ),
    "burst below a frame": (
        ("burst: 20 ms", "burst: 1 ms"),
        "x.yaml:8: policers[0].burst: a bucket of 1000 B at 8 Mbit/s never passes a full frame; "
        "valid: at least 1514 B, 1514 us at this rate",
    ),
    "two policers of one name": (
        (
            "match: [{to: b}]}",
            "match: [{to: b}]}\n  - {name: p, rate: 1 Mbit/s, burst: 9 kB, match: [{to: a}]}",
        ),
        "x.yaml:9: policers[1].name: second policer named 'p' (the first is policers[0]); "
        "valid: a unique name",
    ),
    "two flows of one name": (
        ("policers:", "  - {name: one, from: b, to: a, duration: 4 s}\npolicers:"),
        "x.yaml:7: flows[1].name: second flow named 'one' (the first is flows[0]); valid: a unique name",
    ),
    "two hosts of one name": (
        ("flows:", "  a: {delay: 1 ms}\nflows:"),
        "x.yaml:5: a: given twice; valid: each key once",
    ),
    "hosts whose names are a number and its text": (
        ("flows:", "  2: {delay: 10 ms}\n  '2': {delay: 1 ms}\nflows:"),
        "x.yaml:6: hosts.2: given twice; valid: each key once",
    ),
    "key of a host whose name is a number": (
        ("flows:", "  1: {}\n  7: {delay: 10}\nflows:"),
        "x.yaml:6: hosts.7.delay: 10 has no unit; valid: ns, us, ms, s, min, such as '20 ms'",
    ),
    "key of a host whose name is a truth value": (
        ("flows:", "  true: {delay: 10}\nflows:"),
        "x.yaml:5: hosts.True.delay: 10 has no unit; valid: ns, us, ms, s, min, such as '20 ms'",
    ),
    "key of a host whose name is null": (
        ("flows:", "  ~: {delay: 10}\nflows:"),
        "x.yaml:5: hosts.None.delay: 10 has no unit; valid: ns, us, ms, s, min, such as '20 ms'",
    ),
    "flow to a host that does not exist": (
        ("to: b, duration", "to: bb, duration"),
        "x.yaml:6: flows[0].to: no host 'bb' (did you mean 'b'?); valid: a, b",
    ),
    "flow from a host to itself": (
        ("to: b, duration", "to: a, duration"),
        "x.yaml:6: flows[0].to: 'a' is also the flow's source; valid: b",
    ),
    "match of a host that does not exist": (
        ("[{to: b}]", "[{from: [a, server], to: b}]"),
        "x.yaml:8: policers[0].match[0].from: no host 'server'; valid: a, b",
    ),
    "match of nothing": (("[{to: b}]", "[]"), "x.yaml:8: policers[0].match: has 0; valid: at least 1"),
    "ports of a protocol without ports": (
        ("{to: b}", "{to: b, protocol: 1, dst_port: 80}"),
        "x.yaml:8: policers[0].match[0].dst_port: protocol 1 has no ports; "
        "valid: with protocol tcp, udp or none",
    ),
    "unknown protocol": (
        ("{to: b}", "{to: b, protocol: sctp}"),
        "x.yaml:8: policers[0].match[0].protocol: 'sctp' is not an IP protocol; "
        "valid: tcp, udp or a number from 0 to 255",
    ),
    "DSCP out of range": (
        ("{to: b}", "{to: b, dscp: 64}"),
        "x.yaml:8: policers[0].match[0].dscp: 64 is out of range; valid: 0 to 63",
    ),
    "port out of range": (
        ("{to: b}", "{to: b, src_port: 65536}"),
        "x.yaml:8: policers[0].match[0].src_port: 65536 is out of range; valid: 1 to 65535",
    ),
    "hashed cells that are no power of two": (
        ("burst: 20 ms", "burst: 20 ms, mode: per_flow_hashed, cells: 12"),
        "x.yaml:8: policers[0].cells: 12 is no power of two that fits (a hash is masked to a cell); "
        "valid: 2, 4, 8, … 32768",
    ),
    "hashed without cells": (
        ("burst: 20 ms", "burst: 20 ms, mode: per_flow_hashed"),
        "x.yaml:8: policers[0].cells: missing for mode per_flow_hashed; "
        "valid: a power of two up to 32768, such as 64",
    ),
    "cells without hashing": (
        ("burst: 20 ms", "burst: 20 ms, cells: 4"),
        "x.yaml:8: policers[0].cells: has no effect in mode shared; "
        "valid: leave it out, or mode: per_flow_hashed",
    ),
    "unknown mode": (
        ("burst: 20 ms", "burst: 20 ms, mode: per_flow"),
        "x.yaml:8: policers[0].mode: 'per_flow' is not known (did you mean 'per_flow_hashed'?); "
        "valid: shared, per_flow_hashed, per_flow_learned",
    ),
    "more cells than the meter has": (
        (
            "  - {name: p, rate: 8 Mbit/s, burst: 20 ms,",
            "  - {name: h, rate: 8 Mbit/s, burst: 20 ms, mode: per_flow_hashed, cells: 32768,"
            " match: [{to: a}]}\n"
            "  - {name: p, rate: 8 Mbit/s, burst: 20 ms, mode: per_flow_hashed, cells: 32768,",
        ),
        "x.yaml:9: policers[1].cells: the policers up to this one need 65536 cells; "
        "valid: at most 65535 over all phases",
    ),
    "a name that is no file name": (
        ("name: tiny", "name: ../tiny"),
        f"x.yaml:1: name: '../tiny' cannot be a name (it becomes part of a path); {NAME_RULE}",
    ),
    "a host name that is no file name": (
        ("  a: {delay: 10 ms}", "  a: {delay: 10 ms}\n  b/c: {}"),
        f"x.yaml:4: hosts.b/c: 'b/c' cannot be a name (it becomes part of a path); {NAME_RULE}",
    ),
    "a host name that the run uses": (
        ("  a: {delay: 10 ms}", "  a: {delay: 10 ms}\n  switch: {}"),
        "x.yaml:4: hosts.switch: 'switch' is reserved for the run itself; valid: any other name",
    ),
    "a name that is a number": (
        ("name: tiny", "name: 1"),
        "x.yaml:1: name: 1 is not text; valid: such as 'name'",
    ),
    "queue without rate": (
        ("a: {delay: 10 ms}", "a: {delay: 10 ms, queue: 64 kB}"),
        "x.yaml:3: hosts.a.queue: has no effect without a rate; valid: give a a rate, or leave queue out",
    ),
    "a line without a unit": (
        ("a: {delay: 10 ms}", "a: {line_rate: 10}"),
        "x.yaml:3: hosts.a.line_rate: 10 has no unit; "
        "valid: bit/s, kbit/s, Mbit/s, Gbit/s, Tbit/s, such as '40 Mbit/s'",
    ),
    "a line that is slower than any": (
        ("a: {delay: 10 ms}", "a: {line_rate: 9 kbit/s}"),
        "x.yaml:3: hosts.a.line_rate: 9 kbit/s is no rate of a line; "
        "valid: unlimited, or 1 Mbit/s to 1 Tbit/s",
    ),
    "a cost of packets on an unlimited line": (
        ("a: {delay: 10 ms}", "a: {line_rate: unlimited, packet_cost: 1 us}"),
        "x.yaml:3: hosts.a.packet_cost: has no effect on an unlimited line; "
        "valid: a line_rate, or leave packet_cost out",
    ),
    "a cost of packets that tc cannot count": (
        ("a: {delay: 10 ms}", "a: {packet_cost: 1 ms}"),
        "x.yaml:3: hosts.a.packet_cost: 1 ms for each frame is too long at 10 Gbit/s; "
        "valid: at most 52 us, or a slower line",
    ),
    "queue beyond the largest number of bytes": (
        ("rate: 100 Mbit/s, burst: 15 kB, queue: 64 kB", "rate: 9000000 Tbit/s, queue: 1 min"),
        "x.yaml:4: hosts.b.queue: 67500000000000000000 B are too large; valid: at most 9223372036854775807 B",
    ),
    "queue below a frame": (
        ("queue: 64 kB", "queue: 1 kB"),
        "x.yaml:4: hosts.b.queue: 1000 B do not hold one frame; valid: at least 1514 B (one frame)",
    ),
    "queue in BDP of two round-trip times": (
        (
            "queue: 64 kB}\nflows:",
            "queue: 2 BDP}\n  c: {delay: 1 ms}\nflows:\n  - {name: two, from: c, to: b, duration: 4 s}",
        ),
        "x.yaml:4: hosts.b.queue: the BDP is not known, round-trip times differ: 11 ms from c, 20 ms from a; "
        "valid: a size, a time, or delays that give one",
    ),
    "queue in BDP of a flow that goes elsewhere": (
        ("a: {delay: 10 ms}", "a: {delay: 10 ms, rate: 8 Mbit/s, queue: 1 BDP}"),
        "x.yaml:3: hosts.a.queue: the BDP is not known, nobody sends to a; "
        "valid: a size, a time, or delays that give one",
    ),
    "queue in bursts without one": (
        ("burst: 15 kB, queue: 64 kB", "queue: 1 burst"),
        "x.yaml:4: hosts.b.queue: 1 burst without a burst; valid: give b a burst, or a size or a time",
    ),
    "queue of a tenth of a frame in BDP": (
        ("queue: 64 kB", "queue: 0.001 BDP"),
        "x.yaml:4: hosts.b.queue: 250 B do not hold one frame; valid: at least 1514 B (one frame)",
    ),
    "a background of UDP without a pace": (
        (
            "policers:",
            "background: [{name: n, from: a, to: b, protocol: udp, rate: 1 Mbit/s, duration: 4 s}]\n"
            "policers:",
        ),
        "x.yaml:7: background[0].pacing: missing for protocol udp; valid: such as '2 Mbit/s'",
    ),
    "a background of UDP with a congestion control": (
        (
            "policers:",
            "background:\n  - {name: n, from: a, to: b, protocol: udp, rate: 1 Mbit/s, pacing: 1 Mbit/s,\n"
            "     congestion_control: bbr, duration: 4 s}\npolicers:",
        ),
        "x.yaml:9: background[0].congestion_control: has no effect on UDP; "
        "valid: leave it out, or protocol: tcp",
    ),
    "writes in addition to a rate": (
        ("duration: 4 s", "duration: 4 s, rate: 1 Mbit/s, writes: {size: 1 kB, every: 1 ms}"),
        "x.yaml:6: flows[0].writes: given in addition to rate; valid: one of rate, writes, replay",
    ),
    "a replay over UDP at a rate": (
        ("duration: 4 s", "duration: 4 s, protocol: udp, rate: 1 Mbit/s, replay: a.replay"),
        "x.yaml:6: flows[0].replay: given in addition to rate; valid: one of rate, writes, replay",
    ),
    "a replay over UDP in datagrams of a size": (
        ("duration: 4 s", "duration: 4 s, protocol: udp, replay: a.replay, datagram: 100 B"),
        "x.yaml:6: flows[0].datagram: has no effect on a replay of UDP; valid: leave it out",
    ),
    "writes over UDP": (
        (
            "duration: 4 s",
            "duration: 4 s, protocol: udp, rate: 1 Mbit/s, writes: {size: 1 kB, every: 1 ms}",
        ),
        "x.yaml:6: flows[0].writes: has no effect on UDP; valid: leave it out, or protocol: tcp",
    ),
    "writes that are on and never off": (
        ("duration: 4 s", "duration: 4 s, writes: {size: 1 kB, every: 1 ms, on: 1 s}"),
        "x.yaml:6: flows[0].writes.off: missing; valid: both on and off, or neither",
    ),
    "writes without a pause": (
        ("duration: 4 s", "duration: 4 s, writes: {size: 1 kB, every: 0 ms}"),
        "x.yaml:6: flows[0].writes.every: is 0; valid: more than 0 s, such as '20 ms'",
    ),
    "more writes than a process holds": (
        ("duration: 4 s", "duration: 4 s, writes: {size: 1 kB, every: 1 us}"),
        "x.yaml:6: flows[0].writes.every: more than 1000000 writes in 4 s; valid: at least 4 us",
    ),
    "duration of zero": (
        ("duration: 4 s", "duration: 0 s"),
        "x.yaml:6: flows[0].duration: 0 s is no duration; valid: more than 0 s, such as '40 s'",
    ),
    "duration that iperf3 cannot keep": (
        ("duration: 4 s", "duration: 1500 ms"),
        "x.yaml:6: flows[0].duration: 1500 ms is not whole seconds, as iperf3 counts; valid: such as '40 s'",
    ),
    "key missing": ((", duration: 4 s", ""), "x.yaml:6: flows[0].duration: missing; valid: such as '40 s'"),
    "congestion control that is no name": (
        ("duration: 4 s", "duration: 4 s, congestion_control: BBR v3"),
        "x.yaml:6: flows[0].congestion_control: 'BBR v3' cannot be a congestion control; "
        "valid: a name of the kernel's, such as 'bbr', 'cubic', 'reno'",
    ),
    "measured that is no boolean": (
        ("duration: 4 s", "duration: 4 s, measured: 1"),
        "x.yaml:6: flows[0].measured: 1 is not true or false; valid: true, false",
    ),
    "target that is not there": (
        ("flows:", "switch: {target: tofina}\nflows:"),
        "x.yaml:5: switch.target: 'tofina' is not known (did you mean 'tofino'?); "
        "valid: softswitch, bmv2, tofino, tofino2",
    ),
    "truncation too short for headers": (
        ("flows:", "telemetry: {truncate: 10 B}\nflows:"),
        "x.yaml:5: telemetry.truncate: 10 B is out of range; valid: 64 to 972 B",
    ),
    "policers in addition to phases": (
        ("flows:", "phases: [{name: main}]\nflows:"),
        "x.yaml:8: policers: given in addition to phases; valid: policers in each phase, or no phases",
    ),
    "a list where a mapping belongs": (
        ("{delay: 10 ms}\n  b", "[10 ms]\n  b"),
        "x.yaml:3: hosts.a: a list is not a mapping; "
        "valid: a mapping with delay, rate, burst, queue, queue_packets, jitter, reorder, loss, "
        "receive_queue, line_rate, packet_cost, address, address6, mac, port, sysctl, tuner",
    ),
    "one host": (
        ("  a: {delay: 10 ms}\n", ""),
        "x.yaml:2: hosts: has 1; valid: at least 2",
    ),
    "broken YAML": (
        ("flows:", "flows: ["),
        "x.yaml:6: not YAML: expected the node content, but found '-'; valid: YAML 1.2",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_mistake_is_named_with_its_line_and_what_would_be_valid(case: str) -> None:
    (old, new), line = CASES[case]
    assert old in VALID
    with pytest.raises(ConfigError) as error:
        parse_experiment(VALID.replace(old, new, 1), "x.yaml")
    assert error.value.lines == (line,)


def test_all_mistakes_of_a_file_are_reported_together_in_order_of_their_lines() -> None:
    text = VALID.replace("to: b, duration: 4 s", "to: c, duratoin: 4 s").replace("rate: 8 Mbit/s", "rate: 8")
    with pytest.raises(ConfigError) as error:
        parse_experiment(text, "x.yaml")
    assert [line.split(" ")[:2] for line in error.value.lines] == [
        ["x.yaml:6:", "flows[0].duration:"],
        ["x.yaml:6:", "flows[0].duratoin:"],
        ["x.yaml:6:", "flows[0].to:"],
        ["x.yaml:8:", "policers[0].rate:"],
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "x.yaml:1: the file is empty; valid: keys such as name, hosts, flows, phases"),
        ("- 1", "x.yaml:1: the file is not a mapping; valid: keys such as name, hosts, flows, phases"),
    ],
)
def test_a_file_that_is_no_mapping_is_named(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_experiment(text, "x.yaml")
    assert str(error.value) == message


@pytest.mark.parametrize(("opened", "line"), [("[", 1), ("{a: ", 1), ("- ", 1), ("[\n", 34)])
def test_nesting_below_the_32nd_level_is_refused_before_the_rest_is_read(opened: str, line: int) -> None:
    with pytest.raises(ConfigError) as error:
        parse_experiment(opened * 5000, "x.yaml")  # the end is missing, which is not seen
    assert str(error.value) == f"x.yaml:{line}: nested too deeply; valid: at most 32 levels"


def test_32_levels_are_read() -> None:
    with pytest.raises(ConfigError, match="name: missing"):
        parse_experiment("a: " + "[" * 31 + "1" + "]" * 31, "x.yaml")


def aliases(names: str, per_level: int) -> str:
    """Lists in which each holds the one before it, so many times."""
    lines = [f"{names[0]}: &{names[0]} [x]"]
    for name, before in zip(names[1:], names, strict=False):
        lines.append(f"{name}: &{name} [{', '.join([f'*{before}'] * per_level)}]")
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (aliases(ascii_letters, 1), f"x.yaml: F{'[0]' * 32}: nested too deeply; valid: at most 32 levels"),
        (aliases("abcdefgh", 10), "x.yaml: more than 1,000,000 values, with those of aliases; valid: fewer"),
    ],
)
def test_aliases_that_make_too_much_of_a_file_are_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_experiment(text, "x.yaml")
    assert str(error.value) == message


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        load_experiment(tmp_path / "none.yaml")
    assert str(error.value) == (
        f"{tmp_path}/none.yaml: No such file or directory; valid: a readable experiment file in YAML"
    )


def test_a_binary_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "capture.pcap"
    path.write_bytes(b"\xd4\xc3\xb2\xa1")
    with pytest.raises(ConfigError) as error:
        load_experiment(path)
    assert str(error.value) == f"{path}: byte 0 is not UTF-8; valid: an experiment in YAML"
