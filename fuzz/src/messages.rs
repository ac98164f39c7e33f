// SPDX-License-Identifier: Apache-2.0
//! Generates P4Runtime messages: plausible ones from a P4Info, random ones from the descriptors, and mutations of both.

use crate::choices::Choices;
use prost::Message;
use prost_reflect::{
    DescriptorPool, DynamicMessage, FieldDescriptor, Kind, MessageDescriptor, ReflectMessage,
    SetFieldError, Value,
};
use weir_p4runtime::p4::config::v1::{P4Info, match_field};
use weir_p4runtime::p4::v1::field_match::{Exact, FieldMatchType, Lpm, Optional, Range, Ternary};
use weir_p4runtime::p4::v1::table_action::Type as ActionType;
use weir_p4runtime::p4::v1::{Action, FieldMatch, TableAction, TableEntry, action};

use crate::bytes;

/// Deeper messages stay empty.
const MAX_DEPTH: usize = 9;

/// Numbers that are likely to be valid ids.
pub struct Ids {
    numbers: Vec<u64>,
}

impl Ids {
    /// Small numbers, for fields, parameters, cells and ports.
    pub fn small() -> Self {
        Self {
            numbers: (0..9).collect(),
        }
    }

    /// Every id in a P4Info, and small numbers.
    pub fn of(p4info: &P4Info) -> Self {
        let Self { mut numbers } = Self::small();
        let preambles = weir_p4runtime::preambles(p4info).flatten();
        numbers.extend(preambles.map(|preamble| u64::from(preamble.id)));
        Self { numbers }
    }

    fn number(&self, random: &mut Choices<'_>) -> u64 {
        match random.u8(..10) {
            0 => random.u64(..),
            1 => 1_u64
                .wrapping_shl(random.u32(..64))
                .wrapping_sub(random.u64(..2)),
            _ => random.choice(&self.numbers).copied().unwrap_or(0),
        }
    }
}

/// A message of the type called `name`, encoded.
pub fn generate(pool: &DescriptorPool, name: &str, ids: &Ids, random: &mut Choices<'_>) -> Vec<u8> {
    pool.get_message_by_name(name)
        .map(|kind| message(&kind, ids, random, 0).encode_to_vec())
        .unwrap_or_default()
}

/// Changes a few fields anywhere inside an encoded message of the type called `name`.
pub fn mutate(
    pool: &DescriptorPool,
    name: &str,
    encoded: Vec<u8>,
    ids: &Ids,
    random: &mut Choices<'_>,
) -> Vec<u8> {
    let Some(kind) = pool.get_message_by_name(name) else {
        return encoded;
    };
    let Ok(mut decoded) = DynamicMessage::decode(kind, encoded.as_slice()) else {
        return encoded;
    };
    for _ in 0..random.usize(1..4) {
        change(&mut decoded, ids, random, 0);
    }
    decoded.encode_to_vec()
}

fn message(
    kind: &MessageDescriptor,
    ids: &Ids,
    random: &mut Choices<'_>,
    depth: usize,
) -> DynamicMessage {
    let mut made = DynamicMessage::new(kind.clone());
    if depth >= MAX_DEPTH {
        return made;
    }
    for oneof in kind.oneofs() {
        let fields: Vec<FieldDescriptor> = oneof.fields().collect();
        if let Some(field) = random.choice(&fields).filter(|_| random.u8(..12) > 0) {
            set(&mut made, field, ids, random, depth);
        }
    }
    let fields: Vec<FieldDescriptor> = kind.fields().collect();
    for field in fields.iter().filter(|f| f.containing_oneof().is_none()) {
        if random.u8(..4) > 0 {
            set(&mut made, field, ids, random, depth);
        }
    }
    made
}

fn set(
    made: &mut DynamicMessage,
    field: &FieldDescriptor,
    ids: &Ids,
    random: &mut Choices<'_>,
    depth: usize,
) {
    let value = if field.is_list() {
        let count = match random.u8(..40) {
            0 => random.usize(..200) >> depth.min(7),
            _ => random.usize(..4),
        };
        Value::List((0..count).map(|_| one(field, ids, random, depth)).collect())
    } else if field.is_map() {
        return;
    } else {
        one(field, ids, random, depth)
    };
    let set: Result<(), SetFieldError> = made.try_set_field(field, value);
    debug_assert!(set.is_ok(), "{}: {set:?}", field.full_name());
}

fn one(field: &FieldDescriptor, ids: &Ids, random: &mut Choices<'_>, depth: usize) -> Value {
    let number = ids.number(random);
    // The conversions truncate on purpose.
    #[expect(clippy::cast_possible_truncation, clippy::cast_possible_wrap)]
    match field.kind() {
        Kind::Double => Value::F64(f64::from_bits(number)),
        Kind::Float => Value::F32(f32::from_bits(number as u32)),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => Value::I32(number as i32),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => Value::I64(number as i64),
        Kind::Uint32 | Kind::Fixed32 => Value::U32(number as u32),
        Kind::Uint64 | Kind::Fixed64 => Value::U64(number),
        Kind::Bool => Value::Bool(random.bool()),
        Kind::String => Value::String(match random.u8(..3) {
            0 => String::new(),
            1 => "no such name".to_owned(),
            _ => "ü".repeat(random.usize(..20)),
        }),
        Kind::Bytes => Value::Bytes(match random.u8(..4) {
            0 => vec![random.u8(..4)].into(),
            _ => bytes::random(random, 20).into(),
        }),
        Kind::Message(kind) => Value::Message(message(&kind, ids, random, depth + 1)),
        Kind::Enum(kind) => {
            let values: Vec<i32> = kind.values().map(|value| value.number()).collect();
            let valid = random.choice(&values).copied().unwrap_or(0);
            Value::EnumNumber(if random.u8(..12) == 0 {
                number as i32
            } else {
                valid
            })
        }
    }
}

fn change(made: &mut DynamicMessage, ids: &Ids, random: &mut Choices<'_>, depth: usize) {
    let kind = made.descriptor();
    let fields: Vec<FieldDescriptor> = kind.fields().collect();
    // Prefer fields that are set.
    let present: Vec<&FieldDescriptor> = fields.iter().filter(|f| made.has_field(f)).collect();
    let chosen = if present.is_empty() || random.u8(..6) == 0 {
        random.choice(&fields).cloned()
    } else {
        random.choice(&present).map(|field| (*field).clone())
    };
    let Some(field) = chosen else { return };
    if random.u8(..5) > 0 {
        let inner = match made.get_field_mut(&field) {
            Value::Message(inner) => Some(inner),
            Value::List(items) if !items.is_empty() => {
                let at = random.usize(..items.len());
                match random.u8(..8) {
                    0 => {
                        let item = items[at].clone();
                        items.push(item);
                        return;
                    }
                    1 => return drop(items.remove(at)),
                    _ => items[at].as_message_mut(),
                }
            }
            _ => None,
        };
        if let Some(inner) = inner {
            return change(inner, ids, random, depth + 1);
        }
    }
    if random.u8(..6) == 0 {
        made.clear_field(&field);
    } else {
        set(made, &field, ids, random, depth.min(MAX_DEPTH - 2));
    }
}

/// An entry that a table of the P4Info might accept.
pub fn table_entry(p4info: &P4Info, random: &mut Choices<'_>) -> TableEntry {
    let Some(table) = random.choice(&p4info.tables) else {
        return TableEntry::default();
    };
    let fields = table.match_fields.iter().filter_map(|field| {
        let kind = match field.r#match {
            Some(match_field::Match::MatchType(kind)) => kind,
            _ => return None,
        };
        let value = value(random, field.bitwidth);
        let kind = match match_field::MatchType::try_from(kind).ok()? {
            match_field::MatchType::Exact => FieldMatchType::Exact(Exact { value }),
            _ if random.u8(..3) == 0 => return None,
            match_field::MatchType::Lpm => FieldMatchType::Lpm(Lpm {
                value,
                prefix_len: field.bitwidth,
            }),
            match_field::MatchType::Range => FieldMatchType::Range(Range {
                low: vec![0],
                high: value,
            }),
            match_field::MatchType::Optional => FieldMatchType::Optional(Optional { value }),
            _ => FieldMatchType::Ternary(Ternary {
                mask: value.clone(),
                value,
            }),
        };
        Some(FieldMatch {
            field_id: field.id,
            field_match_type: Some(kind),
        })
    });
    let fields: Vec<FieldMatch> = fields.collect();
    let needs_priority = table.match_fields.iter().any(|field| {
        !matches!(
            field.r#match,
            Some(match_field::Match::MatchType(kind))
                if kind == match_field::MatchType::Exact as i32 || kind == match_field::MatchType::Lpm as i32
        )
    });
    let action = random.choice(&table.action_refs).and_then(|chosen| {
        let of_id = |a: &&weir_p4runtime::p4::config::v1::Action| {
            a.preamble.as_ref().is_some_and(|p| p.id == chosen.id)
        };
        let action = p4info.actions.iter().find(of_id)?;
        let params = action.params.iter().map(|param| action::Param {
            param_id: param.id,
            value: value(random, param.bitwidth),
        });
        let params = params.collect();
        Some(TableAction {
            r#type: Some(ActionType::Action(Action {
                action_id: chosen.id,
                params,
            })),
        })
    });
    TableEntry {
        table_id: table.preamble.as_ref().map_or(0, |preamble| preamble.id),
        r#match: fields,
        action,
        priority: i32::from(needs_priority) * random.i32(1..4),
        idle_timeout_ns: i64::from(random.u8(..8) == 0) * random.i64(..2_000_000_000),
        ..TableEntry::default()
    }
}

/// A canonical value of at most `width_bits`.
fn value(random: &mut Choices<'_>, width_bits: i32) -> Vec<u8> {
    match (width_bits, random.u8(..3)) {
        (..8, _) => vec![random.u8(..2)],
        (_, 0) => vec![random.u8(1..)],
        (width, _) => {
            let length = usize::try_from(width / 8).unwrap_or(1);
            let mut value = vec![0; length];
            random.fill(&mut value);
            value[0] |= 1;
            value
        }
    }
}
