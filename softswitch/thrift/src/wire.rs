// SPDX-License-Identifier: Apache-2.0
//! Thrift's binary protocol, in the strict form that all clients write: messages of values ↔ bytes.
//!
//! A reader gives up on what exceeds [`Limits`], and allocates only for bytes that have arrived.

use std::io::{self, Read};

/// The two high bytes of the first word of a message.
const VERSION: u32 = 0x8001_0000;

/// The type of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A call that expects a reply.
    Call = 1,
    /// The result of a call, or an exception that the method declares.
    Reply = 2,
    /// A `TApplicationException`.
    Exception = 3,
    /// A call without a reply.
    Oneway = 4,
}

/// The type of a value, by its number on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Type {
    /// `bool`.
    Bool = 2,
    /// `byte`.
    I8 = 3,
    /// `double`.
    Double = 4,
    /// `i16`.
    I16 = 6,
    /// `i32` and enumerations.
    I32 = 8,
    /// `i64`.
    I64 = 10,
    /// `string` and `binary`.
    Binary = 11,
    /// `struct` and `exception`.
    Struct = 12,
    /// `map`.
    Map = 13,
    /// `set`.
    Set = 14,
    /// `list`.
    List = 15,
}

impl Type {
    fn of(number: u8) -> Result<Self, WireError> {
        Ok(match number {
            2 => Self::Bool,
            3 => Self::I8,
            4 => Self::Double,
            6 => Self::I16,
            8 => Self::I32,
            10 => Self::I64,
            11 => Self::Binary,
            12 => Self::Struct,
            13 => Self::Map,
            14 => Self::Set,
            15 => Self::List,
            number => return Err(WireError::Type { number }),
        })
    }
}

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// `bool`.
    Bool(bool),
    /// `byte`.
    I8(i8),
    /// `double`.
    Double(f64),
    /// `i16`.
    I16(i16),
    /// `i32` and enumerations.
    I32(i32),
    /// `i64`.
    I64(i64),
    /// `string` and `binary`.
    Binary(Vec<u8>),
    /// `struct` and `exception`.
    Struct(Struct),
    /// `map`: types of keys and values, and the pairs.
    Map(Type, Type, Vec<(Value, Value)>),
    /// `list` and `set`: the type of the elements, and the elements.
    List(Type, Vec<Value>),
}

/// The fields of a struct, by id; an optional one may be absent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Struct(pub Vec<(i16, Value)>);

impl Struct {
    /// The field with this id.
    pub fn get(&self, id: i16) -> Option<&Value> {
        let found = self.0.iter().find(|(field, _)| *field == id);
        found.map(|(_, value)| value)
    }
}

/// A message: a call with its arguments, or a reply.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// Its type.
    pub kind: Kind,
    /// The method's name; that of a multiplexed call is `service:method`.
    pub name: String,
    /// The caller's number of the call, which the reply repeats.
    pub sequence: i32,
    /// The arguments, or the result in field 0 and declared exceptions in the others.
    pub body: Struct,
}

/// What a reader accepts.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of a message.
    pub bytes: u64,
    /// Values in a message, containers and their elements included.
    pub values: usize,
    /// Containers within containers.
    pub depth: usize,
}

impl Default for Limits {
    /// Room for a program's JSON.
    fn default() -> Self {
        Self {
            bytes: 32 << 20,
            values: 1 << 18,
            depth: 16,
        }
    }
}

/// The reason why bytes are not a message.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The connection failed, or ended within a message.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The first bytes are not those of a message.
    #[error(
        "the message begins with {word:#010x}; valid is the strict binary protocol, {VERSION:#010x}, without frames"
    )]
    Version {
        /// The first word.
        word: u32,
    },
    /// The type of the message.
    #[error("message type {number} is none of 1 to 4")]
    Kind {
        /// The number given.
        number: u8,
    },
    /// The type of a value.
    #[error("no type of values has number {number}")]
    Type {
        /// The number given.
        number: u8,
    },
    /// A negative length.
    #[error("length {length} is negative")]
    Length {
        /// The length given.
        length: i32,
    },
    /// More than the limits allow.
    #[error("the message has more than {limit}")]
    Limit {
        /// What the limit is.
        limit: String,
    },
}

/// Reads one message; None at the end of the stream before its first byte.
///
/// # Errors
/// [`WireError`]; the stream is then at an undefined position.
pub fn read(stream: &mut impl Read, limits: Limits) -> Result<Option<Message>, WireError> {
    let mut first = [0];
    if stream.read(&mut first)? == 0 {
        return Ok(None);
    }
    let mut reader = Reader {
        stream,
        limits,
        bytes_left: limits.bytes.saturating_sub(1),
        values_left: limits.values,
    };
    let [b, c, d] = reader.array()?;
    let word = u32::from_be_bytes([first[0], b, c, d]);
    if word & 0xffff_0000 != VERSION {
        return Err(WireError::Version { word });
    }
    let kind = match d {
        1 => Kind::Call,
        2 => Kind::Reply,
        3 => Kind::Exception,
        4 => Kind::Oneway,
        number => return Err(WireError::Kind { number }),
    };
    Ok(Some(Message {
        kind,
        name: String::from_utf8_lossy(&reader.binary()?).into_owned(),
        sequence: i32::from_be_bytes(reader.array()?),
        body: reader.fields(limits.depth)?,
    }))
}

struct Reader<'a, R> {
    stream: &'a mut R,
    limits: Limits,
    bytes_left: u64,
    values_left: usize,
}

impl<R: Read> Reader<'_, R> {
    fn take(&mut self, bytes: u64) -> Result<(), WireError> {
        let left = self.bytes_left.checked_sub(bytes);
        self.bytes_left = left.ok_or_else(|| WireError::Limit {
            limit: format!("{} bytes", self.limits.bytes),
        })?;
        Ok(())
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        self.take(N as u64)?;
        let mut bytes = [0; N];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn byte(&mut self) -> Result<u8, WireError> {
        let [byte] = self.array()?;
        Ok(byte)
    }

    fn length(&mut self) -> Result<u32, WireError> {
        let length = i32::from_be_bytes(self.array()?);
        u32::try_from(length).map_err(|_| WireError::Length { length })
    }

    fn binary(&mut self) -> Result<Vec<u8>, WireError> {
        let length = u64::from(self.length()?);
        self.take(length)?;
        let mut bytes = Vec::new();
        // Grows with what arrives, not with what was announced.
        let read = (&mut *self.stream).take(length).read_to_end(&mut bytes)?;
        if read as u64 != length {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        Ok(bytes)
    }

    fn fields(&mut self, depth: usize) -> Result<Struct, WireError> {
        let mut fields = Vec::new();
        loop {
            let number = self.byte()?;
            if number == 0 {
                return Ok(Struct(fields));
            }
            let kind = Type::of(number)?;
            let id = i16::from_be_bytes(self.array()?);
            fields.push((id, self.value(kind, depth)?));
        }
    }

    fn value(&mut self, kind: Type, depth: usize) -> Result<Value, WireError> {
        let left = self.values_left.checked_sub(1);
        self.values_left = left.ok_or_else(|| WireError::Limit {
            limit: format!("{} values", self.limits.values),
        })?;
        let inner = |limits: Limits| {
            depth.checked_sub(1).ok_or_else(|| WireError::Limit {
                limit: format!("{} containers within each other", limits.depth),
            })
        };
        Ok(match kind {
            Type::Bool => Value::Bool(self.byte()? != 0),
            Type::I8 => Value::I8(i8::from_be_bytes(self.array()?)),
            Type::Double => Value::Double(f64::from_be_bytes(self.array()?)),
            Type::I16 => Value::I16(i16::from_be_bytes(self.array()?)),
            Type::I32 => Value::I32(i32::from_be_bytes(self.array()?)),
            Type::I64 => Value::I64(i64::from_be_bytes(self.array()?)),
            Type::Binary => Value::Binary(self.binary()?),
            Type::Struct => Value::Struct(self.fields(inner(self.limits)?)?),
            Type::Map => {
                let depth = inner(self.limits)?;
                let (of_keys, of_values) = (self.byte()?, self.byte()?);
                let length = self.length()?;
                if length == 0 {
                    // The types of an empty map may be anything.
                    return Ok(Value::Map(Type::Binary, Type::Binary, Vec::new()));
                }
                let (of_keys, of_values) = (Type::of(of_keys)?, Type::of(of_values)?);
                let mut pairs = Vec::new();
                for _ in 0..length {
                    pairs.push((self.value(of_keys, depth)?, self.value(of_values, depth)?));
                }
                Value::Map(of_keys, of_values, pairs)
            }
            Type::Set | Type::List => {
                let depth = inner(self.limits)?;
                let of = self.byte()?;
                let length = self.length()?;
                if length == 0 {
                    return Ok(Value::List(Type::Binary, Vec::new()));
                }
                let of = Type::of(of)?;
                let mut elements = Vec::new();
                for _ in 0..length {
                    elements.push(self.value(of, depth)?);
                }
                Value::List(of, elements)
            }
        })
    }
}

/// The bytes of a message.
pub fn write(message: &Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend((VERSION | message.kind as u32).to_be_bytes());
    write_binary(message.name.as_bytes(), &mut bytes);
    bytes.extend(message.sequence.to_be_bytes());
    write_fields(&message.body, &mut bytes);
    bytes
}

fn write_length(length: usize, bytes: &mut Vec<u8>) {
    // Nothing here has 2³¹ elements: requests are bounded, and so are tables and arrays.
    bytes.extend(i32::try_from(length).unwrap_or(i32::MAX).to_be_bytes());
}

fn write_binary(value: &[u8], bytes: &mut Vec<u8>) {
    write_length(value.len(), bytes);
    bytes.extend(value);
}

fn write_fields(fields: &Struct, bytes: &mut Vec<u8>) {
    for (id, value) in &fields.0 {
        bytes.push(value.kind() as u8);
        bytes.extend(id.to_be_bytes());
        write_value(value, bytes);
    }
    bytes.push(0);
}

fn write_value(value: &Value, bytes: &mut Vec<u8>) {
    match value {
        Value::Bool(value) => bytes.push(u8::from(*value)),
        Value::I8(value) => bytes.extend(value.to_be_bytes()),
        Value::Double(value) => bytes.extend(value.to_be_bytes()),
        Value::I16(value) => bytes.extend(value.to_be_bytes()),
        Value::I32(value) => bytes.extend(value.to_be_bytes()),
        Value::I64(value) => bytes.extend(value.to_be_bytes()),
        Value::Binary(value) => write_binary(value, bytes),
        Value::Struct(fields) => write_fields(fields, bytes),
        Value::Map(of_keys, of_values, pairs) => {
            bytes.extend([*of_keys as u8, *of_values as u8]);
            write_length(pairs.len(), bytes);
            for (key, value) in pairs {
                write_value(key, bytes);
                write_value(value, bytes);
            }
        }
        Value::List(of, elements) => {
            bytes.push(*of as u8);
            write_length(elements.len(), bytes);
            for element in elements {
                write_value(element, bytes);
            }
        }
    }
}

impl Value {
    /// Its type.
    pub fn kind(&self) -> Type {
        match self {
            Self::Bool(_) => Type::Bool,
            Self::I8(_) => Type::I8,
            Self::Double(_) => Type::Double,
            Self::I16(_) => Type::I16,
            Self::I32(_) => Type::I32,
            Self::I64(_) => Type::I64,
            Self::Binary(_) => Type::Binary,
            Self::Struct(_) => Type::Struct,
            Self::Map(..) => Type::Map,
            Self::List(..) => Type::List,
        }
    }
}

#[cfg(test)]
mod tests;
