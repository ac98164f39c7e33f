# SPDX-License-Identifier: Apache-2.0
"""Runs inside a sandbox: the same frames of many segments are cut by the switch and by Linux.

    e1 ─── s1 [weir-switch wire] s2 ─── e2      the sending end leaves segments to its card
    k1 ─── k2                                   the sending end has no such card: the kernel cuts

Started by segments_test.py as `unshare … python segments_scenario.py SWITCH FOLDER`; prints what arrived at
e2 and k2, in hexadecimal digits, as one line of JSON.
"""

import json
import socket
import struct
import sys
from pathlib import Path

from frame_capture import OUTGOING
from scenario_links import add_link, add_veth, run
from scenarios import statistics
from switch_process import SwitchProcess

SOL_PACKET, PACKET_AUXDATA, PACKET_VNET_HDR = 263, 8, 15  # linux/socket.h, linux/if_packet.h
NEEDS_CSUM, TCPV4, TCPV6, UDP_L4, ECN = 1, 1, 4, 5, 0x80  # linux/virtio_net.h
VIRTIO_HEADER = struct.Struct("=BBHHHH")
TCP_HEADER = struct.Struct("!HHLLBBHHH")
TIMESTAMPS = b"\x01\x01\x08\x0a" + bytes(range(8))
FIN_PSH_ACK_CWR = 0x01 | 0x08 | 0x10 | 0x80
PATIENCE_S = 20


def ones_complement_sum(data: bytes) -> int:
    """RFC 1071."""
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def network(version: int, protocol: int, payload: int) -> tuple[bytes, int]:
    """The network header of a packet with `payload` bytes, and the sum of its pseudo header."""
    if version == 6:
        addresses = bytes.fromhex("fd" + "00" * 14 + "01" + "fd" + "00" * 14 + "02")
        return struct.pack("!LHBB", 6 << 28 | 0x02_00000, payload, protocol, 64) + addresses, (
            ones_complement_sum(addresses + struct.pack("!LL", payload, protocol))
        )
    addresses = bytes([10, 0, 0, 1, 10, 0, 0, 2])
    header = struct.pack("!BBHHHBBH", 0x45, 0x02, 20 + payload, 0xFFFE, 0x4000, 64, protocol, 0) + addresses
    check = 0xFFFF - ones_complement_sum(header)
    return header[:10] + struct.pack("!H", check) + header[12:], (
        ones_complement_sum(addresses + struct.pack("!HH", protocol, payload))
    )


def message(version: int, protocol: str, payload: int, segment: int, *, tag: bytes = b"") -> bytes:
    """A frame with its virtio header, as a host hands it to a card that cuts."""
    data = bytes(number * 7 % 251 for number in range(payload))
    if protocol == "tcp":
        header_bytes, kind, offset = 20 + len(TIMESTAMPS), TCPV6 if version == 6 else TCPV4, 16
        ip, pseudo = network(version, socket.IPPROTO_TCP, header_bytes + payload)
        sequence = 2**32 - 2000
        fields = 1234, 80, sequence, 1, header_bytes // 4 << 4, FIN_PSH_ACK_CWR, 500, pseudo, 0
        header, kind = TCP_HEADER.pack(*fields) + TIMESTAMPS, kind | ECN
    else:
        header_bytes, kind, offset = 8, UDP_L4, 6
        ip, pseudo = network(version, socket.IPPROTO_UDP, header_bytes + payload)
        header = struct.pack("!HHHH", 1234, 53, header_bytes + payload, pseudo)
    ethertype = b"\x86\xdd" if version == 6 else b"\x08\x00"
    frame = bytes.fromhex("020000000002020000000001") + tag + ethertype + ip + header + data
    start = 14 + len(tag) + len(ip)
    virtio = VIRTIO_HEADER.pack(NEEDS_CSUM, kind, start + header_bytes, segment, start, offset)
    return virtio + frame


MESSAGES = {
    "tcp": message(4, "tcp", 60_000, 1448),
    "tcp of two": message(4, "tcp", 2_000, 1448),
    "tcp in one slot": message(4, "tcp", 1_000, 300),
    "tcp over ipv6": message(6, "tcp", 60_001, 1428),
    "tcp with a tag": message(4, "tcp", 20_000, 1448, tag=b"\x81\x00\x20\x05"),
    "udp": message(4, "udp", 30_000, 1400),
    "udp over ipv6": message(6, "udp", 30_001, 1400),
}


def listen(interface: str) -> socket.socket:
    """A socket that captures the frames that arrive at an interface."""
    capture = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0003))
    capture.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    capture.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
    capture.bind((interface, 0))
    return capture


def crossed(from_interface: str, to_interface: str) -> dict[str, list[str]]:
    """The frames that arrive for each message, with the tags that the kernel removed."""
    source = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    source.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    source.bind((from_interface, 0))
    found: dict[str, list[str]] = {}
    for name, sent in MESSAGES.items():
        with listen(to_interface) as capture:
            source.send(sent)
            capture.settimeout(PATIENCE_S)
            found[name] = []
            while True:
                try:
                    frame, ancillary, _, address = capture.recvmsg(1 << 17, 256)
                except TimeoutError:
                    break
                if address[2] == OUTGOING:
                    continue
                capture.settimeout(0.5)
                tag = [data[16:20].hex() for _, _, data in ancillary]
                found[name].append(f"{frame.hex()} {tag}")
    return found


def main(binary: str, folder: str) -> None:
    """Send each message through the wire, and over a link whose sender cuts."""
    add_link(1)
    add_link(2)
    add_veth("k1", "k2")
    run("ethtool", "-K", "k1", "tx", "off", "tso", "off", "gso", "off", "tx-udp-segmentation", "off")
    stats = Path(folder) / "stats.json"
    with SwitchProcess(Path(binary), "--pair", "a=s1,b=s2", "--stats", str(stats), wire=True):
        by_switch = crossed("e1", "e2")
    print(json.dumps({"switch": by_switch, "linux": crossed("k1", "k2"), "stats": statistics(stats)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
