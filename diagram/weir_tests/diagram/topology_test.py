# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from weir.cli.main import run_cli
from weir.controlplane.config import parse_experiment
from weir.diagram.picture import Policer, Route, pictures
from weir.diagram.svg import svg, wrapped

ROOT = Path(__file__).parents[3]
TEXT = """\
name: all
hosts:
  a: {delay: 19 ms, jitter: 1 ms, loss: 1 %}
  b: {delay: 4 ms, receive_queue: {discipline: fq_codel ecn, rate: 20 Mbit/s}}
  c: {delay: 1 ms, rate: 10 Mbit/s, burst: 20 ms, queue: 1 burst}
flows:
  - {name: one, from: a, to: c, duration: 1 s, congestion_control: bbr}
  - {name: two, from: a, to: c, duration: 1 s, congestion_control: bbr}
  - {name: three, from: a, to: c, duration: 1 s, writes: {size: 10 kB, every: 20 ms}}
  - {name: back, from: c, to: b, duration: 1 s, protocol: udp, rate: 1 Mbit/s}
background: [{name: noise, from: b, to: c, duration: 1 s, rate: 2 Mbit/s, pacing: 1 Mbit/s}]
policers:
  - {name: "p", rate: 8 Mbit/s, burst: 20 ms, match: [{dst_port: 5203}]}
  - {name: q, rate: 5 Mbit/s, burst: 20 ms, mode: per_flow_hashed, cells: 8, match: [{from: b}]}
"""
# Each picture of the documentation: the experiment, and the cell.
SHIPPED = {
    "topology-wehey-common": ["wehey-bbr.yaml", "--cell", "policer=common"],
    "topology-wehey-non-common": ["wehey-bbr.yaml", "--cell", "policer=non-common"],
    "topology-bottleneck": ["bbr-dominant.yaml", "--cell", "n=5"],
    "topology-path": ["when-to-use-bbr.yaml", "--cell", "loss=5 %"],
}


def test_a_picture_shows_links_queues_policers_and_routes() -> None:
    (picture,) = pictures(parse_experiment(TEXT))
    a, b, c = picture.hosts
    assert (a.left, a.delay, a.loss) == (True, "19–20 ms", "1 % lost")
    assert a.lines == ("2 × bbr", "cubic, 10 kB every 20 ms")
    assert b.lines == (
        "background, cubic, 2 Mbit/s, each 1 Mbit/s",
        "receives 20 Mbit/s through fq_codel ecn",
    )
    assert (c.left, c.queue) == (False, ("10 Mbit/s", "burst 20 ms", "queue 1 burst = 25 kB"))
    assert picture.policers[1] == Policer("q", ("5 Mbit/s", "burst 20 ms", "8 buckets, by hash"))
    assert picture.routes == (
        Route("a", "c", None, False),
        Route("a", "c", "p", False),  # the third flow's port
        Route("c", "b", None, False),
        Route("b", "c", "q", True),
    )
    assert picture.caption == "round-trip times with empty queues: 5 ms to b; 20 ms and 5 ms to c"


def test_each_phase_is_drawn_below_the_previous_one() -> None:
    drawn = svg(pictures(parse_experiment((ROOT / "experiments" / "demo.yaml").read_text())))
    titles = [element.text for element in ElementTree.fromstring(drawn).iter() if element.get("class") == "t"]
    assert titles == ["demo, phase shared", "demo, phase separate"]


def test_delay_and_loss_of_a_link_point_to_the_host_whose_frames_they_concern() -> None:
    drawn = svg(pictures(parse_experiment(TEXT)))
    texts = [element.text for element in ElementTree.fromstring(drawn).iter() if element.get("class") == "s"]
    assert {"← 19–20 ms", "← 1 % lost"} <= set(texts)  # host a, on the left
    assert [text for text in texts if text and text.endswith("→")] == ["1 ms →"]  # host c, on the right


@pytest.mark.parametrize(
    ("link", "drawn"),
    [
        ("delay: 10 ms, jitter: 1 ms", "10–11 ms"),
        ("jitter: 1500 us", "0–1.5 ms"),
        ("delay: 900 us, jitter: 1100 us", "900 us – 2 ms"),
    ],
)
def test_a_delay_with_jitter_is_a_range(link: str, drawn: str) -> None:
    (picture,) = pictures(parse_experiment(TEXT.replace("delay: 19 ms, jitter: 1 ms", link)))
    assert picture.hosts[0].delay == drawn


def test_all_text_is_within_the_picture() -> None:
    drawn = svg(pictures(parse_experiment(TEXT)))
    root = ElementTree.fromstring(drawn)
    width, height = (float(root.attrib[name]) for name in ("width", "height"))
    for element in root.iter():
        if element.get("x") is not None and element.get("y") is not None:
            assert 0 <= float(element.attrib["x"]) <= width
            assert 0 <= float(element.attrib["y"]) <= height


def test_long_lines_are_wrapped_after_commas_and_before_equals_signs() -> None:
    assert wrapped(["background, bbr, 27.5 Mbit/s, each 5 Mbit/s"], 230) == [
        "background, bbr, 27.5 Mbit/s,",
        "each 5 Mbit/s",
    ]
    assert wrapped(["queue 0.004 BDP = 10 kB", "short"], 140) == ["queue 0.004 BDP", "= 10 kB", "short"]


def test_both_palettes_have_enough_contrast() -> None:
    def luminance(colour: str) -> float:
        """Relative luminance (WCAG 2.2)."""
        full = colour if len(colour) == 6 else "".join(2 * digit for digit in colour)
        parts = [int(full[at : at + 2], 16) / 255 for at in (0, 2, 4)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    drawn = svg(pictures(parse_experiment(TEXT)))
    palettes = [
        dict(re.findall(r"--(\w+):#([0-9a-f]+)", css)) for css in re.findall(r":root\{(.*?)\}", drawn)
    ]
    assert len(palettes) == 2
    for palette in palettes:
        for ground in (palette["ground"], palette["box"]):
            for name, least in {"ink": 7, "soft": 4.5, "w0": 3, "w1": 3, "w2": 3, "w3": 3, "none": 3}.items():
                light, dark = sorted((luminance(ground), luminance(palette[name])), reverse=True)
                assert (light + 0.05) / (dark + 0.05) >= least, name


@pytest.mark.parametrize("name", SHIPPED)
def test_the_pictures_of_the_documentation_are_up_to_date(name: str, tmp_path: Path) -> None:
    file, *cell = SHIPPED[name]
    out = tmp_path / "x.svg"
    assert run_cli(["topology", str(ROOT / "experiments" / file), "-o", str(out), *cell]) == 0
    assert out.read_text() == (ROOT / "docs" / "images" / f"{name}.svg").read_text()


CAMPAIGN = """\
name: grid
hosts: {a: {}, b: {rate: $bits, burst: 20 ms, queue: 1 burst}}
flows: [{name: f, from: a, to: b, duration: 1 s}]
matrix:
  rate:
    slow: {bits: 5 Mbit/s}
    fast: {bits: 9 Mbit/s}
repeats: 2
"""


@pytest.mark.parametrize(
    ("option", "said", "cell", "cells"),
    [
        ([], "cell rate=slow, the first of 2; --cell AXIS=LABEL chooses others", "slow", 2),
        (["--cell", "rate=fast"], "cell rate=fast", "fast", 1),
    ],
)
def test_the_picture_of_a_campaign_is_said_to_be_that_of_a_cell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: list[str], said: str, cell: str, cells: int
) -> None:
    file, out = tmp_path / "grid.yaml", tmp_path / "x.svg"
    file.write_text(CAMPAIGN)
    command = ["topology", str(file), "-o", str(out), *option]
    assert run_cli(command) == 0
    assert capsys.readouterr().out == f"{out}: grid; {said}\n"
    assert run_cli([*command, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["cell"], answer["cells"]) == ({"rate": cell}, cells)


def test_a_cell_that_is_not_in_the_campaign_is_bad_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = str(ROOT / "experiments" / "wehey-bbr.yaml"), str(tmp_path / "x.svg")
    assert run_cli(["topology", file, "-o", out, "--cell", "policer=uncommon"]) == 2
    assert "policer=non-common" in capsys.readouterr().err
    demo = str(ROOT / "experiments" / "demo.yaml")
    assert run_cli(["topology", demo, "-o", out, "--cell", "policer=common"]) == 2
