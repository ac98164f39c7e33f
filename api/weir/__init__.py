# SPDX-License-Identifier: Apache-2.0
"""weir from Python: open runs and campaigns, make runs, drive the switch in virtual time (docs/python.md).

Names are imported on first use, so that `import weir.cli.main` loads neither Arrow nor the analysis.
"""

from importlib import import_module
from pkgutil import extend_path
from typing import TYPE_CHECKING, Any

# The parts of a checkout are folders with a `weir` each; in a wheel they are one.
__path__ = extend_path(__path__, __name__)

if TYPE_CHECKING:
    from weir.analysis.models import Result
    from weir.api.campaign import Campaign, open_campaign
    from weir.api.captures import Capture
    from weir.api.errors import RunFailedError, RunInterrupted
    from weir.api.make import run
    from weir.api.run import Run, open_run
    from weir.api.table import ParquetTable, Table
    from weir.campaign.errors import CampaignError
    from weir.controlplane.config import ConfigError
    from weir.rundir.errors import RunFileError
    from weir.rundir.manifest import Manifest
    from weir.softswitch import VirtualSwitch as Switch

__all__ = [
    "Campaign",
    "CampaignError",
    "Capture",
    "ConfigError",
    "Manifest",
    "ParquetTable",
    "Result",
    "Run",
    "RunFailedError",
    "RunFileError",
    "RunInterrupted",
    "Switch",
    "Table",
    "open_campaign",
    "open_run",
    "run",
]

_FROM = {
    "Campaign": "weir.api.campaign:Campaign",
    "CampaignError": "weir.campaign.errors:CampaignError",
    "Capture": "weir.api.captures:Capture",
    "ConfigError": "weir.controlplane.config:ConfigError",
    "Manifest": "weir.rundir.manifest:Manifest",
    "ParquetTable": "weir.api.table:ParquetTable",
    "Result": "weir.analysis.models:Result",
    "Run": "weir.api.run:Run",
    "RunFailedError": "weir.api.errors:RunFailedError",
    "RunFileError": "weir.rundir.errors:RunFileError",
    "RunInterrupted": "weir.api.errors:RunInterrupted",
    "Switch": "weir.softswitch:VirtualSwitch",
    "Table": "weir.api.table:Table",
    "open_campaign": "weir.api.campaign:open_campaign",
    "open_run": "weir.api.run:open_run",
    "run": "weir.api.make:run",
}


def __getattr__(name: str) -> Any:
    source = _FROM.get(name)
    if source is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, attribute = source.partition(":")
    value = getattr(import_module(module), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
