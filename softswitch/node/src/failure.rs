// SPDX-License-Identifier: Apache-2.0
//! The reason for refusing an operation: a canonical gRPC code and a text that names the object and the valid values.

use tonic::{Code, Status};
use weir_dataplane::{ControlError, LoadError};

/// A refused operation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The canonical code, as the P4Runtime specification assigns it.
    pub code: Code,
    /// The mistake, its location, and the valid values.
    pub message: String,
}

impl Failure {
    /// A failure with any code.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }

    /// `INVALID_ARGUMENT`.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgument, message)
    }

    /// `UNIMPLEMENTED`; the text names the feature.
    pub fn unimplemented(feature: impl std::fmt::Display) -> Self {
        Self::new(
            Code::Unimplemented,
            format!("{feature} is not supported by this switch"),
        )
    }

    /// `FAILED_PRECONDITION`: no controller has set a pipeline.
    pub fn no_pipeline() -> Self {
        Self::new(
            Code::FailedPrecondition,
            "no forwarding pipeline is set; SetForwardingPipelineConfig comes first",
        )
    }

    /// `NOT_FOUND`.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(Code::NotFound, message)
    }
}

impl From<Failure> for Status {
    fn from(failure: Failure) -> Self {
        Self::new(failure.code, failure.message)
    }
}

impl From<ControlError> for Failure {
    fn from(error: ControlError) -> Self {
        let code = match &error {
            ControlError::IndexOutOfRange { .. } => Code::OutOfRange,
            ControlError::ActionNotInTable { .. }
            | ControlError::InvalidArguments { .. }
            | ControlError::InvalidKey { .. }
            | ControlError::InvalidValue { .. } => Code::InvalidArgument,
            ControlError::Duplicate { .. } | ControlError::Exists { .. } => Code::AlreadyExists,
            ControlError::NotFound { .. } => Code::NotFound,
            ControlError::TableFull { .. }
            | ControlError::ValueSetFull { .. }
            | ControlError::ProfileFull { .. } => Code::ResourceExhausted,
            ControlError::InUse { .. } => Code::FailedPrecondition,
            ControlError::Const { .. } => Code::PermissionDenied,
            // Ids come from the program itself, looked up when the pipeline was set.
            ControlError::UnknownId { .. } => Code::Internal,
        };
        Self::new(code, error.to_string())
    }
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Self {
        let code = match &error {
            LoadError::Unsupported { .. } | LoadError::Version { .. } => Code::Unimplemented,
            LoadError::NotBmv2 { .. } | LoadError::Dangling { .. } | LoadError::Invalid { .. } => {
                Code::InvalidArgument
            }
        };
        Self::new(code, format!("p4_device_config: {error}"))
    }
}

/// Names for a message: all when few, else the first ones and the number of the others.
pub fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    const SHOWN: usize = 12;
    let names: Vec<&str> = names.collect();
    match names.len() {
        0 => "none".to_owned(),
        count if count <= SHOWN => names.join(", "),
        count => format!("{} and {} more", names[..SHOWN].join(", "), count - SHOWN),
    }
}

/// Ids with their names for a message, as [`listed`].
pub fn listed_ids<'a>(objects: impl Iterator<Item = (u32, &'a str)>) -> String {
    let objects: Vec<String> = objects.map(|(id, name)| format!("{id} ({name})")).collect();
    listed(objects.iter().map(String::as_str))
}
