# SPDX-License-Identifier: Apache-2.0
import dataclasses

from weir.ptftests.capabilities import TARGETS, Capabilities
from weir.ptftests.table import COLUMNS, needs_of_tests, rows, runs_on

TESTS = needs_of_tests()
NAMED = [name for row in rows() for name in row.tests]


def test_every_test_that_the_table_names_exists():
    assert set(NAMED) - set(TESTS) == set()


def test_every_test_is_in_the_table_once():
    assert sorted(NAMED) == sorted(TESTS)


def test_a_row_without_a_test_has_a_reason():
    for row in rows():
        assert row.tests or len(row.last.split()) > 3, row.feature


def test_columns_say_yes_and_skip_as_the_capabilities_do():
    for row in rows():
        for column, said in row.columns.items():
            runs = all(runs_on(column, TESTS[name]) for name in row.tests)
            assert said == (("yes" if runs else "SKIP") if row.tests else "no"), f"{row.feature}, {column}"


def test_every_need_is_a_capability_and_every_lack_has_a_reason():
    capabilities = {field.name for field in dataclasses.fields(Capabilities)}
    assert {need for needs in TESTS.values() for need in needs} <= capabilities
    for target, can in TARGETS.items():
        for name in capabilities:
            ability = getattr(can, name)
            assert ability is True or ability.why, f"{target}: {name}"


def test_every_target_has_a_column():
    # The model that deflects has one row.
    shown = set(TARGETS) - {"tofino-model-deflecting"}
    assert {target for targets in COLUMNS.values() for target in targets} == shown
