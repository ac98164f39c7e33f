# SPDX-License-Identifier: Apache-2.0
"""The table of trials: for each fault and process how often, and what came of it."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any


def table_of(trials: Iterable[Mapping[str, Any]]) -> str:
    """Markdown: a row for each fault and role, then each trial in which something was wrong."""
    rows: dict[tuple[str, str, str], Counter[str]] = defaultdict(Counter)
    wrong = []
    count = 0
    for trial in trials:
        count += 1
        role = trial["role"] if trial["did"] else "(had ended)"
        rows[trial["subject"], trial["fault"], role][outcome(trial)] += 1
        wrong += [f"- {trial['number']}, {trial['fault']}, {role}: {text}" for text in trial["wrong"]]
    lines = [f"{count} trials, {len({line.split(',')[0] for line in wrong})} with something wrong.", ""]
    lines += ["| | fault | process | trials | what came of it |", "| --- | --- | --- | --- | --- |"]
    for (subject, fault, role), outcomes in sorted(rows.items()):
        said = "; ".join(f"{number} × {text}" for text, number in outcomes.most_common())
        lines.append(f"| {subject} | {fault} | {role} | {outcomes.total()} | {said} |")
    return "\n".join([*lines, *(["", "Wrong:", "", *wrong] if wrong else [])]) + "\n"


def outcome(trial: Mapping[str, Any]) -> str:
    """The result of a trial in one line, without numbers and directories: like ones count together."""
    said = re.sub(r"/\S*/weir-chaos-[^/\s]*", "DIR", " ".join(str(trial["said"]).split()))
    said = re.sub(r"\d+", "N", said)
    return f"WRONG ({said})" if trial["wrong"] else said
