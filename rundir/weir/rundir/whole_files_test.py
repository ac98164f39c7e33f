# SPDX-License-Identifier: Apache-2.0
import subprocess
import sys
from pathlib import Path

import pytest

from weir.rundir.directory import point_latest_to
from weir.rundir.whole_files import replacing, write_whole


def test_two_writers_of_one_file_do_not_disturb_each_other(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    with replacing(file) as first, first.open("wb") as one:
        one.write(b"1" * 10)
        one.flush()
        with replacing(file) as second:
            second.write_bytes(b"2" * 20)
        assert file.read_bytes() == b"2" * 20
        one.write(b"1" * 10)
    assert file.read_bytes() == b"1" * 20
    assert list(tmp_path.iterdir()) == [file]


def test_two_processes_write_under_different_names(tmp_path: Path) -> None:
    code = "import sys; from pathlib import Path; from weir.rundir.whole_files import replacing\n"
    code += "with replacing(Path(sys.argv[1])) as part: part.touch(); print(part)"
    command = [sys.executable, "-c", code, str(tmp_path / "result.json")]
    names = {subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(2)}
    assert len(names) == 2
    assert all(name.endswith(".part\n") for name in names)


def test_a_writer_that_fails_leaves_the_file_as_it_was_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    write_whole(file, b"old")

    def fail() -> None:
        with replacing(file) as part:
            part.write_bytes(b"half")
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        fail()
    assert file.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [file]


def test_latest_points_to_the_run_that_came_last(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        point_latest_to(tmp_path / name)
    assert (tmp_path / "latest").readlink() == Path("second")
    assert len(list(tmp_path.iterdir())) == 3
