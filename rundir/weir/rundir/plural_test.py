# SPDX-License-Identifier: Apache-2.0
from weir.rundir.plural import plural


def test_one_has_no_plural() -> None:
    assert [plural(n, "packet") for n in (0, 1, 2, 1234)] == [
        *("0 packets", "1 packet", "2 packets", "1,234 packets")
    ]
    assert plural(1, "run is", "runs are") == "1 run is"
    assert plural(2, "run is", "runs are") == "2 runs are"
