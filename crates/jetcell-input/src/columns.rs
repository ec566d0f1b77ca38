//! Widths of text on a terminal. An East Asian character occupies two columns; a combining character occupies none.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Alignment of text in a column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Align {
    /// The text begins at the left edge.
    #[default]
    Left,
    /// The text ends at the right edge. Numbers are aligned this way.
    Right,
}

/// Returns the number of columns that the text occupies on a terminal.
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

/// Splits the text after at most `width` columns, but after at least one character. A character that occupies no
/// column, such as an accent, stays with the previous one.
pub fn cut(text: &str, width: usize) -> (&str, &str) {
    let has_columns = |(_, c): &(usize, char)| c.width() != Some(0);
    let starts = text.char_indices().skip(1).filter(has_columns).map(|(at, _)| at);
    let mut ends = starts.chain([text.len()]);
    let first = ends.next().unwrap_or_default();
    let fits = |end: &usize| text.get(..*end).is_some_and(|part| columns(part) <= width);
    text.split_at(ends.take_while(fits).last().unwrap_or(first))
}

#[cfg(test)]
#[path = "columns_tests.rs"]
mod tests;
