// SPDX-License-Identifier: Apache-2.0
//! The witness: the last action of a pipeline, which writes a hash of all fields to a register. A wrong value shows there,
//! even if no frame carries it.

use serde_json::{Value, json};

use super::Gress;
use super::action::{Action, number_of, primitive};
use super::declared::{Declared, Field};

/// The name of the action's register, calculation and metadata field, and the start of its own.
const NAME: &str = "witness";
/// Bits of the hash.
const BITS: u32 = 32;
/// Cells of the register; the hash chooses one.
const CELLS: u64 = 64;

/// The metadata field for the hash.
pub fn field() -> Field {
    Field {
        header: "scalars".to_owned(),
        name: NAME.to_owned(),
        width: BITS,
        signed: false,
    }
}

/// The register, as the program lists it.
pub fn register(id: usize) -> Value {
    json!({"name": NAME, "id": id, "size": CELLS, "bitwidth": BITS})
}

/// The hash, as the program lists it.
pub fn calculation(declared: &Declared) -> Value {
    let input: Vec<Value> = declared.fields.iter().map(Field::value).collect();
    json!({"name": NAME, "id": 0, "algo": "crc32", "input": input})
}

/// The action of one pipeline.
pub fn action(id: usize, gress: Gress) -> Action {
    let name = format!("{NAME}_of_{}", gress.name());
    let calculation = json!({"type": "calculation", "value": NAME});
    let hash = [
        field().value(),
        number_of(0),
        calculation,
        number_of(1 << BITS),
    ];
    let cell = json!({"type": "expression", "value": {
        "op": "&", "left": field().value(), "right": {"type": "hexstr", "value": format!("0x{:x}", CELLS - 1)}
    }});
    let register = json!({"type": "register_array", "value": NAME});
    let primitives = [
        primitive("modify_field_with_hash_based_offset", &hash),
        primitive("register_write", &[register, cell, field().value()]),
    ];
    let json = json!({"name": name, "id": id, "runtime_data": [], "primitives": primitives});
    Action {
        name,
        id,
        gress,
        params: Vec::new(),
        json,
    }
}

/// The node that calls the action as the last one of its pipeline, if it has this action.
pub fn node(actions: &[&Action], id: usize) -> Option<Value> {
    let action = actions
        .iter()
        .find(|action| action.name.starts_with(NAME))?;
    Some(json!({
        "name": format!("call_{}", action.name), "id": id, "action_id": action.id,
        "next_node": Value::Null
    }))
}
