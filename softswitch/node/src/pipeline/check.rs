// SPDX-License-Identifier: Apache-2.0
//! Compares a P4Info with the program, object by object, by name; `check_tables` does so for tables and actions.

use std::collections::{BTreeMap, BTreeSet};

use weir_dataplane::{
    CounterId, CounterInfo, MeterId, MeterInfo, MeterUnit, ProgramInfo, RegisterId,
};
use weir_p4runtime::p4::config::v1::controller_packet_metadata::Metadata;
use weir_p4runtime::p4::config::v1::meter_spec::{Type as MeterType, Unit};
use weir_p4runtime::p4::config::v1::{
    Counter, Digest, Meter, MeterSpec, P4Info, Preamble, Register,
};
use weir_p4runtime::preambles;

use super::types::DataShape;
use super::views::{ArrayView, DigestView, MetadataView};
use crate::failure::{Failure, listed};

pub(super) fn named(preamble: Option<&Preamble>) -> Result<(u32, &str), Failure> {
    match preamble {
        Some(p) if p.id != 0 && !p.name.is_empty() => Ok((p.id, &p.name)),
        _ => Err(Failure::invalid(
            "P4Info: an object has no preamble with id and name",
        )),
    }
}

pub(super) fn absent<'a>(kind: &str, name: &str, known: impl Iterator<Item = &'a str>) -> Failure {
    let known = listed(known);
    Failure::invalid(format!(
        "P4Info: {kind} {name} is not in the program; its {kind}s are {known}"
    ))
}

/// The objects of one kind that the program declares.
pub(super) struct Declared<'a, T> {
    pub(super) kind: &'static str,
    pub(super) objects: &'a [T],
    pub(super) name: fn(&T) -> &str,
}

impl<'a, T> Declared<'a, T> {
    /// The object called `name`; `found` is the program's id for that name, with its index.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT`, with the names of the objects, when there is none.
    pub(super) fn find<Id>(
        &self,
        name: &str,
        found: Option<(Id, u32)>,
    ) -> Result<(Id, &'a T), Failure> {
        found
            .and_then(|(id, index)| Some((id, self.objects.get(index as usize)?)))
            .ok_or_else(|| absent(self.kind, name, self.objects.iter().map(self.name)))
    }
}

pub(super) fn mismatch(
    place: &str,
    what: &str,
    p4info: impl std::fmt::Display,
    program: impl std::fmt::Display,
) -> Failure {
    Failure::invalid(format!(
        "P4Info: {place}: {what} is {p4info}, in the program it is {program}"
    ))
}

/// Refuses objects that this switch does not support when they are declared, not when they are first used.
pub fn refuse_unsupported(p4info: &P4Info) -> Result<(), Failure> {
    let refuse = |kind: &str, preamble: Option<&Preamble>| {
        let name = preamble.map_or("", |p| &p.name);
        Err(Failure::unimplemented(format!("P4Info: {kind} {name}")))
    };
    if let Some(instance) = p4info.externs.iter().flat_map(|e| &e.instances).next() {
        return refuse("extern", instance.preamble.as_ref());
    }
    Ok(())
}

pub fn refuse_repeated_ids(p4info: &P4Info) -> Result<(), Failure> {
    let mut seen = BTreeSet::new();
    for preamble in preambles(p4info) {
        let (id, name) = named(preamble)?;
        if !seen.insert(id) {
            return Err(Failure::invalid(format!(
                "P4Info: id {id} of {name} is used twice"
            )));
        }
    }
    Ok(())
}

pub(super) fn meter_type(spec: Option<&MeterSpec>) -> MeterType {
    spec.and_then(|s| MeterType::try_from(s.r#type).ok())
        .unwrap_or(MeterType::TwoRateThreeColor)
}

fn check_size(place: &str, p4info: i64, program: u64) -> Result<(), Failure> {
    if u64::try_from(p4info) == Ok(program) {
        Ok(())
    } else {
        Err(mismatch(place, "the size", p4info, program))
    }
}

pub fn meters(
    p4info: &P4Info,
    program: &ProgramInfo,
) -> Result<BTreeMap<u32, ArrayView<MeterId, MeterType>>, Failure> {
    let declared = Declared {
        kind: "meter",
        objects: &program.meters,
        name: |meter: &MeterInfo| &meter.name,
    };
    let find = |name: &str| declared.find(name, program.meter(name).map(|id| (id, id.0)));
    let check_unit = |name: &str, spec: Option<&MeterSpec>, unit: MeterUnit| {
        let (p4info, program) = (spec.map_or(0, |s| s.unit), unit_of(unit) as i32);
        if p4info == program {
            Ok(())
        } else {
            Err(mismatch(
                &format!("meter {name}"),
                "the unit",
                p4info,
                program,
            ))
        }
    };
    for direct in &p4info.direct_meters {
        let (_, name) = named(direct.preamble.as_ref())?;
        let (_, info) = find(name)?;
        check_unit(name, direct.spec.as_ref(), info.unit)?;
    }
    let view = |meter: &Meter| {
        let (p4info_id, name) = named(meter.preamble.as_ref())?;
        let (id, info) = find(name)?;
        check_size(&format!("meter {name}"), meter.size, info.size)?;
        check_unit(name, meter.spec.as_ref(), info.unit)?;
        let extra = meter_type(meter.spec.as_ref());
        Ok((
            p4info_id,
            ArrayView {
                id,
                name: name.to_owned(),
                size: info.size,
                extra,
            },
        ))
    };
    p4info.meters.iter().map(view).collect()
}

fn unit_of(unit: MeterUnit) -> Unit {
    match unit {
        MeterUnit::Bytes => Unit::Bytes,
        MeterUnit::Packets => Unit::Packets,
    }
}

pub fn counters(
    p4info: &P4Info,
    program: &ProgramInfo,
) -> Result<BTreeMap<u32, ArrayView<CounterId, ()>>, Failure> {
    let declared = Declared {
        kind: "counter",
        objects: &program.counters,
        name: |counter: &CounterInfo| &counter.name,
    };
    let find = |name: &str| declared.find(name, program.counter(name).map(|id| (id, id.0)));
    for direct in &p4info.direct_counters {
        let (_, name) = named(direct.preamble.as_ref())?;
        find(name)?;
    }
    let view = |counter: &Counter| {
        let (p4info_id, name) = named(counter.preamble.as_ref())?;
        let (id, info) = find(name)?;
        check_size(&format!("counter {name}"), counter.size, info.size)?;
        Ok((
            p4info_id,
            ArrayView {
                id,
                name: name.to_owned(),
                size: info.size,
                extra: (),
            },
        ))
    };
    p4info.counters.iter().map(view).collect()
}

pub fn registers(
    p4info: &P4Info,
    program: &ProgramInfo,
) -> Result<BTreeMap<u32, ArrayView<RegisterId, DataShape>>, Failure> {
    let declared = Declared {
        kind: "register",
        objects: &program.registers,
        name: |register| &register.name,
    };
    let view = |register: &Register| {
        let (p4info_id, name) = named(register.preamble.as_ref())?;
        let (id, info) = declared.find(name, program.register(name).map(|id| (id, id.0)))?;
        let place = format!("register {name}");
        check_size(&place, i64::from(register.size), info.size)?;
        let shape = DataShape::of(
            register.type_spec.as_ref(),
            p4info.type_info.as_ref(),
            &place,
        )?;
        let bits: u32 = shape.members().iter().map(|m| m.width_bits).sum();
        if bits != info.width_bits {
            return Err(mismatch(&place, "the width in bits", bits, info.width_bits));
        }
        Ok((
            p4info_id,
            ArrayView {
                id,
                name: name.to_owned(),
                size: info.size,
                extra: shape,
            },
        ))
    };
    p4info.registers.iter().map(view).collect()
}

pub fn digests(
    p4info: &P4Info,
    program: &ProgramInfo,
) -> Result<BTreeMap<u32, DigestView>, Failure> {
    let declared = Declared {
        kind: "digest",
        objects: &program.digests,
        name: |digest| &digest.name,
    };
    let view = |digest: &Digest| {
        let (p4info_id, name) = named(digest.preamble.as_ref())?;
        let (id, info) = declared.find(name, program.digest(name).map(|id| (id, id.0)))?;
        let place = format!("digest {name}");
        let shape = DataShape::of(digest.type_spec.as_ref(), p4info.type_info.as_ref(), &place)?;
        let described: Vec<u32> = shape.members().iter().map(|m| m.width_bits).collect();
        let actual: Vec<u32> = info.fields.iter().map(|f| f.width_bits).collect();
        if described != actual {
            return Err(mismatch(
                &place,
                "the widths of its members",
                format!("{described:?}"),
                format!("{actual:?}"),
            ));
        }
        Ok((
            p4info_id,
            DigestView {
                p4info_id,
                id,
                name: name.to_owned(),
                shape,
            },
        ))
    };
    p4info.digests.iter().map(view).collect()
}

pub fn controller_header(
    p4info: &P4Info,
    kind: &str,
) -> Result<Option<Vec<MetadataView>>, Failure> {
    let declared = p4info.controller_packet_metadata.iter();
    let Some(header) = declared
        .clone()
        .find(|m| m.preamble.as_ref().is_some_and(|p| p.name == kind))
    else {
        return Ok(None);
    };
    let view = |metadata: &Metadata| -> Result<MetadataView, Failure> {
        let place = format!("P4Info: {kind}: metadata {}", metadata.name);
        let width_bits = u32::try_from(metadata.bitwidth)
            .ok()
            .filter(|bits| *bits > 0);
        Ok(MetadataView {
            id: metadata.id,
            name: metadata.name.clone(),
            // Only a type that is translated to a string has no width.
            width_bits: width_bits.ok_or_else(|| {
                Failure::unimplemented(format!("{place}: @p4runtime_translation to a string"))
            })?,
            padding: metadata
                .annotations
                .iter()
                .any(|a| a.starts_with("@padding")),
        })
    };
    let fields: Vec<MetadataView> = header.metadata.iter().map(view).collect::<Result<_, _>>()?;
    let bits: u64 = fields.iter().map(|f| u64::from(f.width_bits)).sum();
    if !bits.is_multiple_of(8) {
        let message =
            format!("P4Info: {kind}: its metadata has {bits} bits; a header is whole bytes");
        return Err(Failure::invalid(message));
    }
    Ok(Some(fields))
}
