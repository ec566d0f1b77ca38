//! Phrases that a native reader would not write, in comments and documents, each with what to write instead.
//!
//! docs/internals/style.md explains the rules of the tables.

use anyhow::Result;
use regex::Regex;

use crate::RuleFindings;
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
const LEGITIMATE: &str =
    r"`[^`]*`|\b[Tt]here (is|are|was|were) no \w+|\b(leav|left|lag|fall|fell)\w*( [\w-]+){0,8} behind\b";

/// Words with which no doc comment of an item begins: its first line stands alone in an index. "For each" is an exception.
const BEGINNINGS: &str = r"^(The same|Of|As|It|Its|In|For [^e]\w*) ";

/// Consecutive comment lines of one kind, as one line of text.
struct CommentBlock {
    /// Number of the first line, from 1.
    line: usize,
    /// Documentation of an item.
    is_doc: bool,
    text: String,
}

/// Comments and sentences with such a phrase.
pub fn check(workspace: &Workspace) -> Result<RuleFindings> {
    let everywhere = compiled(EVERYWHERE)?;
    let in_comments = compiled(IN_COMMENTS)?;
    let beginnings = Regex::new(BEGINNINGS)?;
    let legitimate = Regex::new(LEGITIMATE)?;
    let mut findings = RuleFindings::new();
    for (path, source) in &workspace.sources {
        // The benchmarks keep their words until they are rewritten.
        let is_bench = path.starts_with(workspace.root.join("bench"));
        let own = if is_bench { &[][..] } else { &in_comments[..] };
        for CommentBlock { line, is_doc, text } in comments(&source.text) {
            let text = legitimate.replace_all(&text, "``");
            let place = format!("{}:{line}", workspace.display_path(path));
            findings.extend(
                everywhere.iter().chain(own).filter_map(|phrase| phrase_finding(&place, &text, phrase)),
            );
            if !is_bench && is_doc && beginnings.is_match(&text) {
                findings.push(format!("{place}: \"{text}\"; write what the item is or does"));
            }
        }
    }
    for (path, text) in &workspace.documents {
        for (number, line) in text.lines().enumerate() {
            let place = format!("{}:{}", workspace.display_path(path), number + 1);
            findings.extend(everywhere.iter().filter_map(|phrase| phrase_finding(&place, line, phrase)));
        }
    }
    Ok(findings)
}

fn phrase_finding(place: &str, text: &str, (expression, instead): &(Regex, &str)) -> Option<String> {
    let phrase = expression.find(text)?.as_str().trim();
    Some(format!("{place}: \"{phrase}\"; write: {instead}"))
}

/// The comments of a file. A phrase may continue on the next line, so the lines of a comment are joined.
fn comments(source: &str) -> Vec<CommentBlock> {
    let mut comments: Vec<CommentBlock> = Vec::new();
    let mut marker_before = "";
    for (number, line) in source.lines().enumerate() {
        let line = line.trim_start();
        let marker =
            ["///", "//!", "//"].into_iter().find(|marker| line.starts_with(marker)).unwrap_or_default();
        let text = line[marker.len()..].trim();
        match comments.last_mut() {
            _ if marker.is_empty() => {}
            Some(comment) if marker == marker_before => {
                comment.text.push(' ');
                comment.text.push_str(text);
            }
            _ => comments.push(CommentBlock {
                line: number + 1,
                is_doc: marker == "///",
                text: text.to_owned(),
            }),
        }
        marker_before = marker;
    }
    comments
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
    fn the_lines_of_a_comment_are_one_text() {
        let found = comments("/// One\n/// two.\nfn f() {}\n    // Three.\n//! Four.\n//! Five.\n");
        let found: Vec<_> =
            found.iter().map(|comment| (comment.line, comment.is_doc, &*comment.text)).collect();
        assert_eq!(found, [(1, true, "One two."), (4, false, "Three."), (5, false, "Four. Five.")]);
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
