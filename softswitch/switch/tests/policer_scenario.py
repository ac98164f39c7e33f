# SPDX-License-Identifier: Apache-2.0
"""Runs inside a sandbox: a switch that polices is stopped in mid-burst for a while, then continues.

    sender e1 ─── s1 [port 1: weir-switch: port 2] s2 ─── e2 receiver
                   │ capture: time of arrival of each frame

Started by policer_test.py as `unshare … python policer_scenario.py SWITCH JSON P4INFO FOLDER RECEIVE
[OPTION…]`; prints its observations as one line of JSON.
"""

import json
import os
import signal
import socket
import sys
import time
from pathlib import Path

from finsy.proto import p4i, p4r
from frame_capture import Capture
from google.protobuf import text_format
from hostile_client import HostileClient, destinations
from scenario_links import add_two_links
from scenarios import statistics, wait_until
from switch_process import SwitchProcess

RATE_BYTES_PER_S = 125_000
BURST_BYTES = 10_000
FRAME_BYTES = 250
KNOWN = 0x0B
HEADER = KNOWN.to_bytes(6, "big") + (0x0A).to_bytes(6, "big") + b"\x88\xb5"
# More than the bucket holds, so that each group meets an empty bucket however slow the machine is.
GROUP = BURST_BYTES // FRAME_BYTES * 3 // 2
GROUPS = 8
# Between two groups half of the bucket comes back.
PAUSE_S = BURST_BYTES / 2 / RATE_BYTES_PER_S


def police(client: HostileClient, p4info_file: Path) -> p4r.Entity:
    """Meter all frames in cell 0; return the counter of metered frames."""
    p4info = text_format.Parse(p4info_file.read_text(), p4i.P4Info())
    update = p4r.Update(type=p4r.Update.MODIFY)
    cell = update.entity.meter_entry
    cell.meter_id = next(m.preamble.id for m in p4info.meters if m.preamble.alias == "policer")
    cell.index.index = 0
    # Both buckets alike: green or red.
    cell.config.cir = cell.config.pir = RATE_BYTES_PER_S
    cell.config.cburst = cell.config.pburst = BURST_BYTES
    known = destinations(p4info_file, "forward", "to_port", range(KNOWN, KNOWN + 1))
    known[0].entity.table_entry.action.action.params[0].value = b"\x02"
    client.write([update, *known]).result()
    counter = p4r.Entity()
    counter.counter_entry.counter_id = next(
        c.preamble.id for c in p4info.counters if c.preamble.alias == "class_counter"
    )
    counter.counter_entry.index.index = 0
    return counter


def main(binary: str, blob: str, p4info: str, folder: str, receive: str, *options: str) -> None:
    """Send groups of frames before, while and after the switch is stopped."""
    add_two_links()
    stats = Path(folder) / "stats.json"
    source = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    source.bind(("e1", 0))
    sent = 0

    def all_arrived() -> bool:
        return len(arrived.seen) == sent

    def send(groups: int) -> None:
        nonlocal sent
        for _ in range(groups):
            for number in range(sent, sent + GROUP):
                source.send((HEADER + number.to_bytes(8, "big")).ljust(FRAME_BYTES, b"\0"))
            sent += GROUP
            wait_until(all_arrived, "the capture had seen every frame sent")
            time.sleep(PAUSE_S)  # the source's pace

    ports = [f"--port={number}=s{number},receive={receive}" for number in (1, 2)]
    arguments = [*ports, "--stats", str(stats), *options]
    with (
        SwitchProcess(Path(binary), *arguments) as switch,
        HostileClient(switch.address) as client,
    ):
        client.open_stream()
        client.push(Path(p4info), Path(blob))
        counter = police(client, Path(p4info))
        # The network stack of s1 sees no frame that arrives through AF_XDP.
        arrived = Capture("s1") if receive == "ring" else Capture("e1", sent=True)
        left = Capture("e2")
        send(GROUPS)
        os.kill(switch.pid, signal.SIGSTOP)
        wait_until(lambda: switch.state() == "T", "the switch was stopped")
        stopped_ns = time.time_ns()
        send(GROUPS)
        resumed_ns = time.time_ns()
        os.kill(switch.pid, signal.SIGCONT)
        send(GROUPS)

        def metered() -> int:
            return sum(read.counter_entry.data.packet_count for read in client.read(counter))

        wait_until(lambda: metered() == sent, "every frame was metered")
        metered()  # the output of those frames was sent before this answer
        result = {"sent": sent, "arrived": arrived.stop(), "left": [number for _, number in left.stop()]}
        result |= {"stopped_ns": stopped_ns, "resumed_ns": resumed_ns}
    first, second = statistics(stats)["ports"]
    result |= {"overruns": first["rx_overruns"], "forwarded": second["tx_packets"]}
    print(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
