# SPDX-License-Identifier: Apache-2.0
"""Protobuf messages of others' schemas, described in code: only the fields that are read or written here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

Field = tuple[str, int, str]
"""Name, number and type: uint64, string, bytes, "repeated uint32", or "repeated " and a message's name."""
_SCALARS = {
    "uint32": FieldDescriptorProto.TYPE_UINT32,
    "uint64": FieldDescriptorProto.TYPE_UINT64,
    "string": FieldDescriptorProto.TYPE_STRING,
    "bytes": FieldDescriptorProto.TYPE_BYTES,
}


def message_class(package: str, messages: Mapping[str, Sequence[Field]], name: str) -> Any:
    """The class of one of ``messages``, all of one package (proto3)."""
    file = FileDescriptorProto(name=f"{package}.{name}", package=package, syntax="proto3")
    for message, fields in messages.items():
        described = file.message_type.add(name=message)
        for field_name, number, kind in fields:
            field = described.field.add(name=field_name, number=number)
            repeated, _, kind = kind.rpartition(" ")
            field.label = (
                FieldDescriptorProto.LABEL_REPEATED if repeated else FieldDescriptorProto.LABEL_OPTIONAL
            )
            if kind in _SCALARS:
                field.type = _SCALARS[kind]
            else:
                field.type, field.type_name = FieldDescriptorProto.TYPE_MESSAGE, f".{package}.{kind}"
    pool = DescriptorPool()
    pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}"))
