# SPDX-License-Identifier: Apache-2.0
"""Commands on meters, counters, registers and parser value sets."""

from __future__ import annotations

import sys
from typing import Any

from weir.cli.simple_switch import values
from weir.cli.simple_switch.errors import CommandError
from weir.cli.simple_switch.program import Array, ValueSet
from weir.cli.simple_switch.services import CounterValue, MeterRate
from weir.cli.simple_switch.shell import Shell, at_least, command, exactly, starting

_BAD_INDEX = "Bad format for index"


def _rates(meter: Array, words: list[str]) -> list[MeterRate]:
    if len(words) != meter.rate_count:
        raise CommandError(f"Invalid number of rates, expected {meter.rate_count} but got {len(words)}")
    try:
        pairs = [word.split(":") for word in words]
        rates = [(float(rate), burst) for rate, burst in pairs]
    except ValueError:
        raise CommandError("Error while parsing rates") from None
    return [MeterRate(rate, values.integer(burst, "Error while parsing rates")) for rate, burst in rates]


def _member(value_set: ValueSet, word: str) -> bytes:
    try:
        number = int(word, 0)
    except ValueError:
        raise CommandError("Invalid input, could not cast to integer, try in hex with 0x prefix") from None
    if not 0 <= number < 1 << value_set.width:
        raise CommandError(f"Input is too large, it should fit within {value_set.width} bits")
    return number.to_bytes((value_set.width + 7) // 8)


class ArrayCommands(Shell):
    """The commands."""

    @command
    def do_meter_array_set_rates(self, words: list[str]) -> None:
        """Configure all cells of a meter array.

        meter_array_set_rates <name> <rate_1>:<burst_1> <rate_2>:<burst_2> ...

        Rates are units per microsecond, bursts are units; units are bytes or packets.
        """
        at_least(words, 1)
        meter = self.program.meters.find(words[0])
        self.switch.of("bm_meter_array_set_rates", meter.name, _rates(meter, words[1:]))

    @command
    def do_meter_set_rates(self, words: list[str]) -> None:
        """Configure one meter: meter_set_rates <name> <index> <rate_1>:<burst_1> <rate_2>:<burst_2> ...

        Rates are units per microsecond, bursts are units; units are bytes or packets. The index of a
        direct meter is the handle of an entry.
        """
        at_least(words, 2)
        meter = self.program.meters.find(words[0])
        index = values.integer(words[1], _BAD_INDEX)
        rates = _rates(meter, words[2:])
        if meter.binding is None:
            self.switch.of("bm_meter_set_rates", meter.name, index, rates)
        else:
            self.switch.of("bm_mt_set_meter_rates", meter.binding, index, rates)

    @command
    def do_meter_get_rates(self, words: list[str]) -> None:
        """Print the rates of a meter: meter_get_rates <name> <index>."""
        exactly(words, 2)
        meter = self.program.meters.find(words[0])
        index = values.integer(words[1], _BAD_INDEX)
        if meter.binding is None:
            rates = self.switch.of("bm_meter_get_rates", meter.name, index)
        else:
            rates = self.switch.of("bm_mt_get_meter_rates", meter.binding, index)
        if len(rates) != meter.rate_count:
            print("WARNING: expected", meter.rate_count, "rates but only received", len(rates))
        for number, rate in enumerate(rates):
            print(f"{number}: info rate = {rate.units_per_micros}, burst size = {rate.burst_size}")

    @command
    def do_counter_read(self, words: list[str]) -> None:
        """Print a counter.

        counter_read <name> <index>; the index of a direct one is the handle of an entry
        """
        exactly(words, 2)
        counter = self.program.counters.find(words[0])
        index = values.integer(words[1], _BAD_INDEX)
        if counter.binding is None:
            value = self.switch.of("bm_counter_read", counter.name, index)
        else:
            print("this is the direct counter for table", counter.binding)
            value = self.switch.of("bm_mt_read_counter", counter.binding, index)
        print(f"{words[0]}[{index}]= ({value.bytes} bytes, {value.packets} packets)")

    @command
    def do_counter_write(self, words: list[str]) -> None:
        """Set a counter: counter_write <name> <index> <packets> <bytes>."""
        exactly(words, 4)
        counter = self.program.counters.find(words[0])
        index = values.integer(words[1], _BAD_INDEX)
        packets = values.integer(words[2], "Bad format for packets", 64)
        value = CounterValue(values.integer(words[3], "Bad format for bytes", 64), packets)
        if counter.binding is None:
            self.switch.of("bm_counter_write", counter.name, index, value)
        else:
            print("writing to direct counter for table", counter.binding)
            self.switch.of("bm_mt_write_counter", counter.binding, index, value)
        print(f"{words[0]}[{index}] has been updated")

    @command
    def do_counter_reset(self, words: list[str]) -> None:
        """Set all cells of a counter array to 0: counter_reset <name>."""
        exactly(words, 1)
        counter = self.program.counters.find(words[0])
        if counter.binding is None:
            self.switch.of("bm_counter_reset_all", counter.name)
        else:
            print("this is the direct counter for table", counter.binding)
            self.switch.of("bm_mt_reset_counters", counter.binding)

    @command
    def do_register_read(self, words: list[str]) -> None:
        """Print a register, or without an index all of an array: register_read <name> [index]."""
        at_least(words, 1)
        register = self.program.registers.find(words[0])
        if len(words) == 1:
            print("register index omitted, reading entire array", file=sys.stderr)
            cells = self.switch.of("bm_register_read_all", register.name)
            print(f"{words[0]}=", ", ".join(str(cell) for cell in cells))
            return
        exactly(words, 2)
        index = values.integer(words[1], _BAD_INDEX)
        print(f"{words[0]}[{index}]=", self.switch.of("bm_register_read", register.name, index))

    @command
    def do_register_write(self, words: list[str]) -> None:
        """Set a register: register_write <name> <index> <value>."""
        exactly(words, 3)
        register = self.program.registers.find(words[0])
        index = values.integer(words[1], _BAD_INDEX)
        value = values.integer(words[2], "Bad format for value, must be an integer", 64)
        self.switch.of("bm_register_write", register.name, index, value)

    @command
    def do_register_reset(self, words: list[str]) -> None:
        """Set all cells of a register array to 0: register_reset <name>."""
        exactly(words, 1)
        register = self.program.registers.find(words[0])
        self.switch.of("bm_register_reset", register.name)

    @command
    def do_show_pvs(self, words: list[str]) -> None:
        """List the parser value sets of the program: show_pvs."""
        exactly(words, 0)
        for value_set in self.program.value_sets.values():
            print(value_set)

    @command
    def do_pvs_add(self, words: list[str]) -> None:
        """Add a value to a parser value set, if it is not there: pvs_add <pvs name> <value>."""
        exactly(words, 2)
        value_set = self.program.value_sets.find(words[0])
        self.switch.of("bm_parse_vset_add", value_set.name, _member(value_set, words[1]))

    @command
    def do_pvs_remove(self, words: list[str]) -> None:
        """Remove a value from a parser value set, if it is there: pvs_remove <pvs name> <value>."""
        exactly(words, 2)
        value_set = self.program.value_sets.find(words[0])
        self.switch.of("bm_parse_vset_remove", value_set.name, _member(value_set, words[1]))

    @command
    def do_pvs_get(self, words: list[str]) -> None:
        """Print the values of a parser value set, one per line: pvs_get <pvs name>."""
        exactly(words, 1)
        value_set = self.program.value_sets.find(words[0])
        for value in self.switch.of("bm_parse_vset_get", value_set.name):
            print(values.hexadecimal(value))

    @command
    def do_pvs_clear(self, words: list[str]) -> None:
        """Remove all values from a parser value set: pvs_clear <pvs name>."""
        exactly(words, 1)
        self.switch.of("bm_parse_vset_clear", self.program.value_sets.find(words[0]).name)

    def complete_meter_set_rates(self, text: str, *_: Any) -> list[str]:
        """Names of meters."""
        return starting(self.program.meters, text)

    complete_meter_array_set_rates = complete_meter_set_rates
    complete_meter_get_rates = complete_meter_set_rates

    def complete_counter_read(self, text: str, *_: Any) -> list[str]:
        """Names of counters."""
        return starting(self.program.counters, text)

    complete_counter_write = complete_counter_read
    complete_counter_reset = complete_counter_read

    def complete_register_read(self, text: str, *_: Any) -> list[str]:
        """Names of registers."""
        return starting(self.program.registers, text)

    complete_register_write = complete_register_read
    complete_register_reset = complete_register_read

    def complete_pvs_add(self, text: str, *_: Any) -> list[str]:
        """Names of parser value sets."""
        return starting(self.program.value_sets, text)

    complete_pvs_remove = complete_pvs_add
    complete_pvs_get = complete_pvs_add
    complete_pvs_clear = complete_pvs_add
