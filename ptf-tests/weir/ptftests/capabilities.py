# SPDX-License-Identifier: Apache-2.0
"""The declared capabilities of each target. A test that needs a missing one prints SKIP and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Cannot:
    """A capability that a target lacks, and the reason, which the skipped test prints."""

    why: str

    def __bool__(self) -> bool:
        """False: the target cannot."""
        return False


Ability = bool | Cannot
"""True, or the reason why not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """Capabilities that tests may need of a target beside the pipeline itself."""

    writes_registers: Ability
    """The pipeline's registers can be set, so that packet and sequence numbers can be chosen."""
    exact_buckets: Ability
    """A meter's rate and burst are what was written, to the byte."""
    counts_tokens_once: Ability
    """A bucket gains its rate's tokens once, however many packets it meets meanwhile."""
    own_packet_counts: Ability
    """A packet's colour counts its own bytes."""
    single_rate_three_colours: Ability
    """The policers can be single-rate three-colour meters (RFC 2697)."""
    colour_aware: Ability
    """A meter can be colour-aware: it takes the packet's colour as input."""
    meters_at_ingress_time: Ability
    """A meter uses a packet's ingress timestamp as its time."""
    shapes_queues: Ability
    """The test can make a port's egress queue slow and short."""
    deflects_queue_drops: Ability
    """A packet that its egress queue drops comes back to the pipeline, which reports it."""
    deflects_every_tenth: Ability
    """The traffic manager deflects every tenth packet, as if its queue were full."""
    short_frames: Ability
    """Frames below Ethernet's 60 bytes reach the program as they are."""
    cut_link_headers: Ability
    """Frames that end in the Ethernet header or VLAN tag reach the program, and leave it."""
    long_extensions: Ability
    """The parser follows four IPv6 extension headers, each of up to 72 bytes."""
    frame_length: Ability
    """Ingress knows a frame's length."""
    names_cut_header: Ability
    """A frame that ends in a header is dropped, and the header is known."""
    overlaps_behind_options: Ability
    """Lengths that end within the headers are seen behind options and extension headers too."""
    cells_65536: Ability
    """There are 65,536 policers."""
    digests: Ability
    """New flows are announced by digests."""
    counts_gaps: Ability
    """Egress finds gaps in the numbers that ingress gave to the packets of a port."""
    deletes_in_place: Ability
    """An entry can be deleted while counters and meters go on."""
    tna: Ability
    """The program is the one for Tofino."""
    cuts_reports: Ability
    """The pipeline cuts a report's inner packet to the collector's length."""
    keeps_time: Ability
    """A second of its time stamps is a second of our clock."""


_NO_CUT_LINK_HEADERS = Cannot(
    "Linux neither sends nor delivers a frame that ends in its Ethernet header or VLAN tag"
)
_QUEUES_DECIDE = Cannot("queues decide what is deflected; only Tofino's model has a flag for it")
_V1MODEL_PROGRAM = Cannot("the switch runs the program for v1model")
_V1MODEL_COLOUR = Cannot("v1model's meter is colour-blind")
EMBEDDED = Capabilities(
    writes_registers=True,
    exact_buckets=True,
    counts_tokens_once=True,
    own_packet_counts=True,
    single_rate_three_colours=True,
    colour_aware=_V1MODEL_COLOUR,
    meters_at_ingress_time=True,
    shapes_queues=True,
    deflects_queue_drops=True,
    deflects_every_tenth=_QUEUES_DECIDE,
    short_frames=True,
    cut_link_headers=_NO_CUT_LINK_HEADERS,
    long_extensions=True,
    frame_length=True,
    names_cut_header=True,
    overlaps_behind_options=True,
    cells_65536=True,
    digests=True,
    counts_gaps=True,
    deletes_in_place=True,
    tna=_V1MODEL_PROGRAM,
    cuts_reports=True,
    keeps_time=True,
)
# Frames are messages on a socket, so no part of Linux looks at them.
EMBEDDED_NN = replace(EMBEDDED, cut_link_headers=True)
BMV2 = replace(
    EMBEDDED,
    single_rate_three_colours=Cannot("bmv2 has two-rate meters only"),
    meters_at_ingress_time=Cannot("bmv2's meters read the clock when they are executed"),
    deflects_queue_drops=Cannot("bmv2 drops a packet at a full queue without a trace"),
)
_TOFINO_MODEL_QUEUES = Cannot("the model's queues never fill")
_TOFINO_MODEL_PADS = Cannot("the model's ports pad frames to 60 bytes")
_ETHERNET_PADS = Cannot("Ethernet pads frames to 60 bytes")
TOFINO_MODEL = Capabilities(
    writes_registers=Cannot("Stratum does not write registers of TNA programs"),
    exact_buckets=Cannot("Tofino rounds rates and bursts to what its meters can express"),
    counts_tokens_once=Cannot(
        "under bf_switchd the model's peak bucket gains some bytes with each packet, beside those of its rate"
    ),
    own_packet_counts=Cannot("Tofino's meter gives a packet the colour that the packets before it left"),
    single_rate_three_colours=Cannot("Tofino has two-rate meters only"),
    colour_aware=True,
    meters_at_ingress_time=Cannot("Tofino's meters have a separate clock"),
    shapes_queues=Cannot("queues are set in the chassis configuration, before the run"),
    deflects_queue_drops=_TOFINO_MODEL_QUEUES,
    deflects_every_tenth=_QUEUES_DECIDE,
    short_frames=_TOFINO_MODEL_PADS,
    cut_link_headers=_TOFINO_MODEL_PADS,
    long_extensions=Cannot("Tofino's parser follows two extension headers of at most 24 bytes"),
    frame_length=Cannot("Tofino's ingress does not know a frame's length"),
    names_cut_header=Cannot(
        "Tofino's parser takes the FCS for a frame's last bytes, and a header that is cut for a whole one"
    ),
    overlaps_behind_options=Cannot(
        "Tofino's parser looks at lengths only without options and extension headers"
    ),
    cells_65536=Cannot("Tofino's program has 16,384 policers"),
    digests=True,
    counts_gaps=Cannot("Tofino deflects what a queue drops, and numbers no packets"),
    deletes_in_place=True,
    tna=True,
    cuts_reports=Cannot("Tofino's mirror session cuts the copy, 32 bytes later than the inner packet"),
    keeps_time=Cannot("the model counts cycles of 0.8 ns in place of nanoseconds"),
)
TOFINO_MODEL_DEFLECTING = replace(TOFINO_MODEL, deflects_every_tenth=True)
"""Started with `--dod-test-mode`, under which most other tests miss frames."""
TOFINO_HARNESS = replace(
    TOFINO_MODEL,
    writes_registers=True,
    counts_tokens_once=True,
    shapes_queues=_TOFINO_MODEL_QUEUES,
    short_frames=True,
    cut_link_headers=_NO_CUT_LINK_HEADERS,
    digests=Cannot("the model's harness shows no digests"),
    deletes_in_place=Cannot("a deletion starts the model anew, with its counters"),
    keeps_time=True,
)
TOFINO = replace(
    TOFINO_MODEL,
    counts_tokens_once=True,
    deflects_queue_drops=Cannot("a queue must be filled at line rate, which PTF cannot do"),
    short_frames=_ETHERNET_PADS,
    cut_link_headers=_ETHERNET_PADS,
    keeps_time=True,
)

TARGETS: Mapping[str, Capabilities] = MappingProxyType(
    {
        "embedded": EMBEDDED,
        "embedded-nn": EMBEDDED_NN,
        "bmv2": BMV2,
        "tofino1-model": TOFINO_HARNESS,
        "tofino2-model": TOFINO_HARNESS,
        "tofino-model": TOFINO_MODEL,
        "tofino-model-deflecting": TOFINO_MODEL_DEFLECTING,
        "tofino": TOFINO,
    }
)

FRAME_GAP_S: Mapping[str, float] = MappingProxyType({"tofino-model": 0.002, "tofino-model-deflecting": 0.002})
"""Time between two frames into a port, where the switch needs it: under `bf_switchd` the model's time moves
in steps of a millisecond, and a packet has the colour that the step before left."""


def capabilities(target: str, bfruntime: bool) -> Capabilities:
    """A target's capabilities over the protocol that is used."""
    can = TARGETS[target]
    return replace(can, writes_registers=True) if bfruntime else can
