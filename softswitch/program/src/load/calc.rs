// SPDX-License-Identifier: Apache-2.0
//! Calculations, checksums, field lists and digests.

use super::emit::{Demand, compile, const_words};
use super::expr::{Scope, hexstr, pair, text};
use super::layout::wide_field;
use super::{Loader, Result, dangling, invalid, unsupported};
use crate::info::{CalculationInfo, DigestId, DigestInfo, FieldInfo};
use crate::ir::{
    Algo, AnyField, CalcInput, Calculation, Checksum, DigestField, DigestSource, PHV_PADDING,
};
use crate::value::value_bytes;
use serde_json::Value;

/// The algorithms that `hash`, `verify_checksum` and `update_checksum` may name.
fn algorithm(name: &str, location: &str) -> Result<Algo> {
    Ok(match name {
        "csum16" => Algo::Csum16,
        "crc16" => Algo::Crc16,
        "crc16_custom" => Algo::Crc16Custom,
        "crc32" => Algo::Crc32,
        "crc32_custom" => Algo::Crc32Custom,
        "crcCCITT" => Algo::Crc16Ccitt,
        "identity" => Algo::Identity,
        "random" => Algo::Random,
        "xor16" => Algo::Xor16,
        other => return Err(unsupported(location, format!("hash algorithm {other:?}"))),
    })
}

impl Loader<'_> {
    /// `[header, field]` as names.
    fn element(&self, json: &Value, location: &str) -> Result<AnyField> {
        let (header, field) = pair(json.get("value").unwrap_or(&Value::Null), location)?;
        self.layout
            .field(&self.ir, text(header, location)?, field, location)
    }

    pub(super) fn field_lists(&mut self) -> Result<()> {
        for (index, list) in (0_u16..).zip(&self.json.field_lists) {
            let location = format!("field_lists {:?}", list.name);
            let fields: Result<Vec<AnyField>> = list
                .elements
                .iter()
                .map(
                    |element| match element.get("type").and_then(Value::as_str) {
                        Some("field") => self.element(element, &location),
                        other => Err(unsupported(
                            &location,
                            format!("an element of type {other:?}"),
                        )),
                    },
                )
                .collect();
            self.ir.field_lists.push(fields?);
            self.names.field_lists.insert(list.id, index);
        }
        // For clone, resubmit and recirculate without a list.
        self.ir.field_lists.push(Vec::new());
        Ok(())
    }

    pub(super) fn learn_lists(&mut self) -> Result<()> {
        for (index, list) in (0_u16..).zip(&self.json.learn_lists) {
            let location = format!("learn_lists {:?}", list.name);
            let mut fields = Vec::new();
            let mut infos = Vec::new();
            for element in &list.elements {
                let (field, name) = match element.get("type").and_then(Value::as_str) {
                    Some("field") => {
                        let name = element
                            .pointer("/value/1")
                            .and_then(Value::as_str)
                            .unwrap_or_default();
                        (
                            DigestField::Field(self.element(element, &location)?),
                            name.to_owned(),
                        )
                    }
                    Some("hexstr") => {
                        let value = hexstr(
                            text(element.get("value").unwrap_or(&Value::Null), &location)?,
                            &location,
                        )?;
                        let width = element.get("bitwidth").and_then(Value::as_u64);
                        let width = width
                            .and_then(|w| u32::try_from(w).ok())
                            .filter(|w| (1..=2048).contains(w));
                        let width = width.ok_or_else(|| {
                            unsupported(&location, "a constant without width".into())
                        })?;
                        (
                            DigestField::Const {
                                value: const_words(&value, width),
                                width,
                            },
                            String::new(),
                        )
                    }
                    other => {
                        return Err(unsupported(
                            &location,
                            format!("an element of type {other:?}"),
                        ));
                    }
                };
                let width_bits = match &field {
                    DigestField::Field(field) => field.width(),
                    DigestField::Const { width, .. } => *width,
                };
                fields.push(field);
                infos.push(FieldInfo { name, width_bits });
            }
            let widths: Vec<u32> = infos.iter().map(|f| f.width_bits).collect();
            // A control that is applied twice has a list for each; for the control plane they are one digest.
            let digest = match self.info.digest(&list.name) {
                Some(known) if self.ir.digest_widths.get(known.0 as usize) == Some(&widths) => {
                    known
                }
                Some(_) => {
                    let what = "a second list of this name with other widths".into();
                    return Err(unsupported(&location, what));
                }
                None => {
                    // At most as many as there are lists, which `index` counts.
                    let fresh =
                        DigestId(u32::try_from(self.info.digests.len()).unwrap_or(u32::MAX));
                    self.ir.digest_widths.push(widths);
                    self.info.digests.push(DigestInfo {
                        name: list.name.clone(),
                        list_id: i32::try_from(list.id).unwrap_or(i32::MAX),
                        fields: infos,
                    });
                    fresh
                }
            };
            self.ir.digests.push(DigestSource { digest, fields });
            self.names.learn_lists.insert(list.id, index);
        }
        Ok(())
    }

    pub(super) fn calculations(&mut self) -> Result<()> {
        for (index, calculation) in (0_u16..).zip(&self.json.calculations) {
            let location = format!("calculations {:?}", calculation.name);
            self.calculation(&calculation.algo, &calculation.input, &location)?;
            self.names
                .calculations
                .insert(calculation.name.clone(), index);
            self.info.calculations.push(CalculationInfo {
                name: calculation.name.clone(),
                algorithm: calculation.algo.clone(),
            });
        }
        Ok(())
    }

    /// Adds a calculation; returns its index.
    pub(super) fn calculation(
        &mut self,
        algo: &str,
        input: &[Value],
        location: &str,
    ) -> Result<u16> {
        let algo = algorithm(algo, location)?;
        let mut inputs = Vec::new();
        let mut payload = false;
        for input in input {
            match self.calc_input(input, location)? {
                Some(input) => append(&mut inputs, input),
                None => payload = true,
            }
        }
        let index = u16::try_from(self.ir.calculations.len())
            .map_err(|_| unsupported(location, "more than 65,535 calculations".into()))?;
        self.ir
            .calculations
            .push(Calculation::new(algo, inputs, payload));
        Ok(index)
    }

    /// None: the payload.
    fn calc_input(&self, input: &Value, location: &str) -> Result<Option<CalcInput>> {
        let value = input.get("value").unwrap_or(&Value::Null);
        match input.get("type").and_then(Value::as_str) {
            Some("payload") => Ok(None),
            Some("field") => {
                let (header, field) = pair(value, location)?;
                let header = self
                    .layout
                    .header_of_field(text(header, location)?, location)?;
                if self.layout.is_varbit(header, field) {
                    return Ok(Some(CalcInput::Varbit(header)));
                }
                let field = wide_field(self.layout.field_of(&self.ir, header, field, location)?);
                let info = self.ir.headers.get(usize::from(header));
                let valid = info.filter(|h| !h.metadata).map(|h| h.valid);
                Ok(Some(CalcInput::Field { field, valid }))
            }
            Some("header") => Ok(Some(CalcInput::Header(
                self.layout.header(text(value, location)?, location)?,
            ))),
            Some("hexstr") => {
                let width = input
                    .get("bitwidth")
                    .and_then(Value::as_u64)
                    .and_then(|w| u32::try_from(w).ok());
                let width = width.filter(|w| (1..=2048).contains(w));
                let width = width.ok_or_else(|| {
                    invalid(
                        location,
                        "a constant needs a bitwidth from 1 to 2048".into(),
                    )
                })?;
                let mut bytes = value_bytes(
                    &const_words(&hexstr(text(value, location)?, location)?, width),
                    width,
                );
                bytes.extend([0; PHV_PADDING]);
                Ok(Some(CalcInput::Const { bytes, width }))
            }
            other => Err(unsupported(location, format!("an input of type {other:?}"))),
        }
    }

    pub(super) fn checksums(&mut self) -> Result<()> {
        for checksum in &self.json.checksums {
            let location = format!("checksums {:?}", checksum.name);
            let (header, field) = (&checksum.target.0, &checksum.target.1);
            let target = self.layout.field(&self.ir, header, field, &location)?;
            let info = self
                .ir
                .headers
                .get(usize::from(self.layout.header(header, &location)?));
            let target_valid = info.filter(|h| !h.metadata).map(|h| h.valid);
            let calculation = self.names.calculations.get(&checksum.calculation).copied();
            let calculation = calculation
                .ok_or_else(|| dangling(&location, "calculation", &checksum.calculation))?;
            let condition = match &checksum.if_cond {
                None | Some(Value::Null) => None,
                Some(json) => {
                    let scope = Scope {
                        ir: &self.ir,
                        layout: &self.layout,
                        params: &[],
                        location: &location,
                    };
                    let ast = scope.read(json)?;
                    Some(compile(&mut self.ir, &ast, Demand::Exact, &location)?)
                }
            };
            let compiled = Checksum {
                target,
                target_valid,
                calculation,
                condition,
            };
            if checksum.verify {
                self.ir.verify.push(compiled.clone());
            }
            if checksum.update {
                self.ir.update.push(compiled);
            }
        }
        Ok(())
    }
}

/// Appends an input, joined to the previous one if they are adjacent in one header: a header's checksum is then one
/// run.
fn append(inputs: &mut Vec<CalcInput>, input: CalcInput) {
    if let (
        Some(CalcInput::Field {
            field: last,
            valid: before,
        }),
        CalcInput::Field { field, valid },
    ) = (inputs.last_mut(), &input)
        && before == valid
        && valid.is_some()
        && last.bit_offset + last.width == field.bit_offset
    {
        last.width += field.width;
        return;
    }
    inputs.push(input);
}
