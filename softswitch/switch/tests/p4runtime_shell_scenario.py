# SPDX-License-Identifier: Apache-2.0
"""Drives a switch with p4runtime-shell, in that package's own Python; prints the results as one line of JSON.

Started by p4runtime_shell_test.py as `PYTHON p4runtime_shell_scenario.py ADDRESS PROGRAM P4INFO JSON`. It
imports nothing of weir: p4runtime-shell pins a protobuf that is too old for the project's other packages.
"""

import json
import sys
from typing import Any

# The shell prints what it writes; stdout is for the result alone.
RESULT = sys.stdout
sys.stdout = sys.stderr

import p4runtime_sh.shell as sh  # type: ignore[import-not-found]  # noqa: E402

CPU_PORT = "510"
# Only a broken switch takes this long.
PATIENCE_S = 20


def table() -> dict[str, Any]:
    """A ternary, range and optional match with direct meter and counter: insert, read, modify, delete."""
    entry = sh.TableEntry("IngressImpl.classify")(action="IngressImpl.set_class")
    entry.match["hdr.ethernet.ether_type"] = "0x88b5 &&& 0xffff"
    entry.match["hdr.ethernet.src"] = "1..15"
    entry.match["standard_metadata.ingress_port"] = "1"
    entry.priority = 7
    entry.action["class"] = "3"
    entry.meter_config.cir, entry.meter_config.cburst = 100, 10
    entry.meter_config.pir, entry.meter_config.pburst = 200, 20
    entry.insert()
    entry.action["class"] = "4"
    entry.modify()
    found = [(read.priority, read.action["class"].value.hex()) for read in entry.read()]
    meter = sh.DirectMeterEntry("IngressImpl.entry_meter")
    meter.table_entry = entry
    meters = [(read.cir, read.pburst) for read in meter.read()]
    counter = sh.DirectCounterEntry("IngressImpl.entry_counter")
    counter.table_entry = entry
    counts = [read.packet_count for read in counter.read()]
    entry.delete()
    left = len(list(sh.TableEntry("IngressImpl.classify").read()))
    return {"found": found, "meters": meters, "counts": counts, "left": left}


def refusal() -> str:
    """The error that a user sees for an update that the switch refuses."""
    entry = sh.TableEntry("IngressImpl.forward")(action="IngressImpl.to_port")
    entry.match["hdr.ethernet.dst"] = "00:00:00:00:00:0b"
    entry.action["port"] = "2"
    entry.insert()
    try:
        entry.insert()
    except Exception as error:
        return str(error)
    finally:
        entry.delete()
    return "not refused"


def counter() -> list[int]:
    """An indirect counter: modify and read a cell."""
    cell = sh.CounterEntry("IngressImpl.class_counter")
    cell.index = 5
    cell.packet_count, cell.byte_count = 11, 1100
    cell.modify()
    asked = sh.CounterEntry("IngressImpl.class_counter")
    asked.index = 5
    return [value for read in asked.read() for value in (read.packet_count, read.byte_count)]


def meter() -> list[int]:
    """An indirect meter: modify and read a cell."""
    cell = sh.MeterEntry("IngressImpl.policer")
    cell.index = 9
    cell.cir, cell.cburst, cell.pir, cell.pburst = 1000, 100, 2000, 200
    cell.modify()
    asked = sh.MeterEntry("IngressImpl.policer")
    asked.index = 9
    return [value for read in asked.read() for value in (read.cir, read.cburst, read.pir, read.pburst)]


def replication() -> dict[str, Any]:
    """A multicast group and a truncating clone session: insert, read, delete."""
    group = sh.MulticastGroupEntry(7)
    group.add(int(CPU_PORT), 1).add(int(CPU_PORT), 2)
    group.insert()
    groups = [len(read.replicas) for read in sh.MulticastGroupEntry(7).read()]
    group.delete()
    session = sh.CloneSessionEntry(5)
    session.add(int(CPU_PORT), 1)
    session.packet_length_bytes = 128
    session.insert()
    sessions = [read.packet_length_bytes for read in sh.CloneSessionEntry(5).read()]
    session.delete()
    return {"groups": groups, "sessions": sessions}


def packets() -> list[Any]:
    """A packet-out to the CPU port comes back as a packet-in with its metadata."""
    packet_in = sh.PacketIn()
    frame = (11).to_bytes(6, "big") + (10).to_bytes(6, "big") + b"\x88\xb5" + bytes(46)
    header = (7 << 7 | 3).to_bytes(2, "big")
    sh.PacketOut(header + frame, egress_port=CPU_PORT, pad="0").send()
    message = packet_in.packet_in_queue.get(timeout=PATIENCE_S)
    metadata = {str(field.metadata_id): field.value.hex() for field in message.packet.metadata}
    return [metadata, message.packet.payload == frame]


def profiles() -> dict[str, Any]:
    """Members and a group of a selector, and entries that point at them; then a one-shot entry."""
    for number in (1, 2):
        member = sh.ActionProfileMember("IngressImpl.paths")(action="IngressImpl.set_port", member_id=number)
        member.action["port"] = str(number)
        member.insert()
    sh.ActionProfileGroup("IngressImpl.paths")(group_id=1, max_size=4).add(1).add(2, weight=2).insert()
    groups = [
        [(member.member_id, member.weight) for member in group.members]
        for group in sh.ActionProfileGroup("IngressImpl.paths")(group_id=1).read()
    ]
    to_member = sh.TableEntry("IngressImpl.route")(member_id=1)
    to_member.match["hdr.ethernet.dst"] = "00:00:00:00:0a:00/40"
    to_member.insert()
    to_group = sh.TableEntry("IngressImpl.route")(group_id=1)
    to_group.match["hdr.ethernet.dst"] = "00:00:00:00:0b:00/40"
    to_group.insert()
    entries = len(list(sh.TableEntry("IngressImpl.route").read()))
    to_member.delete()
    to_group.delete()
    sh.ActionProfileGroup("IngressImpl.paths")(group_id=1).delete()
    for number in (1, 2):
        sh.ActionProfileMember("IngressImpl.paths")(member_id=number).delete()
    left = len(list(sh.ActionProfileMember("IngressImpl.paths").read()))
    # A selector is programmed either way, not both at once.
    one_shot = sh.Oneshot("IngressImpl.route")
    action = sh.Action("IngressImpl.set_port")
    action["port"] = "3"
    one_shot.add(action, weight=2)
    own = sh.TableEntry("IngressImpl.route")(oneshot=one_shot)
    own.match["hdr.ethernet.dst"] = "00:00:00:00:0c:00/40"
    own.insert()
    weights = [
        part.weight for read in sh.TableEntry("IngressImpl.route").read() for part in read.oneshot.actions
    ]
    return {"groups": groups, "entries": entries, "left": left, "weights": weights}


STEPS = {
    "entities": (table, refusal, counter, meter, replication, packets),
    "features": (profiles,),
}


def main(address: str, program: str, p4info: str, blob: str) -> None:
    """Push the program, then one entity after the other."""
    sh.setup(device_id=1, grpc_addr=address, election_id=(0, 1), config=sh.FwdPipeConfig(p4info, blob))
    try:
        version = str(sh.APIVersion())
        found = {step.__name__: step() for step in STEPS[program]}
    finally:
        sh.teardown()
    print(json.dumps({"version": version, **found}), file=RESULT)


if __name__ == "__main__":
    main(*sys.argv[1:])
