# SPDX-License-Identifier: Apache-2.0
"""Processing of p4testgen's output; p4testgen itself is not needed."""

import pytest

import build_p4
import recorder
import testgen

GENERATED = """
from ptf.mask import Mask
from ptf.packet import *
from ptf import testutils as ptfutils
import base_test as bt


class AbstractTest(bt.P4RuntimeTest):
    def setUp(self):
        bt.P4RuntimeTest.setUp(self)
        assert bt.P4RuntimeTest.updateConfig(self)

    @bt.autocleanup
    def runTest(self):
        self.setupCtrlPlane()
        bt.testutils.log.info("Sending Packet ...")
        ptfutils.send_packet(self, 1, b"\\x01\\x02")
        expected = Mask(b"\\x01\\x02")
        expected.set_do_not_care(7, 1)
        ptfutils.verify_packet(self, expected, 2)
        ptfutils.verify_no_other_packets(self, self.device_id, timeout=0.1)


class Test10(AbstractTest):
    def setupCtrlPlane(self):
        self.insert_pre_clone_session(3, [4])


class Test2(AbstractTest):
    def setupCtrlPlane(self):
        self.table_add(
            ("c.t", [self.Exact("x", 0x1), self.Ternary("y", 0x5, 0x6), self.Ternary("z", 0x0, 0x0)]),
            ("c.a", [("p", 0x9), ("q", 0x0)]), 5
        )
        config = bt.p4runtime_pb2.MeterConfig(cir=1, cburst=1, pir=7, pburst=7)
        self.meter_write("c.m", 6, config)
"""


def test_calls_of_a_generated_test_become_lines_in_the_order_of_the_tests_numbers():
    assert recorder.record(GENERATED) == [
        "add c.t 5 x:0x1 y:0b*10* z:0b* c.a(p:0x9,q:0x0)\n"
        "meter_set_rates c.m 6 0:1 0:7\npacket 1 0102\nexpect 2 0*02$\n",
        "mirroring_add 3 4\npacket 1 0102\nexpect 2 0*02$\n",
    ]


def test_an_unknown_call_is_named():
    with pytest.raises(recorder.RecordingError, match=r"Test2: .*packet_out"):
        recorder.record(GENERATED.replace("self.meter_write(", "self.packet_out("))


def test_bits_are_written_as_digits_where_that_says_the_same():
    assert testgen.shorten("a:0b0000****1010 b:0b*1010 c:0b*10 d:0b******** e:0b10** f:0x0*") == (
        "a:0x0*a b:0x*a c:0b*10 d:0x* e:0b10** f:0x0*"
    )


def test_a_traced_script_keeps_its_lines_and_the_fields_of_a_mirrored_copy():
    traced = """# [State] accept
# [P4Testgen AssignmentStatement]: tmp_15.setValid();
# [P4Testgen AssignmentStatement]: tmp_15.cell = 7;
# [P4Testgen AssignmentStatement]: tmp_15.why = 70;
# [P4Testgen AssignmentStatement]: tmp_15.ingress_time = "Taint";
# [MethodCall]: drop_mirror_0/drop_mirror.emit<mirror_t>(meta.session, tmp_15);

packet 1 0A0B
"""
    assert testgen.without_trace(traced) == "packet 1 0A0B\nmirrored why:70\n"
    assert testgen.without_trace("# a comment\npacket 1 0A0B\nexpect 2 0A0B$\n\n") == (
        "packet 1 0A0B\nexpect 2 0A0B$\n"
    )


ENTRIES = "add c.forward dst:0x1 c.set_egress(port:0x3)\nadd c.q 1 cell:0x1 c.report_enqueued(every:0x1)\n"
REPORT = f"{'0' * 86}{'5' * 6}{'0' * 14}{{}}{'0' * 25}{'6' * 32}{'0' * 24}{'7' * 8}abcd"


def test_a_report_loses_the_digits_of_the_switchs_past_and_clock_and_its_packet_leaves_too():
    written = ENTRIES.replace("every:0x1", "every:0x0")
    said = testgen.for_real_switches(f"{written}packet 1 0A0B\nexpect 4 {REPORT.format(0)}$\n")
    report = REPORT.format(0).translate(str.maketrans("567", "***"))
    assert said == f"mirroring_add 7 4\n{ENTRIES}packet 1 0A0B\nexpect 3\nexpect 4 {report}$\n"


def test_a_packet_that_is_reported_dropped_does_not_leave():
    assert "expect 3" not in testgen.for_real_switches(
        f"{ENTRIES}packet 1 0A\nexpect 4 {REPORT.format(8)}$\n"
    )


def test_a_script_without_a_report_is_refused():
    with pytest.raises(recorder.RecordingError, match="no report"):
        testgen.for_real_switches(f"{ENTRIES}packet 1 0A\nexpect 3 0A$\n")


@pytest.mark.parametrize("name", testgen.PROGRAMS)
def test_the_committed_tests_are_those_that_p4testgen_wrote_from_these_sources(name):
    program = testgen.PROGRAMS[name]
    recorded = build_p4.provenance(testgen.SCRIPTS)[name]
    assert recorded["outputs"] == {program.scripts.name: build_p4.sha256(program.scripts)}
    assert recorded["sources"] == testgen.sources(program), "sources changed since: run `make testgen`"
    assert recorded["generator"].startswith("p4testgen ")
