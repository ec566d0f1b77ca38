//! Error in a configuration file: a single line that contains the location, the mistake, and what to write instead.

use std::fmt;

use jetcell_input::{error_line, shortened_name};
use serde::de::DeserializeOwned;

/// Error for a mistake in a sizing configuration, with a message that says what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SizingError(pub String);

impl fmt::Display for SizingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SizingError {}

/// Parses TOML. An error contains the file and the line. For an unknown key, it also contains the most similar known
/// key.
pub fn parse<T: DeserializeOwned>(file: &str, text: &str) -> Result<T, SizingError> {
    toml::from_str(text).map_err(|error: toml::de::Error| {
        let place = match error.span() {
            Some(span) => {
                let line = text.get(..span.start).unwrap_or("").matches('\n').count() + 1;
                format!("{file}, line {line}")
            }
            None => file.to_string(),
        };
        SizingError(format!("{place}: {}", explain(error.message())))
    })
}

/// Converts the parser's message to a single line. For an unknown key, replaces the list of all keys with the most
/// similar known key.
fn explain(message: &str) -> String {
    let named: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    match (message.starts_with("unknown field"), named.split_first()) {
        (true, Some((unknown, known))) => {
            let unknown = shortened_name(unknown);
            match nearest(&unknown, known) {
                Some(near) => format!("unknown key '{unknown}'; the nearest known key is '{near}'"),
                None => format!("unknown key '{unknown}' (known keys: {})", known.join(", ")),
            }
        }
        _ => error_line(&message.split_whitespace().collect::<Vec<_>>().join(" ")),
    }
}

/// Returns the known word with the smallest edit distance, unless too much of the word would have to change.
pub fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let near = known.iter().map(|name| (strsim::osa_distance(word, name), *name)).min()?;
    (near.0 <= near.1.chars().count().div_ceil(2)).then_some(near.1)
}
