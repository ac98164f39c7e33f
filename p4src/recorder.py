# SPDX-License-Identifier: Apache-2.0
"""Translate a PTF test in Python that p4testgen wrote into a script in STF.

The test runs against an object that records the calls instead of carrying them out. p4testgen gives the
colour of a meter only in PTF; the switch in virtual time reads STF (`softswitch/conformance`), which is
also smaller.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

HEX_DIGIT_BITS = 4


class RecordingError(Exception):
    """A generated test does something that cannot be recorded; the message says what."""


class Mask:
    """An expected frame, and which of its bits may have any value."""

    def __init__(self, frame: bytes) -> None:
        """At first, all bits are compared."""
        self._digits = list(frame.hex())

    def set_do_not_care(self, offset_bits: int, length_bits: int) -> None:
        """Ignore these bits, and with them the rest of their hexadecimal digits."""
        for digit in range(offset_bits // HEX_DIGIT_BITS, -(-(offset_bits + length_bits) // HEX_DIGIT_BITS)):
            self._digits[digit] = "*"

    def pattern(self) -> str:
        """The pattern in STF."""
        return "".join(self._digits)


@dataclass
class Recorder:
    """Replaces the base class of generated tests."""

    lines: list[str] = field(default_factory=list)
    device_id: int = 0
    failureException: type[Exception] = RecordingError  # unittest's name

    def setUp(self) -> None:
        """Connect nothing."""

    def updateConfig(self) -> bool:  # generated tests call it so
        """Load no program."""
        return True

    def tearDown(self) -> None:
        """Disconnect nothing."""

    def Exact(self, name: str, value: int) -> tuple[str, str]:
        """An exact key field."""
        return name, f"{value:#x}"

    def Ternary(self, name: str, value: int, mask: int) -> tuple[str, str]:
        """A ternary key field."""
        width = max(mask.bit_length(), value.bit_length())
        bits = "".join(str(value >> at & 1) if mask >> at & 1 else "*" for at in range(width - 1, -1, -1))
        return name, f"0b*{bits}"  # the first * stands for all higher bits of the field

    def table_add(
        self,
        key: tuple[str, list[tuple[str, str]]],
        call: tuple[str, list[tuple[str, int]]],
        priority: int | None = None,
    ) -> None:
        """A table entry."""
        (table, fields), (action, args) = key, call
        words = ["add", table, *([] if priority is None else [str(priority)])]
        words += [f"{name}:{value}" for name, value in fields]
        given = ",".join(f"{name}:{value:#x}" for name, value in args)
        self.lines.append(f"{' '.join(words)} {action}({given})")

    def insert_pre_clone_session(self, session: int, ports: list[int]) -> None:
        """A mirror session."""
        (port,) = ports
        self.lines.append(f"mirroring_add {session} {port}")

    def meter_write(self, name: str, index: int, config: Any) -> None:
        """Record the bursts of a meter cell; its rates are 0, so its buckets do not refill."""
        self.lines.append(f"meter_set_rates {name} {index} 0:{config.cburst} 0:{config.pburst}")

    def send_packet(self, port: int, frame: bytes) -> None:
        """A frame enters."""
        self.lines.append(f"packet {port} {frame.hex()}")

    def verify_packet(self, expected: Mask, port: int) -> None:
        """A frame leaves."""
        self.lines.append(f"expect {port} {expected.pattern()}$")


def record(source: str) -> list[str]:
    """The generated tests of a file, each as a script without comments.

    Raises:
        RecordingError: for an unknown call.
    """
    ptfutils = SimpleNamespace(
        test_param_get=lambda name: None,
        send_packet=lambda test, port, frame: test.send_packet(port, frame),
        verify_packet=lambda test, expected, port: test.verify_packet(expected, port),
        verify_no_other_packets=lambda test, device, timeout: None,
    )
    base = SimpleNamespace(
        P4RuntimeTest=Recorder,
        autocleanup=lambda function: function,
        testutils=SimpleNamespace(log=SimpleNamespace(info=lambda text: None)),
        p4runtime_pb2=SimpleNamespace(MeterConfig=SimpleNamespace),
    )
    modules = {
        "base_test": base,
        "ptf": SimpleNamespace(testutils=ptfutils),
        "ptf.mask": SimpleNamespace(Mask=Mask),
        "ptf.packet": SimpleNamespace(),
    }
    namespace: dict[str, Any] = {"__name__": "generated"}
    with _standing_for(modules):
        exec(compile(source, "generated", "exec"), namespace)
    tests = [
        (int(match.group(1)), made)
        for name, made in namespace.items()
        if (match := re.fullmatch(r"Test(\d+)", name))
    ]
    scripts = []
    for _, made in sorted(tests, key=lambda test: test[0]):
        test = made()
        test.setUp()
        try:
            test.runTest()
        except (AttributeError, TypeError) as error:
            raise RecordingError(f"{made.__name__}: {error}") from error
        scripts.append("\n".join(test.lines) + "\n")
    return scripts


class _standing_for:  # read as a phrase: `with _standing_for(modules)`
    """Replaces modules by others of the same names while the block runs."""

    def __init__(self, modules: dict[str, SimpleNamespace]) -> None:
        self._modules = modules
        self._before: dict[str, ModuleType | None] = {}

    def __enter__(self) -> None:
        for name, stand_in in self._modules.items():
            self._before[name] = sys.modules.get(name)
            module = ModuleType(name)
            vars(module).update(vars(stand_in))
            sys.modules[name] = module

    def __exit__(self, *error: object) -> None:
        for name, module in self._before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module
