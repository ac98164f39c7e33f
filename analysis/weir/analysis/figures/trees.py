# SPDX-License-Identifier: Apache-2.0
"""The figure of a decision tree; colours are names, as in `figure.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weir.analysis.figures.figure import Figure, colour
from weir.analysis.report.text import plain
from weir.analysis.statistics import DecisionTree, decision_tree


def tree_figure(name: str, title: str, caption: str, tree: DecisionTree) -> Figure:
    """A decision tree, root at the top; where a test holds, the left child follows. Classes have colours."""
    positions: dict[int, tuple[float, int]] = {}
    _arrange(tree, 0, 0, 0.0, positions)
    edges: list[tuple[float | None, float | None]] = []
    for at, node in enumerate(tree.nodes):
        for child in (node.left, node.right):
            if child is not None:
                edges += [
                    (positions[at][0], -positions[at][1]),
                    (positions[child][0], -positions[child][1]),
                    (None, None),
                ]
    texts = [
        (f"<b>{node.label}</b>" if at is None else f"{node.feature}<br>≤ {plain(at, 4)}")
        + f"<br>{' / '.join(map(str, node.counts))}"
        for node in tree.nodes
        for at in (node.threshold,)
    ]
    numbers = {label: colour(number) for number, label in enumerate(tree.classes)}
    traces: list[Mapping[str, Any]] = [
        {
            "type": "scatter",
            "mode": "lines",
            "x": [x for x, _ in edges],
            "y": [y for _, y in edges],
            "line": {"color": "@soft", "width": 1},
            "hoverinfo": "skip",
            "showlegend": False,
        }
    ]
    for label, ink in numbers.items():
        its = [at for at, node in enumerate(tree.nodes) if node.label == label]
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": label,
                "x": [positions[at][0] for at in its],
                "y": [-positions[at][1] for at in its],
                "text": [texts[at] for at in its],
                "hovertemplate": "%{text}<extra></extra>",
                "marker": {"color": ink, "size": 12},
            }
        )
    rows = tuple(
        (at, node.feature, node.threshold, node.left, node.right, node.label, node.samples)
        for at, node in enumerate(tree.nodes)
    )
    depth = max(level for _, level in positions.values())
    hidden = {"visible": False}
    return Figure(
        name,
        title,
        caption,
        ("node", "feature", "threshold", "left", "right", "label", "samples"),
        rows,
        tuple(traces),
        {
            "xaxis": {
                **hidden,
                "range": [
                    min(x for x, _ in positions.values()) - 0.7,
                    max(x for x, _ in positions.values()) + 0.7,
                ],
            },
            "yaxis": {**hidden, "range": [-depth - 0.8, 0.3]},
            "hovermode": "closest",
            "annotations": [
                {
                    "x": x,
                    "y": -depth_of,
                    "text": texts[at],
                    "showarrow": False,
                    "yanchor": "top",
                    "yshift": -8,
                    "bgcolor": "@card",
                    "font": {"size": 10, "color": "@ink"},
                }
                for at, (x, depth_of) in positions.items()
            ],
        },
        height=140 + 110 * depth,
    )


def grown_tree(name: str, title: str, rows: Sequence[Mapping[str, float]], labels: Sequence[str]) -> Figure:
    """The decision tree that predicts the labels from the rows; the caption states its accuracy, and how to
    read it."""
    tree = decision_tree(rows, labels)
    caption = f"right for {tree.accuracy:.0%} of the {len(rows)} samples it was grown from" + (
        f", for {tree.validated:.0%} of those left out in turn" if tree.validated is not None else ""
    )
    how = f"; to the left where the condition holds; numbers: {' / '.join(tree.classes)}"
    return tree_figure(name, title, caption + how, tree)


def _arrange(
    tree: DecisionTree, at: int, depth: int, left: float, positions: dict[int, tuple[float, int]]
) -> float:
    """Set the (x, depth) of a subtree's nodes, leaves side by side from `left`; returns its width."""
    node = tree.nodes[at]
    if node.left is None or node.right is None:
        positions[at] = (left, depth)
        return 1.0
    width = _arrange(tree, node.left, depth + 1, left, positions)
    width += _arrange(tree, node.right, depth + 1, left + width, positions)
    positions[at] = ((positions[node.left][0] + positions[node.right][0]) / 2, depth)
    return width
