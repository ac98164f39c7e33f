# SPDX-License-Identifier: Apache-2.0
"""The error of files in a run directory."""


class RunFileError(ValueError):
    """A file of a run directory is missing or malformed; the text names the file and the reason."""
