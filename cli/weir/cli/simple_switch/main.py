# SPDX-License-Identifier: Apache-2.0
"""The program: options, connection, the program of the switch, and the loop of commands."""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path

from thrift.protocol.TProtocol import TProtocolException
from thrift.Thrift import TApplicationException
from thrift.transport.TTransport import TTransportException

from weir.cli.simple_switch.arrays import ArrayCommands
from weir.cli.simple_switch.profiles import ProfileCommands
from weir.cli.simple_switch.program import Program
from weir.cli.simple_switch.replication import ReplicationCommands
from weir.cli.simple_switch.services import Switch
from weir.cli.simple_switch.tables import TableCommands
from weir.cli.simple_switch.target import TargetCommands

_STARS = "*" * 10


class SimpleSwitchShell(ProfileCommands, TableCommands, ArrayCommands, ReplicationCommands, TargetCommands):
    """All commands."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="simple_switch_CLI",
        description="Controls weir-switch or bmv2 through Thrift, with bmv2's commands.",
    )
    parser.add_argument("--thrift-port", type=int, default=9090, help="port of the Thrift services (9090)")
    parser.add_argument("--thrift-ip", default="localhost", help="address of the Thrift services (localhost)")
    parser.add_argument("--json", help="JSON of the program (default: the switch is asked for it)")
    parser.add_argument(
        "--pre",
        choices=["None", "SimplePre", "SimplePreLAG"],
        help="accepted and ignored: simple_switch has SimplePreLAG",
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the program. Exits with 1 when there is no switch or no program."""
    options = _parser().parse_args(arguments)
    try:
        switch = Switch(options.thrift_ip, options.thrift_port)
    except (TTransportException, OverflowError):
        print("Could not connect to thrift client on port", options.thrift_port)
        print("Make sure the switch is running and that you have the right port")
        sys.exit(1)
    try:
        shell = SimpleSwitchShell(switch, _program(switch, options.json))
        shell.cmdloop()
    except (TTransportException, TProtocolException, ConnectionError) as error:
        print(f"simple_switch_CLI: the connection to the switch is lost: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        switch.close()


def _program(switch: Switch, path: str | None) -> Program:
    if path is None:
        print("Obtaining JSON from switch...")
        try:
            text = switch.call("bm_get_config")
        except TApplicationException:
            print("Error when requesting JSON config from switch")
            sys.exit(1)
        print("Done")
        source = "the switch"
    else:
        try:
            given = Path(path).read_bytes()
            text = given.decode()
        except (OSError, UnicodeDecodeError) as error:
            print(f"simple_switch_CLI: --json: cannot read {path}: {error}", file=sys.stderr)
            sys.exit(1)
        _compare(switch, given)
        source = path
    if not text:
        print(f"simple_switch_CLI: {source} has no program yet; load one with P4Runtime", file=sys.stderr)
        sys.exit(1)
    try:
        return Program(text)
    except ValueError as error:
        print(f"simple_switch_CLI: {source}: {error}", file=sys.stderr)
        sys.exit(1)


def _compare(switch: Switch, given: bytes) -> None:
    """Warn when the switch runs another program."""
    try:
        running = switch.call("bm_get_config_md5")
    except TApplicationException:
        print("Error when requesting config md5 sum from switch")
        sys.exit(1)
    own = hashlib.md5(given, usedforsecurity=False).digest()
    if running != own:
        print(_STARS)
        print(
            "WARNING: the JSON files loaded into the switch and the one you just provided to this CLI"
            " don't have the same md5 sum. Are you sure they describe the same program?"
        )
        print(f"{'switch md5':<15}: {running.hex()}")
        print(f"{'CLI input md5':<15}: {own.hex()}")
        print(_STARS)


if __name__ == "__main__":
    main()
