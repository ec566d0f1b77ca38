//! A mistake in the options of a run.

use jetcell_input::printable;
use thiserror::Error;

/// Longer lines are cut, because a configuration file may contain anything.
const LONGEST_MISTAKE: usize = 400;

/// One mistake in the options: what is wrong and what to do, always on one line.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Mistake(String);

impl Mistake {
    /// Line ends become spaces, and other control characters, which may come from a file, become escapes.
    pub fn new(what: impl AsRef<str>) -> Mistake {
        // Preparation makes no text shorter, so the rest of a long one is not needed.
        let start: String = what.as_ref().chars().take(LONGEST_MISTAKE + 1).collect();
        let start = printable(&start.replace(['\n', '\r', '\t'], " ")).into_owned();
        let mut line: String = start.chars().take(LONGEST_MISTAKE).collect();
        if start.chars().nth(LONGEST_MISTAKE).is_some() {
            line.push('…');
        }
        Mistake(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_is_one_line_of_bounded_length() {
        let hostile = Mistake::new(format!("a\nb\u{1b}[31m{}", "x".repeat(10_000)));
        assert!(hostile.to_string().starts_with("a b\\u{1b}[31mxxx"));
        assert_eq!(hostile.to_string().chars().count(), LONGEST_MISTAKE + 1);
    }
}
