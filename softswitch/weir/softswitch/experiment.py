# SPDX-License-Identifier: Apache-2.0
"""An experiment's switch configuration, in the form that the switch in virtual time takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from finsy.p4entity import encode_entities
from finsy.proto import p4i, p4r

from weir.controlplane.attach import HostPort, attachment_of
from weir.controlplane.config import ExperimentConfig
from weir.controlplane.entities import Entity, Link, MeterCell, UnsetMeterCell
from weir.controlplane.pipeline import load_for
from weir.controlplane.plan import make_plan
from weir.controlplane.translate import to_finsy


@dataclass(frozen=True)
class Configuration:
    """The state of a switch at the start of a phase."""

    ports: Mapping[int, str]
    """Options of each port's link, as in ``weir-switch --port``."""
    hosts: Mapping[str, HostPort]
    p4info: p4i.P4Info
    program: bytes
    insert: tuple[p4r.Entity, ...]
    modify: tuple[p4r.Entity, ...]
    """Meter cells, which always exist."""


def configuration_of(experiment: ExperimentConfig, phase: str | None = None) -> Configuration:
    """The configuration of a phase, by default the first.

    Raises:
        PlanError: no such phase, or an experiment that does not fit the pipeline.
        PipelineError: the shipped pipeline is missing.
    """
    attachment = attachment_of(experiment)
    plan = make_plan(experiment, attachment)
    chosen = plan.phases[0] if phase is None else plan.phase(phase)
    pipeline = load_for(plan.single_rate)

    def encoded(entities: Iterable[Entity]) -> tuple[p4r.Entity, ...]:
        return tuple(encode_entities([to_finsy(entity) for entity in entities], pipeline.schema))

    links = {entity.port: entity for entity in chosen.entities if isinstance(entity, Link)}
    cells = [entity for entity in chosen.entities if isinstance(entity, MeterCell | UnsetMeterCell)]
    others = [entity for entity in chosen.entities if entity not in cells and not isinstance(entity, Link)]
    return Configuration(
        ports={port: _options(link) for port, link in links.items()},
        hosts=attachment.hosts,
        # Serialized, as it may be of another class for the same message.
        p4info=p4i.P4Info.FromString(pipeline.schema.p4info.SerializeToString()),
        program=pipeline.path.read_bytes(),
        insert=encoded(others),
        modify=encoded(cells),
    )


def _options(link: Link) -> str:
    """A link as the switch's options; settings of 0 or None are the defaults."""
    settings = (
        ("rate", link.rate_bps, "bit/s"),
        ("burst", link.burst_bytes, "B"),
        ("limit", link.limit_bytes, "B"),
        ("packets", link.limit_packets, ""),
        ("deflect", link.deflect_to, ""),
        ("delay", link.delay_ns or None, "ns"),
        ("jitter", link.jitter_ns or None, "ns"),
        ("reorder", "yes" if link.reorder else None, ""),
        ("loss", link.loss_ppb or None, "ppb"),
        ("line", link.line_rate_bps, "bit/s"),
    )
    return ",".join(f"{name}={value}{unit}" for name, value, unit in settings if value is not None)
