# SPDX-License-Identifier: Apache-2.0
"""Clients may do with links what the switch is told; a service that the network can reach is said."""

import json
import subprocess
from pathlib import Path

import pytest
from switch_process import SwitchProcess


def links(weir_switch: Path, *words: str) -> tuple[int, str]:
    """Exit code and output of `weir-switch links`."""
    done = subprocess.run([weir_switch, "links", *words], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("access", "reads", "changes"), [("change", True, True), ("read", True, False), ("none", False, False)]
)
def test_links_are_read_and_changed_by_those_who_may(
    weir_switch: Path, access: str, reads: bool, changes: bool
) -> None:
    with SwitchProcess(weir_switch, "--links-access", access) as switch:
        code, said = links(weir_switch, "get", "--at", switch.address)
        assert (code == 0) is reads, said
        if reads:
            assert json.loads(said) == []
        for change in (["add", "1=weir77"], ["remove", "1"]):
            code, said = links(weir_switch, *change, "--at", switch.address)
            assert code != 0  # there is no such interface, and no port 1
            assert (f"--links-access {access}" not in said) is changes, said


@pytest.mark.parametrize(("address", "warned"), [("0.0.0.0:0", True), ("127.0.0.1:0", False)])
def test_a_service_that_the_network_can_reach_is_said(weir_switch: Path, address: str, warned: bool) -> None:
    command = [
        "unshare",
        "--user",
        "--map-root-user",
        "--net",
        "--",
        str(weir_switch),
        "--p4runtime",
        address,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as switch:
        assert switch.stdout is not None
        switch.stdout.readline()
        switch.terminate()
        said = switch.communicate(timeout=20)[1]
    assert ("is open to the network, without TLS" in said) is warned, said
