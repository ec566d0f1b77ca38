//! Finds copies of mechanisms that `jetcell-input` has for all crates.

use std::ops::RangeInclusive;
use std::path::Path;

use anyhow::Result;
use regex::Regex;
use syn::spanned::Spanned;

use super::test_files::is_named_for_tests;
use crate::RuleFindings;
use crate::source::{SourceFile, attributes, is_test_only};
use crate::workspace::Workspace;

/// Crate that contains the mechanisms.
const SHARED: &str = "jetcell-input";
/// Crates below `jetcell-input`, or independent of it, which format bytes as hexadecimal digits themselves.
const INDEPENDENT: [&str; 2] = ["ese-format", "ese-check"];

/// Patterns of copies, and what to use instead.
const COPIES: [(&str, &str); 8] = [
    (
        r"\btoml::(from_str|from_slice|de::|Table\b)|\bDeTable\b",
        "parse TOML with jetcell_input::toml::parse, whose errors name the source, the line and the key",
    ),
    (r"\bstrsim::", "find similar words with jetcell_input::nearest"),
    (
        r"(matches\('\\n'\)|== b'\\n'\))\.count\(\)",
        "do not count lines for errors; jetcell_input::toml::TomlError contains the line",
    ),
    (
        r#""[KMGTkmgt][Ii]?[Bb](/s)?"\s*(=>|,\s*\(?[0-9])"#,
        "parse units with a type or a QuantityKind of jetcell_input::quantity",
    ),
    (r"\bconst MIB: f64|\b1_048_576\.0|\b1048576\.0", "use jetcell_input::number::MIB"),
    (
        r"\bfn (grouped|decimal|significant|four_digits|human_bytes|format_duration|duration_text|nearest)\b",
        "use the function of this name in jetcell_input (number, time, or the crate itself)",
    ),
    (r"trim_end_matches\('0'\)\.trim_end_matches\('\.'\)", "use jetcell_input::number::without_zeros"),
    (r"\{\w*:02x\}", "format bytes with jetcell_input::hex::hex"),
];

/// Finds such copies in product code.
pub fn check(workspace: &Workspace) -> Result<RuleFindings> {
    let copies = COPIES.iter().map(|(pattern, advice)| Ok((Regex::new(pattern)?, *advice)));
    let copies = copies.collect::<Result<Vec<_>>>()?;
    let mut findings = RuleFindings::new();
    for package in workspace.members.iter().filter(|package| package.name != SHARED) {
        let folder = package.directory().join("src");
        let is_product = |path: &Path| path.starts_with(&folder) && !is_named_for_tests(path);
        if !package.directory().starts_with(workspace.root.join("crates")) {
            continue;
        }
        for (path, source) in workspace.sources.iter().filter(|(path, _)| is_product(path)) {
            let found = copies_in(source, &copies).into_iter();
            let found = found.filter(|(_, advice)| {
                !(INDEPENDENT.contains(&package.name.as_str()) && advice.contains("hex::hex"))
            });
            findings.extend(
                found.map(|(line, advice)| format!("{}:{line}: {advice}", workspace.display_path(path))),
            );
        }
    }
    Ok(findings)
}

/// Returns the lines with copies and the advice for each, except in comments and in test code.
fn copies_in<'a>(source: &SourceFile, copies: &[(Regex, &'a str)]) -> Vec<(usize, &'a str)> {
    let tests = source.syntax.items.iter().filter(|item| is_test_only(attributes(item)));
    let tests: Vec<RangeInclusive<usize>> =
        tests.map(|item| item.span().start().line..=item.span().end().line).collect();
    let mut found = Vec::new();
    for (number, line) in (1..).zip(source.text.lines()) {
        if line.trim_start().starts_with("//") || tests.iter().any(|lines| lines.contains(&number)) {
            continue;
        }
        found.extend(
            copies.iter().filter(|(copy, _)| copy.is_match(line)).map(|(_, advice)| (number, *advice)),
        );
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_found_outside_tests_and_comments() {
        let copies = COPIES.map(|(pattern, advice)| (Regex::new(pattern).unwrap(), advice));
        let lines = |text: &str| {
            let source = SourceFile::parse(text.to_owned()).unwrap();
            copies_in(&source, &copies).into_iter().map(|(line, _)| line).collect::<Vec<_>>()
        };
        let wrong = [
            "fn f() { toml::from_str(text); }",
            "fn f() { strsim::osa_distance(a, b); }",
            "fn f() { text.bytes().filter(|byte| *byte == b'\\n').count(); }",
            "const UNITS: [(&str, u64); 1] = [(\"KiB\", 1 << 10)];",
            "fn f() { match unit { \"mb\" => 1e6 } }",
            "const MIB: f64 = 1_048_576.0;",
            "pub fn grouped(count: u64) {}",
            "fn f() { format!(\"{byte:02x}\"); }",
        ];
        for line in wrong {
            assert_eq!(
                lines(&format!("// {line}\n{line}\n#[cfg(test)]\nmod tests {{\n{line}\n}}\n")),
                [2],
                "{line}"
            );
        }
        assert_eq!(lines("fn f() { toml::parse(source, text); show(\"KiB\", value); }"), [0; 0]);
    }
}
