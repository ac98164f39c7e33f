# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

from weir.campaign.outcome import Outcome, summary_line
from weir.rundir.manifest import Manifest


def a_run(*, emulated_losses: int, reasons: tuple[str, ...] = ()) -> Outcome:
    flow = {
        "measured": True,
        "sent": 1000,
        "emulated_losses": emulated_losses,
        "loss_ratio": 0.013,
        "throughput_bps": 4.25e6,
        "unexplained": 0,
    }
    pairs = [{"truth": "shared", "verdict": verdict} for verdict in ("shared", "separate", "shared")]
    result = {"flows": [flow, flow | {"measured": False}], "other_flows": [], "pairs": pairs}
    manifest = Manifest(schema=1, name="x", run_id="k")
    return Outcome("k", Path("k"), {}, 0, manifest, result, reasons)


def test_the_summary_line_has_loss_at_the_switch_and_emulated_loss_on_links() -> None:
    verdicts = "4.2 Mbit/s; shared: 2 of 3 verdicts right; 0 unexplained"
    assert summary_line(a_run(emulated_losses=0)) == f"loss 1.3 %; {verdicts}"
    assert summary_line(a_run(emulated_losses=70)) == f"loss 1.3 % and 7.0 % on links; {verdicts}"
    assert summary_line(a_run(emulated_losses=0, reasons=("busy",))).endswith("unexplained; INVALID: busy")
