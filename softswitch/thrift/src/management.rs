// SPDX-License-Identifier: Apache-2.0
//! Calls on the switch as a whole: its ports, its program and state, and what weir-switch does not have.

use md5::{Digest, Md5};
use weir_dataplane::{CalculationId, CrcConfig, Program};
use weir_engine::engine::Core;
use weir_ports::Interface;

use crate::args::{Args, fields, structs, text};
use crate::dispatch::Answer;
use crate::refusal::Refusal;
use crate::state::Context;
use crate::wire::{Type, Value};

/// Code `ERROR` of `InvalidDevMgrOperation`.
const PORT_ERROR: Refusal = Refusal::Declared(1);
/// Code `NO_ONGOING_SWAP` of `InvalidSwapOperation`.
const NO_ONGOING_SWAP: Refusal = Refusal::Declared(3);
/// Codes of `InvalidCrcOperation`.
const INVALID_CALCULATION: Refusal = Refusal::Declared(1);
const WRONG_CALCULATION: Refusal = Refusal::Declared(2);
const INVALID_CRC: Refusal = Refusal::Declared(3);
/// Codes of `InvalidLearnOperation`.
const INVALID_LIST_ID: Refusal = Refusal::Declared(1);
const LEARNING_ERROR: Refusal = Refusal::Declared(3);
/// Codes of `InvalidIdLookup`.
const INVALID_RESOURCE_TYPE: Refusal = Refusal::Declared(0);
const INVALID_RESOURCE_NAME: Refusal = Refusal::Declared(1);

pub(crate) fn show_ports(context: &mut Context<'_>, _: Args<'_>) -> Answer {
    let mut ports: Vec<(u32, Value)> = context
        .core
        .interfaces
        .iter()
        .map(|port| {
            let none = Value::Map(Type::Binary, Type::Binary, Vec::new());
            let info = fields([
                (1, Value::I32(port.number().cast_signed())),
                (2, text(port.name())),
                (3, Value::Bool(port.is_up())),
                (4, none),
            ]);
            (port.number(), info)
        })
        .collect();
    ports.sort_by_key(|(number, _)| *number);
    Ok(Some(structs(ports.into_iter().map(|(_, info)| info))))
}

/// Number and interface of a port to add, if there is room for it.
pub(crate) fn new_port(core: &Core, args: Args<'_>) -> Result<(u32, String), Refusal> {
    let (name, number) = (args.text(1)?, args.i32(2)?);
    let number = u32::try_from(number).map_err(|_| PORT_ERROR)?;
    let mut interfaces = core.interfaces.iter();
    let taken = interfaces.any(|port| port.number() == number || port.name() == name);
    if taken || core.node.refuses_port(number).is_some() {
        return Err(PORT_ERROR);
    }
    Ok((number, name.to_owned()))
}

/// Adds the port of an interface that was opened.
pub(crate) fn add_port(context: &mut Context<'_>, args: Args<'_>, interface: Interface) -> Answer {
    // Another client may have added one meanwhile.
    let (number, _) = new_port(context.core, args)?;
    let now_ns = context.core.now_ns;
    let config = weir_dataplane::PortConfig::default();
    let set = context.core.node.set_link(number, config, now_ns);
    set.map_err(|_| PORT_ERROR)?;
    context.core.interfaces.push(interface);
    Ok(None)
}

/// Removes a port; its interface, to be closed on another thread.
pub(crate) fn remove_port(context: &mut Context<'_>, args: Args<'_>) -> Result<Interface, Refusal> {
    let number = u32::try_from(args.i32(1)?).map_err(|_| PORT_ERROR)?;
    let mut interfaces = context.core.interfaces.iter();
    let at = interfaces.position(|port| port.number() == number);
    let at = at.ok_or(PORT_ERROR)?;
    context.core.node.remove_port(number);
    Ok(context.core.interfaces.remove(at))
}

/// bmv2's error for a port that cannot be opened.
pub(crate) fn port_error() -> Refusal {
    PORT_ERROR
}

pub(crate) fn reset_state(context: &mut Context<'_>, _: Args<'_>) -> Answer {
    context.core.node.reset_state();
    context.state.tables.clear();
    context.state.profiles.clear();
    context.state.multicast.reset();
    if let Some(switch) = context.core.node.switch_mut() {
        context.state.multicast.rewrite_sessions(switch)?;
    }
    Ok(None)
}

/// Keeps a program for the next swap.
pub(crate) fn keep(context: &mut Context<'_>, loaded: Box<(Program, Vec<u8>)>) {
    context.state.loaded = Some(loaded);
}

pub(crate) fn swap(context: &mut Context<'_>, _: Args<'_>) -> Answer {
    let loaded = context.state.loaded.take().ok_or(NO_ONGOING_SWAP)?;
    let (program, json) = *loaded;
    let now_ns = context.core.now_ns;
    let run = context.core.node.run_source(program, json, now_ns);
    run.map_err(|failure| Refusal::unsupported(failure.to_string()))?;
    Ok(None)
}

pub(crate) fn config(source: &[u8], _: Args<'_>) -> Answer {
    Ok(Some(Value::Binary(source.to_vec())))
}

pub(crate) fn config_md5(source: &[u8], _: Args<'_>) -> Answer {
    Ok(Some(Value::Binary(Md5::digest(source).to_vec())))
}

/// The objects of a kind in the program's JSON.
fn objects(source: &[u8], pipelines: bool, key: &str) -> Vec<serde_json::Value> {
    let json: serde_json::Value = serde_json::from_slice(source).unwrap_or_default();
    let within = |value: &serde_json::Value| value.get(key).and_then(|v| v.as_array().cloned());
    if !pipelines {
        return within(&json).unwrap_or_default();
    }
    let pipelines = json.get("pipelines").and_then(|v| v.as_array().cloned());
    let pipelines = pipelines.unwrap_or_default();
    pipelines.iter().filter_map(within).flatten().collect()
}

fn named(objects: Vec<serde_json::Value>, name: &str) -> Option<serde_json::Value> {
    let is_named = |object: &serde_json::Value| object.get("name").is_some_and(|v| v == name);
    objects.into_iter().find(is_named)
}

pub(crate) fn id_from_name(source: &[u8], args: Args<'_>) -> Answer {
    let found = match args.i32(2)? {
        0 => objects(source, true, "tables"),
        1 => objects(source, true, "action_profiles"),
        2 => objects(source, false, "counter_arrays"),
        3 => objects(source, false, "meter_arrays"),
        4 => objects(source, false, "register_arrays"),
        5 => objects(source, false, "learn_lists"),
        _ => return Err(INVALID_RESOURCE_TYPE),
    };
    let found = named(found, args.text(3)?).ok_or(INVALID_RESOURCE_NAME)?;
    let id = found.get("id").and_then(serde_json::Value::as_i64);
    let id = id
        .and_then(|id| i32::try_from(id).ok())
        .ok_or(INVALID_RESOURCE_NAME)?;
    Ok(Some(Value::I32(id)))
}

/// The calculation that argument 2 names, if it is of this algorithm.
fn calculation(
    context: &Context<'_>,
    args: Args<'_>,
    algorithm: &str,
) -> Result<CalculationId, Refusal> {
    let info = context.switch(INVALID_CALCULATION)?.info();
    let id = info.calculation(args.text(2)?).ok_or(INVALID_CALCULATION)?;
    let found = info.calculations.get(id.index());
    let is_wanted = found.is_some_and(|calculation| calculation.algorithm == algorithm);
    is_wanted.then_some(id).ok_or(WRONG_CALCULATION)
}

fn set_crc(
    context: &mut Context<'_>,
    args: Args<'_>,
    algorithm: &str,
    number: impl Fn(Args<'_>, i16) -> Result<u32, Refusal>,
) -> Answer {
    let id = calculation(context, args, algorithm)?;
    let given = args.fields(3)?;
    let config = CrcConfig {
        polynomial: number(given, 1)?,
        initial: number(given, 2)?,
        final_xor: number(given, 3)?,
        data_reflected: given.bool(4)?,
        remainder_reflected: given.bool(5)?,
    };
    let set = context
        .switch_mut(INVALID_CALCULATION)?
        .set_custom_crc(id, config);
    set.map_err(|_| INVALID_CRC)?;
    Ok(None)
}

pub(crate) fn set_crc16(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let number = |given: Args<'_>, id| Ok(u32::from(given.i16(id)?.cast_unsigned()));
    set_crc(context, args, "crc16_custom", number)
}

pub(crate) fn set_crc32(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let number = |given: Args<'_>, id| Ok(given.i32(id)?.cast_unsigned());
    set_crc(context, args, "crc32_custom", number)
}

/// weir-switch has no Toeplitz hash, so no calculation is one.
pub(crate) fn set_toeplitz(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    calculation(context, args, "toeplitz")?;
    Err(WRONG_CALCULATION)
}

pub(crate) fn learning_ack(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let samples = args.i32s(4)?;
    acknowledge(context, args, Some(&samples))
}

pub(crate) fn learning_ack_buffer(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    acknowledge(context, args, None)
}

fn acknowledge(context: &mut Context<'_>, args: Args<'_>, samples: Option<&[i32]>) -> Answer {
    let (list, buffer) = (args.i32(2)?, args.i64(3)?.cast_unsigned());
    let node = &mut context.core.node;
    let known = node.acknowledge_learning(list, buffer, samples);
    known.then_some(None).ok_or(INVALID_LIST_ID)
}

pub(crate) fn learning_timeout(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    configure(context, args, None, Some(args.i32(3)?))
}

pub(crate) fn learning_size(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    configure(context, args, Some(args.i32(3)?), None)
}

fn configure(
    context: &mut Context<'_>,
    args: Args<'_>,
    samples: Option<i32>,
    timeout_ms: Option<i32>,
) -> Answer {
    let node = &mut context.core.node;
    match node.configure_learning(args.i32(2)?, samples, timeout_ms) {
        None => Err(INVALID_LIST_ID),
        Some(false) => Err(LEARNING_ERROR),
        Some(true) => Ok(None),
    }
}

pub(crate) fn serialize(_: &mut Context<'_>, _: Args<'_>) -> Answer {
    Err(Refusal::unsupported(
        "weir-switch does not write its state to a file",
    ))
}
