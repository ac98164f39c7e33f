# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from weir.campaign.variables import MAX_DEPTH, Variables


def chain(length: int) -> Variables:
    """Variables of which each refers to the next, the last one to a number."""
    links = {f"v{number}": f"$v{number + 1}" for number in range(length - 1)}
    return Variables({**links, f"v{length - 1}": 1})


def test_a_chain_of_variables_is_followed_to_its_bound_and_named_beyond() -> None:
    variables = chain(MAX_DEPTH)
    assert (variables.substitute("$v0", ("rate",)), variables.problems) == (1, [])
    variables = chain(MAX_DEPTH + 1)
    variables.substitute("$v0", ("rate",))
    assert [problem.message for problem in variables.problems] == [
        f"$v{MAX_DEPTH} is nested too deep; valid: {MAX_DEPTH} variables in a row"
    ]
