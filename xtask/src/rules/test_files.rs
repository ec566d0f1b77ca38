//! Checks that test code is in `tests` folders or in files that end in `_tests.rs`, and that these contain only test
//! code.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::RuleFindings;
use crate::modules::file_of;
use crate::workspace::Workspace;

/// Finds modules of tests in files that are named like product code, and the reverse.
pub fn check(workspace: &Workspace) -> Result<RuleFindings> {
    let mut findings = RuleFindings::new();
    for (path, source) in &workspace.sources {
        let is_test_file = is_named_for_tests(path);
        if path.file_stem().and_then(|stem| stem.to_str()).is_some_and(|stem| stem.ends_with("_test"))
            && !is_test_file
        {
            findings.push(format!("{}: the file name ends in _test.rs", workspace.display_path(path)));
        }
        for item in &source.syntax.items {
            let syn::Item::Mod(item) = item else { continue };
            if item.content.is_some() || is_test_file {
                continue;
            }
            let name = item.ident.to_string();
            let named = path_attribute(&item.attrs).map(|name| path.with_file_name(name));
            let Some(file) = named.or_else(|| file_of(path, &name, &workspace.sources)) else { continue };
            let what = match (is_test(&item.attrs), is_named_for_tests(&file)) {
                (true, false) => "test code in a file that does not end in _tests.rs",
                (false, true) => "product code in a file with the name of a test file",
                _ => continue,
            };
            findings.push(format!("{}: {what}", workspace.display_path(&file)));
        }
    }
    Ok(findings)
}

/// Returns true if a path is reserved for test code: it is in a folder that is named `tests` or ends in `_tests`, is named
/// `tests.rs`, or ends in `_tests.rs`.
pub(super) fn is_named_for_tests(path: &Path) -> bool {
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let folders = path.parent().into_iter().flat_map(Path::components);
    stem == "tests"
        || stem.ends_with("_tests")
        || folders.into_iter().any(|folder| {
            let name = folder.as_os_str().to_string_lossy();
            name == "tests" || name.ends_with("_tests")
        })
}

/// Returns true if a module exists only in builds of tests. Primitives of model checkers are not test code, because
/// product code runs on them.
fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::List(list) if list.path.is_ident("cfg") => {
            let condition: String = list.tokens.to_string().split_whitespace().collect();
            condition.split(|c: char| !c.is_alphanumeric()).any(|word| word == "test")
                && !condition.contains("not(test")
        }
        _ => false,
    })
}

/// Returns the value of a `#[path]` attribute.
fn path_attribute(attributes: &[syn::Attribute]) -> Option<PathBuf> {
    attributes.iter().filter(|attribute| attribute.path().is_ident("path")).find_map(|attribute| {
        let syn::Meta::NameValue(pair) = &attribute.meta else { return None };
        let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) = &pair.value else { return None };
        Some(PathBuf::from(text.value()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_test_code_from_product_code() {
        for (path, expected) in [
            ("crates/a/src/b_tests.rs", true),
            ("crates/a/src/b_tests/mod.rs", true),
            ("crates/a/src/tests.rs", true),
            ("crates/a/src/b/tests/fixture.rs", true),
            ("crates/a/tests/it/main.rs", true),
            ("crates/a/src/b.rs", false),
            ("crates/a/src/b_test.rs", false),
            ("crates/contests/src/b.rs", false),
        ] {
            assert_eq!(is_named_for_tests(Path::new(path)), expected, "{path}");
        }
    }
}
