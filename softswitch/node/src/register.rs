// SPDX-License-Identifier: Apache-2.0
//! `RegisterEntry`, for registers whose cells are single values.

use weir_p4runtime::p4::v1::p4_data::Data;
use weir_p4runtime::p4::v1::{self, P4Data};

use super::bytestring::{check, padded};
use super::failure::Failure;
use super::pipeline::{DataShape, MemberKind};
use super::write::{Operation, cells};
use super::{Node, parts};

impl Node {
    pub(super) fn write_register(
        &mut self,
        operation: Operation,
        entry: &v1::RegisterEntry,
    ) -> Result<(), Failure> {
        let (pipeline, switch) = parts(&self.pipeline, &mut self.switch)?;
        operation.only_modify("RegisterEntry")?;
        let register = pipeline.register(entry.register_id)?;
        let place = format!("register {}", register.name);
        let cells = cells(entry.index.as_ref(), register.size, &place)?;
        let value = value(entry.data.as_ref(), &register.extra, &place)?;
        for cell in cells {
            switch.set_register(register.id, cell, &value)?;
        }
        Ok(())
    }
}

fn value(data: Option<&P4Data>, shape: &DataShape, place: &str) -> Result<Vec<u8>, Failure> {
    let DataShape::Single(member) = shape else {
        return Err(Failure::unimplemented(format!(
            "{place}: writing a struct or tuple"
        )));
    };
    let bytes = match (member.kind, data.and_then(|d| d.data.as_ref())) {
        (MemberKind::Bits, Some(Data::Bitstring(bytes)))
        | (MemberKind::Enum, Some(Data::EnumValue(bytes))) => bytes.clone(),
        (MemberKind::Bool, Some(Data::Bool(value))) => vec![u8::from(*value)],
        (kind, Some(_)) => {
            return Err(Failure::invalid(format!(
                "{place}: the data is not of the register's type ({kind:?})"
            )));
        }
        (_, None) => return Err(Failure::invalid(format!("{place}: the data is missing"))),
    };
    check(&bytes, member.width_bits, || place.to_owned())?;
    Ok(padded(&bytes, member.width_bits))
}
