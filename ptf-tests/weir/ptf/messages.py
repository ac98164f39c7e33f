# SPDX-License-Identifier: Apache-2.0
"""P4Runtime's messages for tests that run in weir's Python: `p4.v1` and `p4.config.v1` as tests import them.

The modules of PyPI's `p4runtime` 1.6.0 were generated for protobuf < 3.20. The protobuf that weir needs takes
the maps in them for lists, so a P4Info with `type_info` (of a program with digests, or with translated types)
cannot be read. finsy has the same messages, generated for this protobuf: importing this module puts them
under the usual names.
"""

from __future__ import annotations

import importlib
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

_REPLACED = frozenset(
    {
        "google.rpc.status_pb2",  # a part of P4Runtime's messages: one class on both sides
        "p4.config.v1.p4info_pb2",
        "p4.config.v1.p4types_pb2",
        "p4.v1.p4data_pb2",
        "p4.v1.p4runtime_pb2",
        "p4.v1.p4runtime_pb2_grpc",
    }
)


class _FinsysMessages(MetaPathFinder, Loader):
    """Finds each replaced module in finsy when it is imported, not before: finsy takes a second to load."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname in _REPLACED else None

    def exec_module(self, module: ModuleType) -> None:
        # The import system takes what is in sys.modules after this call, also where that is another module.
        sys.modules[module.__name__] = importlib.import_module(f"finsy.proto.{module.__name__}")


sys.meta_path.insert(0, _FinsysMessages())
