# SPDX-License-Identifier: Apache-2.0
"""The report of a run: one self-contained HTML page."""

from weir.analysis.report.render import render_report, write_report

__all__ = ["render_report", "write_report"]
