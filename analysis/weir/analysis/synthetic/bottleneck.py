# SPDX-License-Identifier: Apache-2.0
"""A small packet simulator: CUBIC, BBR and on-off senders, and their bottlenecks.

It models what makes the patterns that detectors use. CUBIC: a window that grows by RFC 9438 and shrinks to
0.7; BBR: a paced rate that probes with gains 1.25 and 0.75 and ignores losses; on-off: bursts of random
length. A policer is a token bucket that starts full (RFC 2697, two colours), a shaper a drop-tail queue, a
lossy link drops at random. A queue may stand in front of the bottlenecks, and applications may pause. There
are no timeouts and no lost acknowledgments.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from weir.analysis.tables import Bools, Floats

FRAME = 1514
PAYLOAD = 1448
Kind = Literal["policer", "shaper", "lossy"]
Control = Literal["cubic", "bbr", "onoff"]
CUBIC_C, CUBIC_BETA = 0.4, 0.7
BBR_GAINS = (1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0)
BBR_STARTUP, BBR_WINDOW_ROUNDS = 2.89, 10
PROBE_RTT_EVERY_S, PROBE_RTT_S = 10.0, 0.2


@dataclass
class Bottleneck:
    """Drops frames by `rate_bps` and `burst_bytes` of its bucket or queue, and with probability `loss`.

    A `lossy` one has neither bucket nor queue.
    """

    kind: Kind = "policer"
    rate_bps: float = 0.0
    burst_bytes: float = 0.0
    loss: float = 0.0
    _backlog: float = 0.0
    _now: float = 0.0

    def offer(self, now: float, rng: np.random.Generator) -> float | None:
        """Offer a frame at time `now`: returns its wait in seconds, or None when it is dropped."""
        if self.loss and rng.random() < self.loss:
            return None
        if self.kind == "lossy":
            return 0.0
        rate = self.rate_bps / 8
        self._backlog = max(0.0, self._backlog - rate * (now - self._now))
        self._now = now
        if self._backlog + FRAME > self.burst_bytes:
            return None
        wait = self._backlog / rate if self.kind == "shaper" else 0.0
        self._backlog += FRAME
        return wait


@dataclass
class Sender:
    """A flow with its congestion control; `bottleneck` is an index into the list of bottlenecks.

    With `pause_s` its application sends for `busy_s` and then has nothing to send for `pause_s`, in turn.
    """

    control: Control
    bottleneck: int
    rtt_s: float = 0.02
    start_s: float = 0.0
    limit_bps: float = 25e6
    busy_s: float = 0.0
    pause_s: float = 0.0
    time_s: list[float] = field(default_factory=list, repr=False)
    left_s: list[float] = field(default_factory=list, repr=False)
    lost: list[bool] = field(default_factory=list, repr=False)
    rtts_s: list[float] = field(default_factory=list, repr=False)
    rtt_sent_s: list[float] = field(default_factory=list, repr=False)
    _inflight: int = 0
    _window: float = 10.0
    _slow_start: bool = True
    _top: float = 0.0
    _reduced_s: float = -1.0
    _free_s: float = 0.0
    _delivered: int = 0
    _bandwidth: list[float] = field(default_factory=lambda: [1e6 / 8] * BBR_WINDOW_ROUNDS, repr=False)
    _round_s: float = 0.0
    _rounds: int = 0
    _startup: bool = True
    _full: tuple[float, int] = (0.0, 0)

    def times(self) -> Floats:
        """The time at which each frame reached the bottleneck, in seconds."""
        return np.array(self.time_s)

    def sent(self) -> Floats:
        """The time at which each frame left its sender, in seconds: earlier if it waited in a queue."""
        return np.array(self.left_s)

    def has_data(self, now: float) -> bool:
        """Whether its application has something to send."""
        period = self.busy_s + self.pause_s
        return not self.pause_s or (now - self.start_s) % period < self.busy_s

    def losses(self) -> Bools:
        """The mask of dropped frames."""
        return np.array(self.lost, dtype=bool)


class _Run:
    """The events of one simulation, in order of time."""

    def __init__(
        self,
        senders: list[Sender],
        bottlenecks: list[Bottleneck],
        rng: np.random.Generator,
        first: int,
    ) -> None:
        self.senders, self.bottlenecks, self.rng, self.first = senders, bottlenecks, rng, first
        self.events: list[tuple[float, int, int, int, float, int]] = []
        self.order = 0
        # Drawn once, for the jitter of the host and of the return path.
        self.noise = rng.exponential(1.0, 4096).tolist()

    def push(self, at: float, what: int, who: int, sent: float = 0.0, delivered: int = 0) -> None:
        self.order += 1
        heapq.heappush(self.events, (at, self.order, what, who, sent, delivered))

    def jitter(self, mean_s: float) -> float:
        return float(self.noise[self.order & 4095]) * mean_s


TICK, ARRIVE, ACK, LOSS, FRONT = range(5)
HOST_JITTER_S, ACK_JITTER_S = 20e-6, 100e-6


def simulate(
    senders: list[Sender],
    bottlenecks: list[Bottleneck],
    seconds: float,
    rng: np.random.Generator,
    front: Bottleneck | None = None,
) -> list[Sender]:
    """Simulate the senders; returns them, with times, losses and RTTs of their frames filled in.

    All frames pass the queue `front`, if there is one, before they come to their bottleneck.
    """
    run = _Run(senders, bottlenecks, rng, FRONT if front else ARRIVE)
    for who, sender in enumerate(senders):
        run.push(sender.start_s, TICK, who)
    while run.events:
        now, _, what, who, sent, delivered = heapq.heappop(run.events)
        if now > seconds:
            break
        sender = senders[who]
        if what == FRONT and front is not None:
            wait = front.offer(now, rng)
            # A frame that the queue has no room for is lost there.
            run.push(now if wait is None else now + wait, ARRIVE, who, now, -1 if wait is None else 0)
        elif what == ARRIVE:
            left = now if front is None else sent
            wait = None if delivered < 0 else bottlenecks[sender.bottleneck].offer(now, rng)
            sender.time_s.append(now)
            sender.left_s.append(left)
            sender.lost.append(wait is None)
            back = now + sender.rtt_s + run.jitter(ACK_JITTER_S) + (wait or 0.0)
            run.push(back, LOSS if wait is None else ACK, who, left, sender._delivered)
        elif what == TICK:
            (_tick_onoff if sender.control == "onoff" else _tick)(run, who, sender, now)
        else:
            sender._inflight -= 1
            if what == ACK:
                sender._delivered += 1
                sender.rtts_s.append(now - sent)
                sender.rtt_sent_s.append(sent)
            if sender.control == "cubic":
                _cubic(sender, now, sent, lost=what == LOSS)
                _fill(run, who, sender, now)
            elif sender.control == "bbr" and what == ACK:
                _bbr(sender, now, sent, delivered)
    return senders


def _transmit(run: _Run, who: int, sender: Sender, now: float) -> None:
    at = max(now + run.jitter(HOST_JITTER_S), sender._free_s)
    sender._free_s = at + FRAME * 8 / sender.limit_bps
    sender._inflight += 1
    run.push(at, run.first, who)


def _fill(run: _Run, who: int, sender: Sender, now: float) -> None:
    # At most 5 ms of frames wait at the host's own limit.
    while sender._inflight < sender._window and sender._free_s < now + 0.005 and sender.has_data(now):
        _transmit(run, who, sender, now)


def _cubic(sender: Sender, now: float, sent: float, *, lost: bool) -> None:
    if lost:
        if sent > sender._reduced_s:
            sender._top = sender._window
            sender._window = max(2.0, sender._window * CUBIC_BETA)
            sender._reduced_s, sender._slow_start = now, False
        return
    if sender._slow_start:
        sender._window += 1
        return
    # RFC 9438, equations 1 and 2; the Reno-friendly window of section 4.3 as its lower bound.
    k = (sender._top * (1 - CUBIC_BETA) / CUBIC_C) ** (1 / 3)
    since = now - sender._reduced_s
    target = CUBIC_C * (since - k) ** 3 + sender._top
    reno = sender._top * CUBIC_BETA + 0.53 * since / sender.rtt_s
    goal = min(max(target, reno), sender._window * 1.5)
    if goal > sender._window:
        sender._window += (goal - sender._window) / sender._window


def _tick(run: _Run, who: int, sender: Sender, now: float) -> None:
    if sender.control == "cubic":
        _fill(run, who, sender, now)
        run.push(now + sender.rtt_s / 4, TICK, who)  # the limit of `_fill` may delay a part of the window
        return
    rate = max(sender._bandwidth)
    cycle = int((now - sender.start_s) / sender.rtt_s)
    gain = BBR_STARTUP if sender._startup else BBR_GAINS[cycle % len(BBR_GAINS)]
    window = max(4.0, 2 * rate * sender.rtt_s / FRAME)
    if (now - sender.start_s) % PROBE_RTT_EVERY_S > PROBE_RTT_EVERY_S - PROBE_RTT_S:
        window = 4.0
    quantum = 2
    if sender._inflight < window and sender.has_data(now):
        for _ in range(quantum):
            _transmit(run, who, sender, now)
    run.push(now + quantum * FRAME / (gain * rate), TICK, who)


def _bbr(sender: Sender, now: float, sent: float, delivered: int) -> None:
    sample = (sender._delivered - delivered) * FRAME / (now - sent)
    slot = sender._rounds % BBR_WINDOW_ROUNDS
    sender._bandwidth[slot] = max(sender._bandwidth[slot], sample)
    if now - sender._round_s < sender.rtt_s:
        return
    sender._round_s, sender._rounds = now, sender._rounds + 1
    top, stalled = sender._full
    best = max(sender._bandwidth)
    sender._full = (best, 0) if best > top * 1.25 else (top, stalled + 1)
    if sender._full[1] >= 3:
        sender._startup = False
    if not sender._startup or sender._rounds > BBR_WINDOW_ROUNDS:
        sender._bandwidth[sender._rounds % BBR_WINDOW_ROUNDS] = 0.0


def _tick_onoff(run: _Run, who: int, sender: Sender, now: float) -> None:
    """Bursts of Pareto length (shape 1.5) at the limit, on for half of the time on average."""
    frames = int(min(3 * (run.rng.pareto(1.5) + 1), 500))
    for _ in range(frames):
        _transmit(run, who, sender, now)
    mean_s = frames * FRAME * 8 / sender.limit_bps
    run.push(now + mean_s + float(run.rng.exponential(mean_s)), TICK, who)
