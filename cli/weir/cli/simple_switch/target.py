# SPDX-License-Identifier: Apache-2.0
"""Commands on the switch: queues, ports, clocks, program and state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from weir.cli.simple_switch import values
from weir.cli.simple_switch.errors import CommandError
from weir.cli.simple_switch.program import Program
from weir.cli.simple_switch.services import CONTEXT, Crc16Config, Crc32Config
from weir.cli.simple_switch.shell import Shell, at_least, command, exactly, starting


def _write(path: str, text: str) -> None:
    try:
        Path(path).write_text(text)
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror}") from None


class TargetCommands(Shell):
    """The commands."""

    def _set_queue(self, what: str, words: list[str], name: str, bits: int) -> None:
        at_least(words, 1)
        value = values.integer(words[0], f"Bad format for {name}, expected integer", bits)
        if len(words) == 1:
            self.switch.call(f"set_all_egress_queue_{what}s", value)
            return
        port = values.integer(words[1], "Bad format for egress_port, expected integer")
        if len(words) == 2:
            refused = self.switch.call(f"set_egress_queue_{what}", port, value)
        else:
            priority = values.integer(words[2], "Bad format for priority, expected integer")
            refused = self.switch.call(f"set_egress_priority_queue_{what}", port, priority, value)
        if refused:
            raise CommandError(
                "the switch has no such port or queue; show_ports lists the ports, queues are 0 to 7"
            )

    @command
    def do_set_queue_depth(self, words: list[str]) -> None:
        """Limit the packets in egress queues: set_queue_depth <nb_pkts> [<egress_port> [<priority>]]."""
        self._set_queue("depth", words, "nb_pkts", 32)

    @command
    def do_set_queue_rate(self, words: list[str]) -> None:
        """Limit the rate of egress queues (0: no limit).

        set_queue_rate <rate_pps> [<egress_port> [<priority>]]
        """
        self._set_queue("rate", words, "rate_pps", 64)

    @command
    def do_get_time_elapsed(self, words: list[str]) -> None:
        """Print the microseconds since the switch started: get_time_elapsed."""
        print(self.switch.call("get_time_elapsed_us"))

    @command
    def do_get_time_since_epoch(self, words: list[str]) -> None:
        """Print the microseconds since the epoch of the switch's clock: get_time_since_epoch."""
        print(self.switch.call("get_time_since_epoch_us"))

    @command
    def do_port_add(self, words: list[str]) -> None:
        """Add a port: port_add <iface_name> <port_num> [pcap_path]."""
        at_least(words, 2)
        number = values.integer(words[1], "Bad format for port_num, must be an integer")
        self.switch.call("bm_dev_mgr_add_port", words[0], number, words[2] if len(words) > 2 else "")

    @command
    def do_port_remove(self, words: list[str]) -> None:
        """Remove a port: port_remove <port_num>."""
        exactly(words, 1)
        number = values.integer(words[0], "Bad format for port_num, must be an integer")
        self.switch.call("bm_dev_mgr_remove_port", number)

    @command
    def do_show_ports(self, words: list[str]) -> None:
        """List the ports: show_ports."""
        exactly(words, 0)
        ports = self.switch.call("bm_dev_mgr_show_ports")
        print(f"{'port #':^10}{'iface name':^20}{'status':^10}extra info")
        print("=" * 50)
        for port in ports:
            status = "UP" if port.is_up else "DOWN"
            extra = "; ".join(f"{name}={value}" for name, value in port.extra.items())
            print(f"{port.port_num:^10}{port.iface_name:^20}{status:^10}{extra}")

    @command
    def do_switch_info(self, words: list[str]) -> None:
        """Print what the switch says about itself: switch_info."""
        exactly(words, 0)
        info = vars(self.switch.call("bm_mgmt_get_info"))
        width = 5 + max(len(name) for name in info)
        for name, value in info.items():
            print(f"{name:{width}}: {value}")

    @command
    def do_reset_state(self, words: list[str]) -> None:
        """Empty tables, arrays and groups; the program stays: reset_state."""
        exactly(words, 0)
        self.switch.call("bm_reset_state")

    @command
    def do_load_new_config_file(self, words: list[str]) -> None:
        """Load another program, which swap_configs will run: load_new_config_file <path to .json file>."""
        exactly(words, 1)
        path = Path(words[0])
        if not path.is_file():
            raise CommandError("Not a valid filename")
        print("Loading new Json config")
        try:
            text = path.read_text()
            program = Program(text)
        except (OSError, ValueError):
            raise CommandError("Not a valid JSON file") from None
        self.switch.call("bm_load_new_config", text)
        self.program = program

    @command
    def do_swap_configs(self, words: list[str]) -> None:
        """Run the program that load_new_config_file has loaded: swap_configs."""
        print("Swapping configs")
        self.switch.call("bm_swap_configs")

    @command
    def do_write_config_to_file(self, words: list[str]) -> None:
        """Write the JSON of the switch's program to a file: write_config_to_file <path>."""
        exactly(words, 1)
        _write(words[0], self.switch.call("bm_get_config"))

    @command
    def do_serialize_state(self, words: list[str]) -> None:
        """Write the switch's state to a file: serialize_state <path>."""
        exactly(words, 1)
        _write(words[0], self.switch.call("bm_serialize_state"))

    def _set_crc(self, words: list[str], bits: int, config: Any) -> None:
        exactly(words, 6)
        name = words[0]
        if self.program.calculations.get(name) != f"crc{bits}_custom":
            raise CommandError(f"Invalid crc{bits}_custom name ({name})")
        numbers = [values.signed(word, bits) for word in words[1:4]]
        flags = [values.boolean(word) for word in words[4:6]]
        self.switch.call(f"bm_set_crc{bits}_custom_parameters", CONTEXT, name, config(*numbers, *flags))

    @command
    def do_set_crc16_parameters(self, words: list[str]) -> None:
        """Set a custom CRC.

        set_crc16_parameters <name> <polynomial> <initial remainder> <final xor value>
            <reflect data?> <reflect remainder?>
        """
        self._set_crc(words, 16, Crc16Config)

    @command
    def do_set_crc32_parameters(self, words: list[str]) -> None:
        """Set a custom CRC.

        set_crc32_parameters <name> <polynomial> <initial remainder> <final xor value>
            <reflect data?> <reflect remainder?>
        """
        self._set_crc(words, 32, Crc32Config)

    @command
    def do_set_toeplitz_hash_key(self, words: list[str]) -> None:
        """Set the key of a Toeplitz hash: set_toeplitz_hash_key <name> <key in hex string>."""
        exactly(words, 2)
        try:
            key = bytes.fromhex(words[1])
        except ValueError:
            raise CommandError("Toeplitz hash key must be a hex string") from None
        if len(key) % 4 != 0:
            raise CommandError("Toeplitz hash key must be a multiple of 4 bytes in length")
        self.switch.call("bm_set_toeplitz_hash_key", CONTEXT, words[0], key)

    def complete_set_crc16_parameters(self, text: str, *_: Any) -> list[str]:
        """Names of custom CRCs of 16 bits."""
        return starting([n for n, a in self.program.calculations.items() if a == "crc16_custom"], text)

    def complete_set_crc32_parameters(self, text: str, *_: Any) -> list[str]:
        """Names of custom CRCs of 32 bits."""
        return starting([n for n, a in self.program.calculations.items() if a == "crc32_custom"], text)
