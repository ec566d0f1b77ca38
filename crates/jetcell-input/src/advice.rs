//! Advice about errors, for text that contains both the problem and the advice.

use std::fmt::Display;

/// Text between the problem and the advice.
pub(crate) const ADVICE_SEPARATOR: &str = "; ";

/// Returns the problem and, after a semicolon, the advice.
pub fn with_advice(problem: impl Display, advice: Option<impl Display>) -> String {
    match advice {
        Some(advice) => format!("{problem}{ADVICE_SEPARATOR}{advice}"),
        None => problem.to_string(),
    }
}
