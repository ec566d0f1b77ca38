//! Phrases that a native reader would not write, in comments and documents, each with what to write instead.
//!
//! docs/internals/style.md explains the rules of the tables.

use anyhow::Result;
use regex::Regex;

use crate::Findings;
use crate::workspace::Workspace;

/// A regular expression of a phrase, and what to write instead.
type Phrase = (&'static str, &'static str);

/// Phrases to avoid in comments and documents.
const EVERYWHERE: &[Phrase] = &[
    (r"\b[Ww]hoever\b|\b[Ww]hosoever\b", "name the subject"),
    (r"(^|[.:;,] )[Ww]ho ", "repeat the subject in a new sentence"),
    (r"\b(anybody|somebody|nobody|everybody)\b", "name the user, the process or the thread"),
    (r"\b(goes|go|went) away\b", "is removed, disconnects, expires"),
    (r"\b(comes|come|came) back\b", "returns, is restored, reconnects"),
    (r"\blets? (it|them|him|her|no|go)\b", "allows, releases"),
    (r"\bwhat is (there|his|its)\b", "name the thing"),
    (r"\b(nothing|none) (of it )?is (his|hers)\b", "name the owner"),
];

/// Phrases to avoid in comments of Rust files.
const IN_COMMENTS: &[Phrase] = &[
    (r"\b[Bb]ehind\b", "after, past, following; below, of a layer"),
    (r"\b[Bb]esides?\b", "next to, concurrently with, in addition to"),
    (
        r"\b(is|are|was|were) no (device|file|error|page|log|member|part|copy|database|array|directory|matter)\b",
        "is not a",
    ),
    (r"\b[Uu]nder way\b", "in flight, in progress, running"),
    (r"\b[Tt]he same (of|for)\b", "repeat the sentence"),
    (r"\bat the begin\b", "at the start, at the beginning"),
    (r"\b[Mm]eanwhile\b", "while X runs, concurrently"),
    (r"\b[Aa]s far as\b", "if, to the extent that"),
    (r"\bso (many|much)\b", "the number of, the amount of"),
    (r"\b(goes|go|went) on\b", "continues, resumes"),
    (r"\b(heard|hears|says so|said so)\b", "receives, reports, logs"),
    (r"\b(bears|mend|mends|mended)\b", "tolerates; fixes"),
    (r"\b([Bb]y|in) turns\b", "alternating, interleaved"),
    (r"\bthe one before\b", "the previous X"),
    (r"\b(in|at) hand\b", "available, being processed"),
];

/// Phrases that are not examined: literals, "there is no log", "leaves no file behind", "lags behind the log".
const LEGITIMATE: &str = r"`[^`]*`|\b[Tt]here (is|are|was|were) no \w+|\b(leav|left|lag|fall|fell)\w*( [\w-]+){0,6} behind\b|^behind\b|^directory behind";

/// Words with which no doc comment of an item begins: its first line stands alone in an index.
const BEGINNINGS: &str = r"^(The same|Of|As|It|Its|In|For [^e]\w*) ";

/// Comments and sentences with such a phrase.
pub fn check(workspace: &Workspace) -> Result<Findings> {
    let everywhere = compiled(EVERYWHERE)?;
    let in_comments = compiled(IN_COMMENTS)?;
    let beginnings = Regex::new(BEGINNINGS)?;
    let comment = Regex::new(r"^\s*//[/!]?\s?(.*)$")?;
    let legitimate = Regex::new(LEGITIMATE)?;
    let mut findings = Findings::new();
    for (path, source) in &workspace.sources {
        let mut before = "";
        // The benchmarks keep their words until they are rewritten.
        let is_bench = path.starts_with(workspace.root.join("bench"));
        let in_comments = if is_bench { &[][..] } else { &in_comments[..] };
        for (number, line) in source.text.lines().enumerate() {
            let text =
                comment.captures(line).and_then(|captures| captures.get(1)).map_or("", |text| text.as_str());
            let prose = legitimate.replace_all(text, "``");
            let mut found = |what: &str, instead: &str| {
                findings.push(format!(
                    "{}:{}: \"{what}\"; write: {instead}",
                    workspace.shown(path),
                    number + 1
                ));
            };
            for (expression, instead) in everywhere.iter().chain(in_comments) {
                if let Some(phrase) = expression.find(&prose) {
                    found(phrase.as_str().trim(), instead);
                }
            }
            let is_doc = |line: &str| line.trim_start().starts_with("///");
            if !in_comments.is_empty() && is_doc(line) && !is_doc(before) && beginnings.is_match(&prose) {
                found(&prose, "what the item is or does, as a sentence of its own");
            }
            before = line;
        }
    }
    for (path, text) in &workspace.documents {
        for (number, line) in text.lines().enumerate() {
            for (expression, instead) in &everywhere {
                if let Some(phrase) = expression.find(line) {
                    let phrase = phrase.as_str().trim();
                    findings.push(format!(
                        "{}:{}: \"{phrase}\"; write: {instead}",
                        workspace.shown(path),
                        number + 1
                    ));
                }
            }
        }
    }
    Ok(findings)
}

fn compiled(phrases: &[Phrase]) -> Result<Vec<(Regex, &'static str)>> {
    phrases.iter().map(|(expression, instead)| Ok((Regex::new(expression)?, *instead))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_found(text: &str) -> bool {
        let phrases = EVERYWHERE.iter().chain(IN_COMMENTS);
        compiled(&phrases.copied().collect::<Vec<_>>())
            .unwrap()
            .iter()
            .any(|(expression, _)| expression.is_match(text))
    }

    #[test]
    fn riddles_are_found_and_plain_sentences_are_not() {
        for riddle in [
            "Who is refused goes on",
            "the page comes back with its edits",
            "nobody else sees it",
            "lets no more go",
            "the record behind the page",
            "this is no device",
            "so many bytes",
        ] {
            assert!(is_found(riddle), "{riddle}");
        }
        for plain in [
            "The session that is refused continues.",
            "a user who reads the report",
            "The cache evicts the page.",
            "The number of pages is no longer known.",
            "There is no free page.",
        ] {
            assert!(!is_found(plain), "{plain}");
        }
        let beginnings = Regex::new(BEGINNINGS).unwrap();
        assert!(beginnings.is_match("Of a page.") && beginnings.is_match("The same for logs."));
        assert!(!beginnings.is_match("Format of a page.") && !beginnings.is_match("Indexes of a table."));
    }
}
