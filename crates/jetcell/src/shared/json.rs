//! JSON of results.

use serde::Serialize;

/// Formats a result as one line of JSON with a line end.
pub fn json_line(result: &impl Serialize) -> String {
    jetcell_input::json_line(result).expect("text and numbers can be written as JSON") + "\n"
}

/// Formats a result as JSON with a line end.
pub fn json(result: &impl Serialize) -> String {
    jetcell_input::json_pretty(result).expect("text and numbers can be written as JSON") + "\n"
}
