# SPDX-License-Identifier: Apache-2.0
import json

import pytest

from weir.ptf.links import Port
from weir.ptftests.config import PORTS, PortMapError, RunConfig, Tls, read_port_map

ENTRIES = [{"ptf_port": port, "p4_port": 131 + port, "iface_name": f"eth{port}"} for port in PORTS]


def test_a_port_map_gives_the_switchs_ports_and_interfaces(tmp_path):
    path = tmp_path / "ports.json"
    path.write_text(json.dumps(ENTRIES))
    assert read_port_map(path)[1] == Port(2, 133, "eth2")


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[1]", json.dumps(ENTRIES[:3]), json.dumps([*ENTRIES, ENTRIES[0]]), '[{"ptf_port": 1}]'],
)
def test_an_invalid_port_map_is_refused_with_what_would_be_valid(tmp_path, text):
    path = tmp_path / "ports.json"
    path.write_text(text)
    with pytest.raises(PortMapError, match=r"ports\.json: .*; valid: .*p4_port"):
        read_port_map(path)


def test_a_missing_port_map_is_named(tmp_path):
    with pytest.raises(PortMapError, match="No such file"):
        read_port_map(tmp_path / "nothing.json")


def test_settings_are_read_as_they_were_saved(tmp_path):
    config = RunConfig(
        "tofino", "switch:9559", 7, (Port(1, 132, "eth1"),), "weir.p4info", "weir.bin", Tls("ca.pem")
    )
    config.save(tmp_path / "run.json")
    assert RunConfig.load(tmp_path / "run.json") == config
