# SPDX-License-Identifier: Apache-2.0
"""Runs inside a sandbox: a switch that polices is stopped in mid-burst for a while, and goes on.

    sender e1 ─── s1 [port 1: weir-switch: port 2] s2 ─── e2 receiver
                   │ capture: when each frame arrived

Started by policer_test.py as `unshare … python policer_scenario.py SWITCH JSON P4INFO FOLDER
[OPTION…]`; prints what it saw as one line of JSON.
"""

import json
import os
import select
import signal
import socket
import struct
import sys
import threading
import time
from pathlib import Path

from adversity_scenario import build_links, statistics
from finsy.proto import p4i, p4r
from google.protobuf import text_format
from hostile_client import HostileClient, destinations
from scenarios import wait_until
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
SO_TIMESTAMPNS = 35  # asm-generic/socket.h; Python has no name for it
RECEIVE_BUFFER_BYTES = 8 << 20
OUTGOING = 4  # PACKET_OUTGOING of linux/if_packet.h
TIMESPEC = struct.Struct("ll")


class Capture:
    """The frames that come to an interface, with the kernel's stamps, from now on."""

    def __init__(self, interface: str) -> None:
        """Begin."""
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x88B5))
        self._socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        self._socket.bind((interface, 0x88B5))
        self._stop = threading.Event()
        self.seen: list[tuple[int, int]] = []
        """Stamp in ns and number of each frame."""
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        while True:
            ready, _, _ = select.select([self._socket], [], [], 0.05)
            if not ready:
                if self._stop.is_set():
                    return
                continue
            frame, ancillary, _, address = self._socket.recvmsg(2048, 256)
            if address[2] != OUTGOING:
                stamps = [data for _, kind, data in ancillary if kind == SO_TIMESTAMPNS]
                seconds, nanoseconds = TIMESPEC.unpack(stamps[0][: TIMESPEC.size])
                self.seen.append((seconds * 1_000_000_000 + nanoseconds, int.from_bytes(frame[14:22], "big")))

    def stop(self) -> list[tuple[int, int]]:
        """What was seen until nothing more came."""
        self._stop.set()
        self._thread.join()
        return self.seen


def police(client: HostileClient, p4info_file: Path) -> p4r.Entity:
    """Meter everything in cell 0; the counter of what was metered."""
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


def main(binary: str, blob: str, p4info: str, folder: str, *options: str) -> None:
    """Send groups of frames before, while and after the switch is stopped."""
    build_links()
    stats = Path(folder) / "stats.json"
    source = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    source.bind(("e1", 0))
    sent = 0

    def all_came() -> bool:
        return len(came.seen) == sent

    def send(groups: int) -> None:
        nonlocal sent
        for _ in range(groups):
            for number in range(sent, sent + GROUP):
                source.send((HEADER + number.to_bytes(8, "big")).ljust(FRAME_BYTES, b"\0"))
            sent += GROUP
            wait_until(all_came, "the capture had seen what was sent")
            time.sleep(PAUSE_S)  # the source's pace

    arguments = ["--port", "1=s1", "--port", "2=s2", "--stats", str(stats), *options]
    with (
        SwitchProcess(Path(binary), *arguments) as switch,
        HostileClient(switch.address) as client,
    ):
        client.open_stream()
        client.push(Path(p4info), Path(blob))
        counter = police(client, Path(p4info))
        came, left = Capture("s1"), Capture("e2")
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
        metered()  # what those frames caused left before this was answered
        result = {"sent": sent, "came": came.stop(), "left": [number for _, number in left.stop()]}
        result |= {"stopped_ns": stopped_ns, "resumed_ns": resumed_ns}
    first, second = statistics(stats)["ports"]
    result |= {"overruns": first["rx_overruns"], "forwarded": second["tx_packets"]}
    print(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
