# SPDX-License-Identifier: Apache-2.0
"""What `weir doctor --testbed` says of hosts with real sshds: healthy ones, and ones with one fault each."""

import json
import os
from typing import Any

from weir_tests.topo.runner import Runner


def failed(host: dict[str, Any]) -> dict[str, list[str]]:
    """The checks that failed, without those of the machine itself: its NIC, its clock, its kernel."""
    checks = host["checks"].items()
    return {
        name: [found, mend]
        for name, (ok, found, mend) in checks
        if not ok and name not in ("time stamps", "clock") and not name.startswith("congestion control")
    }


def test_healthy_hosts_lack_nothing_and_stay_as_they_are(any_runner: Runner) -> None:
    result = any_runner.result("healthy")
    for name, number in (("a", 1), ("b", 2)):
        host = result["hosts"][name]
        assert failed(host) == {}
        assert host["checks"]["interface exp0"][1].startswith(f"up, 02:00:00:00:00:0{number}")
        assert host["checks"][f"address 10.0.0.{number}/24"][1] == "present"
        assert "can be turned off: " in host["checks"]["offloads"][1]
        offset_ns, error_ns = host["clock"]
        print(f"offset {offset_ns} ns, at most {error_ns} ns wrong")
        assert abs(offset_ns) <= error_ns  # it is the same clock
    assert result["unchanged"]
    assert any_runner.processes() == []


def test_the_command_prints_a_table_or_json_and_ends_with_the_doctors_exit_codes(runner: Runner) -> None:
    result = runner.result("command_line")
    bbr = result["json"]["hosts"][0]["checks"]
    healthy = all(check["ok"] for check in bbr if check["required"])
    assert result["codes"] == [0 if healthy else 1, 0 if healthy else 1, 1]
    assert result["json"]["ok"] is healthy
    assert result["json"]["hosts"][0]["name"] == "a"
    assert result["json"]["hosts"][0]["clock_offset"]["rtt_ns"] > 0
    assert "interface exp0" in result["text"]
    assert ("Ready." in result["text"]) is healthy
    assert "missing  a     ssh" in result["refused"]
    assert "a: ssh: start sshd there, or mend ssh.host and ssh.port" in result["refused"]
    assert "Something required is missing." in result["refused"]


def test_each_reason_for_no_connection_is_one_line_with_what_mends_it(any_runner: Runner) -> None:
    result = any_runner.result("unreachable")
    said = {name: host["checks"]["ssh"][1] for name, host in result["hosts"].items()}
    assert all(list(host["checks"]) == ["ssh"] and not host["ok"] for host in result["hosts"].values())
    assert "port 2222: connect call failed" in said["refused"] or "refused" in said["refused"], said[
        "refused"
    ]
    assert "192.168.50.2 has an unknown key (ssh-ed25519 SHA256:" in said["unknown"]
    # ssh-keygen takes one file; a host has a key of each kind.
    assert "`cat /etc/ssh/ssh_host_*_key.pub | ssh-keygen -lf -` on the host" in said["unknown"]
    assert "then add it: ssh-keyscan -p 22 192.168.50.2 >> '" in said["unknown"]
    assert "192.168.50.3 has another key (ssh-ed25519 SHA256:" in said["changed"]
    assert "ssh-keygen -f " in said["changed"]
    assert "sshd accepts no key (identity file " in said["stranger"]
    assert "ssh-copy-id -p 22 " in said["stranger"]
    assert "is encrypted; valid: `ssh-add " in said["locked"]
    assert "No such file or directory; valid: a private key of this user" in said["keyless"]
    assert all("\n" not in line for line in said.values())
    assert result["kept"]  # no key is ever added by itself


def test_an_sshd_that_hangs_is_given_up(runner: Runner) -> None:
    assert runner.result("no_answer")["said"].endswith("port 22: no answer within 0.5 s")


def test_each_thing_that_a_host_lacks_is_named_with_the_command_that_mends_it(any_runner: Runner) -> None:
    hosts = any_runner.result("lacking")["hosts"]
    assert failed(hosts["untooled"]) == {"tcpdump": ["not installed", "sudo apt-get install tcpdump"]}
    ((name, (found, mend)),) = failed(hosts["full"]).items()
    assert (name, found[:16]) == ("disk", "65.5 kB free for")
    assert mend == "free 1 MB there, or a smaller disk_limit, or another work_folder"
    assert failed(hosts["fixed"]) == {
        "offloads": [
            "cannot be turned off: tx-checksumming, scatter-gather",
            "another interface than lo (another driver)",
        ]
    }
    ((name, (_, mend)),) = failed(hosts["elsewhere"]).items()
    assert name == "address 10.9.9.9/24"
    assert mend == "nothing: a run adds it, or sudo ip address add 10.9.9.9/24 dev exp0"
    assert failed(hosts["down"]) == {
        "interface exp0": ["down, 02:00:00:00:00:05", "sudo ip link set exp0 up"]
    }
    assert failed(hosts["unzipped"]) == {"gzip": ["not installed", "sudo apt-get install gzip"]}
    ((name, (found, mend)),) = failed(hosts["early"]).items()
    assert (name, mend) == ("iperf3", "a newer version of iperf3")
    assert found.endswith(" has no --connect-timeout")
    assert failed(hosts["small"])["interface exp7"][0] == "no such interface"
    assert [name for name, host in hosts.items() if host["ok"]] == ["elsewhere"]


def test_sudo_works_for_who_may_and_its_refusal_is_one_line(root_runner: Runner) -> None:
    hosts = root_runner.result("sudo")["hosts"]
    assert hosts["may"]["checks"]["privileges"][:2] == [True, "sudo: uid 0"]
    assert failed(hosts["must_not"]) == {
        "privileges": [
            "`sudo -n` is refused: a password is required",
            "allow sudo without a password (`visudo`), or another value of privileges",
        ]
    }
    assert failed(hosts["not_python"])["privileges"][0] == (
        "`sudo -n` is refused: no rule for python3; valid: `carol ALL=(root) NOPASSWD: ALL`"
    )


def test_files_of_the_user_that_cannot_be_used_are_one_line(runner: Runner) -> None:
    hosts = runner.result("files_of_the_user")["hosts"]
    assert failed(hosts["latin"]) == {}
    said = {name: host["checks"]["ssh"][1] for name, host in hosts.items()}
    assert said["revoked"].startswith("the key of 192.168.50.2 is revoked by an @revoked line of ")
    assert "label" in said["named"]
    assert said["damaged"].startswith("a key of ~/.ssh cannot be read: ")
    assert all("\n" not in line for line in said.values())


def test_an_agent_with_many_keys_is_not_in_the_way_of_an_identity_file(runner: Runner) -> None:
    hosts = runner.result("busy_agent")["hosts"]
    assert failed(hosts["by_file"]) == {}
    said = hosts["by_agent"]["checks"]["ssh"][1]
    assert said.endswith("are tried (MaxAuthTries); valid: identity_file, the one key that it accepts")


def test_what_a_login_shell_prints_is_skipped_and_one_that_ends_is_named(any_runner: Runner) -> None:
    result = any_runner.result("shells")
    hosts, helper = result["hosts"], result["helper"]
    assert failed(hosts["chatty"]) == {}
    assert helper["chatty"] == "ran"
    for name, reason in (
        ("exits", "the login shell ended with exit code 0"),
        ("closed", "This account is currently not available."),
    ):
        assert failed(hosts[name])["login shell"][0] == f"`python3` did not begin: {reason}"
        assert helper[name] == f"{name}: `python3` did not begin: {reason}"
    said = "`python3` failed: its version is 3.6"
    assert failed(hosts["old"]) == {"Python": [said, "sudo apt-get install python3, 3.9 or newer"]}
    assert helper["old"] == f"old: {said}"


def test_sudo_that_cannot_become_root_is_one_line_and_the_other_checks_are_made(any_runner: Runner) -> None:
    host = any_runner.result("sudo_without_root")["hosts"]["a"]
    ordinary = any_runner.prefix or os.geteuid() != 0
    if ordinary:
        assert list(failed(host)) == ["privileges"], json.dumps(host)
        assert host["checks"]["privileges"][1].startswith("`sudo -n` is refused: ")
    else:
        assert failed(host) == {}


def test_words_of_commands_arrive_as_they_are_and_output_time_and_connection_have_limits(
    any_runner: Runner,
) -> None:
    result = any_runner.result("commands")
    assert result["echoed"]
    assert result["failed"] == [7, "reason"]
    assert result["missing"] == 127
    assert result["large"] == "a: `head` wrote more than 1048576 bytes"
    assert result["slow"] == "a: `sleep` did not end within 0.3 s"
    assert result["alive"] == 0
    assert result["cut"].startswith("a: the connection was lost")
    assert result["afterwards"].startswith("a: the connection was lost")
    assert any_runner.processes() == []
