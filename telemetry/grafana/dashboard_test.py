# SPDX-License-Identifier: Apache-2.0
"""The dashboard's queries are valid PromQL, and keep the labels that their legends name.

That they name every metric of the collector and no other is a test of the collector's own.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

promql = pytest.importorskip("promql_parser", reason="pip install promql-parser")

DASHBOARD = Path(__file__).with_name("weir-collector.json")


def queries() -> list[Any]:
    """Each query of each panel, with its legend."""
    return [
        pytest.param(target["expr"], target.get("legendFormat", ""), id=panel["title"])
        for panel in json.loads(DASHBOARD.read_text())["panels"]
        for target in panel["targets"]
    ]


def parsed(expression: str) -> Any:
    """The query as Grafana sends it to Prometheus."""
    return promql.parse(expression.replace("$__rate_interval", "1m").replace("$instance", "a.*"))


@pytest.mark.parametrize(("expression", "legend"), queries())
def test_a_query_is_promql_and_keeps_the_labels_of_its_legend(expression: str, legend: str) -> None:
    query = parsed(expression)
    named = set(re.findall(r"{{\s*(\w+)\s*}}", legend))
    if isinstance(query, promql.AggregateExpr):
        kept = set(query.modifier.labels) if query.modifier else set()
        assert named <= kept, f"{expression} has no {named - kept}"


@pytest.mark.parametrize(("expression", "legend"), queries())
def test_a_rate_is_of_a_counter(expression: str, legend: str) -> None:
    parsed(expression)
    for metric in re.findall(r"rate\((\w+)", expression):
        assert metric.endswith("_total"), f"{metric} is no counter ({legend})"


def test_a_query_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="unclosed"):
        parsed("sum by (rate(weir_rows_total)")
