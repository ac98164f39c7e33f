# SPDX-License-Identifier: Apache-2.0
"""Long-run rates and bursts of a model's meters, and the colour of each packet at chosen times.

`python -m weir.ptftests.model.meters` measures random pairs of rate and burst, and prints by how much they
differ from what was configured and from what `weir plan` shows.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import struct
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from finsy import P4Schema
from finsy.p4entity import P4MeterConfig, P4MeterEntry, encode_entities
from finsy.proto import p4i, p4r
from google.protobuf import text_format

from weir.controlplane.errors import ControlPlaneError
from weir.controlplane.targets.tofino import KBIT_BYTES
from weir.controlplane.translate import to_finsy
from weir.ptftests import entries, packets
from weir.ptftests.control import Writable
from weir.ptftests.entries import GREEN, RED, YELLOW
from weir.ptftests.model.chips import CHIPS, Chip
from weir.ptftests.model.harness import ModelError, problem
from weir.ptftests.model.program import ProgramError
from weir.ptftests.model.switch import ModelSwitch, RefusedError

FIRST_CELL, CELLS = 256, 256
IN_YELLOW, IN_RED = 12, 14
"""DSCPs with which packets come in yellow and red; others come in green."""
_OUT_DSCP = {YELLOW: 20, RED: 22}
_FIRST_PORT = 5000
_TOS = 15
LARGE, SMALL = 1500, 60
RATES_BPS, BURSTS_BYTES = (1e9, 1e10), (32e3, 256e3)
_MEASURED_BYTES = 200_000
_END = 32
_FILL = 0.8
"""Share of a burst that a bucket gets in a pause, so that it is never full while its rate is measured."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A packet, and the time until the next one; 0: the least that the model can have."""

    frame_bytes: int
    gap_ns: int = 0
    dscp: int = 0


class Meters:
    """A model whose policers remark by colour, so that each packet that leaves tells its colour."""

    def __init__(self, chip: Chip, binary: Path, p4info: p4i.P4Info, logs: Path) -> None:
        """Start it. Raises ProgramError, ModelError."""
        self.chip = chip
        self._schema = P4Schema(p4info)
        self._switch = ModelSwitch(chip, binary, logs)
        self._cell = FIRST_CELL - 1
        self._switch.push(p4info)
        block = (FIRST_CELL, 0xFFFF ^ (CELLS - 1))
        self._write(p4r.Update.INSERT, entries.forward(packets.mac_number(packets.host_mac(2)), 2))
        for colour, dscp in _OUT_DSCP.items():
            self._write(p4r.Update.INSERT, entries.verdict(block, colour, "remark_dscp", dscp=dscp))
        for dscp, action in ((IN_YELLOW, "come_in_yellow"), (IN_RED, "come_in_red")):
            self._write(p4r.Update.INSERT, entries.pre_colour(block, dscp, action))

    def use(self, cir: int, cburst: int, pir: int, pburst: int) -> None:
        """Let the packets from now on meet an unused cell with these rates (bytes/s) and bursts (bytes)."""
        self._cell += 1
        config = P4MeterConfig(cir=cir, cburst=cburst, pir=pir, pburst=pburst)
        self._write(p4r.Update.MODIFY, P4MeterEntry("policer", index=self._cell, config=config))
        self._write(p4r.Update.INSERT, entries.police_shared(self._cell, dst_port=self._port))

    def colours(self, sent: Sequence[Sent]) -> list[int]:
        """The colours of packets. Raises ModelError."""
        frames = [
            (packets.udp(item.frame_bytes, dst_port=self._port, tos=item.dscp << 2), self.gap_ns(item))
            for item in sent
        ]
        left = self._switch.pass_spaced(1, frames)
        if len(left) != len(sent):
            raise ModelError(f"{len(left)} of {len(sent)} packets left the model")
        of_dscp = {dscp: colour for colour, dscp in _OUT_DSCP.items()}
        return [of_dscp.get(frame[_TOS] >> 2, GREEN) for _, frame in left]

    def gap_ns(self, item: Sent) -> int:
        """The time from a packet to the next one."""
        return item.gap_ns or self.chip.min_gap_ns

    def seconds(self, model_ns: int) -> float:
        """The time in which a chip of the plan's clock makes as many cycles as the model in its time.

        Rates are compared per cycle: the driver, and so the plan, has 1.22 GHz for Tofino 1.
        """
        return model_ns / 1e9 * self.chip.model_hz / self.chip.buckets.clock_hz

    def close(self) -> None:
        """End the model."""
        self._switch.close()

    @property
    def _port(self) -> int:
        return _FIRST_PORT + self._cell

    def _write(self, operation: p4r.Update.Type.ValueType, entity: Writable) -> None:
        (encoded,) = encode_entities([to_finsy(entity)], self._schema)
        self._switch.write(p4r.Update(type=operation, entity=encoded))


@dataclass(frozen=True, slots=True)
class Measured:
    """What a bucket did, at the clock that the plan has.

    It is credited up to 511 bytes at a time, so both may be off by a credit and a small frame, the rate
    by that share of the bytes that it is measured with.
    """

    rate_bytes_per_s: float
    burst_bytes: float


def measure(meters: Meters, rate: int, burst: int) -> Measured:
    """Empty a full bucket; then, over pauses in which it does not get full, see how many bytes pass.

    Raises ModelError.
    """
    meters.use(rate, burst, rate, burst)
    gained_at_once = rate * meters.seconds(meters.chip.min_gap_ns)
    emptied = _emptying(burst, gained_at_once)
    colours = meters.colours(emptied)
    _check_emptied(colours)
    # The packet before the first red one took the bucket below zero.
    drawn = emptied[: colours.index(RED)]
    gained = gained_at_once * (len(drawn) - 1)
    measured_burst = sum(item.frame_bytes for item in drawn) - gained - drawn[-1].frame_bytes / 2
    pause = int(_FILL * burst / rate / meters.seconds(8)) * 8
    # After a pause the first packet has the colour from before it, and takes nothing.
    large = [Sent(LARGE)] * (math.ceil(_FILL * burst / (LARGE - gained_at_once)) + 3)
    sent: list[Sent] = []
    for _ in range(math.ceil(_MEASURED_BYTES / (_FILL * burst)) - 1):
        sent += [Sent(SMALL, pause), *large]
    sent += [Sent(SMALL, pause), Sent(SMALL), *_emptying(int(_FILL * burst), gained_at_once)]
    colours = meters.colours(sent)
    _check_emptied(colours)
    passed = sum(item.frame_bytes for item, colour in zip(sent, colours, strict=True) if colour == GREEN)
    # From the last packet of the first part, which left the bucket empty, to that of this part.
    took = meters.chip.min_gap_ns + sum(meters.gap_ns(item) for item in sent[:-1])
    return Measured(passed / meters.seconds(took), measured_burst)


def _emptying(level: int, gained: float) -> list[Sent]:
    """Packets that empty a bucket that gains some bytes between two of them, the last ones small."""
    large = int((level - 2 * LARGE) / (LARGE - gained))
    small = math.ceil(3.5 * LARGE / (SMALL - gained))
    return [Sent(LARGE)] * large + [Sent(SMALL)] * small


def _check_emptied(colours: Sequence[int]) -> None:
    """Raise ModelError if a bucket was not empty in the end."""
    if RED not in colours[-_END:]:
        raise ModelError(f"none of the last {_END} packets was red; the bucket was not emptied")


def random_pairs(count: int, seed: int) -> list[tuple[int, int]]:
    """Pairs of (bytes/s, bytes), log-uniform, in whole kbit as the driver takes them."""
    draw = random.Random(seed)

    def even(low: float, high: float) -> int:
        return int(math.exp(draw.uniform(math.log(low), math.log(high)))) // KBIT_BYTES * KBIT_BYTES

    return [(even(RATES_BPS[0] / 8, RATES_BPS[1] / 8), even(*BURSTS_BYTES)) for _ in range(count)]


def report(name: str, errors: Sequence[float]) -> str:
    """A line with the distribution of errors in percent."""
    ranked = sorted(errors)
    shown = " ".join(f"{ranked[round(share * (len(ranked) - 1))]:8.3f}" for share in (0, 0.05, 0.5, 0.95, 1))
    return f"{name:34} {shown} {statistics.mean(ranked):8.3f}"


def main(arguments: Sequence[str] | None = None) -> int:
    """0: measured, or skipped; 1: the model failed."""
    parser = argparse.ArgumentParser(description="Rates and bursts of the meters in a Tofino's model.")
    parser.add_argument("--target", choices=sorted(CHIPS), default="tofino1-model")
    parser.add_argument("--program", type=Path, required=True, help="folder that p4src/binary.py made")
    parser.add_argument("--pairs", type=int, default=100, help=f"1 to {CELLS}")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    if not 1 <= options.pairs <= CELLS:
        parser.error(f"--pairs {options.pairs}; valid: 1 to {CELLS}")
    chip = CHIPS[options.target]
    binary = options.program.resolve() / "pipe" / chip.binary
    missing = problem(chip) or (
        None if binary.is_file() else f"{binary} does not exist; p4src/binary.py makes it"
    )
    if missing is not None:
        print(f"SKIP the meters of {chip.target}: {missing}")
        return 0
    info = text_format.Parse((options.program / f"{chip.name}.p4info.txtpb").read_text(), p4i.P4Info())
    try:
        with tempfile.TemporaryDirectory() as logs:
            meters = Meters(chip, binary, info, Path(logs))
            try:
                _compare(meters, random_pairs(options.pairs, options.seed))
            finally:
                meters.close()
    except (ModelError, ProgramError, RefusedError, ControlPlaneError, struct.error) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _compare(meters: Meters, pairs: Sequence[tuple[int, int]]) -> None:
    errors: dict[str, list[float]] = {}
    for rate, burst in pairs:
        plan, found = meters.chip.buckets.effective(rate, burst), measure(meters, rate, burst)
        for name, value, of in (
            ("rate: plan - configured", plan.rate_bps / 8, rate),
            ("rate: model - configured", found.rate_bytes_per_s, rate),
            ("rate: model - plan", found.rate_bytes_per_s, plan.rate_bps / 8),
            ("burst: plan - configured", plan.burst_bytes, burst),
            ("burst: model - configured", found.burst_bytes, burst),
            ("burst: model - plan", found.burst_bytes, plan.burst_bytes),
        ):
            errors.setdefault(name, []).append(100 * (value / of - 1))
    print(
        f"{len(pairs)} pairs, errors in %".ljust(34), "     min       5%      50%      95%      max     mean"
    )
    for name in sorted(errors, key=lambda name: name.split(":")[0], reverse=True):
        print(report(name, errors[name]))


if __name__ == "__main__":
    sys.exit(main())
