//! Checks that the manual stays short, and that its glossary contains only terms of the code.

use std::path::Path;

use anyhow::{Context, Result};
use regex::Regex;

use super::links::without_code;
use crate::RuleFindings;
use crate::workspace::Workspace;

/// Maximum number of words in README.md and all pages of docs.
const MAX_WORDS: usize = 45_000;
/// Number of longest pages in the finding about too many words.
const LONGEST_PAGES: usize = 5;
/// Maximum number of lines in a page.
const MAX_LINES: usize = 150;

/// Finds pages that are too long, and terms of the glossary that no crate uses.
pub fn check(workspace: &Workspace) -> Result<RuleFindings> {
    let docs = workspace.root.join("docs");
    let readme = workspace.root.join("README.md");
    let is_page = |path: &Path| path == readme || path.starts_with(&docs) && !path.ends_with("SUMMARY.md");
    let pages = workspace.documents.iter().filter(|(path, _)| is_page(path));
    let pages: Vec<(String, &str)> =
        pages.map(|(path, text)| (workspace.display_path(path).to_string(), text.as_str())).collect();
    let mut findings = length_findings(&pages, MAX_WORDS)?;

    let glossary = docs.join("glossary.md");
    let glossary = workspace.documents.get(&glossary).context("docs/glossary.md does not exist")?;
    let crates = workspace.root.join("crates");
    let code = workspace.sources.iter().filter(|(path, _)| path.starts_with(&crates));
    let unused = unused_terms(glossary, code.map(|(_, source)| source.text.as_str()))?;
    findings.extend(unused.iter().map(|term| format!("docs/glossary.md: no crate contains '{term}'")));
    Ok(findings)
}

/// Returns the pages with too many lines, and the longest pages if all pages together have too many words.
fn length_findings(pages: &[(String, &str)], max_words: usize) -> Result<RuleFindings> {
    let long = pages.iter().filter(|(_, text)| text.lines().count() > MAX_LINES);
    let mut findings: RuleFindings = long
        .map(|(page, text)| format!("{page}: {} lines exceed the limit of {MAX_LINES}", text.lines().count()))
        .collect();
    let target = Regex::new(r"\]\([^)]*\)")?;
    let mut words: Vec<(usize, &str)> =
        pages.iter().map(|(page, text)| (count_words(text, &target), page.as_str())).collect();
    let total: usize = words.iter().map(|(count, _)| count).sum();
    if total > max_words {
        words.sort_unstable_by(|a, b| b.cmp(a));
        let longest: Vec<String> =
            words.iter().take(LONGEST_PAGES).map(|(count, page)| format!("{page} {count}")).collect();
        findings.push(format!(
            "{total} words exceed the limit of {max_words}; longest pages: {}",
            longest.join(", ")
        ));
    }
    Ok(findings)
}

/// Returns the number of words outside fenced code blocks, without the targets of links.
fn count_words(page: &str, target: &Regex) -> usize {
    let text = without_code(page);
    let text = target.replace_all(&text, "]");
    text.split_whitespace().filter(|word| word.contains(|c: char| c.is_ascii_alphanumeric())).count()
}

/// Returns the bold terms of the glossary that occur in none of the sources, singular or plural.
fn unused_terms<'a>(glossary: &str, sources: impl Iterator<Item = &'a str>) -> Result<Vec<String>> {
    let bold = Regex::new(r"\*\*([^*]+)\*\*")?;
    let mut terms: Vec<String> = bold
        .captures_iter(glossary)
        .flat_map(|captures| captures[1].split(',').map(|term| term.trim().to_owned()).collect::<Vec<_>>())
        .collect();
    for source in sources {
        if terms.is_empty() {
            break;
        }
        let words = as_words(source);
        terms.retain(|term| {
            let term = as_words(term);
            let plural = format!("{}s ", term.trim_end());
            !words.contains(&term) && !words.contains(&plural)
        });
    }
    Ok(terms)
}

/// Returns the lower-case words of a text, each between spaces. `write_hole`, `WriteHole` and `write-hole` are two words.
fn as_words(text: &str) -> String {
    let mut words = String::from(" ");
    let mut previous = ' ';
    for c in text.chars() {
        let is_separated =
            !c.is_ascii_alphanumeric() || c.is_ascii_uppercase() && previous.is_ascii_lowercase();
        if is_separated && !words.ends_with(' ') {
            words.push(' ');
        }
        if c.is_ascii_alphanumeric() {
            words.push(c.to_ascii_lowercase());
        }
        previous = c;
    }
    if !words.ends_with(' ') {
        words.push(' ');
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_in_code_and_link_targets_are_not_counted() {
        let target = Regex::new(r"\]\([^)]*\)").unwrap();
        let page = "# Two words\n\n| a | – | [link](b%20c \"d e\") |\n```sh\nnot counted\n```\n  ```\nno\n  ```\nend.\n";
        assert_eq!(count_words(page, &target), 5);
    }

    #[test]
    fn long_pages_are_named() {
        let lines = "a\n".repeat(151);
        let page = |name: &str, text| (name.to_owned(), text);
        let pages = [page("short.md", "a b c d"), page("long.md", &*lines)];
        assert_eq!(length_findings(&pages, 155).unwrap(), ["long.md: 151 lines exceed the limit of 150"]);
        assert_eq!(length_findings(&pages[..1], 4).unwrap(), [""; 0]);
        assert_eq!(
            length_findings(&pages, 154).unwrap()[1..],
            ["155 words exceed the limit of 154; longest pages: long.md 151, short.md 4"]
        );
    }

    #[test]
    fn terms_are_found_in_all_spellings() {
        let glossary = "- **write hole, page**: text (`Other`).\n- **bulk load**: text. **row**: text.\n";
        let unused = |source: &'static str| unused_terms(glossary, [source].into_iter()).unwrap();
        assert_eq!(unused("fn write_hole(pages: &[BulkLoad]) {} // Row"), [""; 0]);
        assert_eq!(unused("WriteHoles bulk-loads page3 grow"), ["page", "row"]);
        assert_eq!(unused("write\n/// hole"), ["page", "bulk load", "row"]);
    }
}
