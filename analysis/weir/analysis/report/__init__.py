# SPDX-License-Identifier: Apache-2.0
"""The report of a run: one HTML page that needs nothing but a browser."""

from weir.analysis.report.render import render_report, write_report

__all__ = ["render_report", "write_report"]
