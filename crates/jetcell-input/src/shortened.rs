//! Text with a maximum length.

use std::borrow::Cow;

/// The maximum number of characters of a part of an error line that quotes a file.
pub const MAX_QUOTED: usize = 200;

/// Cuts a text to at most `max` characters. A text that was cut ends with an ellipsis.
pub fn shortened(text: &str, max: usize) -> Cow<'_, str> {
    if text.len() <= max || text.chars().nth(max).is_none() {
        return Cow::Borrowed(text);
    }
    let mut short: String = text.chars().take(max.saturating_sub(1)).collect();
    short.push('…');
    Cow::Owned(short)
}

#[cfg(test)]
#[path = "shortened_tests.rs"]
mod tests;
