//! Length limits for text from files that appears in error messages.

use std::borrow::Cow;
use std::fmt::Display;

/// Maximum number of characters in an [`error_line`].
const MAX_LINE: usize = 300;
/// Number of these characters that are kept from the end of the message, where JSON errors state their position.
const TAIL: usize = 80;
/// Maximum number of characters in a name in an error line.
const MAX_NAME: usize = 60;

/// Truncates a string to at most `max` characters. A truncated text ends with an ellipsis.
pub fn shortened(text: &str, max: usize) -> Cow<'_, str> {
    if text.len() <= max || text.chars().nth(max).is_none() {
        return Cow::Borrowed(text);
    }
    let mut short: String = text.chars().take(max.saturating_sub(1)).collect();
    short.push('…');
    Cow::Owned(short)
}

/// Shortens a key or another name from a file for an error message.
pub fn shortened_name(name: &str) -> Cow<'_, str> {
    shortened(name, MAX_NAME)
}

/// Returns a parser's error message as one line of at most 300 characters.
///
/// Such a message quotes keys and values from the file. If it is longer, an ellipsis replaces its middle, because its
/// end may contain the position.
pub fn error_line(message: &impl Display) -> String {
    let line = message.to_string().replace('\n', " ");
    let count = line.chars().count();
    if count <= MAX_LINE {
        return line;
    }
    let head = line.chars().take(MAX_LINE - TAIL - 1);
    head.chain(['…']).chain(line.chars().skip(count - TAIL)).collect()
}

#[cfg(test)]
#[path = "shortened_tests.rs"]
mod tests;
