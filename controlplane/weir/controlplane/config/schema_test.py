# SPDX-License-Identifier: Apache-2.0
import json
from pathlib import Path

from weir.controlplane.config import schema_text

EXPERIMENTS = Path(__file__).parents[4] / "experiments"


def test_the_committed_schema_is_the_one_that_the_models_make() -> None:
    committed = (EXPERIMENTS / "experiment.schema.json").read_text()
    assert committed == schema_text(), "stale: run `weir schema > experiments/experiment.schema.json`"


def test_every_shipped_experiment_names_the_schema_on_its_first_line() -> None:
    for path in EXPERIMENTS.glob("*.yaml"):
        text = path.read_text()
        is_campaign = any(f"\n{key}:" in text for key in ("matrix", "parts"))
        name = "campaign.schema.json" if is_campaign else "experiment.schema.json"
        assert text.splitlines()[0] == f"# yaml-language-server: $schema={name}", path


def test_every_key_of_the_schema_is_explained() -> None:
    schema = json.loads(schema_text())
    bare = [
        f"{title}.{key}"
        for title, model in [("ExperimentConfig", schema), *schema["$defs"].items()]
        for key, value in model["properties"].items()
        if "description" not in value and "$ref" not in value
    ]
    assert bare == []


def test_defaults_are_written_with_their_unit() -> None:
    definitions = json.loads(schema_text())["$defs"]
    assert definitions["TelemetryConfig"]["properties"]["truncate"]["default"] == "128 B"
    assert definitions["HostConfig"]["properties"]["delay"]["default"] == "0 ns"
    assert "default" not in definitions["HostConfig"]["properties"]["rate"]


def test_host_names_are_checked_by_editors_too() -> None:
    hosts = json.loads(schema_text())["properties"]["hosts"]
    assert hosts["propertyNames"] == {"pattern": "^[A-Za-z0-9][A-Za-z0-9_-]{0,31}$"}
