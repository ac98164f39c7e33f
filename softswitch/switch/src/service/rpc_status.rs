// SPDX-License-Identifier: Apache-2.0
//! The status of a batch: one `p4.v1.Error` per update or query (specification "Error Reporting Messages").

#[cfg(test)]
mod tests;

use prost::Message;
use prost_types::Any;
use tonic::{Code, Status};
use weir_p4runtime::google::rpc;
use weir_p4runtime::p4::v1::Error;

use crate::node::failure::Failure;

const ERROR_TYPE_URL: &str = "type.googleapis.com/p4.v1.Error";
/// The status travels as gRPC metadata, which many clients limit to 8 KB and refuse as a whole beyond that. Texts are
/// cut to this sum, base64 included; codes are always there.
const MAX_TEXT_BYTES: usize = 4 << 10;

/// The status of a batch with these outcomes; `what` names an element of the batch.
///
/// # Errors
/// `UNKNOWN` with details when one or more failed.
pub fn of_batch(outcomes: &[Result<(), Failure>], what: &str) -> Result<(), Status> {
    let failed = outcomes.iter().filter(|outcome| outcome.is_err()).count();
    let Some(first) = outcomes.iter().find_map(|outcome| outcome.as_ref().err()) else {
        return Ok(());
    };
    let total = outcomes.len();
    let message = cut(
        &format!("{failed} of {total} {what} failed; the first: {first}"),
        1024,
    )
    .to_owned();
    let mut text_left = MAX_TEXT_BYTES;
    let errors = outcomes.iter().map(|outcome| {
        let error = match outcome {
            Ok(()) => Error::default(),
            Err(failure) => {
                let message = cut(&failure.message, text_left).to_owned();
                text_left -= message.len();
                Error {
                    canonical_code: failure.code as i32,
                    message,
                    ..Error::default()
                }
            }
        };
        Any {
            type_url: ERROR_TYPE_URL.to_owned(),
            value: error.encode_to_vec(),
        }
    });
    let details = rpc::Status {
        code: Code::Unknown as i32,
        message: message.clone(),
        details: errors.collect(),
    };
    Err(Status::with_details(
        Code::Unknown,
        message,
        details.encode_to_vec().into(),
    ))
}

/// At most `bytes` of a text, whole characters.
fn cut(text: &str, bytes: usize) -> &str {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
