// SPDX-License-Identifier: Apache-2.0
//! Log events: `log_msg`, and false `assert` and `assume`.

use super::Expr;

/// The kind of a log event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogKind {
    /// `log_msg`.
    Message,
    /// An `assert` was false; the packet was dropped.
    Assert,
    /// An `assume` was false; the packet was dropped.
    Assume,
}

impl LogKind {
    /// The statement's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Message => "log_msg",
            Self::Assert => "assert",
            Self::Assume => "assume",
        }
    }
}

/// The pieces of a text, and the values between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogMessage {
    pub pieces: Vec<String>,
    pub values: Vec<Expr>,
}
