# SPDX-License-Identifier: Apache-2.0
"""The controller of a run's switch, over P4Runtime or BfRuntime, and the state that a run begins with."""

from __future__ import annotations

from weir.controlplane.apply import SwitchControl
from weir.controlplane.bfruntime.session import BfRtSession
from weir.controlplane.config import ExperimentConfig
from weir.controlplane.config.cables import TOFINO
from weir.controlplane.config.values import bfruntime_endpoint
from weir.controlplane.p4runtime import RunningProgram
from weir.controlplane.pipeline import load_for
from weir.controlplane.plan import Plan
from weir.controlplane.session import Session

_CLIENT_ID = 1
_TIMEOUT_S = 10.0


def control_of(
    experiment: ExperimentConfig, plan: Plan, address: str, *, via: str | None = None
) -> SwitchControl:
    """A controller of the switch at an address, to which `via` relays if it is given; not yet connected.

    Raises PipelineError.
    """
    asked = experiment.switch
    if not loads_program(experiment):
        assert asked.address is not None
        if bfruntime_endpoint(asked.address) is not None:
            device_id = asked.device_id if "device_id" in asked.model_fields_set else 0
            bfrt = BfRtSession(address, device_id, _CLIENT_ID, _TIMEOUT_S, via=via)
            return SwitchControl(address, target=plan.target, connection=bfrt)
        session = Session(address, asked.device_id, _CLIENT_ID, _TIMEOUT_S, via=via)
        return SwitchControl(address, target=plan.target, connection=RunningProgram(session))
    return SwitchControl(
        address,
        asked.device_id,
        pipeline=load_for(plan.single_rate),
        target=plan.target,
        via=via,
    )


def loads_program(experiment: ExperimentConfig) -> bool:
    """Whether a run loads weir's program: not on a Tofino, which takes all its ports down for that."""
    return not experiment.switch.target.startswith(TOFINO)


async def start_afresh(control: SwitchControl, plan: Plan, *, loads: bool) -> list[str]:
    """Let the counters that a run reads begin at 0, and no flow of an earlier run be known; returns notes.

    If the run `loads` the program, that does it. Otherwise counters are compared with what they are now, and
    the entries of learned flows are deleted. Raises ControlPlaneError.
    """
    if loads:
        await control.push_pipeline()
        return []
    learned = {entry.key: entry for phase in plan.phases for entry in await control.learned_flows(phase)}
    if learned:
        await control.session.write_batch([("delete", entry) for entry in learned.values()])
    policers = [policer for phase in plan.phases for policer in phase.policers]
    await control.count_from_now(policers)
    notes = ["the Tofino keeps its program; counters are those since the run began"]
    if learned:
        notes.append(f"entries of flows that an earlier run had learned, now deleted: {len(learned)}")
    return notes
