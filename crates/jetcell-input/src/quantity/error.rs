//! Errors for text that is not a valid quantity.

use std::borrow::Cow;

use thiserror::Error;

/// Reason why text is not a valid quantity. [`QuantityError::advice`] contains an example or the limits.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages describe the variants and their fields")]
pub enum QuantityError {
    #[error("'{text}' is negative")]
    Negative { text: String, example: &'static str },
    #[error("'{text}' is zero")]
    Zero { text: String, example: &'static str },
    #[error("could not parse '{text}'")]
    NoNumber { text: String, example: &'static str },
    #[error("'{text}' does not have a valid unit")]
    UnknownUnit { text: String, example: &'static str },
    #[error("'{text}' has no unit")]
    NoUnit { text: String, example: &'static str },
    #[error("'{text}' is too large")]
    TooLarge { text: String, example: &'static str },
    #[error("'{text}' is out of range")]
    OutOfRange { text: String, min: String, max: String },
}

impl QuantityError {
    /// Returns what the user can do about the error, for example `try a value such as 256MiB`.
    pub fn advice(&self) -> Option<Cow<'static, str>> {
        Some(Cow::Owned(match self {
            QuantityError::Negative { example, .. }
            | QuantityError::Zero { example, .. }
            | QuantityError::NoNumber { example, .. }
            | QuantityError::UnknownUnit { example, .. }
            | QuantityError::NoUnit { example, .. }
            | QuantityError::TooLarge { example, .. } => format!("try a value such as {example}"),
            QuantityError::OutOfRange { min, max, .. } => format!("use a value from {min} to {max}"),
        }))
    }
}
