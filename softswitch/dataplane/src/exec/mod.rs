// SPDX-License-Identifier: Apache-2.0
//! The packet path: parser, pipelines, deparser over the flat program.

pub(crate) mod action;
pub(crate) mod calc;
pub(crate) mod deparser;
pub(crate) mod expr;
mod headers;
mod log;
pub(crate) mod packet;
pub(crate) mod parser;
pub(crate) mod phv;
pub(crate) mod pipeline;
pub(crate) mod prefetch;
mod stack;
mod value_set;
pub(crate) mod wide;
