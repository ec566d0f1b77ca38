//! Checks that every file begins with a module comment, and that no file or function is too long to be understood.

use std::path::Path;

use anyhow::Result;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::RuleFindings;
use crate::source::{attributes, is_test_only};
use crate::workspace::Workspace;

/// Maximum number of lines in a file.
const FILE_LINES: usize = 600;
/// Maximum number of lines in a function outside tests.
const FUNCTION_LINES: usize = 100;

/// Finds files and functions that are too long, and files without a module comment, except for unit tests.
pub fn check(workspace: &Workspace) -> Result<RuleFindings> {
    let mut findings = RuleFindings::new();
    for (path, source) in &workspace.sources {
        let shown = workspace.display_path(path);
        if source.lines() > FILE_LINES {
            findings.push(format!("{shown}: {} lines exceed the limit of {FILE_LINES}", source.lines()));
        }
        if !source.text.starts_with("//!") && !is_test_file(path) {
            findings.push(format!("{shown}: the module comment is missing"));
        }
        let long = long_functions(&source.syntax);
        findings.extend(long.iter().map(|(name, lines)| {
            format!("{shown}: {name}: {lines} lines exceed the limit of {FUNCTION_LINES}")
        }));
    }
    Ok(findings)
}

/// Returns true if the file contains unit tests of the module in its name.
fn is_test_file(path: &Path) -> bool {
    path.file_stem()
        .and_then(|stem| stem.to_str())
        .is_some_and(|stem| stem == "tests" || stem.ends_with("_tests"))
}

fn long_functions(file: &syn::File) -> Vec<(String, usize)> {
    let mut functions = FunctionSizes::default();
    functions.visit_file(file);
    functions.0.retain(|(_, lines)| *lines > FUNCTION_LINES);
    functions.0
}

#[derive(Default)]
struct FunctionSizes(Vec<(String, usize)>);

impl FunctionSizes {
    fn add(&mut self, name: &syn::Ident, block: &syn::Block) {
        let span = block.span();
        self.0.push((name.to_string(), span.end().line - span.start().line + 1));
    }
}

impl<'ast> Visit<'ast> for FunctionSizes {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !is_test_only(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.add(&function.sig.ident, &function.block);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.add(&function.sig.ident, &function.block);
        visit::visit_impl_item_fn(self, function);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_of_101_lines_is_too_long() {
        let function =
            |lines: usize| format!("struct S; impl S {{ fn f() {{\n{}}} }}", "g();\n".repeat(lines - 2));
        let long = |text: String| long_functions(&syn::parse_file(&text).unwrap());
        assert!(long(function(100)).is_empty());
        assert_eq!(long(function(101)), [("f".to_owned(), 101)]);
    }
}
