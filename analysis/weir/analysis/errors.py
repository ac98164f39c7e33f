# SPDX-License-Identifier: Apache-2.0
"""The exceptions of the analysis, in a module that imports nothing."""


class ClockError(ValueError):
    """Two clocks cannot be aligned: no packet carries both stamps."""


class FlowChoiceError(ValueError):
    """The chosen flow is not in the capture, or the choice is ambiguous."""


class UnknownDetectorError(ValueError):
    """No detector of that name."""


class UnknownScenarioError(ValueError):
    """No scenario of that name."""


class PathFilesError(ValueError):
    """A data set of pairs is malformed; the text names the file."""
