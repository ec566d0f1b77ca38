//! Finds phrases in comments and documents that readers with English as a second language may not understand.

use anyhow::Result;
use regex::Regex;

use crate::Findings;
use crate::workspace::Workspace;

/// Patterns of the phrases. Instead, name the subject and use the usual verb.
const PHRASES: &str = concat!(
    r"\b[Ww]hoever\b|\b[Ww]hosoever\b|(^|[.:;,] )[Ww]ho |\b(anybody|somebody|nobody|everybody)\b|",
    r"\b(goes|go|went) away\b|\b(comes|come|came) back\b|\blets? (it|them|him|her|no|go)\b|\bwhat is (there|his|its)\b|",
    r"\b(nothing|none) (of it )?is (his|hers)\b"
);

/// Finds comments and sentences with such a phrase.
pub fn check(workspace: &Workspace) -> Result<Findings> {
    let phrases = Regex::new(PHRASES)?;
    let comment = Regex::new(r"^\s*//[/!]?\s?(.*)$")?;
    let mut findings = Findings::new();
    let code = workspace.sources.iter().map(|(path, source)| (path, &source.text, Some(&comment)));
    let documents = workspace.documents.iter().map(|(path, text)| (path, text, None));
    for (path, text, comment) in code.chain(documents) {
        for (number, line) in text.lines().enumerate() {
            let prose = match comment {
                Some(comment) => comment
                    .captures(line)
                    .and_then(|captures| captures.get(1))
                    .map_or("", |text| text.as_str()),
                None => line,
            };
            if let Some(phrase) = phrases.find(prose) {
                findings.push(format!(
                    "{}:{}: \"{}\"",
                    workspace.shown(path),
                    number + 1,
                    phrase.as_str().trim()
                ));
            }
        }
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn riddles_are_found_and_plain_sentences_are_not() {
        let phrases = Regex::new(PHRASES).unwrap();
        for riddle in [
            "Who is refused goes on",
            "the page comes back with its edits",
            "nobody else sees it",
            "lets no more go",
        ] {
            assert!(phrases.is_match(riddle), "{riddle}");
        }
        for plain in [
            "The session that is refused continues.",
            "a user who reads the report",
            "The cache evicts the page.",
        ] {
            assert!(!phrases.is_match(plain), "{plain}");
        }
    }
}
