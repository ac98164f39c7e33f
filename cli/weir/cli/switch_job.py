# SPDX-License-Identifier: Apache-2.0
"""Converts the options of commands for a running switch to a phase of an experiment and a connection."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from finsy import GRPCCredentialsTLS

from weir.cli.errors import InputError
from weir.cli.options import DEFAULT_SWITCH, LARGEST_BFRUNTIME_ID
from weir.controlplane.apply import SwitchControl
from weir.controlplane.attach import attachment_of
from weir.controlplane.bfruntime.program import Compiled, load_compiled
from weir.controlplane.bfruntime.session import BfRtSession
from weir.controlplane.config import ExperimentConfig, load_experiment
from weir.controlplane.config.values import BFRUNTIME, bfruntime_endpoint, switch_address
from weir.controlplane.connection import Part
from weir.controlplane.phase_plan import PhasePlan
from weir.controlplane.pipeline import Pipeline, load_for
from weir.controlplane.plan import Plan, make_plan
from weir.controlplane.policer_plan import PolicerPlan
from weir.controlplane.targets import Target
from weir.controlplane.targets.bmv2_queues import Bmv2Queue, queues_of, set_queues
from weir.controlplane.targets.tofino_pipeline import load_tofino_pipeline

_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Tls:
    """The TLS files from the command line; without any, the connection is not encrypted."""

    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None

    def credentials(self) -> GRPCCredentialsTLS | None:
        """Credentials for the connection; None without TLS.

        Raises:
            InputError: an incomplete combination of files.
            OSError: a file cannot be read.
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
class Endpoint:
    """Address of a running switch, and the parameters of the connection."""

    address: str = DEFAULT_SWITCH
    device_id: int = 1
    election_id: int = 1
    """Over BfRuntime, the client id."""
    tls: Tls = Tls()
    bfruntime: bool = False
    """Whether the switch speaks BfRuntime, and not P4Runtime."""


@dataclass(frozen=True)
class Job:
    """An experiment's phase on a running switch; shared by plan, apply, status and watch."""

    endpoint: Endpoint
    experiment: ExperimentConfig
    plan: Plan
    phase: PhasePlan
    ports: Mapping[int, tuple[str, ...]]
    """Port number → names of the hosts and collectors behind it."""
    queues: tuple[Bmv2Queue, ...] = ()
    """Queues with a rate on a bmv2."""
    compiled: Path | None = None
    """The compiler's output for a Tofino; the pipelines of other targets are part of weir. Over BfRuntime it
    is needed only to load the program."""

    @functools.cached_property
    def _pipeline(self) -> Pipeline:
        """The compiled pipeline; cached, because a watch creates a controller for each attempt."""
        if self.compiled is not None:
            return load_tofino_pipeline(self.compiled)
        return load_for(self.plan.single_rate)

    @functools.cached_property
    def _compiled(self) -> Compiled | None:
        """The program to load over BfRuntime; without one, it is weir's that the switch runs."""
        return None if self.compiled is None else load_compiled(self.compiled)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the user in addition to the changes."""
        queues = tuple(queue.note for queue in self.queues)
        bfruntime = self.endpoint.bfruntime
        return (*self.phase.notes, *queues, *_chassis_notes(self.experiment, bfruntime=bfruntime))

    def egress_ports(self, policer: PolicerPlan) -> tuple[int, ...]:
        """The egress ports of the packets that meet a policer; all ports for a match without destination."""
        hosts = self.phase.hosts
        names = {name for match in policer.config.match for name in match.destination or hosts}
        return tuple(sorted({hosts[name].port for name in names}))

    def check_queues(self, thrift_port: int | None) -> None:
        """Raise InputError if queues of a bmv2 are to be set but `thrift_port` is None."""
        if self.queues and thrift_port is None:
            raise InputError(
                f"hosts.{self.queues[0].host}.rate: bmv2's queues are set through Thrift; "
                "valid: --thrift-port, or no rate"
            )

    def set_queues(self, thrift_port: int | None) -> None:
        """Set the queues of all ports in use; none if the target is not bmv2, or `thrift_port` is None.

        Raises ControlPlaneError.
        """
        if thrift_port is not None and self.plan.target.name == "bmv2":
            others = sorted(set(self.ports) - {queue.port for queue in self.queues})
            set_queues(self.queues, others, thrift_port)

    def control(self, part: Part = "primary") -> SwitchControl:
        """A controller, not yet connected: use it as a context manager.

        Raises InputError, OSError, PipelineError.
        """
        if self.endpoint.bfruntime:
            return bfruntime_control(self.endpoint, self.plan.target, self._compiled, part)
        return SwitchControl(
            self.endpoint.address,
            self.endpoint.device_id,
            election_id=self.endpoint.election_id,
            pipeline=self._pipeline,
            target=self.plan.target,
            tls=self.endpoint.tls.credentials(),
            part=part,
            timeout_s=_TIMEOUT_S,
        )


def job_of_options(
    config: Path,
    phase: str | None,
    switch: str | None,
    device_id: int | None,
    election_id: int,
    tls: tuple[Path | None, Path | None, Path | None],
    compiled: Path | None,
) -> Job:
    """Create a job from a command's options; those that are None are as in the file. Raises as `job_of`."""
    experiment = load_experiment(config)
    asked = experiment.switch
    if device_id is None and "device_id" in asked.model_fields_set:
        device_id = asked.device_id
    endpoint = endpoint_of(switch or asked.address, device_id, election_id, Tls(*tls))
    return job_of(experiment, phase, endpoint, compiled)


def endpoint_of(address: str | None, device_id: int | None, election_id: int, tls: Tls) -> Endpoint:
    """The endpoint at an address, which is one of BfRuntime if it begins with bfruntime://.

    Raises:
        InputError: it is not an address of a switch, an id is too large for BfRuntime, or there are TLS files
            for a bf_switchd.
    """
    try:
        # gRPC would take a port modulo 65,536.
        address = None if address is None else switch_address(address)
    except ValueError as error:
        raise InputError(f"--switch: {error}") from error
    bfruntime = None if address is None else bfruntime_endpoint(address)
    if bfruntime is None:
        return Endpoint(address or DEFAULT_SWITCH, 1 if device_id is None else device_id, election_id, tls)
    if tls != Tls():
        raise InputError("a bf_switchd has no TLS; valid: no --tls-ca, --tls-cert and --tls-key")
    for option, number in (("--device-id", device_id or 0), ("--election-id", election_id)):
        if number > LARGEST_BFRUNTIME_ID:
            raise InputError(
                f"{option} {number}: too large for BfRuntime; valid: at most {LARGEST_BFRUNTIME_ID}"
            )
    return Endpoint(bfruntime, device_id or 0, election_id, bfruntime=True)


def bfruntime_control(
    endpoint: Endpoint, target: Target, compiled: Compiled | None, part: Part
) -> SwitchControl:
    """A controller of a bf_switchd, not yet connected."""
    session = BfRtSession(
        endpoint.address, endpoint.device_id, endpoint.election_id, _TIMEOUT_S, part, compiled
    )
    return SwitchControl(endpoint.address, target=target, connection=session)


def job_of(experiment: ExperimentConfig, phase: str | None, endpoint: Endpoint, compiled: Path | None) -> Job:
    """Plan an experiment. Raises InputError, PlanError, UnsupportedByTargetError."""
    attachment = attachment_of(experiment)
    # With the cables of its ports, a run has wires to the hosts, which delay and lose frames for a bmv2.
    plan = make_plan(experiment, attachment, wired=bool(experiment.switch.ports))
    chosen = plan.phases[0] if phase is None else plan.phase(phase)
    queues = queues_of(experiment, attachment.hosts) if plan.target.name == "bmv2" else ()
    tofino = plan.target.name.startswith("tofino")
    if endpoint.bfruntime and not tofino:
        raise InputError(
            f"{BFRUNTIME}{endpoint.address}: target {plan.target.name} does not speak BfRuntime; "
            "valid: switch.target tofino or tofino2"
        )
    if tofino and compiled is None and not endpoint.bfruntime:
        raise InputError(f"target {plan.target.name} needs --compiled; valid: the compiler's output")
    ports: dict[int, tuple[str, ...]] = {}
    numbers = {name: host.port for name, host in attachment.hosts.items()}
    numbers |= {name: collector.port for name, collector in attachment.collectors.items()}
    for name, number in numbers.items():
        ports[number] = (*ports.get(number, ()), name)
    return Job(endpoint, experiment, plan, chosen, ports, queues, compiled if tofino else None)


def _chassis_notes(experiment: ExperimentConfig, *, bfruntime: bool) -> tuple[str, ...]:
    """A note per host whose link or queue settings a Tofino does not take over the connection."""
    how = (
        "weir does not set {} over BfRuntime; set the queues in bf_switchd's tables tf1.tm or tf2.tm"
        if bfruntime
        else "P4Runtime does not set {}; "
        "set them in Stratum's chassis configuration, which `weir stratum` writes"
    )
    keys = ("delay", "rate", "queue", "queue_packets", "jitter")
    if not experiment.switch.target.startswith("tofino"):
        return ()
    return tuple(
        f"hosts.{name}: {how.format(', '.join(asked))}"
        for name, host in experiment.hosts.items()
        if (asked := [key for key in keys if getattr(host, key)])
    )
