// SPDX-License-Identifier: Apache-2.0
//! Which step of a program each byte of its machine code belongs to. Nothing here allocates once it is made, so that a
//! signal handler can look places up.

use crate::info::ProgramInfo;
use crate::ir::{Ir, Step};
use cranelift_codegen::CompiledCode;

/// Bit of a source location: it is a state of the parser, not a step of a pipeline.
pub(super) const STATE: u32 = 1 << 30;

/// The name of the function that parses a packet and runs the first part of ingress.
pub(super) const PARSER_AND_INGRESS: &str = "parser and ingress";

/// The places of all functions of a program.
#[derive(Debug)]
pub(super) struct Places {
    /// The P4 file that the program was compiled from.
    program: String,
    functions: Vec<Function>,
    /// What each step of the pipelines does.
    steps: Vec<String>,
    /// What each state of the parser is called.
    states: Vec<String>,
}

/// A function of the code.
#[derive(Debug)]
struct Function {
    name: &'static str,
    start: usize,
    marks: Marks,
}

/// The parts of a function that belong to a step or a state.
#[derive(Debug, Default)]
pub(super) struct Marks {
    bytes: usize,
    /// Start and end within the function, and the source location; ascending.
    parts: Vec<(usize, usize, u32)>,
}

impl Marks {
    /// The marks that the code generator kept of a function.
    pub(super) fn of(compiled: &CompiledCode) -> Self {
        let parts = compiled.buffer.get_srclocs_sorted().iter();
        let parts = parts.filter(|part| !part.loc.is_default());
        Self {
            bytes: compiled.buffer.total_size() as usize,
            parts: parts
                .map(|part| (part.start as usize, part.end as usize, part.loc.bits()))
                .collect(),
        }
    }
}

/// A place in the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place<'a> {
    pub program: &'a str,
    pub function: &'static str,
    /// Number and description of the step (in the parser: of the state); None between steps.
    pub step: Option<(u32, &'a str)>,
}

impl Places {
    /// The places of functions, each with its name, first address and marks.
    pub(super) fn new(
        (info, ir): (&ProgramInfo, &Ir),
        functions: impl IntoIterator<Item = (&'static str, usize, Marks)>,
    ) -> Self {
        let functions = functions.into_iter();
        Self {
            program: info.source.clone(),
            functions: functions
                .map(|(name, start, marks)| Function { name, start, marks })
                .collect(),
            steps: steps(info, ir),
            states: info.log_names.states.clone(),
        }
    }

    /// The place of an address; None outside the code.
    pub(super) fn find(&self, address: usize) -> Option<Place<'_>> {
        let within =
            |function: &&Function| address.wrapping_sub(function.start) < function.marks.bytes;
        let function = self.functions.iter().find(within)?;
        let offset = address - function.start;
        let parts = function.marks.parts.as_slice();
        let after = parts.partition_point(|(start, _, _)| *start <= offset);
        let part = after.checked_sub(1).and_then(|at| parts.get(at));
        let part = part.filter(|(_, end, _)| offset < *end);
        let is_state = part.is_some_and(|(_, _, location)| location & STATE != 0);
        let texts = if is_state { &self.states } else { &self.steps };
        let step = part.and_then(|(_, _, location)| {
            let number = location & !STATE;
            let text = texts.get(number as usize)?;
            Some((number, text.as_str()))
        });
        Some(Place {
            program: &self.program,
            function: match (function.name, part) {
                (PARSER_AND_INGRESS, Some(_)) if is_state => "parser",
                (PARSER_AND_INGRESS, Some(_)) => "ingress",
                (name, _) => name,
            },
            step,
        })
    }

    /// In each function that has a step whose description begins with `text`, the first address of the first such step.
    #[cfg(test)]
    pub(super) fn addresses_of(&self, text: &str) -> Vec<usize> {
        let address = |function: &Function| {
            let begins = |(_, _, location): &&(usize, usize, u32)| {
                let step = self.steps.get(*location as usize);
                step.is_some_and(|step| step.starts_with(text))
            };
            let part = function.marks.parts.iter().find(begins)?;
            Some(function.start + part.0)
        };
        self.functions.iter().filter_map(address).collect()
    }
}

/// What each step does, and in which action.
fn steps(info: &ProgramInfo, ir: &Ir) -> Vec<String> {
    let mut texts: Vec<String> = ir
        .flat
        .steps
        .iter()
        .map(|step| text(info, ir, step))
        .collect();
    for (action, start) in info.actions.iter().zip(&ir.flat.actions) {
        let start = *start as usize;
        let end = |step: &Step| *step == Step::Return;
        let length = ir.flat.steps.iter().skip(start).position(end).unwrap_or(0);
        for text in texts.iter_mut().skip(start).take(length + 1) {
            text.push_str(" in action ");
            text.push_str(&action.name);
        }
    }
    texts
}

fn text(info: &ProgramInfo, ir: &Ir, step: &Step) -> String {
    let named =
        |kind: &str, name: Option<&String>| format!("{kind} {}", name.map_or("?", String::as_str));
    match *step {
        Step::Table(i) => named("table", info.tables.get(usize::from(i)).map(|t| &t.name)),
        Step::Count { counter, .. } => {
            let counter = info.counters.get(usize::from(counter));
            named("counter", counter.map(|counter| &counter.name))
        }
        Step::Meter { meter, .. } => named(
            "meter",
            info.meters.get(usize::from(meter)).map(|m| &m.name),
        ),
        Step::ReadRegister { register, .. } | Step::WriteRegister { register, .. } => {
            let register = info.registers.get(usize::from(register));
            named("register", register.map(|register| &register.name))
        }
        Step::Hash { calculation, .. } => {
            let calculation = info.calculations.get(usize::from(calculation));
            named(
                "calculation",
                calculation.map(|calculation| &calculation.name),
            )
        }
        Step::Assert(i) | Step::Slow(i) => {
            let primitive = format!("{:?}", ir.flat.slow.get(i as usize));
            let primitive = primitive.trim_start_matches("Some(");
            let end = primitive.find(|c: char| !c.is_alphanumeric());
            format!("primitive {}", &primitive[..end.unwrap_or(primitive.len())])
        }
        Step::SetConst { .. }
        | Step::Copy { .. }
        | Step::AddConst { .. }
        | Step::Concat { .. }
        | Step::SetArg { .. }
        | Step::Set { .. } => "assignment".to_owned(),
        Step::IfZero { .. } | Step::IfNotEqual { .. } | Step::IfFalse { .. } => {
            "condition".to_owned()
        }
        Step::Prefetch(_) => "prefetch".to_owned(),
        Step::Jump(_) | Step::Return | Step::StopIfExit | Step::End => "jump".to_owned(),
    }
}
