# SPDX-License-Identifier: Apache-2.0
"""A Tofino whose bf_switchd speaks BfRuntime over gRPC: schema, messages, translation, connection."""
