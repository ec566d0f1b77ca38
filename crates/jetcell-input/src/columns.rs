//! Widths of text on a terminal. An East Asian character has two columns, a combining character none.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Alignment of text in a column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Align {
    /// The text begins at the left edge.
    #[default]
    Left,
    /// The text ends at the right edge, which is used for numbers.
    Right,
}

/// Returns the number of columns that the text has on a terminal.
pub fn columns(text: &str) -> usize {
    text.width()
}

/// Pads the text with spaces to `width` columns. Wider text is unchanged.
pub fn pad(text: &str, width: usize, align: Align) -> String {
    let spaces = " ".repeat(width.saturating_sub(columns(text)));
    match align {
        Align::Left => format!("{text}{spaces}"),
        Align::Right => format!("{spaces}{text}"),
    }
}

/// Splits the text after at most `width` columns, but after at least one character.
pub fn cut(text: &str, width: usize) -> (&str, &str) {
    let mut used = 0;
    let mut fits = |(at, c): &(usize, char)| {
        used += c.width().unwrap_or(1);
        *at == 0 || used <= width
    };
    let end = text.char_indices().find(|next| !fits(next)).map_or(text.len(), |(at, _)| at);
    text.split_at(end)
}

#[cfg(test)]
#[path = "columns_tests.rs"]
mod tests;
