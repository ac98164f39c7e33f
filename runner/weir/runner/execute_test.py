# SPDX-License-Identifier: Apache-2.0
import io
from pathlib import Path

import pytest

from weir.runner.execute import run_inside
from weir.runner.progress import LineProgress
from weir.topo.stop import Interrupted, StopToken


def test_a_program_stopped_before_it_began_neither_reads_nor_writes_the_directory(tmp_path: Path) -> None:
    stop = StopToken()
    stop.stop("orphaned")
    with pytest.raises(Interrupted):
        run_inside(tmp_path, stop, LineProgress(io.StringIO()))
    assert list(tmp_path.iterdir()) == []
