# SPDX-License-Identifier: Apache-2.0
"""The messages of BfRuntime, with only the fields that weir reads or writes.

Names and numbers are those of the schema that open P4 Studio publishes (bf-drivers, src/bf_rt/proto). There,
the values of a data field and of a key field are alternatives; here they have presence, which is the same on
the wire. Enumerations are numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from weir.controlplane.messages import Field, message_classes

PACKAGE = "bfrt_proto"
SERVICE = f"{PACKAGE}.BfRuntime"

INSERT, MODIFY, DELETE = 1, 2, 4
"""Types of an update."""
BIND, VERIFY_AND_WARM_INIT_BEGIN_AND_END = 0, 3
"""What SetForwardingPipelineConfig does: take a program that runs, or load one."""
CONTINUE_ON_ERROR = 0
"""The atomicity of a write: each of its updates is tried. The published server has no DATAPLANE_ATOMIC."""

FIELDS: Mapping[str, tuple[Field, ...]] = MappingProxyType(
    {
        "TargetDevice": (
            ("device_id", 1, "uint32"),
            ("pipe_id", 2, "uint32"),
            ("direction", 3, "uint32"),
            ("prsr_id", 4, "uint32"),
        ),
        "Exact": (("value", 1, "bytes"),),
        "Ternary": (("value", 1, "bytes"), ("mask", 2, "bytes")),
        "KeyField": (("field_id", 1, "uint32"), ("exact", 2, "Exact"), ("ternary", 3, "Ternary")),
        "TableKey": (("fields", 1, "repeated KeyField"),),
        "IntArray": (("val", 1, "repeated uint32"),),
        "BoolArray": (("val", 1, "repeated bool"),),
        "DataField": (
            ("field_id", 1, "uint32"),
            ("stream", 2, "optional bytes"),
            ("str_val", 4, "optional string"),
            ("int_arr_val", 5, "IntArray"),
            ("bool_arr_val", 6, "BoolArray"),
            ("bool_val", 8, "optional bool"),
        ),
        "TableData": (("action_id", 1, "uint32"), ("fields", 2, "repeated DataField")),
        "TableFlags": (("from_hw", 1, "bool"),),
        "TableEntry": (
            ("table_id", 1, "uint32"),
            ("key", 2, "TableKey"),
            ("data", 3, "TableData"),
            ("is_default_entry", 4, "bool"),
            ("table_flags", 9, "TableFlags"),
        ),
        "Entity": (("table_entry", 1, "TableEntry"),),
        "Update": (("type", 1, "uint32"), ("entity", 2, "Entity")),
        "WriteRequest": (
            ("target", 1, "TargetDevice"),
            ("client_id", 2, "uint32"),
            ("updates", 3, "repeated Update"),
            ("atomicity", 4, "uint32"),
            ("p4_name", 5, "string"),
        ),
        "WriteResponse": (),
        "ReadRequest": (
            ("target", 1, "TargetDevice"),
            ("client_id", 2, "uint32"),
            ("entities", 3, "repeated Entity"),
            ("p4_name", 4, "string"),
        ),
        "ReadResponse": (("entities", 1, "repeated Entity"),),
        "Profile": (
            ("profile_name", 1, "string"),
            ("context", 2, "bytes"),
            ("binary", 3, "bytes"),
            ("pipe_scope", 4, "repeated uint32"),
        ),
        "ForwardingPipelineConfig": (
            ("p4_name", 1, "string"),
            ("bfruntime_info", 2, "bytes"),
            ("profiles", 3, "repeated Profile"),
        ),
        "NonP4Config": (("bfruntime_info", 1, "bytes"),),
        "SetForwardingPipelineConfigRequest": (
            ("device_id", 1, "uint32"),
            ("client_id", 2, "uint32"),
            ("action", 3, "uint32"),
            ("dev_init_mode", 4, "uint32"),
            ("base_path", 5, "string"),
            ("config", 6, "repeated ForwardingPipelineConfig"),
        ),
        "SetForwardingPipelineConfigResponse": (
            ("set_forwarding_pipeline_config_response_type", 1, "uint32"),
        ),
        "GetForwardingPipelineConfigRequest": (("device_id", 1, "uint32"), ("client_id", 2, "uint32")),
        "GetForwardingPipelineConfigResponse": (
            ("config", 1, "repeated ForwardingPipelineConfig"),
            ("non_p4_config", 2, "NonP4Config"),
        ),
        "Notifications": (
            ("enable_learn_notifications", 1, "bool"),
            ("enable_idletimeout_notifications", 2, "bool"),
            ("enable_port_status_change_notifications", 3, "bool"),
        ),
        "RpcStatus": (("code", 1, "uint32"), ("message", 2, "string")),
        "Subscribe": (
            ("device_id", 2, "uint32"),
            ("notifications", 3, "Notifications"),
            ("status", 4, "RpcStatus"),
        ),
        "StreamMessageRequest": (("client_id", 1, "uint32"), ("subscribe", 2, "Subscribe")),
        "DigestList": (("digest_id", 1, "uint32"), ("data", 3, "repeated TableData")),
        "StreamMessageResponse": (
            ("subscribe", 1, "Subscribe"),
            ("digest", 2, "DigestList"),
            ("set_forwarding_pipeline_config_response", 5, "SetForwardingPipelineConfigResponse"),
        ),
        "Error": (
            ("canonical_code", 1, "uint32"),
            ("message", 2, "string"),
            ("space", 3, "string"),
            ("code", 4, "uint32"),
        ),
    }
)
MESSAGES: Mapping[str, Any] = message_classes(PACKAGE, FIELDS)
"""Message classes by name. The errors of updates name the type `Error` of this package."""
