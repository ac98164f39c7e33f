# SPDX-License-Identifier: Apache-2.0
"""The metadata of archives: their own checks, and those of roc-validator for RO-Crate 1.2."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from weir.archive.contents import contents_of
from weir.archive.record import License, Origin
from weir.archive.write import write_archive
from weir_tests.archive.made_up_run import make_campaign, make_run

ROOT = Path(__file__).parents[3]
ORIGIN = Origin("0.1.0", "0123456789ab", datetime(2026, 11, 24, tzinfo=UTC))
# It needs an older rich than the project, so it has a separate environment (`make crate-validator`).
DEFAULT_PYTHON = ROOT / ".venv" / "crate-validator" / "bin" / "python"
SCRIPT = ROOT / "archive" / "weir_tests" / "archive" / "validate_crate.py"


@pytest.fixture(name="archive")
def _archive(tmp_path: Path) -> Path:
    """A run, another with other software, an unfinished one without seed, and a campaign."""
    runs = tmp_path / "runs"
    paths = [
        make_run(runs / "demo" / "r1"),
        make_run(runs / "demo" / "r 2", commit="ba9876543210", valid=False, invalid_reasons=["busy"]),
        make_run(runs / "demo" / "r3", complete=False, state="failed", seed=None, finished_ns=None),
        make_campaign(runs / "buffers", "5_r001", "10_r001"),
    ]
    contents = contents_of(paths, unfinished=True)
    write_archive(contents, tmp_path / "a.zip", ORIGIN, License("CC-BY-4.0"))
    return tmp_path / "a.zip"


def graph_of(archive: Path) -> dict[str, dict[str, Any]]:
    with zipfile.ZipFile(archive) as opened:
        graph = json.loads(opened.read("ro-crate-metadata.json"))["@graph"]
    entities = {entity["@id"]: entity for entity in graph}
    assert len(entities) == len(graph)
    return entities


def ids(value: Any) -> list[str]:
    return [each["@id"] for each in (value if isinstance(value, list) else [value])]


def test_every_file_is_reached_from_the_root_with_its_checksum(archive: Path) -> None:
    entities = graph_of(archive)
    assert entities["ro-crate-metadata.json"]["conformsTo"] == {"@id": "https://w3id.org/ro/crate/1.2"}
    assert entities["./"]["license"] == {"@id": "https://spdx.org/licenses/CC-BY-4.0"}
    assert entities["./"]["datePublished"] == "2026-11-24"
    reached: list[str] = []
    left = ids(entities["./"]["hasPart"])
    while left:
        entity = entities[left.pop()]
        reached.append(entity["@id"])
        left += ids(entity.get("hasPart", []))
    assert len(reached) == len(set(reached))
    files = {name: entities[name]["sha256"] for name in reached if entities[name]["@type"] == "File"}
    with zipfile.ZipFile(archive) as opened:
        names = [name for name in opened.namelist() if not name.endswith("/")]
        sums = dict(line.split("  ")[::-1] for line in opened.read("SHA256SUMS").decode().splitlines())
    assert len(files) == len(names) - 2  # without the metadata itself and the list of checksums
    assert files["runs/demo/r1/pcap/client.pcap"] == sums["runs/demo/r1/pcap/client.pcap"]
    assert sorted(files.values()) == sorted(sums[name] for name in sums if name != "ro-crate-metadata.json")


def test_each_run_is_the_result_of_an_action_with_software_experiment_and_seed(archive: Path) -> None:
    entities = graph_of(archive)
    actions = {ids(entities[name]["result"])[0]: entities[name] for name in ids(entities["./"]["mentions"])}
    assert len(actions) == 5
    action = actions["runs/demo/r1/"]
    assert (action["startTime"], action["endTime"]) == ("2025-10-09T08:53:20Z", "2025-10-09T08:54:40Z")
    assert action["description"] == "Repeated with: weir run runs/demo/r1/config.yaml --time real"
    software = entities[action["instrument"]["@id"]]
    assert (software["name"], software["version"]) == ("weir", "0.1.0, commit 0123456789ab")
    experiment, seed = (entities[name] for name in ids(action["object"]))
    assert experiment["@id"] == "runs/demo/r1/config.yaml"
    assert (seed["name"], seed["value"]) == ("seed", "7")
    unfinished = actions["runs/demo/r3/"]
    assert unfinished["actionStatus"] == "http://schema.org/FailedActionStatus"
    assert "endTime" not in unfinished
    assert ids(unfinished["object"]) == ["runs/demo/r3/config.yaml"]
    assert "rate = 5; repeat 1" in entities["runs/buffers/5_r001/"]["description"]


@pytest.mark.parametrize(
    ("text", "identifier"),
    [
        ("CC-BY-4.0", "https://spdx.org/licenses/CC-BY-4.0"),
        ("https://example.org/terms", "https://example.org/terms"),
        ("only for reviewers", "#license"),
        ("", "#license"),
    ],
)
def test_the_license_is_an_address_or_a_text(tmp_path: Path, text: str, identifier: str) -> None:
    contents = contents_of([make_run(tmp_path / "runs" / "demo" / "r1")])
    write_archive(contents, tmp_path / "a.zip", ORIGIN, License(text))
    entities = graph_of(tmp_path / "a.zip")
    assert entities["./"]["license"] == {"@id": identifier}
    assert entities[identifier]["name"] == text or "no license stated"


def test_rocrate_reads_the_archive(archive: Path) -> None:
    from rocrate.rocrate import ROCrate

    crate = ROCrate(str(archive))
    assert crate.name == "5 runs of buffers, demo"
    assert crate.get("runs/demo/r1/pcap/client.pcap")["contentSize"] == "10240"


def test_roc_validator_finds_only_that_no_publisher_is_named(archive: Path, tmp_path: Path) -> None:
    python = Path(os.environ.get("CRATE_VALIDATOR_PYTHON") or DEFAULT_PYTHON)
    if not python.exists():
        pytest.skip(
            f"{python} is missing; `make crate-validator` makes it, or CRATE_VALIDATOR_PYTHON names one"
        )
    broken = tmp_path / "broken.zip"
    with zipfile.ZipFile(archive) as whole, zipfile.ZipFile(broken, "w") as changed:
        for name in whole.namelist():
            data = whole.read(name)
            changed.writestr(name, data.replace(b'"datePublished"', b'"dateWritten"'))
    # Without variables for the Python of the tests: the validator runs in another one.
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    ended = subprocess.run(
        [str(python), str(SCRIPT), "ro-crate-1.2", str(archive), str(broken)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stderr
    issues, of_broken = (json.loads(line) for line in ended.stdout.splitlines())
    # An archive for reviewers names no author.
    assert [message for level, message in issues if level == "REQUIRED"] == []
    assert [message for _, message in issues] == [
        "The Root Data Entity SHOULD have a `publisher` property (Organization or Person)"
    ]
    assert any("datePublished" in message for level, message in of_broken if level == "REQUIRED")


def test_rocrate_is_loaded_only_to_write_an_archive() -> None:
    program = (
        "import sys, weir.cli.main, weir.archive.write, weir.archive.unpack; print('rocrate' in sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout == "False\n"
