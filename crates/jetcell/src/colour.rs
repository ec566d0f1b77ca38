//! Colours for verdicts on a terminal.

use std::io::IsTerminal;
use std::sync::OnceLock;

/// Setting that controls whether output is coloured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Colour {
    /// Use colours on a terminal, unless the variable NO_COLOR is set
    Auto,
    /// Always use colours
    Always,
    /// Never use colours
    Never,
}

static COLOUR_SETTING: OnceLock<Colour> = OnceLock::new();

const GREEN: &str = "32";
const RED: &str = "31";
const YELLOW: &str = "33";

/// Stores the user's choice. Only the first call has an effect.
pub fn set_colour(colour: Colour) {
    let _ = COLOUR_SETTING.set(colour);
}

/// Returns true if standard output should have colours.
pub fn is_enabled() -> bool {
    match COLOUR_SETTING.get().copied().unwrap_or(Colour::Auto) {
        Colour::Always => true,
        Colour::Never => false,
        // An empty NO_COLOR is ignored (no-color.org).
        Colour::Auto => {
            std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
                && std::io::stdout().is_terminal()
        }
    }
}

/// Returns the text with coloured verdicts if standard output should have colours.
pub fn colour_verdicts(text: &str) -> String {
    if is_enabled() { colour_line(text) } else { text.to_string() }
}

/// Words that are coloured at the start of a line if a colon follows. Words without lowercase letters are also
/// coloured if a space follows.
const LINE_START_COLOURS: [(&str, &str); 8] = [
    ("PASS", GREEN),
    ("FAIL", RED),
    ("INCOMPLETE", YELLOW),
    ("error", RED),
    ("warning", YELLOW),
    ("LOST", RED),
    ("→", YELLOW),
    ("!", YELLOW),
];

/// Words that are coloured at the end of a line if they follow a colon.
const LINE_END_COLOURS: [(&str, &str); 2] = [("good", GREEN), ("BAD", RED)];

/// Table cells that are coloured.
const CELL_COLOURS: [(&str, &str); 12] = [
    ("PASS", GREEN),
    ("FAIL", RED),
    ("INCOMPLETE", YELLOW),
    ("held", GREEN),
    ("BROKEN", RED),
    ("sound", GREEN),
    ("UNREADABLE", RED),
    ("good", GREEN),
    ("change", YELLOW),
    ("error", RED),
    ("warning", YELLOW),
    ("CUT OFF", RED),
];

/// Cells that may be followed by a comma and details, such as `sound, clean` and `PASS, 2 doubts`.
const DETAILED_VERDICTS: [&str; 4] = ["sound", "PASS", "FAIL", "INCOMPLETE"];

/// Nouns that are coloured together with their count at the start of a cell, such as `2 ERRORs, 1 warning`.
const COUNTED_SEVERITIES: [(&str, &str); 2] = [("ERROR", RED), ("warning", YELLOW)];

/// Colours verdicts at the start of a line and in table cells. Two or more spaces separate cells.
fn colour_line(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 64);
    for line in text.split_inclusive('\n') {
        let content = line.trim_start_matches(' ');
        let is_begin = |word: &str| {
            let rest = content.strip_prefix(word).unwrap_or_default();
            rest.starts_with(':') || (rest.starts_with(' ') && !word.contains(char::is_lowercase))
        };
        out.push_str(&line[..line.len() - content.len()]);
        let end = content.trim_end().rsplit_once(": ").map_or("", |(_, end)| end);
        if let Some((word, code)) = LINE_START_COLOURS.iter().find(|(word, _)| is_begin(word)) {
            out += &(with_colour(code, word) + &content[word.len()..]);
        } else if let Some((word, code)) = LINE_END_COLOURS.iter().find(|(word, _)| *word == end) {
            let (before, after) = content.rsplit_once(end).unwrap_or((content, ""));
            out += &(before.to_string() + &with_colour(code, word) + after);
        } else {
            paint_cells(content, &mut out);
        }
    }
    out
}

fn paint_cells(line: &str, out: &mut String) {
    for (number, cell) in line.split("  ").enumerate() {
        if number > 0 {
            out.push_str("  ");
        }
        // A cell in a right-aligned column may start with a space that belongs to the gap, and the last cell includes
        // the line end.
        let word = cell.trim();
        match cell_colour(word) {
            Some((code, coloured)) => {
                let (before, after) = cell.split_once(coloured).unwrap_or((cell, ""));
                out.push_str(&(before.to_string() + &with_colour(code, coloured) + after));
            }
            None => out.push_str(cell),
        }
    }
}

/// Returns the colour of a cell, and the part of the cell that is coloured.
fn cell_colour(cell: &str) -> Option<(&'static str, &str)> {
    let first = cell.split(", ").next().unwrap_or_default();
    let is_word = |word: &str| cell == word || (first == word && DETAILED_VERDICTS.contains(&word));
    if let Some((word, code)) = CELL_COLOURS.iter().find(|(word, _)| is_word(word)) {
        return Some((code, word));
    }
    let (count, noun) = first.split_once(' ')?;
    count.parse::<u64>().ok()?;
    let (_, code) =
        COUNTED_SEVERITIES.iter().find(|(word, _)| noun.strip_suffix('s').unwrap_or(noun) == *word)?;
    Some((code, first))
}

fn with_colour(code: &str, word: &str) -> String {
    format!("\x1b[{code}m{word}\x1b[0m")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_verdicts_and_outcomes_are_coloured() {
        let text = "FAIL: too slow\n  → look there\n  Rule a   20  held\n  Rule b   30  BROKEN\n  PASSED 3\nPASSING\n  \
                    one  PASS, 2 doubts  7\n";
        let expected = "\x1b[31mFAIL\x1b[0m: too slow\n  \x1b[33m→\x1b[0m look there\n  Rule a   20  \x1b[32mheld\x1b[0m\n  \
                        Rule b   30  \x1b[31mBROKEN\x1b[0m\n  PASSED 3\nPASSING\n  \
                        one  \x1b[32mPASS\x1b[0m, 2 doubts  7\n";
        assert_eq!(colour_line(text), expected);
    }

    #[test]
    fn findings_counts_and_cells_have_colours() {
        let (red, green, yellow) = ("\x1b[31m", "\x1b[32m", "\x1b[33m");
        for (text, expected) in [
            ("error: a.edb: bad", format!("{red}error\x1b[0m: a.edb: bad")),
            ("  warning: b", format!("  {yellow}warning\x1b[0m: b")),
            ("errors: a", "errors: a".into()),
            ("error of a device", "error of a device".into()),
            ("a: full backup: good\n", format!("a: full backup: {green}good\x1b[0m\n")),
            ("a.edb  clean  7  sound, 5 tables", format!("a.edb  clean  7  {green}sound\x1b[0m, 5 tables")),
            ("a.edb    7  2 ERRORs, 1 bad page", format!("a.edb    7  {red}2 ERRORs\x1b[0m, 1 bad page")),
            ("a.edb  1 warning\n", format!("a.edb  {yellow}1 warning\x1b[0m\n")),
            ("  run  FAIL     3", format!("  run  {red}FAIL\x1b[0m     3")),
            ("  change   clock", format!("  {yellow}change\x1b[0m   clock")),
            ("  ! not repeated", format!("  {yellow}!\x1b[0m not repeated")),
            ("2026  error        477  text", format!("2026  {red}error\x1b[0m        477  text")),
            ("a sound file, 3 warnings of it", "a sound file, 3 warnings of it".into()),
            ("", String::new()),
        ] {
            assert_eq!(colour_line(text), expected);
        }
    }
}
