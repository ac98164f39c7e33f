# SPDX-License-Identifier: Apache-2.0
"""The notebook in docs/ runs with real traffic, and its pictures and numbers are in its outputs."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest
from nbclient import NotebookClient
from plotly import graph_objects as go

from weir.topo.sandbox import sandbox_problem

NOTEBOOK = Path(__file__).parents[3] / "docs" / "first-pictures.ipynb"
PLOTLY = "application/vnd.plotly.v1+json"


@pytest.fixture(scope="module", name="outputs")
def _outputs(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    if (problem := sandbox_problem()) is not None:
        pytest.skip(f"kernel: {problem}")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    folder = tmp_path_factory.mktemp("notebook")
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}}).execute()
    assert (folder / "runs" / "first-pictures" / "latest" / "report.html").is_file()
    return [
        dict(output.data)
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if "data" in output
    ]


@pytest.fixture(name="figures")
def _figures(outputs: list[dict[str, Any]]) -> list[Any]:
    found = [data[PLOTLY] for data in outputs if PLOTLY in data]
    assert len(found) == 3
    return [go.Figure({"data": figure["data"], "layout": figure["layout"]}) for figure in found]


def numbers(values: Any) -> Any:
    """A column of a figure, which Plotly writes as a list or as base64 of an array; null becomes NaN."""
    if isinstance(values, dict):
        return np.frombuffer(base64.b64decode(values["bdata"]), dtype=values["dtype"]).astype(float)
    return np.asarray(values, dtype=float)


def test_the_notebook_is_committed_without_outputs() -> None:
    cells = [cell for cell in nbformat.read(NOTEBOOK, as_version=4).cells if cell.cell_type == "code"]
    assert all(cell.outputs == [] and cell.execution_count is None for cell in cells)


def test_the_run_is_shown_as_a_page_and_nothing_is_unexplained(outputs: list[dict[str, Any]]) -> None:
    (page,) = [data["text/html"] for data in outputs if "dropped by switch" in data.get("text/html", "")]
    for name in ("bbr", "cubic", "queued"):
        assert f"<td>{name}</td>" in page
    assert re.search(r"Every one of [\d,]+ lost packets is explained", page)


def test_progress_is_one_line_which_the_last_step_replaced(outputs: list[dict[str, Any]]) -> None:
    (line,) = [
        data["text/plain"] for data in outputs if data.get("text/plain", "").startswith("first-pictures: ")
    ]
    assert "explained" in line


def test_the_first_picture_has_every_flow_and_the_rate_of_the_policer(figures: list[Any]) -> None:
    throughput = figures[0]
    flows = {trace.name: numbers(trace.y) for trace in throughput.data}
    assert set(flows) == {"bbr", "cubic", "queued"}
    assert [shape.y0 for shape in throughput.layout.shapes] == [10.0]
    # 50 ms of the rate pass at once; beyond that a policer lets 10 Mbit/s through.
    for mbps in flows.values():
        assert 0.5 < np.nanmean(mbps) < 11


def test_the_second_picture_has_the_drops_of_the_switch_beside_the_inference(figures: list[Any]) -> None:
    losses = figures[1]
    assert [trace.name for trace in losses.data] == ["dropped by the switch", "inferred by the sender"] * 2
    for dropped, inferred in (losses.data[:2], losses.data[2:]):
        truth, found = (np.nan_to_num(numbers(trace.y)) for trace in (dropped, inferred))
        assert truth.max() > 0
        assert np.abs(truth - found).mean() < 0.5  # percent of the packets


def test_the_third_picture_tells_the_policers_from_the_queue(figures: list[Any]) -> None:
    median_ms = {
        trace.name: float(np.interp(0.5, numbers(trace.y), numbers(trace.x))) for trace in figures[2].data
    }
    print(median_ms)
    assert set(median_ms) == {"bbr", "cubic", "queued"}
    assert median_ms["queued"] > max(median_ms["bbr"], median_ms["cubic"])
