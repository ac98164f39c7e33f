# SPDX-License-Identifier: Apache-2.0
"""Figures of studies: records of runs in, one interactive page, SVG and CSV files out."""

from weir.analysis.figures.figure import (
    Figure,
    Link,
    Table,
    box_figure,
    dot_figure,
    ecdf_figure,
    heat_figure,
    line_figure,
    share_figure,
)
from weir.analysis.figures.page import DrawingError, as_csv, as_svg, render_study, write_study
from weir.analysis.figures.paths import path_study
from weir.analysis.figures.records import FlowRecord, PairRecord, Records, of_capture, of_run
from weir.analysis.figures.study import Section, Study, evaluation, study
from weir.analysis.figures.trees import grown_tree, tree_figure
from weir.analysis.figures.verdicts import verdict_items

__all__ = [
    "DrawingError",
    "Figure",
    "FlowRecord",
    "Link",
    "PairRecord",
    "Records",
    "Section",
    "Study",
    "Table",
    "as_csv",
    "as_svg",
    "box_figure",
    "dot_figure",
    "ecdf_figure",
    "evaluation",
    "grown_tree",
    "heat_figure",
    "line_figure",
    "of_capture",
    "of_run",
    "path_study",
    "render_study",
    "share_figure",
    "study",
    "tree_figure",
    "verdict_items",
    "write_study",
]
