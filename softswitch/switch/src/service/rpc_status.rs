// SPDX-License-Identifier: Apache-2.0
//! The status of a batch: one `p4.v1.Error` per update or query (specification "Error Reporting Messages").

#[cfg(test)]
mod tests;

use prost::Message;
use prost_types::Any;
use tonic::{Code, Status};
use weir_p4runtime::google::rpc;
use weir_p4runtime::p4::v1::Error;

use weir_engine::node::failure::Failure;

const ERROR_TYPE_URL: &str = "type.googleapis.com/p4.v1.Error";
/// The status is sent as gRPC metadata in base64; clients refuse metadata beyond a limit, by default 8 KB.
const DEFAULT_LIMIT_BYTES: usize = 8 << 10;
const MAX_MESSAGE_BYTES: usize = 512;
/// Other contents of the metadata: the message, twice, and the names of the headers.
const OTHER_BYTES: usize = MAX_MESSAGE_BYTES * 7 / 3 + 256;
/// An error without text in its envelope, before base64.
const CODE_BYTES: usize = 46;
/// All texts of a batch whose codes alone exceed the default limit. Clients that send such batches should accept 8 KB plus
/// 100 bytes for each update (specification, "gRPC Metadata Maximum Size").
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
        MAX_MESSAGE_BYTES,
    )
    .to_owned();
    let mut text_left = text_bytes(total);
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

/// Bytes of text that the errors of a batch of `updates` may have together.
fn text_bytes(updates: usize) -> usize {
    let sent = (DEFAULT_LIMIT_BYTES - OTHER_BYTES) * 3 / 4;
    match sent.checked_sub(CODE_BYTES * updates) {
        Some(left) => left.min(MAX_TEXT_BYTES),
        None => MAX_TEXT_BYTES,
    }
}

/// The first `bytes` of a text at most, in whole characters.
fn cut(text: &str, bytes: usize) -> &str {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
