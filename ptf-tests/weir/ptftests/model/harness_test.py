# SPDX-License-Identifier: Apache-2.0
"""The driver of the model's process, against a program that speaks the harness's language."""

import pytest

from weir.ptftests.model import harness
from weir.ptftests.model.chips import TOFINO1
from weir.ptftests.model.harness import Harness, ModelError
from weir.ptftests.model.speaker import install


@pytest.fixture
def model(tmp_path, monkeypatch):
    install(TOFINO1, tmp_path / "bin")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    started = Harness(TOFINO1, [], tmp_path / "log", tmp_path)
    yield started
    started.close()


def test_commands_print_and_frames_come_out_in_order(model):
    assert model.run(["say one", "say two"]) == ["one", "two"]
    frames = [(1, bytes(range(60))), (4, b"\xff" * 64)]
    assert model.pass_frames(frames) == frames
    assert model.pass_frames([]) == []


def test_the_time_until_the_next_packet_is_blanks_of_80_ps_after_the_port(model, tmp_path):
    frames = [(bytes(range(60)), 24), (b"\xff" * 64, 1000)]
    assert model.pass_spaced(1, frames) == [(1, frame) for frame, _ in frames]
    sent = (tmp_path / "frames").read_text().splitlines()
    assert [len(line) - 2 * len(frame) for line, (frame, _) in zip(sent, frames, strict=True)] == [200, 12400]


@pytest.mark.parametrize("gap_ns", [16, 25])
def test_a_time_that_the_harness_cannot_keep_is_refused(model, gap_ns):
    with pytest.raises(ValueError, match=rf"{gap_ns} ns; valid: multiples of 8 ns from 24 ns on"):
        model.pass_spaced(1, [(bytes(60), gap_ns)])


def test_a_refused_command_is_an_error_and_the_model_goes_on(model):
    with pytest.raises(ModelError, match="the model refused: Unknown command nonsense"):
        model.run(["say before", "nonsense 1"])
    assert model.run(["say after"]) == ["after"]


def test_a_batch_larger_than_the_pipes_between_is_answered(model):
    lines = [f"say {number:0100}" for number in range(5000)]
    assert model.run(lines) == [line.removeprefix("say ") for line in lines]


def test_an_abort_is_an_error_with_the_last_words(model):
    model.pass_frames([(1, bytes(60))])
    with pytest.raises(ModelError, match=r"(?s)was ended by SIGABRT; .*an assertion failed"):
        model.run(["abort"])


def test_an_abort_with_no_frame_expected_is_an_error_too(model):
    with pytest.raises(ModelError, match="SIGABRT"):
        model.run(["abort", "wait"])


def test_an_end_by_itself_is_an_error(model):
    with pytest.raises(ModelError, match="ended with exit code 3"):
        model.run(["end"])


def test_a_model_that_does_not_answer_is_an_error(model, monkeypatch):
    monkeypatch.setattr(harness, "_PATIENCE_S", 0.2)
    with pytest.raises(ModelError, match="does not answer within"):
        model.run(["hang"])


def test_a_missing_model_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", "")
    assert f"{TOFINO1.harness} is not on PATH" in harness.problem(TOFINO1)
    with pytest.raises(ModelError, match="cannot be started"):
        Harness(TOFINO1, [], tmp_path / "log", tmp_path)


def test_a_program_that_is_not_there_is_refused(tmp_path, monkeypatch):
    install(TOFINO1, tmp_path / "bin")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(ModelError, match=r"the model refused: Can't open .*nothing\.bin"):
        Harness(TOFINO1, [tmp_path / "nothing.bin"], tmp_path / "log", tmp_path)
