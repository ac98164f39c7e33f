# SPDX-License-Identifier: Apache-2.0
"""Executes a notebook and writes it with its outputs: notebook.py IN.ipynb OUT.ipynb [FIGURES.html].

FIGURES.html gets the notebook's Plotly figures, for a picture of them.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from plotly import graph_objects as go
from plotly import io

PLOTLY = "application/vnd.plotly.v1+json"
_LIMIT_S = 600
_PLAIN = {"displayModeBar": False}


def execute(path: Path) -> Any:
    """The notebook with its outputs; it runs in an empty folder. Raises nbclient's CellExecutionError."""
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(notebook, timeout=_LIMIT_S, resources={"metadata": {"path": folder}}).execute()
    return notebook


def outputs(notebook: Any) -> list[dict[str, Any]]:
    """The data of all displayed outputs, by MIME type, in order."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return [dict(output.data) for cell in cells for output in cell.outputs if "data" in output]


def main() -> None:
    """Execute and write."""
    source, target, *page = map(Path, sys.argv[1:])
    notebook = execute(source)
    nbformat.write(notebook, target)
    if page:
        figures = [_figure(data[PLOTLY]) for data in outputs(notebook) if PLOTLY in data]
        pieces = [
            io.to_html(
                figure.update_layout(height=330), full_html=False, include_plotlyjs=number == 0, config=_PLAIN
            )
            for number, figure in enumerate(figures)
        ]
        page[0].write_text("\n".join(pieces), encoding="utf-8")


def _figure(found: dict[str, Any]) -> go.Figure:
    return go.Figure({"data": found["data"], "layout": found["layout"]})


if __name__ == "__main__":
    main()
