# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace
from types import MappingProxyType

import pytest

from weir.controlplane import target as targets
from weir.controlplane.config import parse_experiment
from weir.controlplane.errors import UnsupportedByTargetError
from weir.controlplane.target import Capabilities, Softswitch, target_of

EXPERIMENT = parse_experiment("""\
name: tiny
hosts: {a: {delay: 1 ms}, b: {rate: 1 Mbit/s}}
flows: [{name: f, from: a, to: b, duration: 1 s}]
""")


def test_the_embedded_switch_shapes_and_delays() -> None:
    assert target_of(EXPERIMENT).name == "softswitch"


@pytest.mark.parametrize(
    ("capabilities", "message"),
    [
        (
            Capabilities(True, False, False),
            "hosts.a.delay: target softswitch delays nothing; valid: no delay",
        ),
        (Capabilities(False, True, False), "hosts.b.rate: target softswitch shapes no ports; valid: no rate"),
    ],
)
def test_what_a_target_does_not_declare_is_refused_by_key(
    capabilities: Capabilities, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    poor = replace(Softswitch(), capabilities=capabilities)
    monkeypatch.setattr(targets, "TARGETS", MappingProxyType({"softswitch": poor}))
    with pytest.raises(UnsupportedByTargetError) as error:
        target_of(EXPERIMENT)
    assert str(error.value) == message
