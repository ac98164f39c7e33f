# SPDX-License-Identifier: Apache-2.0
"""Executors: start the runs of a campaign, as local processes or on dask workers."""
