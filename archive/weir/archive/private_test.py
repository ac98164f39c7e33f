# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from weir.archive.private import Cleaner, Identity, remains

RUN = Path("/home/Jane Doe/papers/runs/demo/20261124T200740Z")
CLEANER = Cleaner(RUN, Identity(("lab-42",), ("jdoe",), "/home/Jane Doe"))


@pytest.mark.parametrize(
    ("line", "clean"),
    [
        (f"12 rows in {RUN}/telemetry.parquet\n", "12 rows in telemetry.parquet\n"),
        # … where the run was when the log was written, and in a campaign's folder of runs under way
        ("see '/mnt/big/20261124T200740Z/logs/a.log'", "see 'logs/a.log'"),
        ('"/x/.partial/20261124T200740Z/logs/b.json"', '"logs/b.json"'),
        ("/opt/weir/.venv/bin/weir-switch: ready", ".../weir-switch: ready"),
        ("log:/srv/lab/x.log", "log:.../x.log"),
        (
            '"system_info":\t"Linux lab-42.example.org 6.1.0-1 #1 SMP"',
            '"system_info":\t"Linux host 6.1.0-1 #1 SMP"',
        ),
        ("jdoe@lab-42: started", "user@host: started"),
        ("in /home/Jane Doe/other", "in ~/other"),
        # what names nobody stays
        ("10.0.0.0/24, 2001:db8::/32, 3/4, and/or, main/bbr", None),
        ("/usr/bin/tcpdump reads /proc/net/packet and /dev/null", None),
        ("https://example.org/a/b", None),
        ("the switch lab-4 and lab-421", None),
    ],
)
def test_a_log_keeps_its_text_and_loses_paths_and_names(line: str, clean: str | None) -> None:
    assert CLEANER.log(line) == (line if clean is None else clean)


def test_a_record_keeps_words_that_are_names_elsewhere() -> None:
    line = '"flow jdoe of lab-42 ended, see /home/x/y.log"'
    assert CLEANER.record(line) == '"flow jdoe of lab-42 ended, see .../y.log"'


def test_a_page_keeps_its_scripts() -> None:
    script = "a=/b/c.test(x)/d/e; AAAA/bbb/ccc//ddd/20261124T200740Zx"
    assert CLEANER.page(script) == script
    assert CLEANER.page(f"<td>{RUN}/pcap/client.pcap</td>") == "<td>pcap/client.pcap</td>"


def test_what_is_longer_than_any_path_is_none() -> None:
    assert CLEANER.page("/a" * 2_000 + "/20261124T200740Z/x") == "x"
    line = "/a" * 200_000 + "/20261124T200740Z/x"
    assert CLEANER.page(line) == line


def test_names_that_the_experiment_uses_are_no_secret() -> None:
    assert Identity(("client",), ("bbr", "jdoe")).without(["client", "bbr"]) == Identity((), ("jdoe",))


def test_lines_that_still_name_a_place_or_a_person_are_found() -> None:
    text = ["name: demo", "replay: /home/x/talk.replay", "# by jdoe", "rate: 3/4"]
    assert list(remains(text, CLEANER.identity)) == [
        (2, "an absolute path"),
        (3, "the name of this machine or user"),
    ]
