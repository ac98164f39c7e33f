# SPDX-License-Identifier: Apache-2.0
"""Pictures of experiments: hosts, links, queues, policers, and who sends what through them."""
