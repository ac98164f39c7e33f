# SPDX-License-Identifier: Apache-2.0
"""What the options that find a running switch mean: an experiment's phase and the connection to apply it."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from finsy import GRPCCredentialsTLS

from weir.cli.errors import InputError
from weir.cli.options import DEFAULT_SWITCH
from weir.controlplane.apply import SwitchControl
from weir.controlplane.attach import attachment_of
from weir.controlplane.config import ExperimentConfig, load_experiment
from weir.controlplane.phase_plan import PhasePlan
from weir.controlplane.pipeline import Pipeline, load_for
from weir.controlplane.plan import Plan, make_plan
from weir.controlplane.policer_plan import PolicerPlan
from weir.controlplane.session import Part
from weir.controlplane.targets.bmv2_queues import Bmv2Queue, queues_of
from weir.controlplane.targets.tofino_pipeline import load_tofino_pipeline

_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Tls:
    """The files of TLS, as given; none of them: plain text."""

    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None

    def credentials(self) -> GRPCCredentialsTLS | None:
        """What the connection wants.

        Raises:
            InputError: files that do not go together.
            OSError: a file that cannot be read.
        """
        if (self.cert is None) != (self.key is None):
            raise InputError("--tls-cert and --tls-key go together; valid: both, or neither")
        if self.ca is None:
            if self.cert is not None:
                raise InputError("--tls-cert has no effect without --tls-ca; valid: the authority too")
            return None
        for path in (self.ca, self.cert, self.key):
            if path is not None:
                with path.open("rb"):
                    pass
        return GRPCCredentialsTLS(cacert=self.ca, cert=self.cert, private_key=self.key)


@dataclass(frozen=True, slots=True)
class Where:
    """A running switch and how to reach it."""

    address: str = DEFAULT_SWITCH
    device_id: int = 1
    election_id: int = 1
    tls: Tls = Tls()


@dataclass(frozen=True)
class Job:
    """An experiment's phase on a switch: what the commands for running switches have in common."""

    where: Where
    experiment: ExperimentConfig
    plan: Plan
    phase: PhasePlan
    ports: Mapping[int, tuple[str, ...]]
    """What is behind each port, by name."""
    queues: tuple[Bmv2Queue, ...] = ()
    """Of a bmv2."""
    compiled: Path | None = None
    """The compiler's output, of a Tofino; the others have theirs with weir."""

    @functools.cached_property
    def _pipeline(self) -> Pipeline:
        """Read once: a watch makes a controller for each of its tries."""
        if self.compiled is not None:
            return load_tofino_pipeline(self.compiled)
        return load_for(self.plan.single_rate)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the reader should know beside the changes."""
        queues = tuple(queue.note for queue in self.queues if queue.note is not None)
        return (*self.phase.notes, *queues, *_set_elsewhere(self.experiment))

    def ports_behind(self, policer: PolicerPlan) -> tuple[int, ...]:
        """The ports through which leaves what meets a policer, as far as its matches name destinations."""
        hosts = self.phase.hosts
        names = {name for match in policer.config.match for name in match.destination or hosts}
        return tuple(sorted({hosts[name].port for name in names}))

    def check_queues(self, thrift_port: int | None) -> None:
        """Raise InputError when a bmv2's queues are to be set and nobody said where."""
        if self.queues and thrift_port is None:
            raise InputError(
                f"hosts.{self.queues[0].host}.rate: bmv2's queues are set through Thrift; "
                "valid: --thrift-port, or no rate"
            )

    def control(self, part: Part = "primary") -> SwitchControl:
        """A controller that is still to be entered. Raises InputError, OSError, PipelineError."""
        return SwitchControl(
            self.where.address,
            self.where.device_id,
            election_id=self.where.election_id,
            pipeline=self._pipeline,
            target=self.plan.target,
            tls=self.where.tls.credentials(),
            part=part,
            timeout_s=_TIMEOUT_S,
        )


def job_of_options(
    config: Path,
    phase: str | None,
    switch: str,
    device_id: int,
    election_id: int,
    tls: tuple[Path | None, Path | None, Path | None],
    compiled: Path | None,
) -> Job:
    """The job that the options of a command describe. Raises as `job_of`."""
    return job_of(config, phase, Where(switch, device_id, election_id, Tls(*tls)), compiled)


def job_of(config: Path, phase: str | None, where: Where, compiled: Path | None) -> Job:
    """Load and plan. Raises ConfigError, InputError, PlanError, UnsupportedByTargetError."""
    experiment = load_experiment(config)
    attachment = attachment_of(experiment)
    plan = make_plan(experiment, attachment)
    chosen = plan.phases[0] if phase is None else plan.phase(phase)
    queues = queues_of(experiment, attachment.hosts) if plan.target.name == "bmv2" else ()
    tofino = plan.target.name.startswith("tofino")
    if tofino and compiled is None:
        raise InputError(f"target {plan.target.name} needs --compiled; valid: the compiler's output")
    ports: dict[int, tuple[str, ...]] = {}
    numbers = {name: host.port for name, host in attachment.hosts.items()}
    numbers |= {name: collector.port for name, collector in attachment.collectors.items()}
    for name, number in numbers.items():
        ports[number] = (*ports.get(number, ()), name)
    return Job(where, experiment, plan, chosen, ports, queues, compiled if tofino else None)


def _set_elsewhere(experiment: ExperimentConfig) -> tuple[str, ...]:
    """What nothing here sets: Tofino's queues."""
    keys = ("delay", "rate", "queue", "queue_packets", "jitter")
    if not experiment.switch.target.startswith("tofino"):
        return ()
    return tuple(
        f"hosts.{name}: P4Runtime does not set {', '.join(asked)}; "
        "set them in Stratum's chassis configuration, which `weir stratum` writes"
        for name, host in experiment.hosts.items()
        if (asked := [key for key in keys if getattr(host, key)])
    )
