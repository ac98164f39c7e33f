# SPDX-License-Identifier: Apache-2.0
"""One run of an experiment: checks, run directory, phases and their traffic, manifest."""
