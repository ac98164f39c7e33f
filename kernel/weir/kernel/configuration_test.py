# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from weir.kernel.configuration import (
    check_options,
    congestion_options,
    kconfig_with_hz,
    queue_options,
    read_fragment,
    requested_options,
)
from weir.kernel.errors import KernelError

IPV4 = """\
menuconfig TCP_CONG_ADVANCED
    bool "TCP: advanced congestion control"

if TCP_CONG_ADVANCED

config TCP_CONG_CUBIC
    tristate "CUBIC TCP"
    default y

config TCP_CONG_BBR
    tristate "BBR TCP"
    default n
    help
      config TCP_CONG_TEXT
      is no option.

choice
    prompt "Default TCP congestion control"
    config DEFAULT_BBR
        bool "BBR" if TCP_CONG_BBR=y
endchoice

endif

config TCP_CONG_CUBIC
    tristate
    depends on !TCP_CONG_ADVANCED
"""


SCHED = """\
config NET_SCH_PIE
    tristate "Proportional Integral controller Enhanced (PIE) scheduler"

config NET_SCH_INGRESS
    tristate "Ingress/classifier-action Qdisc"
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "net" / "ipv4").mkdir(parents=True)
    (tmp_path / "net" / "ipv4" / "Kconfig").write_text(IPV4)
    (tmp_path / "net" / "sched").mkdir()
    (tmp_path / "net" / "sched" / "Kconfig").write_text(SCHED)
    (tmp_path / "Kconfig").write_text('# Linux\nmainmenu "Linux"\n\nsource "net/ipv4/Kconfig"\n')
    return tmp_path


def test_the_shipped_options_have_virtual_time_and_the_network_of_a_run() -> None:
    options = read_fragment()
    for name in ("UML_TIME_TRAVEL_SUPPORT", "HOSTFS", "VETH", "PACKET", "INET_DIAG", "NET_NS", "NET_SCH_FQ"):
        assert options[f"CONFIG_{name}"] == "y"


def test_queueing_disciplines_are_requested_as_far_as_the_source_has_them(tree: Path) -> None:
    assert queue_options(tree) == {"CONFIG_NET_SCH_PIE": "y"}
    assert requested_options(tree)["CONFIG_NET_SCH_PIE"] == "y"


def test_all_congestion_controls_of_the_source_are_requested(tree: Path) -> None:
    assert congestion_options(tree) == {"CONFIG_TCP_CONG_CUBIC": "y", "CONFIG_TCP_CONG_BBR": "y"}
    assert requested_options(tree).items() >= congestion_options(tree).items() | read_fragment().items()


def test_hz_is_defined_before_the_source_defines_it(tree: Path) -> None:
    assert kconfig_with_hz(tree) == (
        'mainmenu "weir"\n\nconfig HZ\n\tint\n\tdefault 1000\n\n# Linux\n\nsource "net/ipv4/Kconfig"\n'
    )


def test_a_configuration_with_all_requested_options_passes(tree: Path) -> None:
    check_options(
        {"CONFIG_TCP_CONG_BBR": "y", "CONFIG_HZ": "1000"},
        "CONFIG_TCP_CONG_BBR=y\nCONFIG_HZ=1000\n# CONFIG_MODULES is not set\n",
        tree,
    )


def test_missing_options_are_named_with_the_reason(tree: Path) -> None:
    requested = {"CONFIG_TCP_CONG_BBR": "y", "CONFIG_HZ": "1000", "CONFIG_UML_TIME_TRAVEL_SUPPORT": "y"}
    with pytest.raises(KernelError) as refused:
        check_options(requested, "CONFIG_HZ=1000\n# CONFIG_TCP_CONG_BBR is not set\n", tree)
    assert str(refused.value) == (
        "the source lacks options that weir needs: it does not define CONFIG_UML_TIME_TRAVEL_SUPPORT; "
        "its dependencies do not allow CONFIG_TCP_CONG_BBR=y"
    )


def test_an_option_of_another_value_is_missing(tree: Path) -> None:
    with pytest.raises(KernelError, match="CONFIG_TCP_CONG_BBR=y"):
        check_options({"CONFIG_TCP_CONG_BBR": "y"}, "CONFIG_TCP_CONG_BBR=m\n", tree)
