# SPDX-License-Identifier: Apache-2.0
from weir.controlplane.entities import MeterCell
from weir.rundir.manifest import Policer
from weir.runner.phase_record import read_back

PLAIN = Policer(name="p", index=1, rate_bps=1, burst_bytes=1)


def test_rate_and_burst_of_every_bucket_are_recorded_as_read_back() -> None:
    cell = MeterCell("policer", 1, 1_250_000, 9_000, 2_500_000, 20_000)
    policer = PLAIN.model_copy(update={"peak_rate_bps": 2, "peak_burst_bytes": 1})
    assert read_back(cell, policer) == {
        "read_back_rate_bps": 10_000_000,
        "read_back_burst_bytes": 9_000,
        "read_back_peak_rate_bps": 20_000_000,
        "read_back_peak_burst_bytes": 20_000,
    }


def test_a_single_bucket_has_no_peak_to_read_back() -> None:
    answers = read_back(MeterCell("policer", 1, 1_000, 3_000), PLAIN)
    assert answers == {"read_back_rate_bps": 8_000, "read_back_burst_bytes": 3_000}
