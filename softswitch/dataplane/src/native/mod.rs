// SPDX-License-Identifier: Apache-2.0
//! The packet path as machine code, written when a program is loaded.
//!
//! The code does what `exec` does, step by step. What it cannot do (wide arithmetic, stacks, rare primitives) it leaves
//! to the interpreter, a step at a time. A program that is too large, a processor that the code generator does not
//! know, or anything unexpected means that the interpreter runs all of it.

mod array;
mod arrival;
mod call;
mod cells;
mod code;
mod deparser;
mod expr;
mod hash;
mod helper;
mod parser;
mod pause;
mod steps;
mod table;

pub(crate) use array::Array;
pub(crate) use arrival::{Arrival, Departure, Egressed, Ingressed};
pub(crate) use call::{Gress, Native};

use crate::info::ProgramInfo;
use crate::ir::Ir;
use call::{Frame, Functions};
use code::{Code, Words};
use cranelift_codegen::ir::{AbiParam, UserFuncName, types};
use cranelift_codegen::settings::{self, Configurable};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{FuncId, Linkage, Module};

/// Something is left to the interpreter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Refused;

impl Native {
    /// The program's code; None where the interpreter runs it.
    pub(crate) fn compile(info: &ProgramInfo, ir: &Ir) -> Option<Self> {
        let program = (info, ir);
        // Fields are read as the numbers of a little-endian processor, and helpers are called with words of 64 bits.
        if cfg!(target_endian = "big") || usize::BITS != 64 {
            return None;
        }
        let mut compiler = Compiler::new()?;
        let leaders = steps::leaders(ir);
        let mut places = 0;
        let ingress = compiler.function(program, "ingress", |code| {
            places = steps::pipeline(code, &leaders, ir.flat.ingress, Gress::Ingress)?;
            Ok(())
        });
        let egress = compiler.function(program, "egress", |code| {
            let mut code = code;
            code.depart()?;
            steps::pipeline(code, &leaders, ir.flat.egress, Gress::Egress)?;
            Ok(())
        });
        let (ingress, egress) = (ingress.ok()?, egress.ok()?);
        let parser = compiler.function(program, "parser", parser::parser).ok();
        let deparser = compiler
            .function(program, "deparser", deparser::deparser)
            .ok();
        compiler.module.finalize_definitions().ok()?;
        let functions = Functions {
            ingress,
            egress,
            parser,
            deparser,
            pauses: places > 0 && pause::parses_alone(ir),
        };
        Some(Self::new(program, compiler.module, &functions))
    }
}

/// What functions are written into.
struct Compiler {
    module: JITModule,
    context: cranelift_codegen::Context,
    builder: FunctionBuilderContext,
}

impl Compiler {
    fn new() -> Option<Self> {
        let mut flags = settings::builder();
        let verify = if cfg!(debug_assertions) {
            "true"
        } else {
            "false"
        };
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
            module,
        })
    }

    /// A function of a frame that gives a word back.
    fn function(
        &mut self,
        program: (&ProgramInfo, &Ir),
        name: &str,
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
        let words = Words {
            phv: Frame::PHV,
            this: Frame::THIS,
        };
        write(Code::new(builder, program, words))?;
        let defined = self.module.define_function(id, &mut self.context);
        defined.map_err(|_| Refused)?;
        Ok(id)
    }
}
