# SPDX-License-Identifier: Apache-2.0
"""The test cases of BBR's specification, each judged by what a flow's socket and the switch tell about a run.

draft-ietf-ccwg-bbr, appendix "BBR Example Test Cases". Where the text gives no number ("a reasonable number
of round trips"), ours is in the criterion. What only the sender's code knows, such as a flag, is not judged.
"""

from weir.campaign.studies.bbr_cases import paths, probing, startup
from weir.campaign.studies.bbr_cases.model import Case

_LIMITED, _LIMITED_WITH_LOSS = "application-limited", "application-limited with loss"
CASES = (
    Case("Exiting STARTUP on bandwidth plateau", "bulk", startup.startup_plateau),
    Case(
        "Exiting STARTUP on loss when application-limited",
        _LIMITED_WITH_LOSS,
        startup.startup_loss,
    ),
    Case("Exiting DRAIN based on inflight", "bulk", startup.drain_inflight),
    Case("Exiting DRAIN based on time", "bandwidth falls to a fifth", startup.drain_time),
    Case("Exiting PROBE_UP on bandwidth plateau", "bulk", probing.up_plateau),
    Case("Exiting PROBE_UP on loss when application-limited", _LIMITED_WITH_LOSS, probing.up_loss),
    Case(
        "Never exiting STARTUP when application-limited with no loss",
        _LIMITED,
        startup.never_exits,
    ),
    Case("Exiting PROBE_DOWN on inflight", "bulk", probing.down_inflight),
    Case("Exiting PROBE_DOWN after max time", "bandwidth falls", probing.down_time),
    Case("Entering and exiting PROBE_RTT", "bulk", probing.probe_rtt),
    Case("Skipping PROBE_RTT due to application-limited sending", "pauses", probing.no_probe_rtt_when_idle),
    Case("Achieving expected STARTUP bandwidth with aggregation", "aggregation", paths.aggregation_startup),
    Case("Achieving expected cruise bandwidth with aggregation", "aggregation", paths.aggregation_cruise),
    Case("Correctly managing sub-packet BDPs", "tiny BDP", paths.sub_packet),
    Case("Increasing bandwidth 10x", "bandwidth rises tenfold", paths.tenfold_up),
    Case("Decreasing bandwidth 10x", "bandwidth falls tenfold", paths.tenfold_down),
    Case("Handling token bucket policers", "policer", paths.policer),
    Case("Handling spurious fast recovery", "reordering", paths.spurious),
    Case("Handling spurious RTO recovery", "delay", paths.spurious),
    Case("Entering and exiting PROBE_RTT during STARTUP", _LIMITED, startup.probe_rtt_in_startup),
    Case("Handling loss during PROBE_UP after inflight_longterm is set", "loss", probing.up_loss_established),
    Case("Handling application-limited sending during PROBE_REFILL", "short pauses", probing.pause_in_refill),
)
"""In the order of the text."""
