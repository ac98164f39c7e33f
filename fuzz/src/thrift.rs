// SPDX-License-Identifier: Apache-2.0
//! Calls of bmv2's Thrift services, plausible and not, between frames. Each call gets one reply that can be read.

use crate::choices::Choices;
use weir_dataplane::ProgramInfo;
use weir_engine::engine::{Core, Stopped};
use weir_ports::{Interface, OpenError};
use weir_thrift::wire::{self, Kind, Limits, Message, Struct, Type, Value};
use weir_thrift::{Backend, Identity, State, answer, methods};

use crate::corpus::Corpus;
use crate::requests::{PORTS, with_pipeline};
use crate::{bytes, packets};

const STEPS: usize = 100;

struct Local<'a> {
    state: &'a mut State,
    core: &'a mut Core,
}

impl Backend for Local<'_> {
    fn run<R: Send + 'static>(
        &mut self,
        operation: impl FnOnce(&mut State, &mut Core) -> R + Send + 'static,
    ) -> Result<R, Stopped> {
        Ok(operation(self.state, self.core))
    }

    fn open(&mut self, _: u32, interface: &str) -> Result<Interface, OpenError> {
        Err(OpenError::Missing {
            interface: interface.to_owned(),
        })
    }
}

/// Runs one switch with a pipeline. True: it accepted some of the calls that change something.
pub fn run(corpus: &Corpus, random: &mut Choices<'_>) -> Result<bool, String> {
    let Some((mut switch, _, _)) = with_pipeline(corpus, random)? else {
        return Ok(false);
    };
    let names: Vec<String> = methods().collect();
    let mut state = State::default();
    let mut accepted = false;
    for _ in 0..random.usize(1..STEPS) {
        let core = &mut switch.dataplane.core;
        if random.u8(..4) > 0 {
            let info = core.node.switch().map(|switch| switch.info().clone());
            let name = random.choice(&names).map_or("", String::as_str);
            let mut local = Local {
                state: &mut state,
                core,
            };
            accepted |= call(name, &info.unwrap_or_default(), random, &mut local)?;
        } else {
            let at_ns = switch
                .dataplane
                .now_ns()
                .saturating_add(random.u64(..100_000));
            let frame = packets::frame(random);
            let received = switch.dataplane.receive(random.u32(PORTS), &frame, at_ns);
            received.map_err(|error| error.to_string())?;
        }
        switch.dataplane.take_events();
    }
    Ok(accepted)
}

/// Makes one call. True: it was accepted.
fn call(
    name: &str,
    info: &ProgramInfo,
    random: &mut Choices<'_>,
    switch: &mut Local<'_>,
) -> Result<bool, String> {
    let call = Message {
        kind: Kind::Call,
        name: name.to_owned(),
        sequence: random.i32(..),
        body: arguments(info, random),
    };
    let mut given = wire::write(&call);
    if random.u8(..8) == 0 {
        bytes::mutate(random, &mut given);
    }
    let Ok(Some(call)) = wire::read(&mut given.as_slice(), Limits::default()) else {
        return Ok(false);
    };
    let (kind, sequence) = (call.kind, call.sequence);
    let reply = answer(call, &Identity::default(), switch);
    let Some(reply) = reply else {
        return match kind {
            Kind::Oneway => Ok(false),
            _ => Err(format!("{name}: no reply")),
        };
    };
    let sent = wire::write(&reply);
    let read = wire::read(&mut sent.as_slice(), Limits::default());
    let read = read.map_err(|error| format!("{name}: the reply is malformed: {error}"))?;
    if read.is_none_or(|read| read.sequence != sequence) {
        return Err(format!("{name}: the reply is of another call"));
    }
    Ok(reply.kind == Kind::Reply && reply.body.get(1).is_none())
}

/// Arguments as most methods have them: a context, a name, and others.
fn arguments(info: &ProgramInfo, random: &mut Choices<'_>) -> Struct {
    let mut fields = vec![(1, Value::I32(random.i32(0..4))), (2, name(info, random))];
    if random.u8(..4) == 0 {
        fields[1].1 = value(info, random);
    }
    for id in 3..random.i16(3..8) {
        fields.push((id, value(info, random)));
    }
    Struct(fields)
}

fn name(info: &ProgramInfo, random: &mut Choices<'_>) -> Value {
    let named: [Vec<&String>; 7] = [
        info.tables.iter().map(|o| &o.name).collect(),
        info.actions.iter().map(|o| &o.name).collect(),
        info.meters.iter().map(|o| &o.name).collect(),
        info.counters.iter().map(|o| &o.name).collect(),
        info.registers.iter().map(|o| &o.name).collect(),
        info.profiles.iter().map(|o| &o.name).collect(),
        info.value_sets.iter().map(|o| &o.name).collect(),
    ];
    let names = random.choice(&named).map_or(&[][..], Vec::as_slice);
    let chosen = random.choice(names).map_or("", |name| name.as_str());
    Value::Binary(chosen.as_bytes().to_vec())
}

fn value(info: &ProgramInfo, random: &mut Choices<'_>) -> Value {
    match random.u8(..10) {
        0..3 => Value::I32(
            random
                .choice([0, 1, 2, 3, 1 << 24, -1, i32::MAX])
                .unwrap_or(0),
        ),
        3 => name(info, random),
        4 => Value::I64(random.i64(..) >> random.u8(..64)),
        5 => Value::List(
            Type::Struct,
            (0..random.u8(..4)).map(|_| param(random)).collect(),
        ),
        6 => {
            let data = (0..random.u8(..4)).map(|_| Value::Binary(bytes::random(random, 20)));
            Value::List(Type::Binary, data.collect())
        }
        7 => Value::Struct(Struct(vec![(1, Value::I32(random.i32(-1..20)))])),
        8 => Value::Binary(
            random
                .choice([&b"0101"[..], b"", b"1", b"x"])
                .unwrap_or(b"")
                .to_vec(),
        ),
        _ => rates(random),
    }
}

fn rates(random: &mut Choices<'_>) -> Value {
    let rate = |random: &mut Choices<'_>| {
        let rate = random.choice([0.0, 1e-6, 1.0, 1e9, -1.0, f64::NAN, f64::INFINITY]);
        let burst = Value::I32(random.choice([0, 1, 1500, -1, i32::MAX]).unwrap_or(0));
        Value::Struct(Struct(vec![
            (1, Value::Double(rate.unwrap_or(0.0))),
            (2, burst),
        ]))
    };
    Value::List(
        Type::Struct,
        (0..random.u8(..4)).map(|_| rate(random)).collect(),
    )
}

/// A match of one field, of a type that the field may have.
fn param(random: &mut Choices<'_>) -> Value {
    let kind = random.i32(0..6);
    let length = random.usize(..17);
    let word = |random: &mut Choices<'_>| {
        let mut bytes = vec![0; length];
        random.fill(&mut bytes);
        Value::Binary(bytes)
    };
    let second = match kind {
        1 => Value::I32(random.i32(-1..130)),
        _ => word(random),
    };
    let first = match kind {
        3 => Value::Bool(random.bool()),
        _ => word(random),
    };
    let inner = Value::Struct(Struct(vec![(1, first), (2, second)]));
    let id = i16::try_from(kind + 2).unwrap_or(2);
    Value::Struct(Struct(vec![(1, Value::I32(kind)), (id, inner)]))
}
