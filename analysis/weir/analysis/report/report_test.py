# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from weir.analysis.models import Result
from weir.analysis.report import render_report, text, write_report
from weir.analysis.report.charts import charts, series_of, tuning_charts
from weir.analysis.result import analyse
from weir.rundir.errors import RunFileError
from weir_tests.analysis.synthetic_run import write_run

HOSTILE = '</script><img src=x onerror="alert(1)">&{{7*7}}'


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    run_dir = tmp_path_factory.mktemp("run")
    return run_dir, analyse(run_dir, write_run(run_dir, seconds=8))


class Page(HTMLParser):
    """Collects the resources that the page would load, and its text."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.tags: list[str] = []
        self.text: list[str] = []
        self.scripts: list[str] = []
        self._inside: str | None = None
        self.feed(source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._inside = tag
        if tag == "script":
            self.scripts.append("")
        for name, value in attrs:
            if name in ("src", "srcset", "data", "poster") or (name == "href" and tag != "a"):
                self.loads.append(value or "")
            elif name == "href":
                self.links.append(value or "")
            elif name == "id":
                self.ids.add(value or "")

    def handle_endtag(self, tag: str) -> None:
        self._inside = None

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            self.scripts[-1] += data
        elif self._inside != "style":
            self.text.append(data)


def test_the_page_is_self_contained_and_its_links_have_targets(run: tuple[Path, Result]) -> None:
    path = write_report(run[0])
    page = Page(path.read_text(encoding="utf-8"))
    assert path.name == "report.html"
    assert page.loads == []
    assert page.links
    assert {link.removeprefix("#") for link in page.links} <= page.ids
    assert len(page.scripts) == 3
    assert "Plotly" in page.scripts[1]


def test_the_page_shows_the_inference_of_each_flow_by_cause(run: tuple[Path, Result]) -> None:
    said = " ".join(" ".join(Page(write_report(run[0]).read_text(encoding="utf-8")).text).split())
    rows = [(flow, cause) for flow in run[1].flows for cause in flow.causes]
    assert rows
    for flow, cause in rows:
        counts = " ".join(
            text.count(n) for n in (cause.true_positive, cause.false_positive, cause.false_negative)
        )
        assert f"{flow.phase} / {flow.name} {(cause.cause or 'not known').replace('_', ' ')} {counts}" in said


def test_every_chart_has_an_element_and_data(run: tuple[Path, Result]) -> None:
    page = Page(write_report(run[0]).read_text(encoding="utf-8"))
    data = json.loads(page.scripts[0])
    # Two loss charts, throughput, RTT and the policers (one in the first phase, two in the second), then one
    # chart for each pair with enough intervals for the published rule.
    tested = [pair for pair in run[1].pairs if pair.detail.get("sizes")]
    assert len(data) == 4 + 1 + 4 + 2 + len(tested)
    assert set(data) <= page.ids
    assert all(trace["x"] for chart in data.values() for trace in chart["traces"])


def test_the_settings_of_a_tuner_are_drawn_from_its_decisions(run: tuple[Path, Result]) -> None:
    phase = run[1].phases[0]
    rows = [
        {
            "time_ns": phase.start_ns + second * 10**9,
            "host": "server",
            "flow": f"{phase.name}/measured1",
            "sysctl": "net.ipv4.tcp_bbr_cwnd_gain",
            "predicted": label,
            "value": value,
        }
        for second, (label, value) in enumerate((("1 BDP", "200"), (HOSTILE, "75")), start=1)
    ]
    page = Page(render_report(run[1], series_of(pq.read_table(run[0] / "series.parquet")), rows))
    assert "img" not in page.tags
    drawn = [chart for chart in json.loads(page.scripts[0]).values() if "cwnd_gain" in chart["title"]]
    ((trace,),) = (chart["traces"] for chart in drawn)
    assert (trace["x"], trace["y"]) == ([1, 2], [200, 75])
    assert "Settings that tuners changed" in page.text
    words = [row | {"value": "cubic"} for row in rows]
    assert tuning_charts(run[1], words) == []


def test_the_page_shows_the_headline_and_each_flow(run: tuple[Path, Result]) -> None:
    result = run[1]
    shown = " ".join(" ".join(Page(write_report(run[0]).read_text(encoding="utf-8")).text).split())
    assert result.headline in shown
    for flow in result.flows:
        assert f"{flow.sent:,}" in shown
        assert f"{flow.reported_drops:,}" in shown


def test_a_run_without_policers_has_no_empty_tables_of_them(run: tuple[Path, Result]) -> None:
    series = series_of(pq.read_table(run[0] / "series.parquet"))
    page = Page(render_report(run[1].model_copy(update={"policers": ()}), series))
    shown = " ".join(" ".join(page.text).split())
    assert "The experiment has no policer." in shown
    assert "Conformance" not in shown
    assert "policers" in page.ids  # the target of a link
    assert "The experiment has no policer." not in render_report(run[1], series)


def test_losses_of_udp_are_not_shown_as_inferred(run: tuple[Path, Result]) -> None:
    result = run[1]
    gone = {"protocol": 17, "causes": (), "false_inferences": (), "inferred_lost": 123_456_789}
    flows = tuple(flow.model_copy(update=gone) for flow in result.flows)
    series = series_of(pq.read_table(run[0] / "series.parquet"))
    page = Page(render_report(result.model_copy(update={"flows": flows}), series))
    shown = " ".join(" ".join(page.text).split())
    assert "123,456,789" not in shown
    assert "No packet of a TCP flow was retransmitted or lost." in shown
    assert "every loss of data over TCP was inferred" in shown
    names = {trace["name"] for chart in json.loads(page.scripts[0]).values() for trace in chart["traces"]}
    assert "dropped by the switch" in names
    assert "inferred by the sender" not in names


def test_strings_of_the_run_cannot_become_markup(run: tuple[Path, Result]) -> None:
    result = run[1]
    flow = result.flows[0]
    hostile = result.model_copy(
        update={
            "name": HOSTILE,
            "invalid_reasons": (HOSTILE,),
            "flows": (flow.model_copy(update={"name": HOSTILE}), *result.flows[1:]),
        }
    )
    page = Page(render_report(hostile, series_of(pq.read_table(run[0] / "series.parquet"))))
    assert "img" not in page.tags
    assert len(page.scripts) == 3
    assert HOSTILE in "".join(page.text)
    titles = {chart["title"] for chart in json.loads(page.scripts[0]).values()}
    assert HOSTILE in titles


def test_loss_charts_of_a_phase_share_their_scale_and_show_both_views(run: tuple[Path, Result]) -> None:
    drawn: Any = charts(run[1], series_of(pq.read_table(run[0] / "series.parquet")))
    loss = drawn["shared"]["loss"]
    assert [chart["title"] for chart in loss] == ["measured1", "measured2"]
    assert loss[0]["range"] == loss[1]["range"]
    assert [trace["name"] for trace in loss[0]["traces"]] == [
        "dropped by the switch",
        "inferred by the sender",
    ]


def test_a_flow_has_one_colour_in_all_charts(run: tuple[Path, Result]) -> None:
    drawn: Any = charts(run[1], series_of(pq.read_table(run[0] / "series.parquet")))
    seen: dict[str, set[object]] = {}
    for groups in drawn.values():
        for trace in groups["throughput"][0]["traces"] + groups["rtt"][0]["traces"]:
            seen.setdefault(trace["name"], set()).add(trace["colour"])
    assert seen == {"measured1": {0}, "measured2": {1}, "background1": {2}}


def test_a_run_without_result_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunFileError, match=r"result\.json: not found"):
        write_report(tmp_path)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (39_960_000, "40 Mbit/s"),
        (999_600, "1 Mbit/s"),
        (1_234, "1.23 kbit/s"),
        (12, "12 bit/s"),
        (0, "0 bit/s"),
        (None, "–"),
    ],
)
def test_rates_have_three_digits_and_a_unit(value: float | None, expected: str) -> None:
    assert text.rate(value) == expected


def test_times_sizes_and_shares() -> None:
    assert text.duration(0.0201) == "20.1 ms"
    assert text.duration(35.5) == "35.5 s"
    assert text.size(100_000) == "100 kB"
    assert text.share(0.1124) == "11.2 %"
    assert text.count(4123) == "4,123"


def test_quality_is_never_rounded_up_to_one() -> None:
    assert text.quality(1.0) == "1"
    assert text.quality(0.99999) == "0.9999"
    assert text.quality(None) == "–"


def test_a_caption_names_the_time_over_which_a_long_run_is_averaged(run: tuple[Path, Result]) -> None:
    _, result = run
    policer = result.policers[0]
    at = np.arange(0.0, 3600.0, 12.0)  # at most 300 points of an hour
    passed = at * policer.effective_rate_bps / 8
    flow = result.flows[0]
    series = {
        (policer.phase, policer.name, "passed_bytes"): (at, passed),
        (policer.phase, flow.id, "received_bps"): (at, np.full(len(at), 1e6)),
    }
    groups = charts(result, series)[policer.phase].values()
    drawn = {chart["title"]: chart for group in groups for chart in group}
    assert "passed in the last 12 s" in drawn[policer.name]["subtitle"]
    assert drawn[policer.name]["traces"][0]["y"] == pytest.approx([1.0] * (len(at) - 1))
    assert drawn["Throughput at the receiver"]["subtitle"].endswith("mean over 12 s")
