# SPDX-License-Identifier: Apache-2.0
"""The schema of `result.json`. Counts are packets; units are in the names."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from weir.analysis.conservation import Account


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, serialize_by_alias=True)


class Law(_Model):
    """Both sides of the law of conservation, in packets.

    sent − received = reported_drops + reports_lost + emulated_losses + in_flight + unexplained.
    """

    sent: int
    received: int
    missing: int
    """The left side."""
    reported_drops: int
    reports_lost: int
    emulated_losses: int
    in_flight: int
    explained: int
    """The right side without `unexplained`."""
    unexplained: int
    contradictions: int
    """Packets that were reported dropped but arrived."""

    @classmethod
    def of(cls, account: Account) -> Law:
        """The law of an account."""
        return cls(
            sent=account.sent,
            received=account.received,
            missing=account.missing,
            reported_drops=account.reported_drops,
            reports_lost=account.reports_lost,
            emulated_losses=account.emulated_losses,
            in_flight=account.in_flight,
            explained=account.explained,
            unexplained=account.unexplained,
            contradictions=account.contradictions,
        )


class FalseInferenceResult(_Model):
    """One packet where the end host's inference and the truth differ."""

    kind: Literal["false_positive", "false_negative"]
    sent_ns: int
    seq: int
    payload_length: int
    cause: str


class CauseResult(_Model):
    """The confusion of one cause of retransmission; `cause` is None for missed losses without one."""

    cause: str | None
    true_positive: int
    false_positive: int
    false_negative: int
    precision: float | None
    recall: float | None
    detection_delay_median_s: float | None
    time_error_median_s: float | None
    time_error_p95_s: float | None


class FlowResult(_Model):
    """One configured flow, the direction of its data."""

    id: str
    phase: str
    name: str
    src: str
    dst: str
    src_host: str
    dst_host: str
    src_port: int
    dst_port: int
    protocol: int
    cc: str | None
    policer: str | None
    measured: bool
    sent: int
    received: int
    reported_drops: int
    reports_lost: int
    emulated_losses: int
    in_flight: int
    unexplained: int
    contradictions: int
    inferred_lost: int
    true_positive: int
    false_positive: int
    false_negative: int
    uninferable_losses: int
    """Lost packets that a sender cannot notice (pure ACKs): outside precision and recall."""
    precision: float | None
    recall: float | None
    detection_delay_median_s: float | None
    """From a lost transmission to its inference."""
    detection_delay_p95_s: float | None
    time_error_median_s: float | None
    """From the inferred time of a loss (its time of sending, on the switch's clock) to the drop."""
    time_error_p95_s: float | None
    causes: tuple[CauseResult, ...]
    false_inferences: tuple[FalseInferenceResult, ...]
    """At most 1,000; the counts are complete."""
    retransmissions: int
    spurious_retransmissions: int
    loss_ratio: float | None
    """reported_drops ÷ sent."""
    throughput_bps: float | None
    """Received frame bytes (without FCS) × 8 ÷ time from first to last packet sent."""
    goodput_bps: float | None
    """Received payload bytes, including duplicates, × 8 ÷ the same time."""
    duration_s: float
    min_rtt_s: float | None
    mean_delay_s: float | None
    """Mean RTT − minimum RTT."""


class OtherFlow(_Model):
    """A directed 5-tuple that the experiment does not name: ACKs, control connections, others."""

    kind: Literal["acks", "control", "other"]
    of: str | None
    """The configured flow it belongs to."""
    phase: str | None
    policer: str | None
    src: str
    dst: str
    src_port: int
    dst_port: int
    protocol: int
    law: Law


class FirstBurstResult(_Model):
    """Bytes passed from the last full bucket to the first drop, against burst + rate × time."""

    passed_bytes: int
    expected_bytes: float
    elapsed_s: float


class LongRunResult(_Model):
    """The longest time in which a policer's bucket was never full: its throughput against the rate."""

    span_s: float
    throughput_bps: float
    error_percent: float


class ConformanceResult(_Model):
    """A policer against its configuration, in percent; see `weir.analysis.conformance`."""

    window_s: float
    windows: int
    saturated_windows: int
    excess_percent: float | None
    saturated_deviation_percent: float | None
    rate_error_percent: float | None
    deviation_percent: float | None
    first_burst: FirstBurstResult | None
    long_run: LongRunResult | None = None
    offered_bps: float | None = None


class PolicerResult(_Model):
    """One policer of one phase: configuration, counters, and whether all counts agree."""

    name: str
    phase: str
    rate_bps: float
    burst_bytes: float
    effective_rate_bps: float
    effective_burst_bytes: float
    green: int | None
    yellow: int | None
    red: int | None
    packets_met: int | None
    passed_bytes: int | None
    sent_in_captures: int | None
    """None, as the next one, if flows came to the policer or left it during the phase."""
    passed_bytes_in_captures: int | None
    reported_drops: int
    reports_lost: int
    disagreements: tuple[str, ...]
    conformance: ConformanceResult | None
    conformance_note: str | None
    """The reason why there are no figures, or a note on them."""
    agrees: bool | None = None
    """Whether long-run throughput, the switch's counters and the configured rate agree within half a percent;
    None where this is unknown."""
    agreement: str = ""
    """The difference, or the reason why it is unknown."""


class PairResult(_Model):
    """Two measured flows: a detector's verdict from the inferred losses, and the truth."""

    phase: str
    flows: tuple[str, str]
    truth: Literal["shared", "separate"]
    detector: str
    verdict: Literal["shared", "separate", "cannot_tell"]
    reason: str
    detail: dict[str, Any]
    """The detector's statistics; `switch_view` is its verdict given the true drops."""


class LinkResult(_Model):
    """The link to a host, as configured."""

    host: str
    delay_s: float
    rate_bps: int | None
    """Rate of the queue before the link; None without a queue."""
    queue_bytes: int | None
    loss: float
    """Share of the frames that the link loses at random."""
    queue_packets: int | None = None
    """Limit of the queue in packets; None if it has none."""


class ClockResult(_Model):
    """A sender's clock relative to the switch's; the offset includes the smallest delay between the two."""

    host: str
    target: Literal["switch"] = "switch"
    points: int
    outliers: int
    offset_ns: int
    drift_ppm: float
    residual_ns: int
    spread_ns: int
    error_ns: int | None = None
    """Bound on the error of offset and drift beside the least delay; None with few points."""


class ClockStepResult(_Model):
    """A clock was set, forward by a positive size, at a time of the run's clock."""

    at_ns: int
    size_ns: int


class HostClockResult(_Model):
    """The clock of a host, or of the switch, beside the run's, to which all times of packets are moved."""

    host: str
    reference: str
    """The host, or weir's machine, whose clock is the run's."""
    same: bool
    """No packet contradicts that it is the run's clock, so it is taken for it."""
    by: Literal["itself", "both directions", "one direction", "reports"]
    """Packets between hosts in both directions or in one, or reports of the switch."""
    packets: int
    offset_ns: int
    """By how much it was ahead at its first packet."""
    drift_ppm: float
    """By how much it runs faster."""
    steps: tuple[ClockStepResult, ...]
    residual_ns: int
    error_ns: int | None
    """The offset is wrong by at most this much; None: it includes a delay that is unknown, or few packets
    leave it open."""


class TelemetryResult(_Model):
    """Counts of the drop reports between switch and collector."""

    sent_by_switch: int | None
    received: int
    lost_in_gaps: int
    lost_in_tail: int
    duplicates: int
    malformed: int
    kernel_drops: int
    unmatched_reports: int
    """Reports whose packet is in no sender's capture."""
    unmatched_received: int
    """Packets received that are in no sender's capture."""


class LatenessResult(_Model):
    """Delay of frames beyond that of their link, in seconds; nearest-rank percentiles.

    Measured from the sender's capture to the receiver's over all frames on links without queue and jitter, so
    it is the delay of the switch and the kernel's scheduler.
    """

    frames: int
    p50_s: float
    p99_s: float
    p999_s: float
    max_s: float


class PhaseResult(_Model):
    """One phase with the law over all its flows, ACKs and control connections included."""

    name: str
    start_ns: int
    duration_s: float
    law: Law


class Result(_Model):
    """One run. `valid`: the measurement is sound; `explained`: the law holds; `complete`: it finished."""

    schema_version: Literal[1] = Field(default=1, alias="schema")
    name: str
    run_id: str
    weir_version: str
    commit: str | None
    target: str
    state: str
    complete: bool
    valid: bool
    invalid_reasons: tuple[str, ...]
    explained: bool
    """Every flow's `unexplained` is 0, all counts agree, and every report matches a packet."""
    headline: str
    law: Law
    """The law over all captured packets between the hosts."""
    outside_packets: int
    """Packets sent to no captured host (multicast, broadcast), which the law does not cover."""
    phases: tuple[PhaseResult, ...]
    flows: tuple[FlowResult, ...]
    other_flows: tuple[OtherFlow, ...]
    policers: tuple[PolicerResult, ...]
    pairs: tuple[PairResult, ...]
    links: tuple[LinkResult, ...] = ()
    clocks: tuple[ClockResult, ...]
    host_clocks: tuple[HostClockResult, ...] = ()
    telemetry: TelemetryResult
    switch_lateness: LatenessResult | None = None
    """None where senders and receivers have no common clock, or every link has a queue."""
    notes: tuple[str, ...] = ()
    """Notes for the reader on the run's configuration and captures."""
    kernel: str | None = None
    """Name and version of the kernel of a run in virtual time; None for a run in real time."""
