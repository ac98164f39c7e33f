# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[3]
P4INFO = REPOSITORY / "softswitch/programs/l2_learning.p4info.txtpb"

# A PTF test reads the P4Info of a program. That of a program with a digest has `type_info`.
PROGRAM = """
import sys
from pathlib import Path
from google.protobuf import text_format
from google.rpc import code_pb2, status_pb2
from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2, p4runtime_pb2_grpc
import p4.v1.p4data_pb2

p4info = text_format.Parse(Path(sys.argv[1]).read_text(), p4info_pb2.P4Info())
structs = p4info.type_info.structs
assert [member.name for name in structs for member in structs[name].members], structs
config = p4runtime_pb2.ForwardingPipelineConfig(p4info=p4info)
again = p4runtime_pb2.ForwardingPipelineConfig.FromString(config.SerializeToString())
assert again.p4info.type_info.structs.keys() == structs.keys()
assert hasattr(p4runtime_pb2_grpc, "P4RuntimeStub")
update = p4runtime_pb2.MasterArbitrationUpdate(status=status_pb2.Status(code=code_pb2.ALREADY_EXISTS))
assert update.status.code == 6
"""


@pytest.mark.parametrize("implementation", ["python", "upb"])
def test_tests_in_weirs_python_read_the_p4info_of_a_program_with_digests(implementation):
    environment = os.environ | {
        "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": implementation,
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    command = [sys.executable, "-c", "import weir.ptf.messages\n" + PROGRAM, P4INFO]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
