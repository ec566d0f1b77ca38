//! Phrases that a native reader would not write, in comments, messages, names of tests and documents, each with what to
//! write instead.
//!
//! docs/internals/style.md explains the rules of the tables.

use anyhow::Result;
use regex::Regex;
use syn::visit::Visit;

use super::test_files::is_named_for_tests;
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

/// Phrases to avoid in Rust files: in comments, string literals of product code, and names of tests.
const IN_SOURCES: &[Phrase] = &[
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

/// Phrases that are not examined: literals, "there is no log", "leaves no file behind", "lags behind the log",
/// "generations behind", the option `--beside`.
const LEGITIMATE: &str = r"`[^`]*`|\b[Tt]here (is|are|was|were) no \w+|\b(leav|left|lag|fall|fell)\w*( [\w-]+){0,8} behind\b|\b([Gg]enerations|Operations) behind\b|\bBehind at the end\b|--beside\b";

/// Minimum number of words in a string literal that is examined. Shorter ones are keys and labels.
const MIN_WORDS: usize = 3;

/// Words with which no doc comment of an item begins: its first line stands alone in an index.
const BEGINNINGS: &str = r"^(The same|Of|As|It|Its|For|In|What|Says|Where)\b";

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
    let in_sources = compiled(IN_SOURCES)?;
    let beginnings = Regex::new(BEGINNINGS)?;
    let legitimate = Regex::new(LEGITIMATE)?;
    let mut findings = RuleFindings::new();
    let rules = workspace.root.join("xtask/src/rules");
    for (path, source) in &workspace.sources {
        let shown = workspace.display_path(path);
        let phrases_in = |line: usize, text: &str| -> Vec<String> {
            let text = legitimate.replace_all(text, "``");
            let phrases = everywhere.iter().chain(&in_sources);
            phrases.filter_map(|phrase| phrase_finding(&format!("{shown}:{line}"), &text, phrase)).collect()
        };
        for CommentBlock { line, is_doc, text } in comments(&source.text) {
            findings.extend(phrases_in(line, &text));
            if is_doc && beginnings.is_match(&text) {
                findings.push(format!("{shown}:{line}: \"{text}\"; write what the item is or does"));
            }
        }
        let mut names = TestNames::default();
        names.visit_file(&source.syntax);
        findings.extend(names.0.iter().flat_map(|(line, text)| phrases_in(*line, text)));
        // The rules themselves name the phrases.
        if !is_named_for_tests(path) && !path.starts_with(&rules) {
            findings.extend(literals(&source.text)?.iter().flat_map(|(line, text)| phrases_in(*line, text)));
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

/// The string literals of a file that may be sentences, with the numbers of their lines.
fn literals(source: &str) -> Result<Vec<(usize, String)>> {
    let code: Vec<&str> =
        source.lines().map(|line| if line.trim_start().starts_with("//") { "" } else { line }).collect();
    let code = code.join("\n");
    // A character literal may contain a quotation mark.
    let literal = Regex::new(r#"(?s)'(?:\\.|[^'\\])'|r\#"(.*?)"\#|"((?:[^"\\]|\\.)*)""#)?;
    let continuation = Regex::new(r"\\\n\s*")?;
    let mut texts = vec![];
    for found in literal.captures_iter(&code) {
        let Some(text) = found.get(1).or_else(|| found.get(2)) else { continue };
        let line = code[..text.start()].matches('\n').count() + 1;
        let text = continuation.replace_all(text.as_str(), "");
        if text.split_whitespace().count() >= MIN_WORDS {
            texts.push((line, text.into_owned()));
        }
    }
    Ok(texts)
}

/// The names of a file's tests as sentences, with the numbers of their lines.
#[derive(Default)]
struct TestNames(Vec<(usize, String)>);

impl Visit<'_> for TestNames {
    fn visit_item_fn(&mut self, item: &syn::ItemFn) {
        if item.attrs.iter().any(|attribute| attribute.path().is_ident("test")) {
            let name = &item.sig.ident;
            self.0.push((name.span().start().line, name.to_string().replace('_', " ")));
        }
    }
}

fn compiled(phrases: &[Phrase]) -> Result<Vec<(Regex, &'static str)>> {
    phrases.iter().map(|(expression, instead)| Ok((Regex::new(expression)?, *instead))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_found(text: &str) -> bool {
        let phrases = EVERYWHERE.iter().chain(IN_SOURCES);
        compiled(&phrases.copied().collect::<Vec<_>>())
            .unwrap()
            .iter()
            .any(|(expression, _)| expression.is_match(text))
    }

    #[test]
    fn comment_lines_are_joined() {
        let found = comments("/// One\n/// two.\nfn f() {}\n    // Three.\n//! Four.\n//! Five.\n");
        let found: Vec<_> =
            found.iter().map(|comment| (comment.line, comment.is_doc, &*comment.text)).collect();
        assert_eq!(found, [(1, true, "One two."), (4, false, "Three."), (5, false, "Four. Five.")]);
    }

    #[test]
    fn literals_and_names_of_tests_are_texts() {
        let source = r##"
            // "not a literal at all"
            const QUOTE: char = '"';
            #[error("the page is \
                damaged")]
            struct Damaged;
            #[test]
            fn a_page_is_read() { f(r#"one "two" three"#, "two words") }
        "##;
        let texts: Vec<_> = literals(source).unwrap();
        assert_eq!(texts, [(4, "the page is damaged".to_owned()), (8, r#"one "two" three"#.to_owned())]);
        let mut names = TestNames::default();
        names.visit_file(&syn::parse_file(source).unwrap());
        assert_eq!(names.0, [(8, "a page is read".to_owned())]);
    }

    #[test]
    fn odd_phrases_are_found_and_plain_sentences_accepted() {
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
