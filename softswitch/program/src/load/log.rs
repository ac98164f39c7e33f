// SPDX-License-Identifier: Apache-2.0
//! `log_msg`, `assert` and `assume`; what a log says of the source.

use super::action::Params;
use super::emit::Demand;
use super::expr::text;
use super::{Loader, Result, unsupported};
use crate::ir::LogKind;
use crate::ir::{Expr, LogMessage, Prim};
use serde_json::Value;
use weir_bmv2_json::Primitive;

/// What the compiler noted about the source of a primitive or condition.
pub(super) struct Source<'a> {
    /// `FILE(LINE)`, as bmv2 logs it.
    pub(super) place: String,
    pub(super) text: &'a str,
}

impl<'a> Source<'a> {
    /// None if the compiler noted nothing.
    pub(super) fn of(info: &'a Value) -> Option<Self> {
        let file = info.get("filename")?.as_str()?;
        let line = info.get("line")?.as_u64()?;
        Some(Self {
            place: format!("{file}({line})"),
            text: info
                .get("source_fragment")
                .and_then(Value::as_str)
                .unwrap_or_default(),
        })
    }
}

impl Loader<'_> {
    pub(super) fn log_message(
        &mut self,
        given: &[Value],
        params: &Params,
        location: &str,
    ) -> Result<Prim> {
        let format = text(given[0].get("value").unwrap_or(&Value::Null), location)?;
        let values: Result<Vec<Expr>> = given
            .get(1)
            .and_then(|values| values.get("value")?.as_array())
            .into_iter()
            .flatten()
            .map(|value| self.value(value, params, Demand::Exact, location))
            .collect();
        let pieces = format.split("{}").map(str::to_owned).collect();
        let values = values?;
        Ok(Prim::Log(
            self.message(LogMessage { pieces, values }, location)?,
        ))
    }

    pub(super) fn assertion(
        &mut self,
        json: &Primitive,
        params: &Params,
        location: &str,
    ) -> Result<Prim> {
        let condition = self.value(&json.parameters[0], params, Demand::Exact, location)?;
        let kind = if json.op == "assert" {
            LogKind::Assert
        } else {
            LogKind::Assume
        };
        let source = |name: &str| json.source_info.get(name);
        let file = source("filename").and_then(Value::as_str);
        let line = source("line").and_then(Value::as_u64);
        let at = match (file, line) {
            (Some(file), Some(line)) => format!("{file}:{line}"),
            _ => location.to_owned(),
        };
        let pieces = vec![format!("{at}: {} is false", json.op)];
        let message = self.message(
            LogMessage {
                pieces,
                values: Vec::new(),
            },
            location,
        )?;
        Ok(Prim::Assert {
            condition,
            kind,
            message,
        })
    }

    fn message(&mut self, message: LogMessage, location: &str) -> Result<u16> {
        let index = u16::try_from(self.ir.log_messages.len());
        self.ir.log_messages.push(message);
        index.map_err(|_| unsupported(location, "that many messages (65,536 are)".into()))
    }
}
