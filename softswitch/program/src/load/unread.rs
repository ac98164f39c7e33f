// SPDX-License-Identifier: Apache-2.0
//! Standard metadata that only the switch writes and the program never reads: the switch need not write it.

use super::Loader;
use crate::ir::{Intrinsics, Slot};

impl Loader<'_> {
    /// Called after everything that may read a field has been compiled.
    pub(super) fn forget_unread(&mut self) {
        let (layout, headers) = (&self.layout, &self.ir.headers);
        // A statement that names a whole header may read all its fields.
        let whole = |slot: Slot| {
            (0..).zip(headers).any(|(number, header)| {
                (header.offset..header.offset + header.fixed_bytes).contains(&slot.offset)
                    && layout.named.borrow().headers.contains(&number)
            })
        };
        for field in only_written(&mut self.ir.intrinsics) {
            let read = |slot: Slot| {
                // Such a field shares its bytes with fields of other headers.
                slot.own_bytes == 0
                    || layout.named.borrow().fields.contains(&slot.end_bit())
                    || whole(slot)
            };
            *field = field.filter(|slot| read(*slot));
        }
    }
}

/// The fields that the switch writes and never reads, and that many programs do not read either.
fn only_written(intrinsics: &mut Intrinsics) -> [&mut Option<Slot>; 9] {
    let Intrinsics {
        enq_timestamp,
        enq_qdepth,
        deq_timedelta,
        deq_qdepth,
        ingress_timestamp,
        egress_timestamp,
        checksum_error,
        parser_error,
        qid,
        ingress_port: _,
        egress_spec: _,
        egress_port: _,
        instance_type: _,
        packet_length: _,
        mcast_grp: _,
        egress_rid: _,
        priority: _,
    } = intrinsics;
    [
        enq_timestamp,
        enq_qdepth,
        deq_timedelta,
        deq_qdepth,
        ingress_timestamp,
        egress_timestamp,
        checksum_error,
        parser_error,
        qid,
    ]
}

#[cfg(test)]
mod tests {
    use super::super::CellBytes;
    use serde_json::{Value, json};

    const CELLS: CellBytes = CellBytes {
        meter: 128,
        counter: 16,
    };

    const MANY: [&str; 9] = [
        "enq_timestamp",
        "enq_qdepth",
        "deq_timedelta",
        "deq_qdepth",
        "ingress_timestamp",
        "egress_timestamp",
        "checksum_error",
        "parser_error",
        "qid",
    ];

    fn json(program: &str) -> Value {
        let path = format!("{}/../{program}.json", env!("CARGO_MANIFEST_DIR"));
        let bytes = std::fs::read(path).expect("a checked-in program");
        serde_json::from_slice(&bytes).expect("JSON")
    }

    /// The fields of `MANY` that are written.
    fn written(program: &Value) -> Vec<&'static str> {
        let bytes = serde_json::to_vec(program).expect("JSON");
        let (_, mut ir) = super::super::load(&bytes, CELLS).expect("a program that loads");
        let slots = super::only_written(&mut ir.intrinsics);
        let named = MANY.into_iter().zip(slots);
        named
            .filter_map(|(name, slot)| slot.map(|_| name))
            .collect()
    }

    #[test]
    fn only_fields_that_a_program_names_are_written() {
        let expected: [(&str, &[&str]); 3] = [
            ("programs/l2_learning", &[]),
            ("programs/mixture", &["checksum_error", "parser_error"]),
            (
                "dataplane/tests/programs/deflection",
                &["enq_qdepth", "deq_qdepth"],
            ),
        ];
        for (program, names) in expected {
            assert_eq!(written(&json(program)), names, "{program}");
        }
    }

    #[test]
    fn a_field_that_only_a_clone_preserves_is_written() {
        let mut program = json("programs/l2_learning");
        let list = json!({
            "id": 77,
            "name": "carried",
            "elements": [{"type": "field", "value": ["standard_metadata", "deq_qdepth"]}],
        });
        let lists = program["field_lists"].as_array_mut().expect("lists");
        lists.push(list);
        assert_eq!(written(&program), ["deq_qdepth"]);
    }

    #[test]
    fn all_fields_of_a_header_that_is_used_as_a_whole_are_written() {
        let mut program = json("programs/l2_learning");
        let all = json!({"type": "header", "value": "standard_metadata"});
        let assign = json!({"op": "assign_header", "parameters": [all, all]});
        let primitives = program["actions"][0]["primitives"].as_array_mut();
        primitives.expect("an action").push(assign);
        // v1model has no queue id.
        let expected: Vec<_> = MANY.into_iter().filter(|name| *name != "qid").collect();
        assert_eq!(written(&program), expected);
    }
}
