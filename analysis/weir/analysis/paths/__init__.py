# SPDX-License-Identifier: Apache-2.0
"""The benchmark of pair detectors over paths: pairs with truth, judged at every jitter."""
