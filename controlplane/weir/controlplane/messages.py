# SPDX-License-Identifier: Apache-2.0
"""Protobuf messages of foreign schemas, described in code with only the fields that weir reads or writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

Field = tuple[str, int, str]
"""Name, number and type (of a scalar or message), which "repeated " or "optional " may precede."""
_SCALARS = {
    "bool": FieldDescriptorProto.TYPE_BOOL,
    "uint32": FieldDescriptorProto.TYPE_UINT32,
    "uint64": FieldDescriptorProto.TYPE_UINT64,
    "string": FieldDescriptorProto.TYPE_STRING,
    "bytes": FieldDescriptorProto.TYPE_BYTES,
}


def message_classes(package: str, messages: Mapping[str, Sequence[Field]]) -> Mapping[str, Any]:
    """Message classes by name, for ``messages`` of one proto3 package."""
    file = FileDescriptorProto(name=f"{package}.weir", package=package, syntax="proto3")
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for field in fields:
            _add(message, package, *field)
    pool = DescriptorPool()
    pool.Add(file)
    return {name: GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}")) for name in messages}


def _add(message: DescriptorProto, package: str, name: str, number: int, kind: str) -> None:
    field = message.field.add(name=name, number=number)
    label, _, kind = kind.rpartition(" ")
    field.label = (
        FieldDescriptorProto.LABEL_REPEATED if label == "repeated" else FieldDescriptorProto.LABEL_OPTIONAL
    )
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    else:
        field.type, field.type_name = FieldDescriptorProto.TYPE_MESSAGE, f".{package}.{kind}"
    if label == "optional":  # proto3 tracks its presence in a synthetic oneof
        field.proto3_optional, field.oneof_index = True, len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{name}")
