# SPDX-License-Identifier: Apache-2.0
"""The program `simple_switch_CLI`: bmv2's verbs on the Thrift services of weir-switch or bmv2."""
