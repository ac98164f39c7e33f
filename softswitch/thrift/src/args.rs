// SPDX-License-Identifier: Apache-2.0
//! Arguments of calls, by field id. An absent one has its type's zero, as in the servers that Thrift generates.

use crate::refusal::Refusal;
use crate::wire::{Struct, Type, Value};

/// The arguments of a call, or the fields of a struct among them.
#[derive(Debug, Clone, Copy)]
pub struct Args<'a>(pub &'a Struct);

fn wrong(id: i16, value: &Value, wanted: &str) -> Refusal {
    Refusal::malformed(format!(
        "field {id} is of type {:?}, it must be {wanted}",
        value.kind()
    ))
}

impl<'a> Args<'a> {
    /// An `i32`, or an enumeration.
    pub fn i32(self, id: i16) -> Result<i32, Refusal> {
        Ok(self.optional_i32(id)?.unwrap_or_default())
    }

    /// An `i32` that may be absent.
    pub fn optional_i32(self, id: i16) -> Result<Option<i32>, Refusal> {
        match self.0.get(id) {
            None => Ok(None),
            Some(Value::I32(value)) => Ok(Some(*value)),
            Some(value) => Err(wrong(id, value, "an i32")),
        }
    }

    /// An `i16`.
    pub fn i16(self, id: i16) -> Result<i16, Refusal> {
        match self.0.get(id) {
            None => Ok(0),
            Some(Value::I16(value)) => Ok(*value),
            Some(value) => Err(wrong(id, value, "an i16")),
        }
    }

    /// An `i64`.
    pub fn i64(self, id: i16) -> Result<i64, Refusal> {
        match self.0.get(id) {
            None => Ok(0),
            Some(Value::I64(value)) => Ok(*value),
            Some(value) => Err(wrong(id, value, "an i64")),
        }
    }

    /// A `double`.
    pub fn double(self, id: i16) -> Result<f64, Refusal> {
        match self.0.get(id) {
            None => Ok(0.0),
            Some(Value::Double(value)) => Ok(*value),
            Some(value) => Err(wrong(id, value, "a double")),
        }
    }

    /// A `bool`.
    pub fn bool(self, id: i16) -> Result<bool, Refusal> {
        match self.0.get(id) {
            None => Ok(false),
            Some(Value::Bool(value)) => Ok(*value),
            Some(value) => Err(wrong(id, value, "a bool")),
        }
    }

    /// A `binary`.
    pub fn bytes(self, id: i16) -> Result<&'a [u8], Refusal> {
        match self.0.get(id) {
            None => Ok(&[]),
            Some(Value::Binary(value)) => Ok(value),
            Some(value) => Err(wrong(id, value, "a string")),
        }
    }

    /// A `string`.
    pub fn text(self, id: i16) -> Result<&'a str, Refusal> {
        std::str::from_utf8(self.bytes(id)?)
            .map_err(|_| Refusal::malformed(format!("field {id} is not a string in UTF-8")))
    }

    /// A struct; without fields when it is absent.
    pub fn fields(self, id: i16) -> Result<Args<'a>, Refusal> {
        static NONE: Struct = Struct(Vec::new());
        match self.0.get(id) {
            None => Ok(Args(&NONE)),
            Some(Value::Struct(fields)) => Ok(Args(fields)),
            Some(value) => Err(wrong(id, value, "a struct")),
        }
    }

    /// A list.
    fn list(self, id: i16) -> Result<&'a [Value], Refusal> {
        match self.0.get(id) {
            None => Ok(&[]),
            Some(Value::List(_, elements)) => Ok(elements),
            Some(value) => Err(wrong(id, value, "a list")),
        }
    }

    /// A `list<binary>`.
    pub fn byte_strings(self, id: i16) -> Result<Vec<Vec<u8>>, Refusal> {
        let element = |value: &Value| match value {
            Value::Binary(bytes) => Ok(bytes.clone()),
            value => Err(wrong(id, value, "a list of strings")),
        };
        self.list(id)?.iter().map(element).collect()
    }

    /// A `list<i32>`.
    pub fn i32s(self, id: i16) -> Result<Vec<i32>, Refusal> {
        let element = |value: &Value| match value {
            Value::I32(value) => Ok(*value),
            value => Err(wrong(id, value, "a list of i32")),
        };
        self.list(id)?.iter().map(element).collect()
    }

    /// A list of structs.
    pub fn structs(self, id: i16) -> Result<Vec<Args<'a>>, Refusal> {
        let element = |value: &'a Value| match value {
            Value::Struct(fields) => Ok(Args(fields)),
            value => Err(wrong(id, value, "a list of structs")),
        };
        self.list(id)?.iter().map(element).collect()
    }
}

/// The value of a string.
pub fn text(value: &str) -> Value {
    Value::Binary(value.as_bytes().to_vec())
}

/// The value of a list of byte strings.
pub fn byte_strings(values: Vec<Vec<u8>>) -> Value {
    let values = values.into_iter().map(Value::Binary).collect();
    Value::List(Type::Binary, values)
}

/// The value of a struct.
pub fn fields(fields: impl IntoIterator<Item = (i16, Value)>) -> Value {
    Value::Struct(Struct(fields.into_iter().collect()))
}

/// The value of a list of structs.
pub fn structs(values: impl IntoIterator<Item = Value>) -> Value {
    Value::List(Type::Struct, values.into_iter().collect())
}
