// SPDX-License-Identifier: Apache-2.0
//! Holds a P4Info against the program, object by object, by name; tables are in `check_tables`.

use std::collections::{BTreeMap, BTreeSet};

use weir_dataplane::{CounterId, MeterId, MeterUnit, ProgramInfo, RegisterId};
use weir_p4runtime::p4::config::v1::controller_packet_metadata::Metadata;
use weir_p4runtime::p4::config::v1::meter_spec::{Type as MeterType, Unit};
use weir_p4runtime::p4::config::v1::{
    Counter, Digest, Meter, MeterSpec, P4Info, Preamble, Register,
};

use super::{ArrayView, DataShape, DigestView, MetadataView};
use crate::node::failure::{Failure, listed};

pub(super) fn named(preamble: Option<&Preamble>) -> Result<(u32, &str), Failure> {
    match preamble {
        Some(p) if p.id != 0 && !p.name.is_empty() => Ok((p.id, &p.name)),
        _ => Err(Failure::invalid(
            "P4Info: an object has no preamble with id and name",
        )),
    }
}

pub(super) fn absent<'a>(kind: &str, name: &str, there: impl Iterator<Item = &'a str>) -> Failure {
    let there = listed(there);
    Failure::invalid(format!(
        "P4Info: {kind} {name} is not in the program; its {kind}s are {there}"
    ))
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

/// What this switch cannot do is refused when it is declared, not when it is first used.
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
    let preambles = p4info
        .tables
        .iter()
        .map(|o| &o.preamble)
        .chain(p4info.actions.iter().map(|o| &o.preamble))
        .chain(p4info.meters.iter().map(|o| &o.preamble))
        .chain(p4info.direct_meters.iter().map(|o| &o.preamble))
        .chain(p4info.counters.iter().map(|o| &o.preamble))
        .chain(p4info.direct_counters.iter().map(|o| &o.preamble))
        .chain(p4info.registers.iter().map(|o| &o.preamble))
        .chain(p4info.digests.iter().map(|o| &o.preamble))
        .chain(p4info.action_profiles.iter().map(|o| &o.preamble))
        .chain(p4info.value_sets.iter().map(|o| &o.preamble));
    for preamble in preambles {
        let (id, name) = named(preamble.as_ref())?;
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
    let names = || program.meters.iter().map(|m| m.name.as_str());
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
        let id = program
            .meter(name)
            .ok_or_else(|| absent("meter", name, names()))?;
        if let Some(info) = program.meters.get(id.0 as usize) {
            check_unit(name, direct.spec.as_ref(), info.unit)?;
        }
    }
    let view = |meter: &Meter| {
        let (p4info_id, name) = named(meter.preamble.as_ref())?;
        let id = program
            .meter(name)
            .ok_or_else(|| absent("meter", name, names()))?;
        let info = program
            .meters
            .get(id.0 as usize)
            .ok_or_else(|| absent("meter", name, names()))?;
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
    let names = || program.counters.iter().map(|c| c.name.as_str());
    for direct in &p4info.direct_counters {
        let (_, name) = named(direct.preamble.as_ref())?;
        program
            .counter(name)
            .ok_or_else(|| absent("counter", name, names()))?;
    }
    let view = |counter: &Counter| {
        let (p4info_id, name) = named(counter.preamble.as_ref())?;
        let id = program
            .counter(name)
            .ok_or_else(|| absent("counter", name, names()))?;
        let size = program
            .counters
            .get(id.0 as usize)
            .map_or(0, |info| info.size);
        check_size(&format!("counter {name}"), counter.size, size)?;
        Ok((
            p4info_id,
            ArrayView {
                id,
                name: name.to_owned(),
                size,
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
    let names = || program.registers.iter().map(|r| r.name.as_str());
    let view = |register: &Register| {
        let (p4info_id, name) = named(register.preamble.as_ref())?;
        let id = program
            .register(name)
            .ok_or_else(|| absent("register", name, names()))?;
        let info = program
            .registers
            .get(id.0 as usize)
            .ok_or_else(|| absent("register", name, names()))?;
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
    let names = || program.digests.iter().map(|d| d.name.as_str());
    let view = |digest: &Digest| {
        let (p4info_id, name) = named(digest.preamble.as_ref())?;
        let id = program
            .digest(name)
            .ok_or_else(|| absent("digest", name, names()))?;
        let place = format!("digest {name}");
        let shape = DataShape::of(digest.type_spec.as_ref(), p4info.type_info.as_ref(), &place)?;
        let there: Vec<u32> = shape.members().iter().map(|m| m.width_bits).collect();
        let known = program
            .digests
            .get(id.0 as usize)
            .map_or(&[][..], |d| &d.fields);
        let known: Vec<u32> = known.iter().map(|f| f.width_bits).collect();
        if there != known {
            return Err(mismatch(
                &place,
                "the widths of its members",
                format!("{there:?}"),
                format!("{known:?}"),
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
            // Only a translated type has no width here.
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
