// SPDX-License-Identifier: Apache-2.0
//! The machine code of the packet path, compiled when a program is loaded.
//!
//! It does the same as `exec`, step by step, and leaves single steps that it does not support (wide arithmetic, stacks,
//! rare primitives) to the interpreter. The interpreter runs all of a program that is too large, or that the code
//! generator refuses, and every program on a processor that the generator does not support.

mod call;
mod cells;
mod choice;
mod code;
mod crash;
mod deparser;
mod expr;
mod finders;
mod frame;
mod hash;
mod helper;
mod metadata;
mod parser;
mod pause;
mod places;
mod steps;
mod table;

pub(crate) use call::Native;
pub use choice::{MachineCode, machine_code, set_machine_code};
pub use crash::report_crashes;

use crate::info::ProgramInfo;
use crate::ir::Ir;
use call::Functions;
use code::Code;
use cranelift_codegen::ir::{AbiParam, UserFuncName, types};
use cranelift_codegen::settings::{self, Configurable};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{FuncId, Linkage, Module};
use frame::Frame;
use places::{Marks, PARSER_AND_INGRESS, Places};
use std::collections::HashMap;

/// The code generator leaves something to the interpreter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Refused;

impl Native {
    /// Compiles a program; None if the interpreter has to run it.
    pub(crate) fn compile(info: &ProgramInfo, ir: &Ir) -> Option<Self> {
        let program = (info, ir);
        // The code swaps the bytes of fields for a little-endian processor, and passes words of 64 bits to helpers.
        // Miri executes Rust only.
        if cfg!(target_endian = "big") || usize::BITS != 64 || cfg!(miri) {
            return None;
        }
        let choice = machine_code();
        if choice == MachineCode::Off {
            return None;
        }
        let mut compiler = Compiler::new(choice == MachineCode::Verified)?;
        let leaders = steps::leaders(ir);
        let mut pauses = 0;
        let ingress = compiler.function(program, "ingress", |code| {
            pauses = steps::ingress(code, &leaders)?;
            Ok(())
        });
        let egress = compiler.function(program, "egress", |code| {
            let mut code = code;
            code.write_egress_metadata()?;
            steps::egress(code, &leaders)
        });
        let (ingress, egress) = (ingress.ok()?, egress.ok()?);
        let parser = compiler.function(program, "parser", parser::parser).ok();
        let start = parser.and_then(|_| {
            let write = |code: Code<'_, '_>| parser::start(code, &leaders);
            compiler.function(program, PARSER_AND_INGRESS, write).ok()
        });
        let deparser = compiler
            .function(program, "deparser", deparser::deparser)
            .ok();
        compiler.module.finalize_definitions().ok()?;
        let functions = Functions {
            ingress,
            egress,
            parser,
            start,
            deparser,
            may_pause: pauses > 0 && !ir.parser_is_stateful(),
        };
        let module = compiler.module;
        let places = compiler
            .marks
            .into_iter()
            .map(|(id, (name, marks))| (name, module.get_finalized_function(id) as usize, marks));
        let places = Places::new(program, places);
        Some(Self::new(program, module, &functions, places))
    }
}

/// The module that functions are compiled into, and the generator's reusable state.
struct Compiler {
    module: JITModule,
    context: cranelift_codegen::Context,
    builder: FunctionBuilderContext,
    /// Name and marks of each function.
    marks: HashMap<FuncId, (&'static str, Marks)>,
}

impl Compiler {
    fn new(verified: bool) -> Option<Self> {
        let mut flags = settings::builder();
        let verify = if verified { "true" } else { "false" };
        for (name, value) in [
            ("opt_level", "speed"),
            ("use_colocated_libcalls", "false"),
            ("is_pic", "false"),
            ("enable_verifier", verify),
            ("unwind_info", "false"),
        ] {
            flags.set(name, value).ok()?;
        }
        let isa = cranelift_native::builder().ok()?;
        let isa = isa.finish(settings::Flags::new(flags)).ok()?;
        let names = cranelift_module::default_libcall_names();
        let module = JITModule::new(JITBuilder::with_isa(isa, names));
        Some(Self {
            context: module.make_context(),
            builder: FunctionBuilderContext::new(),
            marks: HashMap::new(),
            module,
        })
    }

    /// Compiles a function that takes the address of a frame and returns a word.
    fn function(
        &mut self,
        program: (&ProgramInfo, &Ir),
        name: &'static str,
        write: impl FnOnce(Code<'_, '_>) -> Result<(), Refused>,
    ) -> Result<FuncId, Refused> {
        self.module.clear_context(&mut self.context);
        self.builder = FunctionBuilderContext::new();
        let signature = &mut self.context.func.signature;
        signature.params.push(AbiParam::new(types::I64));
        signature.returns.push(AbiParam::new(types::I64));
        let declared = self
            .module
            .declare_function(name, Linkage::Local, signature);
        let id = declared.map_err(|_| Refused)?;
        self.context.func.name = UserFuncName::user(0, id.as_u32());
        let builder = FunctionBuilder::new(&mut self.context.func, &mut self.builder);
        write(Code::new(builder, program, Frame::PHV))?;
        let defined = self.module.define_function(id, &mut self.context);
        defined.map_err(|_| Refused)?;
        if let Some(compiled) = self.context.compiled_code() {
            self.marks.insert(id, (name, Marks::of(compiled)));
        }
        Ok(id)
    }
}
