//! Advice of errors, in text that has no separate place for it.

use std::fmt::Display;

/// Returns the problem and, after a semicolon, what the user can do about the error.
pub fn with_advice(problem: impl Display, advice: Option<impl Display>) -> String {
    match advice {
        Some(advice) => format!("{problem}; {advice}"),
        None => problem.to_string(),
    }
}
