// SPDX-License-Identifier: Apache-2.0
//! `P4DataTypeSpec`: the layout of the data of a digest or register cell.

use weir_p4runtime::p4::config::v1::p4_bitstring_like_type_spec::TypeSpec as BitsSpec;
use weir_p4runtime::p4::config::v1::p4_data_type_spec::TypeSpec;
use weir_p4runtime::p4::config::v1::p4_new_type_spec::Representation;
use weir_p4runtime::p4::config::v1::{P4DataTypeSpec, P4TypeInfo};
use weir_p4runtime::p4::v1::p4_data::Data;
use weir_p4runtime::p4::v1::{P4Data, P4StructLike};

use crate::bytestring::canonical;
use crate::failure::Failure;

/// The representation of one value in a `P4Data`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberKind {
    /// `bit<W>`.
    Bits,
    /// `bool`.
    Bool,
    /// An enum with an underlying type.
    Enum,
}

/// One value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Kind.
    pub kind: MemberKind,
    /// Width in bits.
    pub width_bits: u32,
}

/// The layout of the data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DataShape {
    /// One bare value.
    Single(Member),
    /// The members of a tuple.
    Tuple(Vec<Member>),
    /// The members of a struct.
    Struct(Vec<Member>),
}

impl DataShape {
    /// The layout of a type; `owner` names its object in messages.
    ///
    /// # Errors
    /// `UNIMPLEMENTED` for types that this switch does not support in digests and registers; `INVALID_ARGUMENT` for an
    /// incomplete type.
    pub fn of(
        spec: Option<&P4DataTypeSpec>,
        types: Option<&P4TypeInfo>,
        owner: &str,
    ) -> Result<Self, Failure> {
        match spec.and_then(|s| s.type_spec.as_ref()) {
            Some(TypeSpec::Struct(named)) => {
                let Some(found) = types.and_then(|t| t.structs.get(&named.name)) else {
                    let message =
                        format!("P4Info: {owner}: struct {} is not in type_info", named.name);
                    return Err(Failure::invalid(message));
                };
                let members = found.members.iter();
                let members = members
                    .map(|m| member(m.type_spec.as_ref(), types, owner))
                    .collect::<Result<_, _>>();
                Ok(Self::Struct(members?))
            }
            Some(TypeSpec::Tuple(tuple)) => {
                let members = tuple.members.iter().map(|m| member(Some(m), types, owner));
                Ok(Self::Tuple(members.collect::<Result<_, _>>()?))
            }
            _ => Ok(Self::Single(member(spec, types, owner)?)),
        }
    }

    /// Its values in order.
    pub fn members(&self) -> &[Member] {
        match self {
            Self::Single(member) => std::slice::from_ref(member),
            Self::Tuple(members) | Self::Struct(members) => members,
        }
    }

    /// The data with these values, one per member, in canonical form.
    pub fn data(&self, values: &[Vec<u8>]) -> P4Data {
        let mut values = self
            .members()
            .iter()
            .zip(values)
            .map(|(member, value)| member.data(value));
        let data = match self {
            Self::Single(_) => return values.next().unwrap_or_default(),
            Self::Tuple(_) => Data::Tuple(P4StructLike {
                members: values.collect(),
            }),
            Self::Struct(_) => Data::Struct(P4StructLike {
                members: values.collect(),
            }),
        };
        P4Data { data: Some(data) }
    }
}

impl Member {
    fn data(self, value: &[u8]) -> P4Data {
        let data = match self.kind {
            MemberKind::Bits => Data::Bitstring(canonical(value)),
            MemberKind::Bool => Data::Bool(value.iter().any(|byte| *byte != 0)),
            MemberKind::Enum => Data::EnumValue(canonical(value)),
        };
        P4Data { data: Some(data) }
    }
}

fn member(
    spec: Option<&P4DataTypeSpec>,
    types: Option<&P4TypeInfo>,
    owner: &str,
) -> Result<Member, Failure> {
    let unsupported = |what: &str| {
        Err(Failure::unimplemented(format!(
            "P4Info: {owner}: a member of type {what}"
        )))
    };
    let width = |bits: i32| {
        let width = u32::try_from(bits).ok().filter(|bits| *bits > 0);
        width.ok_or_else(|| {
            Failure::invalid(format!(
                "P4Info: {owner}: a member has a width of {bits} bits"
            ))
        })
    };
    let missing =
        |name: &str| Failure::invalid(format!("P4Info: {owner}: type {name} is not in type_info"));
    match spec.and_then(|s| s.type_spec.as_ref()) {
        Some(TypeSpec::Bitstring(bits)) => match &bits.type_spec {
            Some(BitsSpec::Bit(bit)) => Ok(Member {
                kind: MemberKind::Bits,
                width_bits: width(bit.bitwidth)?,
            }),
            Some(BitsSpec::Int(_)) => unsupported("int<W>"),
            Some(BitsSpec::Varbit(_)) => unsupported("varbit<W>"),
            None => Err(Failure::invalid(format!(
                "P4Info: {owner}: a member's type is not set"
            ))),
        },
        Some(TypeSpec::Bool(_)) => Ok(Member {
            kind: MemberKind::Bool,
            width_bits: 1,
        }),
        Some(TypeSpec::SerializableEnum(named)) => {
            let found = types.and_then(|t| t.serializable_enums.get(&named.name));
            let underlying = found
                .and_then(|e| e.underlying_type)
                .ok_or_else(|| missing(&named.name))?;
            Ok(Member {
                kind: MemberKind::Enum,
                width_bits: width(underlying.bitwidth)?,
            })
        }
        Some(TypeSpec::NewType(named)) => {
            let found = types.and_then(|t| t.new_types.get(&named.name));
            match found.and_then(|t| t.representation.as_ref()) {
                // Without `types`, so that the recursion ends even for a malformed P4Info whose types refer to each other.
                Some(Representation::OriginalType(original)) => match &original.type_spec {
                    Some(TypeSpec::NewType(_)) => unsupported("a new type of a new type"),
                    _ => member(Some(original), None, owner),
                },
                Some(Representation::TranslatedType(_)) => unsupported("@p4runtime_translation"),
                None => Err(missing(&named.name)),
            }
        }
        Some(TypeSpec::Struct(_) | TypeSpec::Tuple(_)) => {
            unsupported("struct or tuple inside another one")
        }
        Some(TypeSpec::Header(_)) => unsupported("header"),
        Some(TypeSpec::HeaderUnion(_)) => unsupported("header_union"),
        Some(TypeSpec::HeaderStack(_) | TypeSpec::HeaderUnionStack(_)) => {
            unsupported("header stack")
        }
        Some(TypeSpec::Enum(_)) => unsupported("enum without an underlying type"),
        Some(TypeSpec::Error(_)) => unsupported("error"),
        None => Err(Failure::invalid(format!(
            "P4Info: {owner}: a member's type is not set"
        ))),
    }
}
