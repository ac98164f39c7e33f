# SPDX-License-Identifier: Apache-2.0
"""Any file gives an experiment or a ConfigError whose lines name the file."""

import io
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from weir.controlplane.config import ConfigError, parse_experiment

DEMO = YAML(typ="safe").load((Path(__file__).parents[4] / "experiments" / "demo.yaml").read_text())

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["1 Mbit/s", "20 ms", "0 s", "64 kB", "server1", "per_flow_hashed", "shared", "tcp"]),
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def paths_in(node: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value in a tree of dicts and lists."""
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [path for key, child in children for path in ((*at, key), *paths_in(child, (*at, key)))]


PATHS = paths_in(DEMO)


def dumped(changes: list[tuple[int, Any]]) -> str:
    stream = io.StringIO()
    yaml = YAML(typ="safe")
    yaml.dump(DEMO, stream)
    tree = yaml.load(stream.getvalue())
    for number, value in changes:
        node = tree
        *parents, last = PATHS[number % len(PATHS)]
        try:
            for key in parents:
                node = node[key]
            node[last] = value
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change has removed the path
    stream = io.StringIO()
    yaml.dump(tree, stream)
    return stream.getvalue()


def problems_of(text: str) -> tuple[str, ...]:
    """The lines of a file's error; none for a valid file."""
    try:
        parse_experiment(text, "x.yaml")
    except ConfigError as error:
        return error.lines or ("an error without a line",)
    return ()


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(min_value=0), values), min_size=1, max_size=4))
def test_any_value_anywhere_is_accepted_or_explained(changes: list[tuple[int, Any]]) -> None:
    for line in problems_of(dumped(changes)):
        assert line.startswith("x.yaml:")
        assert "; valid: " in line


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_accepted_or_explained(text: str) -> None:
    for line in problems_of(text):
        assert line.startswith("x.yaml")
