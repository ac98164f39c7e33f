# SPDX-License-Identifier: Apache-2.0
"""Random but valid entities for any P4Info: values come from small pools, so that packets meet entries."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from finsy.proto import p4i, p4r

PORTS = (1, 2, 3, 4)
SENTINEL_GROUP = 1
GROUPS = (1, 2, 3)
SESSIONS = (1, 2, 3)
Pool = Callable[[random.Random], int]


@dataclass(frozen=True)
class Shape:
    """The shape of one program's entities; all names are the P4Info's aliases."""

    pools: dict[str, Pool] = field(default_factory=dict)
    """Values of match fields and action parameters, by name; others are drawn from the whole width."""
    entries: dict[str, int] = field(default_factory=dict)
    """Insertions tried into each table; 0 for a table that is not named."""
    fixed: Sequence[tuple[str, dict[str, int], str, dict[str, int]]] = ()
    """Entries that must exist, as (table, exact or /32 matches, action, parameters)."""
    meter_cells: int = 0
    """Number of cells, from the first, that are configured in each meter array."""
    members: int = 0
    """Members in each action profile, with a third as many groups."""
    session_ports: Sequence[int] = PORTS
    """Ports for mirrored packets."""


def canonical(value: int) -> bytes:
    """P4Runtime's shortest form of a number."""
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")


def meter_config(rng: random.Random, packets: bool) -> p4r.MeterConfig:
    """A meter that never refills, so that colours do not depend on time: a rate of 0 and two bursts."""
    scale = 1 if packets else 100
    committed = rng.randrange(1, 30) * scale
    excess = committed + rng.randrange(0, 30) * scale
    return p4r.MeterConfig(cir=0, cburst=committed, pir=0, pburst=excess)


class Generator:
    """Draws entities of one program."""

    def __init__(self, p4info: p4i.P4Info, shape: Shape, rng: random.Random) -> None:
        """Take the program's P4Info and shape, and the source of randomness."""
        self._p4info, self._shape, self._rng = p4info, shape, rng
        self._actions = {action.preamble.id: action for action in p4info.actions}
        self._metered = {meter.direct_table_id: meter for meter in p4info.direct_meters}
        self._priority = 0
        self._members = range(1, shape.members + 1)
        self._member_groups = range(1, shape.members // 3 + 1)

    def updates(self) -> list[p4r.Update]:
        """Groups and sessions, meters, entries, in the order of writing."""
        entities = [*self._groups(), *self._sessions(), *self._profiles()]
        updates = [p4r.Update(type=p4r.Update.INSERT, entity=entity) for entity in entities]
        updates += [p4r.Update(type=p4r.Update.MODIFY, entity=entity) for entity in self._meters()]
        for table in self._p4info.tables:
            for _ in range(self._shape.entries.get(table.preamble.alias, 0)):
                updates.append(self._entry(table))
        updates += [self._fixed(*named) for named in self._shape.fixed]
        return updates

    def changes(self, written: list[p4r.Update], count: int) -> list[p4r.Update]:
        """Updates that delete, change or add entries, drawn from the random ones."""
        tables = {table.preamble.id: table for table in self._p4info.tables}
        inserted = [update.entity for update in written if update.entity.HasField("table_entry")]
        inserted = inserted[: len(inserted) - len(self._shape.fixed)]
        found = []
        for entity in self._rng.sample(inserted, min(count, len(inserted))):
            table = tables[entity.table_entry.table_id]
            dice = self._rng.random()
            if dice < 0.3:
                found.append(self._entry(table))
                continue
            update = p4r.Update(type=p4r.Update.DELETE if dice < 0.6 else p4r.Update.MODIFY, entity=entity)
            if update.type == p4r.Update.MODIFY:
                update.entity.table_entry.ClearField("action")
                self._point(update.entity.table_entry, table)
            found.append(update)
        return found

    def _groups(self) -> list[p4r.Entity]:
        found = []
        for number in GROUPS:
            chosen = PORTS if number == SENTINEL_GROUP else self._rng.sample(PORTS, self._rng.randrange(1, 4))
            entity = p4r.Entity()
            group = entity.packet_replication_engine_entry.multicast_group_entry
            group.multicast_group_id = number
            for instance, port in enumerate(chosen, 1):
                group.replicas.add(egress_port=port, instance=instance)
            found.append(entity)
        return found

    def _sessions(self) -> list[p4r.Entity]:
        found = []
        for number in SESSIONS:
            entity = p4r.Entity()
            session = entity.packet_replication_engine_entry.clone_session_entry
            session.session_id = number
            session.replicas.add(egress_port=self._rng.choice(self._shape.session_ports), instance=1)
            found.append(entity)
        return found

    def _profiles(self) -> list[p4r.Entity]:
        found = []
        for profile in self._p4info.action_profiles:
            tables = [table for table in self._p4info.tables if table.preamble.id in profile.table_ids]
            for number in self._members:
                entity = p4r.Entity()
                member = entity.action_profile_member
                member.action_profile_id, member.member_id = profile.preamble.id, number
                self._draw_action(member.action, tables[0])
                found.append(entity)
            for number in self._member_groups:
                entity = p4r.Entity()
                group = entity.action_profile_group
                group.action_profile_id, group.group_id = profile.preamble.id, number
                group.max_size = len(self._members)
                for chosen in sorted(self._rng.sample(self._members, self._rng.randrange(1, 6))):
                    group.members.add(member_id=chosen, weight=1)
                found.append(entity)
        return found

    def _meters(self) -> list[p4r.Entity]:
        found = []
        for meter in self._p4info.meters:
            packets = meter.spec.unit == p4i.MeterSpec.PACKETS
            for index in range(min(self._shape.meter_cells, meter.size)):
                entity = p4r.Entity()
                entity.meter_entry.meter_id = meter.preamble.id
                entity.meter_entry.index.index = index
                entity.meter_entry.config.CopyFrom(meter_config(self._rng, packets))
                found.append(entity)
        return found

    def _value(self, name: str, bits: int) -> int:
        pool = self._shape.pools.get(name)
        # Fields of different widths may share a name and a pool.
        return pool(self._rng) & (1 << bits) - 1 if pool else self._rng.getrandbits(bits)

    def _entry(self, table: p4i.Table) -> p4r.Update:
        update = p4r.Update(type=p4r.Update.INSERT)
        entry = update.entity.table_entry
        entry.table_id = table.preamble.id
        for key in table.match_fields:
            self._match(entry, key)
        kinds = {key.match_type for key in table.match_fields}
        if kinds & {p4i.MatchField.TERNARY, p4i.MatchField.RANGE, p4i.MatchField.OPTIONAL}:
            # Each entry has a different priority: the order of equal ones is undefined.
            self._priority += 1
            entry.priority = self._priority
        self._point(entry, table)
        meter = self._metered.get(table.preamble.id)
        if meter is not None and self._rng.random() < 0.7:
            packets = meter.spec.unit == p4i.MeterSpec.PACKETS
            entry.meter_config.CopyFrom(meter_config(self._rng, packets))
        return update

    def _match(self, entry: p4r.TableEntry, key: p4i.MatchField) -> None:
        value, full = self._value(key.name, key.bitwidth), (1 << key.bitwidth) - 1
        kinds = p4i.MatchField
        if key.match_type == kinds.EXACT:
            entry.match.add(field_id=key.id).exact.value = canonical(value)
        elif key.match_type == kinds.LPM:
            bits = key.bitwidth
            length = self._rng.choice((0, bits // 4, bits // 2, bits - 4, bits, bits, bits))
            if length:
                prefix = entry.match.add(field_id=key.id).lpm
                prefix.value = canonical(value & full ^ (value & (full >> length)))
                prefix.prefix_len = length
        elif self._rng.random() < 0.4:
            return  # matches anything
        elif key.match_type == kinds.TERNARY:
            mask = self._rng.choice((full, full, full & ~0xF or full, self._rng.randrange(1, full + 1)))
            ternary = entry.match.add(field_id=key.id).ternary
            ternary.value, ternary.mask = canonical(value & mask), canonical(mask)
        elif key.match_type == kinds.RANGE:
            low, high = sorted((value, self._value(key.name, key.bitwidth)))
            if (low, high) != (0, full):
                span = entry.match.add(field_id=key.id).range
                span.low, span.high = canonical(low), canonical(high)
        else:
            entry.match.add(field_id=key.id).optional.value = canonical(value)

    def _point(self, entry: p4r.TableEntry, table: p4i.Table) -> None:
        if not table.implementation_id:
            self._draw_action(entry.action.action, table)
        elif self._rng.random() < 0.3:
            entry.action.action_profile_member_id = self._rng.choice(self._members)
        else:
            entry.action.action_profile_group_id = self._rng.choice(self._member_groups)

    def _draw_action(self, drawn: p4r.Action, table: p4i.Table) -> None:
        refs = table.action_refs
        usable = [self._actions[ref.id] for ref in refs if ref.scope != p4i.ActionRef.DEFAULT_ONLY]
        # Actions without parameters drop or do nothing, which tests little.
        action = self._rng.choices(usable, [4 if action.params else 1 for action in usable])[0]
        drawn.action_id = action.preamble.id
        for param in action.params:
            drawn.params.add(param_id=param.id, value=canonical(self._value(param.name, param.bitwidth)))

    def _fixed(
        self, table_name: str, matches: dict[str, int], action_name: str, params: dict[str, int]
    ) -> p4r.Update:
        table = next(t for t in self._p4info.tables if t.preamble.alias == table_name)
        action = next(a for a in self._p4info.actions if a.preamble.alias == action_name)
        update = p4r.Update(type=p4r.Update.INSERT)
        entry = update.entity.table_entry
        entry.table_id = table.preamble.id
        for key in table.match_fields:
            match = entry.match.add(field_id=key.id)
            if key.match_type == p4i.MatchField.LPM:
                match.lpm.value, match.lpm.prefix_len = canonical(matches[key.name]), key.bitwidth
            else:
                match.exact.value = canonical(matches[key.name])
        entry.action.action.action_id = action.preamble.id
        for param in action.params:
            entry.action.action.params.add(param_id=param.id, value=canonical(params[param.name]))
        return update
