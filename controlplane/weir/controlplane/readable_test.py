# SPDX-License-Identifier: Apache-2.0
import pytest

from weir.controlplane.readable import show_match, show_value


@pytest.mark.parametrize(
    ("table", "name", "value", "mask", "shown"),
    [
        ("forward", "dst", 0x02_00_0A_00_00_01, None, "dst=02:00:0a:00:00:01"),
        ("classify", "src", 0x0A000001, None, "src=10.0.0.1"),
        ("classify", "src", 0x0A000000, 0xFFFFFF00, "src=10.0.0.0/24"),
        ("classify", "src", 0x0A000001, 0xFF0000FF, "src=10.0.0.1&0xff0000ff"),
        ("classify_ipv6", "dst", 0x20010DB8 << 96 | 1, None, "dst=2001:db8::1"),
        ("classify_ipv6", "dst", 0x20010DB8 << 96, 0xFFFFFFFF << 96, "dst=2001:db8::/32"),
        ("classify", "dst_port", 5201, None, "dst_port=5201"),
        ("verdict", "cell", 64, 0xFFC0, "cell=64..127"),
        ("verdict", "cell", 64, 0xF0C0, "cell=64&0xf0c0"),
        ("verdict", "cell", 0, 0, "cell=0&0x0"),
    ],
)
def test_match_fields_are_written_as_people_read_them(
    table: str, name: str, value: int, mask: int | None, shown: str
) -> None:
    assert show_match(table, name, value, mask) == shown


def test_arguments_are_addresses_and_decimal_numbers() -> None:
    assert show_value("collector", "dst_mac", 0x02_00_00_00_00_03) == "02:00:00:00:00:03"
    assert show_value("collector", "dst", 0x0A000003) == "10.0.0.3"
    assert show_value("collector", "src_port", 32766) == "32766"


def test_a_value_out_of_range_is_shown_as_a_number() -> None:
    assert show_value("forward", "dst", 1 << 48) == "0x1000000000000"
    assert show_value("classify", "src", 1 << 32) == "4294967296"
