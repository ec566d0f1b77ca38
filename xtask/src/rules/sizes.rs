//! Every file begins with a sentence that says what it is, and no file or function is longer than a reader can hold.

use std::path::Path;

use anyhow::Result;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::Findings;
use crate::source::{attributes, is_test_only};
use crate::workspace::Workspace;

/// Most lines of a file.
const FILE_LINES: usize = 600;
/// Most lines of a function outside tests.
const FUNCTION_LINES: usize = 100;

/// Files and functions that are too long, and files other than unit tests without a module comment.
pub fn check(workspace: &Workspace) -> Result<Findings> {
    let mut findings = Findings::new();
    for (path, source) in &workspace.sources {
        let shown = workspace.shown(path);
        if source.lines() > FILE_LINES {
            findings.push(format!("{shown}: {} lines of at most {FILE_LINES}", source.lines()));
        }
        if !source.text.starts_with("//!") && !is_test_file(path) {
            findings.push(format!("{shown}: no module comment"));
        }
        let long = long_functions(&source.syntax);
        findings.extend(
            long.iter()
                .map(|(name, lines)| format!("{shown}: {name}: {lines} lines of at most {FUNCTION_LINES}")),
        );
    }
    Ok(findings)
}

/// Unit tests of the module that the name tells.
fn is_test_file(path: &Path) -> bool {
    path.file_stem()
        .and_then(|stem| stem.to_str())
        .is_some_and(|stem| stem == "tests" || stem.ends_with("_tests"))
}

fn long_functions(file: &syn::File) -> Vec<(String, usize)> {
    let mut functions = Functions::default();
    functions.visit_file(file);
    functions.0.retain(|(_, lines)| *lines > FUNCTION_LINES);
    functions.0
}

#[derive(Default)]
struct Functions(Vec<(String, usize)>);

impl Functions {
    fn add(&mut self, name: &syn::Ident, block: &syn::Block) {
        let span = block.span();
        self.0.push((name.to_string(), span.end().line - span.start().line + 1));
    }
}

impl<'ast> Visit<'ast> for Functions {
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
