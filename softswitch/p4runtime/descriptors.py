# SPDX-License-Identifier: Apache-2.0
"""Write the FileDescriptorSet of P4Runtime in PyPI's `p4runtime` package to a file.

Usage: python descriptors.py OUTPUT

The set holds `p4/v1/p4runtime.proto` and everything it imports, each file after the files it imports, as
prost requires. With the descriptors of the Python package, the Rust and the Python side of P4Runtime have one
version, the one in pyproject.toml, and no .proto is kept here.
"""

import os
import sys
from pathlib import Path

# p4runtime 1.6.0 was generated for protobuf < 3.20: only the pure Python implementation still loads it. The
# choice is made at the first import of protobuf, hence before the imports below.
os.environ["PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"] = "python"

from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from p4.v1 import p4runtime_pb2


def descriptor_set(root: FileDescriptor) -> FileDescriptorSet:
    """Return `root` and all that it imports, imports first, each file once."""
    result = FileDescriptorSet()
    added: set[str] = set()

    def add(file: FileDescriptor) -> None:
        if file.name in added:
            return
        added.add(file.name)
        for imported in file.dependencies:
            add(imported)
        file.CopyToProto(result.file.add())

    add(root)
    return result


def main(arguments: list[str]) -> int:
    """Write the set to the path that is the only argument; return the exit code."""
    if len(arguments) != 1:
        print("usage: python descriptors.py OUTPUT", file=sys.stderr)
        return 2
    output = Path(arguments[0])
    data = descriptor_set(p4runtime_pb2.DESCRIPTOR).SerializeToString(deterministic=True)
    if output.is_file() and output.read_bytes() == data:
        return 0  # with its old time, for which cargo has compiled the switch
    # Renamed when complete, so that a concurrent build never reads half a file.
    temporary = output.with_name(output.name + ".tmp")
    temporary.write_bytes(data)
    temporary.replace(output)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
