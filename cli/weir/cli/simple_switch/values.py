# SPDX-License-Identifier: Apache-2.0
"""Words of commands ↔ values: numbers, addresses, match fields."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import AddressValueError, IPv4Address, IPv6Address

from weir.cli.simple_switch.errors import CommandError, KeyFieldError, RuntimeDataError
from weir.cli.simple_switch.program import Action, Table
from weir.cli.simple_switch.services import (
    EXACT,
    LPM,
    RANGE,
    TERNARY,
    VALID,
    Exact,
    Lpm,
    MatchParam,
    Range,
    Ternary,
    Valid,
)

_MATCH_WORDS = {EXACT: "EXACT", LPM: "LPM", TERNARY: "TERNARY", VALID: "VALID", RANGE: "RANGE"}


def hexadecimal(value: bytes, separator: str = "") -> str:
    """The bytes of a value in hexadecimal."""
    return separator.join(f"{byte:02x}" for byte in value)


def integer(word: str, error: str, bits: int = 32) -> int:
    """A signed number of `bits` bits, in decimal. Raises CommandError: `error` when it is no number."""
    try:
        number = int(word)
    except ValueError:
        raise CommandError(error) from None
    if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
        raise CommandError(f"{number} does not fit into {bits} bits")
    return number


def signed(word: str, bits: int) -> int:
    """A number of `bits` bits, in decimal or with its base's prefix, as the signed one that Thrift has.

    Raises:
        CommandError: it is no number or does not fit.
    """
    try:
        number = int(word, 0)
    except ValueError:
        raise CommandError(f"'{word}' is not an integer") from None
    if not -(1 << (bits - 1)) <= number < 1 << bits:
        raise CommandError(f"Integer cannot fit within {bits} bits")
    return number - (1 << bits) if number >= 1 << (bits - 1) else number


def boolean(word: str) -> bool:
    """True, true, False, false or a number. Raises CommandError."""
    if word.lower() in ("true", "false") and word[1:].islower():
        return word.lower() == "true"
    try:
        return bool(int(word, 0))
    except ValueError:
        raise CommandError("Invalid bool parameter") from None


def _address(word: str, width: int) -> bytes | None:
    """The value of an address in a field of its width. None: the word is no address. Raises ValueError."""
    if width == 32 and "." in word:
        try:
            return IPv4Address(word).packed
        except AddressValueError:
            raise ValueError("Invalid IPv4 address") from None
    if width == 48 and ":" in word:
        try:
            octets = [int(part, 16) for part in word.split(":")]
            if len(octets) != 6:
                raise ValueError
            return bytes(octets)
        except ValueError:
            raise ValueError("Invalid MAC address") from None
    if width == 128 and ":" in word:
        try:
            return IPv6Address(word).packed
        except AddressValueError:
            raise ValueError("Invalid IPv6 address") from None
    return None


def _value(word: str, width: int) -> bytes:
    """The value of a field of `width` bits, in whole bytes. Raises ValueError."""
    address = _address(word, width)
    if address is not None:
        return address
    try:
        number = int(word, 0)
    except ValueError:
        raise ValueError("Invalid input, could not cast to integer, try in hex with 0x prefix") from None
    if number < 0:
        raise ValueError("Parameter is negative")
    try:
        return number.to_bytes((width + 7) // 8)
    except OverflowError:
        raise ValueError("Parameter is too large") from None


def runtime_data(action: Action, words: Sequence[str], name: str | None = None) -> list[bytes]:
    """The arguments of an action, which a message calls `name`.

    Raises:
        CommandError: their number is wrong.
        RuntimeDataError: one of them cannot be read.
    """
    if len(words) != len(action.runtime_data):
        raise CommandError(f"Action {name or action.name} needs {len(action.runtime_data)} parameters")
    values = []
    for word, (_, width) in zip(words, action.runtime_data, strict=True):
        try:
            values.append(_value(word, width))
        except ValueError as error:
            raise RuntimeDataError(f"Error while parsing {word} - {error}") from None
    return values


def _key_value(word: str, width: int) -> bytes:
    try:
        return _value(word, width)
    except ValueError as error:
        raise KeyFieldError(f"Error while parsing {word} - {error}") from None


def _two(word: str, separator: str, kind: str, names: str) -> tuple[str, str]:
    parts = word.split(separator)
    if len(parts) != 2:
        raise KeyFieldError(f"Invalid {kind} value {word}, use '{separator}' to separate {names}")
    return parts[0], parts[1]


def match_param(word: str, match: int, width: int) -> MatchParam:
    """The match of one field. Raises KeyFieldError."""
    if match == EXACT:
        return MatchParam(match, exact=Exact(_key_value(word, width)))
    if match == VALID:
        return MatchParam(match, valid=Valid(_key_value(word, 8) != b"\0"))
    if match == LPM:
        prefix, length = _two(word, "/", "LPM", "prefix and length")
        try:
            bits = int(length)
        except ValueError:
            raise KeyFieldError(
                f"Error while parsing {word} - the length of a prefix is an integer"
            ) from None
        if not 0 <= bits < 1 << 31:
            raise KeyFieldError(f"Error while parsing {word} - the field has {width} bits")
        return MatchParam(match, lpm=Lpm(_key_value(prefix, width), bits))
    if match == TERNARY:
        key, mask = _two(word, "&&&", "ternary", "key and mask")
        return MatchParam(match, ternary=Ternary(_key_value(key, width), _key_value(mask, width)))
    low, high = _two(word, "->", "range", "range start and range end")
    start, end = _key_value(low, width), _key_value(high, width)
    if start > end:
        # In bmv2's words, though it is the end that is less.
        raise KeyFieldError(f"start is less than end in expression {word}")
    return MatchParam(match, range=Range(start, end))


def match_key(table: Table, words: Sequence[str], name: str) -> list[MatchParam]:
    """The key of an entry of the table that a message calls `name`.

    Raises:
        CommandError: the number of fields is wrong.
        KeyFieldError: one of them cannot be read.
    """
    if len(words) != len(table.key):
        raise CommandError(f"Table {name} needs {len(table.key)} key fields")
    return [match_param(word, part.match, part.width) for word, part in zip(words, table.key, strict=True)]


def shown(param: MatchParam) -> str:
    """A match as `table_add` repeats it."""
    return f"{_MATCH_WORDS[param.type]}-{_parts(param, ':')}"


def dumped(param: MatchParam) -> str:
    """A match as `table_dump` lists it."""
    return f"{_MATCH_WORDS[param.type]:10}{_parts(param, '')}"


def _parts(param: MatchParam, separator: str) -> str:
    if param.exact is not None:
        return hexadecimal(param.exact.key, separator)
    if param.lpm is not None:
        return f"{hexadecimal(param.lpm.key, separator)}/{param.lpm.prefix_length}"
    if param.ternary is not None:
        key, mask = param.ternary.key, param.ternary.mask
        return f"{hexadecimal(key, separator)} &&& {hexadecimal(mask, separator)}"
    if param.range is not None:
        low, high = param.range.start, param.range.end_
        return f"{hexadecimal(low, separator)} -> {hexadecimal(high, separator)}"
    if param.valid is not None and not separator:
        return "01" if param.valid.key else "00"
    return ""


def port_map(words: Sequence[str], kind: str) -> str:
    """Ports (or what `kind` names) as zeros and ones, number 0 last. Raises CommandError."""
    numbers: set[int] = set()
    for word in words:
        number = int(word) if word.isascii() and word.isdigit() else -1
        if number < 0:
            raise CommandError(f"'{word}' is not a valid {kind} number")
        if number > 65_535:
            raise CommandError(f"'{word}' is not a valid {kind} number; 0 to 65535 are valid")
        if number in numbers:
            raise CommandError(f"Found duplicate {kind} number '{number}'")
        numbers.add(number)
    length = max(numbers, default=-1) + 1
    return "".join("1" if number in numbers else "0" for number in reversed(range(length)))
