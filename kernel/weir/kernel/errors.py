# SPDX-License-Identifier: Apache-2.0
"""Errors of kernels: of what the user gave, and of what failed while a kernel was built or booted."""


class KernelInputError(ValueError):
    """A name, source or patch cannot be used; the text says what would be valid."""


class KernelError(Exception):
    """A kernel could not be built or booted; the text names the reason, and the log if there is one."""
