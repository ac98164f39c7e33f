# SPDX-License-Identifier: Apache-2.0
"""What goes wrong in the analysis, by itself: who names an error need not load statistics."""


class ClockError(ValueError):
    """Two clocks cannot be pinned to each other: no packet carries both stamps."""


class CompressionError(ValueError):
    """A compressed file that cannot be decompressed; the text says where and why."""


class FlowChoiceError(ValueError):
    """The flow to look at is not in the capture, or the capture does not decide which it is."""


class UnknownDetectorError(ValueError):
    """No detector of that name."""


class UnknownScenarioError(ValueError):
    """No scenario of that name."""
