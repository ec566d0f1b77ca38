//! A mistake in the options of a run.

use thiserror::Error;

/// Longer lines are cut, because a configuration file may contain anything.
const LONGEST_MISTAKE: usize = 400;

/// One mistake in the options: what is wrong and what to do, always on one line.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Mistake(String);

impl Mistake {
    /// Control characters, which may come from a file, become spaces.
    pub fn new(what: impl AsRef<str>) -> Mistake {
        let clean = |c: char| if c.is_control() { ' ' } else { c };
        let mut line: String = what.as_ref().chars().map(clean).take(LONGEST_MISTAKE).collect();
        if what.as_ref().chars().nth(LONGEST_MISTAKE).is_some() {
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
        assert!(hostile.to_string().starts_with("a b [31mxxx"));
        assert_eq!(hostile.to_string().chars().count(), LONGEST_MISTAKE + 1);
    }
}
