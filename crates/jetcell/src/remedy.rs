//! Remedies for operating system and parser errors, whose messages do not contain one.

use crate::os_advice::advice_for_number;

/// Returns the remedy for a message that ends in an operating system error, `… (os error 28)`, or that names a line in a
/// file or the limits of a value. A message that contains text after a `;` already includes a remedy.
pub fn remedy(message: &str) -> Option<&'static str> {
    let of_line =
        || (contains_line_number(message) && !message.contains("; ")).then_some("correct this line");
    let of_limit =
        || (message.contains(" must be ") && !message.contains("; ")).then_some("correct this value");
    error_number(message).and_then(advice_for_number).or_else(of_line).or_else(of_limit)
}

fn contains_line_number(message: &str) -> bool {
    message.split("line ").skip(1).any(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
}

/// Returns the operating system's error number from a message that ends with the standard library's text for the
/// error. ESE's name for the error may follow.
fn error_number(message: &str) -> Option<u32> {
    let (_, rest) = message.rsplit_once("(os error ")?;
    let (number, name) = rest.split_once(')')?;
    let is_end = name.is_empty() || (name.starts_with(" (JET_err") && name.find(')') == Some(name.len() - 1));
    number.parse().ok().filter(|_| is_end)
}
