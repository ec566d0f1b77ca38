//! Text whose parts have tones. A terminal shows tones as colours.

use std::fmt;
use std::ops::{AddAssign, Range};

use jetcell_input::{columns, printable, printable_lines};

use crate::line_wrapping::{self, fold};
use crate::table::Tone;

/// Text for a terminal in which parts have a tone. Control characters are escaped when text is added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StyledText {
    text: String,
    /// Parts that are not neutral, in order.
    tones: Vec<(Range<usize>, Tone)>,
}

impl StyledText {
    /// Creates an empty text.
    pub fn new() -> StyledText {
        StyledText::default()
    }

    /// Adds text with a tone.
    pub fn push(&mut self, text: &str, tone: Tone) {
        let from = self.text.len();
        self.text += &printable_lines(text);
        if tone != Tone::Neutral {
            self.tones.push((from..self.text.len(), tone));
        }
    }

    /// Returns the text with another part appended, which has a tone of its own.
    #[must_use]
    pub fn with(mut self, text: &str, tone: Tone) -> StyledText {
        self.push(text, tone);
        self
    }

    /// Adds one line. Line ends within it are escaped.
    pub fn add_line(&mut self, line: &str) {
        *self += &(printable(line) + "\n");
    }

    /// Adds another text.
    pub fn append(&mut self, other: StyledText) {
        let from = self.text.len();
        self.text += &other.text;
        let moved = |(range, tone): (Range<usize>, Tone)| (range.start + from..range.end + from, tone);
        self.tones.extend(other.tones.into_iter().map(moved));
    }

    /// Returns the text without tones.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the width of the text in columns. The text must be a single line.
    pub(crate) fn columns(&self) -> usize {
        columns(&self.text)
    }

    /// Wraps lines that are wider than `width` between words. See [`fold`].
    #[must_use]
    pub fn fold(self, width: usize) -> StyledText {
        let folded = fold(&self.text, width);
        self.moved_to(folded)
    }

    /// Returns `text` with the tones of this text. The two must differ only in white space.
    fn moved_to(self, text: String) -> StyledText {
        if text == self.text || self.tones.is_empty() {
            return StyledText { text, ..self };
        }
        let visible = |text: &str| {
            let all = text.char_indices().filter(|(_, c)| !c.is_whitespace());
            all.map(|(at, c)| at..at + c.len_utf8()).collect::<Vec<_>>()
        };
        let (old, new) = (visible(&self.text), visible(&text));
        let moved = |(range, tone): (Range<usize>, Tone)| {
            let first = old.partition_point(|c| c.start < range.start);
            let end = old.partition_point(|c| c.start < range.end);
            let (first, last) = (new.get(first..end)?.first()?, new.get(first..end)?.last()?);
            Some((first.start..last.end, tone))
        };
        let tones = self.tones.into_iter().filter_map(moved).collect();
        StyledText { text, tones }
    }

    /// Splits the text into lines of at most `width` columns, between words.
    pub(crate) fn lines(self, width: usize) -> Vec<StyledText> {
        let split = line_wrapping::lines(&self.text, width);
        let joined = self.moved_to(split.join("\n"));
        let mut from = 0;
        let line = |text: String| {
            let to = from + text.len();
            let part = |(range, tone): &(Range<usize>, Tone)| {
                let (start, end) = (range.start.max(from), range.end.min(to));
                (start < end).then(|| (start - from..end - from, *tone))
            };
            let tones = joined.tones.iter().filter_map(part).collect();
            from = to + 1;
            StyledText { text, tones }
        };
        split.into_iter().map(line).collect()
    }

    /// Returns the parts of the text with their tones.
    pub fn spans(&self) -> impl Iterator<Item = (&str, Tone)> {
        let ends = self.tones.iter().map(|(range, _)| range.end);
        let starts = self.tones.iter().map(|(range, _)| range.start).chain([self.text.len()]);
        let neutral = std::iter::once(0).chain(ends).zip(starts).map(|(from, to)| (from..to, Tone::Neutral));
        let toned = self.tones.iter().cloned().map(Some).chain([None]);
        let all = neutral.zip(toned).flat_map(|(before, toned)| std::iter::once(before).chain(toned));
        let text = |(range, tone): (Range<usize>, Tone)| (self.text.get(range).unwrap_or_default(), tone);
        all.map(text).filter(|(text, _)| !text.is_empty())
    }
}

impl AddAssign<&str> for StyledText {
    fn add_assign(&mut self, text: &str) {
        self.push(text, Tone::Neutral);
    }
}

impl From<&str> for StyledText {
    fn from(text: &str) -> StyledText {
        StyledText::new().with(text, Tone::Neutral)
    }
}

impl From<String> for StyledText {
    fn from(text: String) -> StyledText {
        text.as_str().into()
    }
}

/// The text without tones.
impl fmt::Display for StyledText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
#[path = "styled_text_tests.rs"]
mod tests;
