// SPDX-License-Identifier: Apache-2.0
//! Standard metadata that the switch alone writes and the program never names: it need not be written.

use super::Loader;
use crate::ir::{Intrinsics, Slot};

impl Loader<'_> {
    /// To be called when everything that may name a field has been compiled. Fields that the switch itself reads stay.
    pub(super) fn forget_unread(&mut self) {
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
            ..
        } = &mut self.ir.intrinsics;
        let (layout, headers) = (&self.layout, &self.ir.headers);
        // All fields of a header may be read where the whole header is named.
        let whole = |slot: Slot| {
            (0..).zip(headers).any(|(number, header)| {
                (header.offset..header.offset + header.fixed_bytes).contains(&slot.offset)
                    && layout.named.borrow().headers.contains(&number)
            })
        };
        for field in [
            enq_timestamp,
            enq_qdepth,
            deq_timedelta,
            deq_qdepth,
            ingress_timestamp,
            egress_timestamp,
            checksum_error,
            parser_error,
            qid,
        ] {
            let read = |slot: Slot| {
                // Fields of other headers share their bytes.
                slot.own_bytes == 0
                    || layout.named.borrow().fields.contains(&slot.end_bit())
                    || whole(slot)
            };
            *field = field.filter(|slot| read(*slot));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::ir::Intrinsics;
    use serde_json::{Value, json};

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

    /// Which of `MANY` are written.
    fn written(program: &Value) -> Vec<&'static str> {
        let bytes = serde_json::to_vec(program).expect("JSON");
        let (_, ir) = super::super::load(&bytes).expect("a program that loads");
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
            ..
        } = ir.intrinsics;
        let slots = [
            enq_timestamp,
            enq_qdepth,
            deq_timedelta,
            deq_qdepth,
            ingress_timestamp,
            egress_timestamp,
            checksum_error,
            parser_error,
            qid,
        ];
        let named = MANY.into_iter().zip(slots);
        named
            .filter_map(|(name, slot)| slot.map(|_| name))
            .collect()
    }

    #[test]
    fn what_a_program_names_is_written_and_nothing_else() {
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
    fn a_field_that_only_a_clone_carries_along_is_written() {
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
    fn all_is_written_where_the_header_is_used_as_a_whole() {
        let mut program = json("programs/l2_learning");
        let all = json!({"type": "header", "value": "standard_metadata"});
        let assign = json!({"op": "assign_header", "parameters": [all, all]});
        let primitives = program["actions"][0]["primitives"].as_array_mut();
        primitives.expect("an action").push(assign);
        // v1model has no queue number of its own.
        let expected: Vec<_> = MANY.into_iter().filter(|name| *name != "qid").collect();
        assert_eq!(written(&program), expected);
    }
}
