# SPDX-License-Identifier: Apache-2.0
"""The wheel holds all that runs and nothing that only tests; the source distribution holds what builds it."""

from __future__ import annotations

import io
import re
import subprocess
import tarfile
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from weir.rundir.software import weir_version
from weir_tests.cli.conftest import Distribution

ROOT = Path(__file__).parents[3]
TEST_FILE = re.compile(r"_test\.py$|/conftest\.py$|weir_tests|/testing/|scenario")
SHIPPED = "weir/controlplane/shipped_files"
NEEDED_TO_BUILD = re.compile(
    r"(\.rs|\.proto|\.binpb|\.j2|\.css|\.js|\.json|\.txtpb|\.yaml|\.pyi|Cargo\.(toml|lock)|LICENSE|README\.md)$"
    r"|(^|/)weir/.*\.py$|^tools/"
)


@pytest.fixture(scope="module", name="wheel")
def _wheel(distribution: Distribution) -> zipfile.ZipFile:
    return zipfile.ZipFile(distribution.wheel)


@pytest.fixture(scope="module", name="metadata")
def _metadata(wheel: zipfile.ZipFile) -> Message:
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    return Parser().parsestr(wheel.read(name).decode())


def test_no_test_and_no_double_is_in_the_wheel(wheel: zipfile.ZipFile) -> None:
    names = wheel.namelist()
    assert len([name for name in names if name.endswith(".py")]) > 150
    assert [name for name in names if TEST_FILE.search(name) and "synthetic/scenarios" not in name] == []


def test_no_module_in_the_wheel_imports_a_double(wheel: zipfile.ZipFile) -> None:
    modules = [name for name in wheel.namelist() if name.endswith(".py")]
    assert [name for name in modules if b"weir_tests" in wheel.read(name)] == []


def test_programs_and_extension_modules_are_in_the_wheel_without_debug_information(
    wheel: zipfile.ZipFile,
) -> None:
    scripts = f"weir_policer-{weir_version()}.data/scripts"
    for name in (
        "weir_core.abi3.so",
        "weir_softswitch.abi3.so",
        f"{scripts}/weir-switch",
        f"{scripts}/weir-collector",
    ):
        content = wheel.read(name)
        sections = {section.name for section in ELFFile(io.BytesIO(content)).iter_sections()}
        assert ".symtab" in sections, name
        assert ".debug_info" not in sections, name
    for program in ("weir-switch", "weir-collector"):
        assert wheel.getinfo(f"{scripts}/{program}").external_attr >> 16 & 0o111, (
            f"{program} is not executable"
        )


def test_pipeline_schemas_and_experiments_in_the_wheel_are_those_of_the_checkout(
    wheel: zipfile.ZipFile,
) -> None:
    for folder, inside in (("p4src/build", "p4"), ("experiments", "experiments")):
        files = {path.name: path.read_bytes() for path in (ROOT / folder).iterdir()}
        assert {"demo.yaml", "experiment.schema.json", "campaign.schema.json"} <= set(files) or inside == "p4"
        assert files == {
            Path(name).name: wheel.read(name)
            for name in wheel.namelist()
            if name.startswith(f"{SHIPPED}/{inside}/") and not name.endswith("/")
        }


def test_the_wheel_says_that_it_is_typed(wheel: zipfile.ZipFile) -> None:
    assert "weir/py.typed" in wheel.namelist()


def test_the_tag_is_any_python_from_3_11_and_a_named_glibc(distribution: Distribution) -> None:
    assert re.fullmatch(
        rf"weir_policer-{weir_version()}-cp311-abi3-manylinux_2_\d+_\w+\.whl", distribution.wheel.name
    ), distribution.wheel.name


def test_the_metadata_has_the_name_and_the_extras(metadata: Message) -> None:
    assert (metadata["Name"], metadata["Requires-Python"]) == ("weir-policer", ">=3.11")
    assert {"cluster", "decode", "notebook"} <= set(metadata.get_all("Provides-Extra", []))
    assert metadata["License-Expression"] == "Apache-2.0"


def test_the_source_distribution_holds_what_builds_the_wheel_and_no_results(
    distribution: Distribution,
) -> None:
    with tarfile.open(distribution.source) as archive:
        names = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    needed = {name for name in tracked.stdout.splitlines() if NEEDED_TO_BUILD.search(name)}
    assert len(needed) > 500
    assert needed - names == set()
    assert "softswitch/p4runtime/p4runtime.binpb" in names, (
        "build.rs cannot make it without P4Runtime's package"
    )
    folders = {name.partition("/")[0] for name in names}
    assert folders & {"target", "runs", ".venv", ".git", "dist"} == set()
