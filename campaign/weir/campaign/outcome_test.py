# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

from weir.campaign.config import LimitsConfig
from weir.campaign.outcome import Outcome, over_limits, summary_line
from weir.rundir.manifest import Manifest, Scheduling, VirtualTime
from weir_tests.kernel.made_up_kernels import add_kernel


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


def test_only_runs_in_real_time_have_limits_of_lateness(tmp_path: Path) -> None:
    real = Manifest(schema=1, name="x", run_id="k", scheduling=Scheduling(p99_s=1.0))
    assert len(over_limits(real, {}, LimitsConfig())) == 2
    kernel = add_kernel(tmp_path, "6.12", ("cubic",)).record
    virtual = real.model_copy(update={"virtual_time": VirtualTime(kernel=kernel, memory_mb=512)})
    assert over_limits(virtual, {}, LimitsConfig()) == []


def test_the_summary_line_has_loss_at_the_switch_and_emulated_loss_on_links() -> None:
    verdicts = "4.2 Mbit/s; shared: 2 of 3 verdicts right; 0 unexplained"
    assert summary_line(a_run(emulated_losses=0)) == f"loss 1.3 %; {verdicts}"
    assert summary_line(a_run(emulated_losses=70)) == f"loss 1.3 % and 7.0 % on links; {verdicts}"
    assert summary_line(a_run(emulated_losses=0, reasons=("busy",))).endswith("unexplained; INVALID: busy")
