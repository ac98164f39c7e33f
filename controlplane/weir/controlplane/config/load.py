# SPDX-License-Identifier: Apache-2.0
"""YAML text to :class:`ExperimentConfig`, or one error that lists every problem of the file with its line.

Other files that weir reads take the same way, with a form of their own.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.composer import MaxDepthExceededError
from ruamel.yaml.constructor import DuplicateKeyError, RoundTripConstructor
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.tag import Tag

from weir.controlplane.config.checks import check
from weir.controlplane.config.explain import EXPERIMENT, OF_CAMPAIGNS, Form, Model, explain, repair
from weir.controlplane.config.model import ExperimentConfig
from weir.controlplane.config.problems import ConfigError, Location, Problem, key_text

_NAMES = "kernel"
"""Numbers at a key of this name are names, read as they are written: the kernel 6.10 is not 6.1."""
_NUMBERS = ("tag:yaml.org,2002:float", "tag:yaml.org,2002:int")
_TEXT = "tag:yaml.org,2002:str"
_TOO_LARGE = 4 * 2**20  # a config is written by hand; a larger file is another file
_MOST_VALUES = 1_000_000  # few aliases of aliases make billions of them
_DEEPEST = 32
_TOO_DEEP = f"nested too deeply; valid: at most {_DEEPEST} levels"


def load_experiment(path: Path) -> ExperimentConfig:
    """Read an experiment file.

    Raises:
        ConfigError: the file cannot be read, is not YAML, or not a valid experiment; it lists all problems.
    """
    return parse_experiment(read_text(path), str(path))


def read_text(path: Path, form: Form[Any] = EXPERIMENT) -> str:
    """The text of a file; raises :class:`ConfigError` if it cannot be read."""
    try:
        if path.is_file() and path.stat().st_size > _TOO_LARGE:
            raise ConfigError([f"{path}: larger than {_TOO_LARGE} bytes; valid: {form.one} in YAML"])
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            [f"{path}: {error.strerror}; valid: a readable {form.what} file in YAML"]
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError([f"{path}: byte {error.start} is not UTF-8; valid: {form.one} in YAML"]) from error


@dataclass(frozen=True)
class Source:
    """A parsed file: its data, and the line of each key."""

    filename: str
    data: dict[str, Any]
    _tree: CommentedMap

    @classmethod
    def parse(cls, text: str, filename: str, form: Form[Any] = EXPERIMENT) -> Source:
        """Read YAML text; raises :class:`ConfigError` if it is not YAML or not a mapping."""
        tree = _parse_yaml(text, filename, form)
        return cls(filename, _plain(tree, filename, (), count()), tree)

    def line_of(self, location: Location) -> int:
        """Line, from 1, of the key at ``location``, or of its innermost parent that is in the file."""
        return _line_of(location, self._tree)

    def error(self, problems: list[Problem]) -> ConfigError:
        """One error with all problems, each with the line of its key."""
        return ConfigError(_lines(problems, self._tree, self.filename))


def yaml_text(data: Mapping[str, Any]) -> str:
    """An experiment's data as YAML text; raises :class:`ConfigError` for values that YAML lacks."""
    stream = io.StringIO()
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    try:
        yaml.dump(dict(data), stream)
    except (YAMLError, TypeError) as error:
        first = str(error).strip().splitlines() or [type(error).__name__]
        raise ConfigError([f"not YAML: {first[0]}; valid: dicts, lists, strings and numbers"]) from error
    return stream.getvalue()


def parse_experiment(text: str, filename: str = "experiment.yaml") -> ExperimentConfig:
    """Read an experiment from YAML text; ``filename`` is for messages. Raises :class:`ConfigError`."""
    source = Source.parse(text, filename)
    return experiment_of(source.data, source)


def experiment_of(data: dict[str, Any], source: Source) -> ExperimentConfig:
    """An experiment from the data of ``source``, or data derived from it; raises :class:`ConfigError`."""
    found, problems = validate(EXPERIMENT, data, check)
    # The variables of a campaign are no values, so each of its other problems would say the same.
    campaign = [problem for problem in problems if problem.location in OF_CAMPAIGNS]
    if problems or found is None:
        raise source.error(campaign[:1] or problems)
    return found


def validate(
    form: Form[Model], data: dict[str, Any], check: Callable[[Model], Iterable[Problem]]
) -> tuple[Model | None, list[Problem]]:
    """The data as the form's model, and every problem of it; ``check`` finds those across keys.

    With problems, the model is one with examples in place of what is invalid, or None.
    """
    problems: list[Problem] = []
    repaired: frozenset[Location] = frozenset()
    found: Model | None = None
    try:
        found = form.model.model_validate(data)
    except ValidationError as error:
        problems = explain(form, error)
        # The checks across keys need a whole file. To report all problems at once, run them with
        # examples in place of the invalid values, and leave out problems that only the examples cause.
        data, repaired = repair(form, data, error)
        try:
            found = form.model.model_validate(data)
        except ValidationError:
            found = None
    if found is not None:
        problems += [problem for problem in check(found) if not _caused_by(problem, repaired)]
    return found, problems


def _caused_by(problem: Problem, repaired: frozenset[Location]) -> bool:
    locations = (problem.location, *problem.depends_on)
    return any(location[: len(fixed)] == fixed for location in locations for fixed in repaired)


class _Constructor(RoundTripConstructor):
    """Reads names of kernels as text."""

    def construct_document(self, node: Node) -> Any:
        """The document's data."""
        _name_kernels(node, is_name=False, seen=set())
        return super().construct_document(node)


def _name_kernels(node: Node, *, is_name: bool, seen: set[tuple[int, bool]]) -> None:
    """Make text of the numbers that are kernels' names: values of the key, items of its list, its labels."""
    if (id(node), is_name) in seen:  # an anchor that contains itself
        return
    seen.add((id(node), is_name))
    if isinstance(node, ScalarNode):
        if is_name and str(node.tag) in _NUMBERS:
            node.ctag = Tag(suffix=_TEXT)
    elif isinstance(node, SequenceNode):
        for item in node.value:
            _name_kernels(item, is_name=is_name, seen=seen)
    elif isinstance(node, MappingNode):
        for key, value in node.value:
            if is_name:
                _name_kernels(key, is_name=True, seen=seen)
            named = isinstance(key, ScalarNode) and key.value == _NAMES
            _name_kernels(value, is_name=named, seen=seen)


def _parse_yaml(text: str, filename: str, form: Form[Any]) -> CommentedMap:
    yaml = YAML(typ="rt")
    yaml.Constructor = _Constructor
    # The time to read a level grows with the levels above it. A value within the deepest level counts as one.
    yaml.max_depth = _DEEPEST + 1
    try:
        tree: object = yaml.load(text)
    except DuplicateKeyError as error:
        key = str(error.problem).split('"')[1] if '"' in str(error.problem) else "key"
        line = error.problem_mark.line + 1 if error.problem_mark is not None else 1
        raise ConfigError([f"{filename}:{line}: {key}: given twice; valid: each key once"]) from error
    except MaxDepthExceededError as error:
        line = error.problem_mark.line + 1 if error.problem_mark is not None else 1
        raise ConfigError([f"{filename}:{line}: {_TOO_DEEP}"]) from error
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{filename}:{mark.line + 1}" if mark is not None else filename
        raise ConfigError(
            [f"{where}: not YAML: {error.problem or error.context}; valid: YAML 1.2"]
        ) from error
    except (YAMLError, ValueError, RecursionError) as error:
        first = str(error).strip().splitlines() or [type(error).__name__]
        raise ConfigError([f"{filename}: not YAML: {first[0]}; valid: YAML 1.2"]) from error
    if not isinstance(tree, CommentedMap):
        found = "empty" if tree is None else "not a mapping"
        raise ConfigError([f"{filename}:1: the file is {found}; valid: keys such as {form.keys}"])
    return tree


def _plain(node: Any, filename: str, location: Location, number: Iterator[int]) -> Any:
    """The tree as plain dicts, lists and scalars, with text as keys; `number` counts them.

    Raises ConfigError where aliases make it too deep or too large, and for two keys of the same text, as 2
    and "2".
    """
    if next(number) >= _MOST_VALUES:
        problem = f"more than {_MOST_VALUES:,} values, with those of aliases; valid: fewer"
        raise ConfigError([f"{filename}: {problem}"])
    if len(location) > _DEEPEST:  # by aliases
        raise ConfigError([f"{filename}: {key_text(location)}: {_TOO_DEEP}"])
    if isinstance(node, CommentedMap):
        plain: dict[str, Any] = {}
        for key, value in node.items():
            where = (*location, str(key))
            if str(key) in plain:
                line = max(_lines_of_key(node, str(key)), default=1)
                raise ConfigError(
                    [f"{filename}:{line}: {key_text(where)}: given twice; valid: each key once"]
                )
            plain[str(key)] = _plain(value, filename, where, number)
        return plain
    if isinstance(node, CommentedSeq):
        return [_plain(value, filename, (*location, index), number) for index, value in enumerate(node)]
    for kind in (bool, int, float, str):
        if isinstance(node, kind):
            return kind(node)
    return node


def _lines(problems: list[Problem], tree: CommentedMap, filename: str) -> list[str]:
    numbered = sorted(
        ((_line_of(problem.location, tree), order, problem) for order, problem in enumerate(problems)),
        key=lambda item: item[:2],
    )
    lines = (
        f"{filename}:{line}: {key_text(problem.location)}: {problem.message}" for line, _, problem in numbered
    )
    return list(dict.fromkeys(lines))


def _line_of(location: Location, tree: CommentedMap) -> int:
    """Line, from 1, of the key at ``location``, or of its innermost parent that is in the file."""
    line, node = 1, tree
    for part in location:
        try:
            if isinstance(node, CommentedMap):
                # A location has the text of keys that are numbers, truth values or null in the file.
                key = next(key for key in node if str(key) == str(part))
                line = node.lc.key(key)[0] + 1
                node = node[key]
                continue
            if isinstance(node, CommentedSeq) and isinstance(part, int):
                line = node.lc.item(part)[0] + 1
            node = node[part]
        except (KeyError, IndexError, TypeError, AttributeError, StopIteration):
            break
    return line


def _lines_of_key(node: CommentedMap, text: str) -> list[int]:
    """Lines, from 1, of the keys of a mapping with this text; none of those merged from another one."""
    placed = node.lc.data or {}
    return [placed[key][0] + 1 for key in node if str(key) == text and key in placed]
