# SPDX-License-Identifier: Apache-2.0
"""BBR and CUBIC alone over RTT, bandwidth and buffer, together over the buffer, over loss: figures 1 to 5.

Y. Cao, A. Jain, K. Sharma, A. Balasubramanian, A. Gandhi, "When to use and when not to use BBR", IMC 2019.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile

from weir.analysis.figures import Figure, Section, heat_figure, line_figure
from weir.analysis.statistics import heat_map
from weir.campaign.outcome import Outcome
from weir.campaign.studies.measured import counted, measured
from weir.campaign.studies.runs import (
    Duel,
    duel_tree,
    duels,
    label,
    mean_goodput_mbps,
    mean_or_none,
    share_percent,
    valid_of,
    won,
)
from weir.campaign.studies.statements import Comparison, compare, comparison_section, numbers_of
from weir.controlplane.units import parse_rate, parse_share, parse_size, parse_time

PUBLISHED = numbers_of("when_to_use_bbr")
SHALLOW, DEEP = PUBLISHED["shallow"], PUBLISHED["deep"]
KEPT = 0.75
Points = list[tuple[float, float]]


def sections(outcomes: Sequence[Outcome]) -> tuple[Section, ...]:
    """The study's part of the page, from valid runs only."""
    valid = valid_of(outcomes)
    alone = duels(_alone(valid))
    shares, goodputs = _shares(valid), _goodputs(valid)
    rows = [conditions(duel) for duel in alone]
    return (
        comparison_section(PUBLISHED, _comparisons(valid, alone), len(valid)),
        Section(
            "alone",
            "Alone: goodput and retransmissions",
            "Medians over the runs of a condition. The document gives the number of one condition.",
            tuple(figure for buffer in (SHALLOW, DEEP) for figure in _maps(alone, buffer)),
        ),
        Section(
            "alone-tree",
            "BBR or CUBIC: the decision tree",
            "Figure 1: who has more goodput. The document's tree is a picture without text.",
            duel_tree(rows, [duel.winner for duel in alone], "figure-1", "Who has more goodput (figure 1)"),
        ),
        Section(
            "share",
            "Together: the share of each",
            "Figure 4, left: one flow of each at once. Buffers are given for 1 Gbit/s; where the campaign "
            "runs at a lower rate, they are the same part of the BDP.",
            _share_figure(shares),
        ),
        Section(
            "cliff",
            "Random loss: the cliff",
            "Figure 5, left: one flow alone, 100 Mbit/s, 25 ms, 10 MB.",
            _cliff_figure(goodputs),
        ),
    )


def conditions(duel: Duel) -> dict[str, float]:
    """RTT, bandwidth, buffer and BDP of one condition."""
    rtt_ns, bandwidth_bps = parse_time(duel.cell["rtt"]), parse_rate(duel.cell["bandwidth"])
    return {
        "RTT, ms": rtt_ns / 1e6,
        "bandwidth, Mbit/s": bandwidth_bps / 1e6,
        "buffer, kB": parse_size(duel.cell["buffer"]) / 1e3,
        "BDP, kB": bandwidth_bps * rtt_ns / 8e12,
    }


def _alone(valid: Sequence[Outcome]) -> list[Outcome]:
    return [*valid_of(valid, "alone"), *valid_of(valid, "alone again")]


def _shares(outcomes: Sequence[Outcome]) -> dict[str, Points]:
    """Buffer in kB and mean share in percent, by congestion control."""
    by_buffer: dict[str, list[Outcome]] = {}
    for outcome in valid_of(outcomes, "share"):
        by_buffer.setdefault(label(outcome, "shared_buffer"), []).append(outcome)
    found: dict[str, Points] = {}
    for cc in ("bbr", "cubic"):
        for buffer, its in by_buffer.items():
            mean = mean_or_none(share_percent(outcome, cc) for outcome in its)
            if mean is not None:
                found.setdefault(cc, []).append((parse_size(buffer) / 1e3, mean))
    return {cc: sorted(points) for cc, points in found.items()}


def _goodputs(outcomes: Sequence[Outcome]) -> dict[str, Points]:
    """Loss in percent and mean goodput in Mbit/s, by congestion control."""
    by_loss: dict[tuple[str, str], list[Outcome]] = {}
    for outcome in valid_of(outcomes, "cliff"):
        by_loss.setdefault((label(outcome, "cc"), label(outcome, "loss")), []).append(outcome)
    found: dict[str, Points] = {}
    for (cc, loss), its in by_loss.items():
        mean = mean_goodput_mbps(its, cc)
        if mean is not None:
            found.setdefault(cc, []).append((parse_share(loss) / 1e7, mean))
    return {cc: sorted(points) for cc, points in found.items()}


def _comparisons(valid: Sequence[Outcome], alone: Sequence[Duel]) -> list[Comparison]:
    shallow = [duel for duel in alone if duel.cell["buffer"] == SHALLOW]
    below = [duel for duel in shallow if conditions(duel)["BDP, kB"] > conditions(duel)["buffer, kB"]]
    deep = [duel for duel in alone if duel.cell["buffer"] == DEEP]
    above = [duel for duel in deep if conditions(duel)["BDP, kB"] < conditions(duel)["buffer, kB"]]
    # The largest of many ratios of single runs would be one of the less usual runs.
    several = [duel for duel in shallow if duel.bbr_interval is not None]
    worst = max(several or shallow, key=lambda duel: duel.retransmission_ratio, default=None)
    small, large = (
        [one for one in valid_of(valid, "share") if label(one, "shared_buffer") == PUBLISHED["share_at"][end]]
        for end in ("smallest", "largest")
    )
    values = {
        "gain": measured(
            lambda runs: next((duel.gp_gain for duel in duels(runs)), None),
            _under(valid, {**PUBLISHED["gain_at"], "buffer": SHALLOW}),
        ),
        "shallow_large": counted(won(below, "BBR")),
        "deep_small": counted(won(above, "CUBIC")),
        "retransmissions": measured(
            lambda runs: next((duel.retransmission_ratio for duel in duels(runs)), None),
            _under(valid, worst.cell) if worst else (),
        ),
        "small_buffer": measured(lambda runs: mean_or_none(share_percent(one, "bbr") for one in runs), small),
        "large_buffer": measured(
            lambda runs: mean_or_none(share_percent(one, "cubic") for one in runs), large
        ),
        "cliff": measured(lambda runs: kept_until(_goodputs(runs).get("bbr", ())), valid_of(valid, "cliff")),
    }
    return [compare(PUBLISHED, name, value) for name, value in values.items()]


def _under(valid: Sequence[Outcome], condition: Mapping[str, str]) -> list[Outcome]:
    """The runs of one flow alone under a condition."""
    return [one for one in _alone(valid) if condition.items() <= one.cell.items()]


def kept_until(points: Sequence[tuple[float, float]]) -> float | None:
    """The largest loss, in percent, up to which goodput is at least `KEPT` × (1 − loss) × that without loss.

    None with fewer than three loss rates, or without a run at zero loss.
    """
    if len(points) < 3 or points[0][0] != 0:
        return None
    whole = points[0][1]
    kept = takewhile(lambda point: point[1] >= KEPT * (1 - point[0] / 100) * whole, points)
    return max(loss for loss, _ in kept)


def _maps(alone: Sequence[Duel], buffer: str) -> tuple[Figure, ...]:
    its = [duel for duel in alone if duel.cell["buffer"] == buffer]
    measures: tuple[tuple[str, str, str, str, Callable[[Duel], float | None]], ...] = (
        (
            *("gp-gain", "GpGain of BBR", "percent", "Figure 2; published: 115 % at 200 ms, 500 Mbit/s."),
            lambda duel: duel.gp_gain,
        ),
        (
            *("bbr-again", "Retransmissions of BBR", "packets", "Figure 3."),
            lambda duel: duel.bbr_retransmissions,
        ),
        (
            *("cubic-again", "Retransmissions of CUBIC", "packets", "Figure 3."),
            lambda duel: duel.cubic_retransmissions,
        ),
    )
    if not its:
        return ()
    name = buffer.replace(" ", "").lower()
    return tuple(
        heat_figure(
            f"{measure}-{name}",
            f"{title}, {buffer}",
            figure if buffer == SHALLOW else "Not in the document.",
            heat_map(
                [
                    (conditions(duel)["bandwidth, Mbit/s"], conditions(duel)["RTT, ms"], of(duel))
                    for duel in its
                ]
            ),
            x="bandwidth, Mbit/s",
            y="RTT, ms",
            value=unit,
            diverging=measure == "gp-gain",
        )
        for measure, title, unit, figure, of in measures
    )


def _share_figure(shares: dict[str, Points]) -> tuple[Figure, ...]:
    if not shares:
        return ()
    small, large = (parse_size(PUBLISHED["share_at"][end]) / 1e3 for end in ("smallest", "largest"))
    statements = PUBLISHED["statements"]
    least, most = statements["small_buffer"]["value"], statements["large_buffer"]["value"]
    return (
        line_figure(
            "figure-4",
            "Share of the bandwidth (figure 4, left)",
            "Dotted: what the text says.",
            {cc.upper(): points for cc, points in shares.items()},
            x="buffer in kB at 1 Gbit/s",
            y="percent",
            log_x=True,
            marks={
                f"BBR, more than {least} %": [(small, least), (2 * small, least)],
                f"CUBIC, around {most} %": [(large / 2, most), (large, most)],
            },
        ),
    )


def _cliff_figure(goodputs: dict[str, Points]) -> tuple[Figure, ...]:
    if not goodputs:
        return ()
    cliff, most = PUBLISHED["cliff_percent"], max(rate for points in goodputs.values() for _, rate in points)
    return (
        line_figure(
            "figure-5",
            "Goodput over random loss (figure 5, left)",
            "Dotted: the published cliff point of BBR.",
            {cc.upper(): points for cc, points in goodputs.items()},
            x="loss in percent",
            y="Mbit/s",
            marks={f"published cliff, {cliff} %": [(cliff, 0.0), (cliff, most)]},
        ),
    )
