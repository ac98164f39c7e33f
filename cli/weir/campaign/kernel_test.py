# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

from weir.campaign.kernel import offered, without_lacking
from weir.campaign.load import parse_campaign

TEXT = """
name: x
lacking: leave_out
matrix: {cc: [%s, no_such_cc]}
hosts: {client: {}, server: {}}
flows:
  - {name: one, from: server, to: client, congestion_control: $cc, duration: 1 s}
"""


def test_what_the_kernel_lists_is_offered_and_what_it_does_not_know_is_left_out_and_named() -> None:
    listed = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    assert offered([*listed, "no_such_cc"]) == set(listed)
    campaign, said = without_lacking(parse_campaign(TEXT % listed[0]))
    assert [run.cell["cc"] for run in campaign.runs] == [listed[0]]
    assert said.startswith("left out, because this kernel lacks it: 1 with no_such_cc; it has ")
    assert all(name in said for name in listed)
