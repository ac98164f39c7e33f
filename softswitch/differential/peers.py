# SPDX-License-Identifier: Apache-2.0
"""The two switches, each on separate links, and the means to drive them: frames and P4Runtime."""

import select
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import grpc
from finsy.proto import p4i, p4r, rpc_status
from generate import PORTS
from subjects import Sentinel

# The switch's own tests have a plain client and start the switch.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "switch" / "tests"))

from hostile_client import HostileClient
from scenario_links import add_veth
from switch_process import SwitchProcess

BMV2 = "simple_switch_grpc"
BMV2_HOST, BMV2_PORT = "127.0.0.1", 9560
BMV2_ADDRESS = f"{BMV2_HOST}:{BMV2_PORT}"
# Only a broken switch takes this long.
PATIENCE_S = 20
ALL_PROTOCOLS = 3  # ETH_P_ALL of linux/if_ether.h
OUTGOING = 4  # PACKET_OUTGOING of linux/if_packet.h: our own frames
RECEIVE_BUFFER_BYTES = 8 << 20
MTU_BYTES = 4000
MAX_DIGEST_LIST = 4
DIGEST_TIMEOUT_NS = 20_000_000
Frames = Counter[tuple[int, bytes]]
"""Number of times that each frame was sent through each port."""


class SentinelLostError(Exception):
    """A switch did not forward the packet that every port must see."""


class Links:
    """A link for each port of a switch: `<name>sN` is the switch's end, `<name>eN` ours."""

    def __init__(self, name: str) -> None:
        """Make the links."""
        self.name = name
        self._sockets: dict[int, socket.socket] = {}
        for port in PORTS:
            add_veth(f"{name}s{port}", f"{name}e{port}", mtu_bytes=MTU_BYTES)
            # Without a protocol until it is bound: otherwise it would receive from every interface.
            ours = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            ours.bind((f"{name}e{port}", ALL_PROTOCOLS))
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
            ours.setblocking(False)
            self._sockets[port] = ours

    def send(self, port: int, frame: bytes) -> None:
        """Send a frame into a port."""
        self._sockets[port].send(frame)

    def received(self, wait_s: float) -> Iterator[tuple[int, bytes]]:
        """Frames that the switch sent, by port; waits for the first."""
        ready, _, _ = select.select(list(self._sockets.values()), [], [], wait_s)
        for port, ours in self._sockets.items():
            while ours in ready:
                try:
                    frame, address = ours.recvfrom(1 << 16)
                except BlockingIOError:
                    break
                if address[2] != OUTGOING:
                    yield port, frame

    def pass_through(self, sentinels: Sequence[Sentinel], tag: bytes) -> Frames:
        """Send sentinels, each after the last one was forwarded; return all other frames sent meanwhile.

        Raises SentinelLostError.
        """
        frames: Frames = Counter()
        deadline = time.monotonic() + PATIENCE_S
        for entered, sentinel, ports in sentinels:
            self.send(entered, sentinel)
            missing = set(ports)
            while missing:
                for port, frame in self.received(0.1):
                    if tag in frame:
                        missing.discard(port)
                    else:
                        frames[port, frame] += 1
                if time.monotonic() > deadline:
                    raise SentinelLostError(f"{self.name}: no sentinel left through ports {sorted(missing)}")
        return frames


class Peer:
    """A running switch with its links and its controller."""

    def __init__(self, name: str, links: Links, address: str) -> None:
        """Connect to a switch that is ready."""
        self.name, self.links = name, links
        self._client = HostileClient(address)
        self._client.open_stream()
        self.digests: set[tuple[int, str]] = set()
        """Id and message of the digests so far, each once."""
        self.longest_list = 0

    def __enter__(self) -> Self:
        """Nothing more to do."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Disconnect."""
        self._client.channel.close()

    def push(self, p4info: Path, blob: Path) -> None:
        """Set the pipeline."""
        self._client.push(p4info, blob)

    def write(self, updates: Iterable[p4r.Update]) -> list[str]:
        """Write one after the other; "OK" or the refusal's code of each."""
        return [self._outcome(update) for update in updates]

    def _outcome(self, update: p4r.Update) -> str:
        refusal = self._client.write([update]).exception()
        if refusal is None:
            return "OK"
        assert isinstance(refusal, grpc.RpcError)
        metadata: Any = refusal.trailing_metadata()
        trailers: dict[str, Any] = dict(metadata)
        status = rpc_status.Status.FromString(trailers.get("grpc-status-details-bin", b""))
        for detail in status.details:
            error = p4r.Error()
            detail.Unpack(error)
            return f"{grpc_name(error.canonical_code)}: {error.message}"
        return f"{refusal.code().name}: {refusal.details()}"

    def listen(self, p4info: p4i.P4Info) -> None:
        """Ask for every digest of the program; lists that come are acknowledged, and kept in `digests`."""
        for digest in p4info.digests:
            update = p4r.Update(type=p4r.Update.INSERT)
            entry = update.entity.digest_entry
            entry.digest_id = digest.preamble.id
            entry.config.max_list_size = MAX_DIGEST_LIST
            entry.config.max_timeout_ns = DIGEST_TIMEOUT_NS
            entry.config.ack_timeout_ns = 60 * 1_000_000_000
            refused = self._client.write([update]).exception()
            if refused is not None:
                raise refused
        threading.Thread(target=self._hear, daemon=True).start()

    def _hear(self) -> None:
        try:
            for response in self._client.stream:
                if response.HasField("digest"):
                    found = response.digest
                    self.longest_list = max(self.longest_list, len(found.data))
                    self.digests |= {(found.digest_id, " ".join(str(data).split())) for data in found.data}
                    ack = p4r.StreamMessageRequest()
                    ack.digest_ack.digest_id, ack.digest_ack.list_id = found.digest_id, found.list_id
                    self._client.send(ack)
        except grpc.RpcError:
            return  # the comparison is over

    def read(self, entity: p4r.Entity) -> list[p4r.Entity]:
        """Everything that matches."""
        return list(self._client.read(entity))


def grpc_name(number: int) -> str:
    """Name of a status code."""
    return next(code.name for code in grpc.StatusCode if code.value[0] == number)


@contextmanager
def weir(binary: Path, folder: Path) -> Iterator[Peer]:
    """A running weir-switch."""
    links = Links("w")
    ports = [argument for port in PORTS for argument in ("--port", f"{port}=ws{port}")]
    with (
        (folder / "weir-switch.log").open("w") as log,
        SwitchProcess(binary, *ports, stderr=log) as process,
        Peer("weir-switch", links, process.address) as peer,
    ):
        yield peer


@contextmanager
def bmv2(folder: Path) -> Iterator[Peer]:
    """A running bmv2."""
    links = Links("b")
    interfaces = [argument for port in PORTS for argument in ("-i", f"{port}@bs{port}")]
    command = [BMV2, "--no-p4", "--device-id", "1", "--log-level", "off", *interfaces]
    command += ["--", "--grpc-server-addr", BMV2_ADDRESS]
    with (folder / "bmv2.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        try:
            wait_for_server(process, folder / "bmv2.log")
            with Peer("bmv2", links, BMV2_ADDRESS) as peer:
                yield peer
        finally:
            process.kill()
            process.wait()


def wait_for_server(process: "subprocess.Popen[bytes]", log: Path) -> None:
    """Wait until bmv2 serves P4Runtime."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            socket.create_connection((BMV2_HOST, BMV2_PORT), timeout=1).close()
            return
        except OSError:
            assert process.poll() is None, f"bmv2 has exited:\n{log.read_text()}"
            assert time.monotonic() < deadline, f"bmv2 does not serve P4Runtime:\n{log.read_text()}"
            time.sleep(0.05)
