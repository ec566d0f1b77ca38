//! Colours of the verdict on a terminal.

use std::io::IsTerminal;
use std::sync::OnceLock;

/// When output has colours.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Colour {
    /// On a terminal, unless the variable NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

static CHOICE: OnceLock<Colour> = OnceLock::new();

const GREEN: &str = "32";
const RED: &str = "31";
const YELLOW: &str = "33";

/// Stores what the user asked for; the first call counts.
pub fn choose(colour: Colour) {
    let _ = CHOICE.set(colour);
}

/// The text with coloured verdicts, if standard output has colours.
pub fn painted(text: &str) -> String {
    let wanted = match CHOICE.get().copied().unwrap_or(Colour::Auto) {
        Colour::Always => true,
        Colour::Never => false,
        // An empty NO_COLOR does not count (no-color.org).
        Colour::Auto => {
            std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
                && std::io::stdout().is_terminal()
        }
    };
    if wanted { paint(text) } else { text.to_string() }
}

/// Colours the verdict at the begin of a line and the outcome of a rule at its end.
fn paint(text: &str) -> String {
    let in_colour = |code: &str, word: &str| format!("\x1b[{code}m{word}\x1b[0m");
    let mut out = String::with_capacity(text.len() + 64);
    for line in text.lines() {
        let begins = [("PASS", GREEN), ("FAIL", RED), ("INCOMPLETE", YELLOW), ("  →", YELLOW)];
        let ends = [(" held", GREEN), (" BROKEN", RED)];
        let head = begins
            .iter()
            .find(|(word, _)| line.strip_prefix(word).is_some_and(|rest| rest.starts_with([':', ' '])));
        let tail = ends.iter().find(|(word, _)| line.ends_with(word));
        match (head, tail) {
            (Some((word, code)), _) => out += &(in_colour(code, word) + &line[word.len()..]),
            (None, Some((word, code))) => {
                out += &(line[..line.len() - word.len()].to_string() + &in_colour(code, word))
            }
            (None, None) => out += line,
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_and_outcomes_have_colours_and_other_text_has_none() {
        let text = "FAIL: too slow\n  → look there\n  Rule a   20  held\n  Rule b   30  BROKEN\n  PASSED 3\nPASSING\n";
        let expected = "\x1b[31mFAIL\x1b[0m: too slow\n\x1b[33m  →\x1b[0m look there\n  Rule a   20 \x1b[32m held\x1b[0m\n  \
                        Rule b   30 \x1b[31m BROKEN\x1b[0m\n  PASSED 3\nPASSING\n";
        assert_eq!(paint(text), expected);
    }
}
