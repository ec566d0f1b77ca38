//! Terminal colours for the tones of styled text.

use anstream::ColorChoice;
use anstyle::{AnsiColor, Style};
use jetcell_report::{StyledText, Tone};

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

/// Applies the user's choice to all output of this process.
pub fn set_colour(colour: Colour) {
    match colour {
        Colour::Auto => ColorChoice::Auto,
        Colour::Always => ColorChoice::Always,
        Colour::Never => ColorChoice::Never,
    }
    .write_global();
}

/// Returns the text with escape sequences for its tones.
pub fn with_escape_sequences(text: &StyledText) -> String {
    let span = |(text, tone): (&str, Tone)| {
        let style = match tone {
            Tone::Neutral => Style::new(),
            Tone::Good => AnsiColor::Green.on_default(),
            Tone::Warning => AnsiColor::Yellow.on_default(),
            Tone::Bad => AnsiColor::Red.on_default(),
        };
        format!("{style}{text}{style:#}")
    };
    text.spans().map(span).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_parts_with_a_tone_are_coloured() {
        let text = StyledText::from("PASS: the file ").with("FAIL", Tone::Bad).with(" good", Tone::Neutral);
        assert_eq!(with_escape_sequences(&text), "PASS: the file \x1b[31mFAIL\x1b[0m good");
    }
}
