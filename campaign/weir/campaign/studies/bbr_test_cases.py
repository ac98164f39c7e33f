# SPDX-License-Identifier: Apache-2.0
"""The test cases of BBR's specification, held against each BBR and each path of the campaign.

Which case is judged by which part, and how, is in `bbr_cases`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from weir.analysis.bbr_track import BbrTrack, read_bbr_track
from weir.analysis.figures import Figure, Section, Table, line_figure
from weir.analysis.figures.figure import Cell
from weir.analysis.statistics import share
from weir.campaign.outcome import Outcome
from weir.campaign.studies.bbr_cases import CASES
from weir.campaign.studies.bbr_cases.model import Case, Conditions, Criterion, verdict
from weir.campaign.studies.measured import counted
from weir.campaign.studies.runs import SEGMENT_BYTES, label, payload_bps, valid_of
from weir.campaign.studies.statements import Comparison, compare, comparison_section, numbers_of
from weir.rundir.directory import RunDirectory

PUBLISHED = numbers_of("bbr_test_cases")
_POINTS = 600
_DRAWN = (
    ("bulk", "A flow alone"),
    ("bandwidth rises tenfold", "The bandwidth rises tenfold after 10 s"),
    ("bandwidth falls tenfold", "The bandwidth falls to a tenth after 10 s"),
    ("loss", "5 % of the packets are lost from 8 s on"),
    ("policer", "A token bucket of half the rate polices"),
    ("delay", "A spurious timeout at 8 s"),
)
"""Parts of the campaign that are drawn."""
_WORDS = {True: "holds", False: "does not hold", None: "not shown"}


@dataclass(frozen=True)
class Run:
    """One run: its outcome, the track of its flow, and its path."""

    outcome: Outcome
    track: BbrTrack
    path: Conditions

    @property
    def part(self) -> str:
        """The part of the campaign that it belongs to."""
        return label(self.outcome, "part")

    @property
    def name(self) -> str:
        """The congestion control, with the version of BBR that it is."""
        return f"{label(self.outcome, 'bbr')} (BBRv{self.track.version})"


@dataclass(frozen=True)
class Judged:
    """A case, judged by one run."""

    case: Case
    run: Run
    criteria: Sequence[Criterion]

    @property
    def holds(self) -> bool | None:
        """Whether the run shows that the case holds; None if it shows nothing."""
        return verdict(self.criteria)


def sections(outcomes: Iterable[Outcome]) -> tuple[Section, ...]:
    """The study's part of the page, from valid runs only."""
    valid = valid_of(outcomes)
    runs = [run for outcome in valid if (run := _read(outcome)) is not None]
    judged = [
        Judged(case, run, case.judge(run.track, run.path))
        for case in CASES
        for run in runs
        if run.part == case.part
    ]
    return (
        comparison_section(PUBLISHED, [_statement(case, judged) for case in CASES], len(runs)),
        _overview(judged),
        *(_drawn(runs, part, title) for part, title in _DRAWN),
    )


def _statement(case: Case, judged: Sequence[Judged]) -> Comparison:
    known = [one.holds for one in judged if one.case is case and one.holds is not None]
    return compare(PUBLISHED, case.name, counted(share(sum(known), len(known))))


def _read(outcome: Outcome) -> Run | None:
    """A run's track and path; None if its flow had no BBR that tells its state."""
    sockets = RunDirectory(outcome.path).sockets
    (phase,) = outcome.manifest.phases
    (flow,) = phase.flows
    if not sockets.is_file() or phase.start_ns is None:
        return None
    track = read_bbr_track(sockets, flow.src_port, flow.dst_port, phase.start_ns)
    host = next(host for host in outcome.manifest.hosts if host.name == flow.dst_host)
    if track is None or host.rate_bps is None:
        return None
    policers = [policer.rate_bps for policer in phase.policers]
    (result,) = outcome.measured
    return Run(
        outcome,
        track,
        Conditions(
            rate_bps=payload_bps(host.rate_bps),
            policed_bps=payload_bps(policers[0]) if policers else None,
            changes=tuple(
                (float(one.at_s), payload_bps(one.rate_bps or host.rate_bps)) for one in phase.link_changes
            ),
            dropped=result["reported_drops"] + result["emulated_losses"],
        ),
    )


def _overview(judged: Sequence[Judged]) -> Section:
    text = (
        "Each case is judged on each path by its criteria; it holds if all of those hold that the run could "
        "show. What is not shown did not occur in the run, or the kernel does not tell it (BBRv1)."
    )
    names = list(dict.fromkeys((one.run.name, label(one.run.outcome, "path")) for one in judged))
    by_case: dict[str, dict[tuple[str, str], str]] = {}
    for one in judged:
        where = (one.run.name, label(one.run.outcome, "path"))
        by_case.setdefault(one.case.name, {})[where] = _WORDS[one.holds]
    overview = Table(
        "cases",
        "Which cases hold",
        "",
        ("test case", *(f"{name}, {path}" for name, path in names)),
        tuple((case, *(its.get(where, "") for where in names)) for case, its in by_case.items()),
    )
    rows: list[tuple[Cell, ...]] = [
        (one.case.name, one.run.name, label(one.run.outcome, "path"), its.says, _WORDS[its.holds], its.seen)
        for one in judged
        for its in one.criteria
    ]
    columns = ("test case", "congestion control", "path", "criterion", "verdict", "what the run shows")
    criteria = Table("criteria", "The criteria, one by one", "", columns, tuple(rows))
    return Section("cases", "Test cases", text, (overview, criteria))


def _drawn(runs: Sequence[Run], part: str, title: str) -> Section:
    """Bandwidth and inflight of one path, the first, and each BBR."""
    name = part.replace(" ", "-")
    its = [run for run in runs if run.part == part]
    paths = list(dict.fromkeys(label(run.outcome, "path") for run in its))
    shown = [run for run in its if label(run.outcome, "path") == paths[0]]
    items: list[Figure] = []
    for run in shown:
        track, which = run.track, label(run.outcome, "bbr")
        bound = {"max_bw": track.max_bw_bps / 1e6, "paces by": track.bandwidth_bps / 1e6}
        inflight = {"window": track.cwnd, "inflight": track.in_flight, "BDP": track.bdp(SEGMENT_BYTES)}
        if np.isfinite(track.inflight_longterm).any():
            inflight["long-term bound"] = track.inflight_longterm
        caption = f"{run.name}, {paths[0]}. States: {_states(track)}"
        items += [
            _over_time(f"{name}-{which}-bandwidth", "Bandwidth estimate", caption, track, bound, "Mbit/s"),
            _over_time(
                f"{name}-{which}-inflight", "Inflight and window", caption, track, inflight, "segments"
            ),
        ]
    return Section(name, title, "", tuple(items))


def _over_time(
    name: str, title: str, caption: str, track: BbrTrack, lines: Mapping[str, np.ndarray], unit: str
) -> Figure:
    every = max(1, len(track.time_s) // _POINTS)
    points = {
        line: [
            (round(float(at), 3), round(float(value), 3))
            for at, value in zip(track.time_s[::every], values[::every], strict=True)
            if np.isfinite(value)
        ]
        for line, values in lines.items()
    }
    return line_figure(name, title, caption, points, x="time, s", y=unit)


def _states(track: BbrTrack) -> str:
    """The first states, with their times."""
    shown = [f"{stay.state} from {track.time_s[stay.begin]:.2f} s" for stay in track.stays[:6]]
    return ", ".join(shown) + (", …" if len(track.stays) > len(shown) else ".")
