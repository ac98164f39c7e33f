# SPDX-License-Identifier: Apache-2.0
"""How the process of a kernel is started."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

NO_RANDOM_ADDRESSES = 0x0040000  # ADDR_NO_RANDOMIZE of personality(2)

# A program with gRPC's threads, of which a forked child has none. Each "kernel" prints its personality.
STARTS = """
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc

from weir.kernel.boot import start_kernel

folder = Path(sys.argv[1])
server = grpc.server(ThreadPoolExecutor(2))
port = server.add_insecure_port("127.0.0.1:0")
server.start()
channel = grpc.insecure_channel(f"127.0.0.1:{port}")
grpc.channel_ready_future(channel).result(30)
for number in range(20):
    with (folder / f"{number}").open("w") as console:
        start_kernel(["cat", "/proc/self/personality"], console, memory_mb=1, state=folder).wait(30)
print(Path("/proc/self/personality").read_text(), end="")
server.stop(None)
"""


def test_a_kernel_starts_without_random_addresses_also_beside_threads_of_grpc(tmp_path: Path) -> None:
    command = [sys.executable, "-c", STARTS, str(tmp_path)]
    own = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    said = [path.read_text() for path in tmp_path.iterdir()]
    assert len(said) == 20
    assert {int(text, 16) & NO_RANDOM_ADDRESSES for text in said} == {NO_RANDOM_ADDRESSES}, said
    assert int(own, 16) & NO_RANDOM_ADDRESSES == 0
