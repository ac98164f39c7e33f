# SPDX-License-Identifier: Apache-2.0
"""Runs inside a sandbox: clients of a plain wire connect, stall and stay; then the wire is stopped.

Started by links_test.py as `unshare … python stalled_wire_scenario.py SWITCH FOLDER`; prints its
observations as one line of JSON.
"""

import json
import socket
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from half_sent import PREFACE
from links_scenario import links
from scenario_links import add_two_links
from scenarios import wait_until
from switch_process import SwitchProcess

OPEN_FILES = 64


def main(binary: str, folder: str) -> None:
    """Use up the wire's descriptors, free them, stall, stop the wire."""
    add_two_links()
    log = Path(folder) / "log"
    result: dict[str, object] = {}
    with (
        log.open("w") as stderr,
        SwitchProcess(
            Path(binary), "--pair", "a=s1,b=s2", stderr=stderr, max_open_files=OPEN_FILES, wire=True
        ) as wire,
    ):
        host, port = wire.address.split(":")

        def connect() -> socket.socket:
            return socket.create_connection((host, int(port)))

        with ExitStack() as stack:
            for _ in range(OPEN_FILES):
                stack.enter_context(connect())
            wait_until(lambda: "cannot accept" in log.read_text(), "the wire logged that it accepts no more")
            before_s, began_s = wire.cpu_s(), time.monotonic()
            wait_until(lambda: time.monotonic() > began_s + 1, "a second passed")
            result["busy"] = (wire.cpu_s() - before_s) / (time.monotonic() - began_s)
        result["get"] = links(binary, "get", "--at", wire.address)
        with connect() as silent, connect() as half:
            half.sendall(PREFACE)
            result["get_beside_stalled"] = links(binary, "get", "--at", wire.address)
            result["exit_code"] = wire.stop()
            silent.close()
    result["complaints"] = log.read_text().count("cannot accept")
    print(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
