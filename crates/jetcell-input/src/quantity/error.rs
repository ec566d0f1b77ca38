//! Errors for text that is not a valid quantity.

use thiserror::Error;

/// Reason why text is not a valid quantity. The message contains an example or the limits.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages describe the variants and their fields")]
pub enum QuantityError {
    #[error("'{text}' is negative; try a value such as {example}")]
    Negative { text: String, example: &'static str },
    #[error("'{text}' is zero; try a value such as {example}")]
    Zero { text: String, example: &'static str },
    #[error("could not parse '{text}'; try a value such as {example}")]
    NoNumber { text: String, example: &'static str },
    #[error("'{text}' does not have a valid unit; try a value such as {example}")]
    UnknownUnit { text: String, example: &'static str },
    #[error("'{text}' has no unit; try a value such as {example}")]
    NoUnit { text: String, example: &'static str },
    #[error("'{text}' is too large; try a value such as {example}")]
    TooLarge { text: String, example: &'static str },
    #[error("'{text}' is out of range; use a value from {min} to {max}")]
    OutOfRange { text: String, min: String, max: String },
}
