# SPDX-License-Identifier: Apache-2.0
import json

import pytest

import build_p4

programs = pytest.mark.parametrize("program", build_p4.PROGRAMS, ids=lambda program: program.name)


@programs
def test_the_committed_output_was_made_from_these_sources(program):
    recorded = build_p4.provenance(build_p4.ROOT / program.build)[program.name]
    assert recorded["sources"] == build_p4.digests(program), "sources changed since: run `make p4`"


@programs
def test_the_committed_output_is_what_the_compiler_wrote(program):
    build = build_p4.ROOT / program.build
    recorded = build_p4.provenance(build)[program.name]
    assert recorded["outputs"] == {name: build_p4.sha256(build / name) for name in program.outputs}


# The resources of a Tofino program name no files.
@pytest.mark.parametrize(
    "program", [each for each in build_p4.PROGRAMS if each.chip is None], ids=lambda program: program.name
)
def test_the_output_names_no_file_outside_the_project(program):
    text = (build_p4.ROOT / program.build / program.outputs[0]).read_text()
    files = {info["filename"] for info in find_source_infos(json.loads(text)) if info["filename"]}
    assert files, "the JSON names the source file of its parts"
    assert not [name for name in files if name.startswith("/")]


@programs
def test_the_compiler_on_path_gives_the_committed_output(program, tmp_path):
    if not program.compilable:
        pytest.skip("p4c: the program's compiler is not on PATH")
    recorded = build_p4.provenance(build_p4.ROOT / program.build)[program.name]
    version = build_p4.compiler_version(program)
    if recorded["compiler"] != version:
        pytest.skip(f"p4c: compiled with {recorded['compiler']}, on PATH is {version}")
    build_p4.compile_program(program, tmp_path)
    for name in program.outputs:
        assert (tmp_path / name).read_text() == (build_p4.ROOT / program.build / name).read_text()


def find_source_infos(node):
    if isinstance(node, dict):
        if isinstance(node.get("source_info"), dict):
            yield node["source_info"]
        for child in node.values():
            yield from find_source_infos(child)
    elif isinstance(node, list):
        for child in node:
            yield from find_source_infos(child)
