// SPDX-License-Identifier: Apache-2.0
//! The interpreter of the flat program: parser, pipelines, deparser.

pub(crate) mod action;
pub(crate) mod calc;
pub(crate) mod deparser;
pub(crate) mod expr;
mod headers;
mod log;
pub(crate) mod logged;
pub(crate) mod parser;
pub(crate) mod pipeline;
mod prefetch;
mod stack;
mod value_set;
