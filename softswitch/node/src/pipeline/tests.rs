// SPDX-License-Identifier: Apache-2.0
use tonic::Code;
use weir_p4runtime::p4::config::v1::p4_bitstring_like_type_spec::TypeSpec as BitsSpec;
use weir_p4runtime::p4::config::v1::p4_data_type_spec::TypeSpec;
use weir_p4runtime::p4::config::v1::p4_new_type_spec::Representation;
use weir_p4runtime::p4::config::v1::{
    P4BitTypeSpec, P4BitstringLikeTypeSpec, P4BoolType, P4DataTypeSpec, P4NamedType, P4NewTypeSpec,
    P4SerializableEnumTypeSpec, P4StructTypeSpec, P4TupleTypeSpec, P4TypeInfo, p4_struct_type_spec,
};
use weir_p4runtime::p4::v1::p4_data::Data;
use weir_p4runtime::p4::v1::{P4Data, P4StructLike};

use super::*;

fn spec(type_spec: TypeSpec) -> P4DataTypeSpec {
    P4DataTypeSpec {
        type_spec: Some(type_spec),
    }
}

fn bits(width: i32) -> P4DataTypeSpec {
    let bit = BitsSpec::Bit(P4BitTypeSpec { bitwidth: width });
    spec(TypeSpec::Bitstring(P4BitstringLikeTypeSpec {
        type_spec: Some(bit),
        ..Default::default()
    }))
}

fn named(name: &str) -> P4NamedType {
    P4NamedType {
        name: name.to_owned(),
    }
}

fn new_type(original: P4DataTypeSpec) -> P4NewTypeSpec {
    P4NewTypeSpec {
        representation: Some(Representation::OriginalType(original)),
        ..Default::default()
    }
}

/// `enum bit<4> kind_t`, `type bit<9> port_t`, `type port_t alias_t`, `struct s { bit<48>; bool; kind_t; port_t }`.
fn types() -> P4TypeInfo {
    let mut types = P4TypeInfo::default();
    let underlying_type = Some(P4BitTypeSpec { bitwidth: 4 });
    let kind = P4SerializableEnumTypeSpec {
        underlying_type,
        ..Default::default()
    };
    types.serializable_enums.insert("kind_t".to_owned(), kind);
    types
        .new_types
        .insert("port_t".to_owned(), new_type(bits(9)));
    types.new_types.insert(
        "alias_t".to_owned(),
        new_type(spec(TypeSpec::NewType(named("port_t")))),
    );
    types.new_types.insert(
        "loop_t".to_owned(),
        new_type(spec(TypeSpec::NewType(named("loop_t")))),
    );
    let members = [
        bits(48),
        spec(TypeSpec::Bool(P4BoolType {})),
        spec(TypeSpec::SerializableEnum(named("kind_t"))),
        spec(TypeSpec::NewType(named("port_t"))),
    ];
    let members = members
        .into_iter()
        .map(|member| p4_struct_type_spec::Member {
            name: String::new(),
            type_spec: Some(member),
        });
    let all = P4StructTypeSpec {
        members: members.collect(),
        ..Default::default()
    };
    types.structs.insert("s".to_owned(), all);
    types
}

fn shape(spec: &P4DataTypeSpec) -> Result<DataShape, Failure> {
    DataShape::of(Some(spec), Some(&types()), "digest d")
}

fn data(data: Data) -> P4Data {
    P4Data { data: Some(data) }
}

#[test]
fn a_struct_travels_with_each_member_in_its_own_kind() {
    let shape = shape(&spec(TypeSpec::Struct(named("s")))).unwrap();
    let widths: Vec<u32> = shape
        .members()
        .iter()
        .map(|member| member.width_bits)
        .collect();
    assert_eq!(widths, [48, 1, 4, 9]);
    let values = [vec![0, 0, 0, 0, 1, 2], vec![1], vec![3], vec![1, 0xFE]];
    let members = vec![
        data(Data::Bitstring(vec![1, 2])),
        data(Data::Bool(true)),
        data(Data::EnumValue(vec![3])),
        data(Data::Bitstring(vec![1, 0xFE])),
    ];
    assert_eq!(
        shape.data(&values),
        data(Data::Struct(P4StructLike { members }))
    );
}

#[test]
fn a_tuple_and_a_bare_value_travel_as_such() {
    let tuple = shape(&spec(TypeSpec::Tuple(P4TupleTypeSpec {
        members: vec![bits(8)],
    })))
    .unwrap();
    let members = vec![data(Data::Bitstring(vec![7]))];
    assert_eq!(
        tuple.data(&[vec![7]]),
        data(Data::Tuple(P4StructLike { members }))
    );
    assert_eq!(
        shape(&bits(16)).unwrap().data(&[vec![0, 7]]),
        data(Data::Bitstring(vec![7]))
    );
}

#[test]
fn types_that_cannot_be_served_are_named() {
    let nested = spec(TypeSpec::Tuple(P4TupleTypeSpec {
        members: vec![spec(TypeSpec::Struct(named("s")))],
    }));
    for (spec, code, text) in [
        (
            nested,
            Code::Unimplemented,
            "struct or tuple inside another one",
        ),
        (
            spec(TypeSpec::Header(named("h"))),
            Code::Unimplemented,
            "a member of type header",
        ),
        (
            spec(TypeSpec::NewType(named("alias_t"))),
            Code::Unimplemented,
            "a new type of a new type",
        ),
        (
            spec(TypeSpec::NewType(named("loop_t"))),
            Code::Unimplemented,
            "a new type of a new type",
        ),
        (
            spec(TypeSpec::NewType(named("absent_t"))),
            Code::InvalidArgument,
            "type absent_t is not in type_info",
        ),
        (
            spec(TypeSpec::Struct(named("absent"))),
            Code::InvalidArgument,
            "struct absent is not in type_info",
        ),
        (bits(0), Code::InvalidArgument, "a width of 0 bits"),
        (bits(-1), Code::InvalidArgument, "a width of -1 bits"),
        (
            P4DataTypeSpec::default(),
            Code::InvalidArgument,
            "type is not set",
        ),
    ] {
        let failure = shape(&spec).unwrap_err();
        assert!(failure.message.contains("digest d"), "{}", failure.message);
        assert!(
            failure.message.contains(text),
            "expected `{text}` in `{}`",
            failure.message
        );
        assert_eq!(failure.code, code);
    }
}
