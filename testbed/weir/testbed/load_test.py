# SPDX-License-Identifier: Apache-2.0
"""Each case is a file with one mistake, and the one error line for it."""

import getpass
import json
from pathlib import Path

import pytest

from weir.controlplane.config import ConfigError
from weir.testbed.inventory import SshAccess, TestbedConfig, schema_text
from weir.testbed.load import load_testbed, parse_testbed

VALID = """\
name: rack
ssh: {user: alice}
hosts:
  server1:
    ssh: {host: 192.0.2.11}
    interface: enp1s0
    address: 10.0.0.1
    switch_port: 1
  client:
    ssh: {host: 192.0.2.12, port: 2222, user: root, identity_file: /keys/client}
    interface: enp2s0
    address: 10.0.0.2/16
    address6: 2001:DB8::2
    mac: 02:00:00:00:00:02
    switch_port: 2
    work_folder: /data/weir
    disk_limit: 20 GB
"""

ANSIBLE = """\
all:
  vars: {ansible_user: alice, weir_interface: enp1s0}
  hosts:
    gateway: {ansible_host: 192.0.2.1, weir_interface: eth9, weir_switch_port: 9}
  children:
    senders:
      vars: {ansible_port: 2222, weir_disk_limit: 5 GB}
      hosts:
        server1: {ansible_host: 192.0.2.11, weir_address: 10.0.0.1, weir_switch_port: 1}
        server2:
          ansible_port: 2223
          weir_switch_port: 2
          ansible_become: true
    receivers:
      hosts:
        client: {ansible_user: root, ansible_ssh_private_key_file: /keys/client, weir_switch_port: 3}
"""


def problem(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_testbed(text, "t.yaml")
    assert len(caught.value.lines) == 1, caught.value.lines
    return caught.value.lines[0]


def test_defaults_are_those_of_the_file_and_then_those_of_ssh() -> None:
    testbed = parse_testbed(VALID)
    assert testbed.ssh_of("server1") == SshAccess(host="192.0.2.11", port=22, user="alice")
    client = testbed.ssh_of("client")
    assert (client.port, client.user, client.identity_file) == (2222, "root", Path("/keys/client"))
    assert [testbed.privileges_of(name) for name in testbed.hosts] == ["sudo", "root"]
    server, client_host = testbed.hosts["server1"], testbed.hosts["client"]
    assert (server.address, client_host.address) == ("10.0.0.1/24", "10.0.0.2/16")
    assert (client_host.address6, client_host.disk_limit) == ("2001:db8::2/64", 20 * 10**9)
    alone = parse_testbed(VALID.replace("ssh: {user: alice}\n", ""))
    assert alone.ssh_of("server1").user == getpass.getuser()
    loopback = parse_testbed(VALID.replace("192.0.2.11", '"::1"'))
    assert loopback.ssh_of("server1").host == "::1"


def test_a_user_without_a_name_needs_one_in_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> str:
        raise KeyError("getpwuid(): uid not found: 4242")

    monkeypatch.setattr(getpass, "getuser", nobody)
    said = problem(VALID.replace("ssh: {user: alice}\n", ""))
    assert said.startswith("t.yaml:4: hosts.server1.ssh: no user, and uid ")
    assert said.endswith(" has no name here; valid: ssh.user")
    assert parse_testbed(VALID).ssh_of("server1").user == "alice"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "interface: enp1s0",
            "interfaces: enp1s0",
            None,
        ),
        (
            "{host: 192.0.2.11}",
            "{host: alice@192.0.2.11}",
            "t.yaml:5: hosts.server1.ssh.host: 'alice@192.0.2.11' is not a host; valid: a name or an address "
            "alone, such as 192.0.2.11 (user and port have keys of their own)",
        ),
        (
            "interface: enp1s0",
            "interface: -K",
            "t.yaml:6: hosts.server1.interface: '-K' is not the name of an interface; valid: such as enp1s0",
        ),
        (
            "address: 10.0.0.1\n",
            "address: 10.0.0.300\n",
            "t.yaml:7: hosts.server1.address: '10.0.0.300' is not an IPv4 address with a prefix; "
            "valid: such as 10.0.0.1/24",
        ),
        (
            "port: 2222",
            "port: 99999",
            "t.yaml:10: hosts.client.ssh.port: 99999 is out of range; valid: 1 to 65535",
        ),
        (
            "switch_port: 2",
            "switch_port: 1",
            "t.yaml:15: hosts.client.switch_port: host 'server1' has the switch port 1 too; "
            "valid: one of its own",
        ),
        (
            "address: 10.0.0.2/16",
            "address: 10.0.0.1/16",
            "t.yaml:12: hosts.client.address: host 'server1' has the address 10.0.0.1 too; "
            "valid: one of its own",
        ),
        (
            "{host: 192.0.2.12, port: 2222",
            "{host: 192.0.2.11, port: 22",
            "t.yaml:10: hosts.client.ssh.host: host 'server1' has the ssh address 192.0.2.11:22 too; "
            "valid: one of its own",
        ),
        (
            "  client:",
            "  server1:",
            "t.yaml:9: server1: given twice; valid: each key once",
        ),
        (
            "identity_file: /keys/client",
            "password: hunter2",
            "t.yaml:10: hosts.client.ssh.password: passwords are neither read nor stored; "
            "valid: a key (identity_file), or an agent (ssh-add)",
        ),
        (
            "switch_port: 1",
            "switch_port: 1\n    privileges: su",
            "t.yaml:9: hosts.server1.privileges: 'su' is not known (did you mean 'sudo'?); "
            "valid: root, sudo, capabilities",
        ),
        (
            "switch_port: 1",
            "switch_port: 1\n    privileges: root",
            "t.yaml:9: hosts.server1.privileges: the user is 'alice'; "
            "valid: sudo, capabilities, or root with ssh.user root",
        ),
        (
            "work_folder: /data/weir",
            "work_folder: data",
            "t.yaml:16: hosts.client.work_folder: 'data' is not an absolute path; "
            "valid: such as '/var/tmp/weir'",
        ),
    ],
)
def test_a_mistake_is_named_with_line_key_and_what_is_valid(old: str, new: str, said: str | None) -> None:
    assert old in VALID
    text = VALID.replace(old, new, 1)
    if said is None:
        with pytest.raises(ConfigError) as caught:
            parse_testbed(text, "t.yaml")
        unknown, missing = sorted(caught.value.lines, reverse=True)
        assert unknown.startswith(
            "t.yaml:6: hosts.server1.interfaces: unknown key (did you mean 'interface'?)"
        )
        assert missing == "t.yaml:4: hosts.server1.interface: missing; valid: such as 'enp1s0'"
        return
    assert problem(text) == said


def test_a_password_is_not_in_the_message() -> None:
    assert "hunter2" not in problem(VALID.replace("port: 2222", "password: hunter2"))


def test_a_file_that_is_missing_or_empty_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="valid: a readable testbed file in YAML"):
        load_testbed(tmp_path / "none.yaml")
    assert problem("") == "t.yaml:1: the file is empty; valid: keys such as name, ssh, switch, hosts"
    assert "this is an experiment, not a testbed" in problem(VALID + "flows: []\n")


def test_an_ansible_inventory_is_read_with_the_precedence_of_its_groups() -> None:
    testbed = parse_testbed(ANSIBLE)
    assert list(testbed.hosts) == ["gateway", "server1", "server2", "client"]
    assert testbed.hosts["gateway"].interface == "eth9"  # the host's own before that of the group `all`
    assert testbed.hosts["server1"].interface == "enp1s0"
    assert testbed.ssh_of("server1") == SshAccess(host="192.0.2.11", port=2222, user="alice")
    assert testbed.ssh_of("server2") == SshAccess(host="server2", port=2223, user="alice")
    assert testbed.hosts["server1"].disk_limit == 5 * 10**9
    assert testbed.ssh_of("client").identity_file == Path("/keys/client")
    assert [testbed.privileges_of(name) for name in ("server2", "client")] == ["sudo", "root"]


def test_hosts_without_variables_of_weir_are_not_of_the_testbed() -> None:
    text = "web:\n  hosts:\n    www: {ansible_host: 192.0.2.99}\nlab:\n  hosts:\n" + (
        "    a: {weir_interface: eth1, weir_switch_port: 1}\n"
    )
    assert list(parse_testbed(text).hosts) == ["a"]


def test_of_groups_at_one_depth_the_priority_and_then_the_later_name_wins() -> None:
    text = """\
all:
  children:
    z: {vars: {weir_interface: ofz}, hosts: {a: }}
    b: {vars: {weir_interface: ofb, weir_switch_port: 1}, hosts: {a: }}
"""
    assert parse_testbed(text).hosts["a"].interface == "ofz"
    first = text.replace("weir_interface: ofb", "weir_interface: ofb, ansible_group_priority: 10")
    assert parse_testbed(first).hosts["a"].interface == "ofb"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "weir_switch_port: 3",
            "weir_switch_port: 1",
            "t.yaml:16: all.children.receivers.hosts.client.weir_switch_port: "
            "host 'server1' has the switch port 1 too; valid: one of its own",
        ),
        (
            "weir_interface: enp1s0",
            "weir_interfaces: enp1s0",
            None,
        ),
        (
            "ansible_port: 2223",
            "ansible_port: no",
            "t.yaml:11: all.children.senders.hosts.server2.ansible_port: 'no' is not a whole number",
        ),
        (
            "ansible_port: 2223",
            "ansible_become_password: hunter2",
            "t.yaml:11: all.children.senders.hosts.server2.ansible_become_password: "
            "passwords are neither read nor stored",
        ),
        (
            "ansible_port: 2223",
            "ansible_ssh_common_args: -o StrictHostKeyChecking=no",
            "t.yaml:11: all.children.senders.hosts.server2.ansible_ssh_common_args: "
            "arguments of ssh are not used",
        ),
        (
            "ansible_port: 2223",
            "ansible_host: '{{ address }}'",
            "t.yaml:11: all.children.senders.hosts.server2.ansible_host: templates are not evaluated",
        ),
        (
            "        server2:",
            "        server[2:4]:",
            "t.yaml:10: all.children.senders.hosts.server[2:4]: ranges of hosts are not expanded",
        ),
        (
            "weir_switch_port: 2",
            "weir_disk: 2 GB",
            "t.yaml:12: all.children.senders.hosts.server2.weir_disk: unknown variable "
            "(did you mean 'weir_disk_limit'?)",
        ),
        (
            "          weir_switch_port: 2\n",
            "",
            "t.yaml:10: all.children.senders.hosts.server2.weir_switch_port: missing; valid: 1 to 65535",
        ),
    ],
)
def test_a_mistake_in_an_ansible_inventory_has_its_line_and_variable(
    old: str, new: str, said: str | None
) -> None:
    assert old in ANSIBLE
    text = ANSIBLE.replace(old, new, 1)
    if said is None:
        with pytest.raises(ConfigError) as caught:
            parse_testbed(text, "t.yaml")
        assert all(
            ": unknown variable (did you mean 'weir_interface'?)" in line for line in caught.value.lines
        )
        return
    assert problem(text).startswith(said)


def test_every_key_of_the_schema_is_explained_and_the_committed_one_is_fresh() -> None:
    schema = json.loads(schema_text())
    for title, model in [("TestbedConfig", schema), *schema["$defs"].items()]:
        for key, value in model["properties"].items():
            assert "description" in value or "$ref" in value, f"{title}.{key}"
    assert schema["$defs"]["HostEntry"]["properties"]["disk_limit"]["default"] == "1 GB"
    committed = Path(__file__).parents[3] / "experiments" / "testbed.schema.json"
    assert committed.read_text() == schema_text(), (
        "stale: run `weir schema --testbed > experiments/testbed.schema.json`"
    )


def test_the_model_can_be_made_without_a_file() -> None:
    data = {"hosts": {"a": {"ssh": {"host": "a"}, "interface": "eth0", "switch_port": 1}}}
    assert TestbedConfig.model_validate(data).hosts["a"].address is None
