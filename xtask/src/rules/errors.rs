//! Finds errors that are text. A caller cannot tell one text from another, and the command cannot print its advice.

use std::path::{Path, PathBuf};

use anyhow::Result;
use proc_macro2::Ident;
use syn::visit::{self, Visit};
use syn::{Attribute, Fields, GenericArgument, LitStr, PathArguments, Type};

use crate::RuleFindings;
use crate::rules::test_files::is_named_for_tests;
use crate::source::{attributes, is_test_only};
use crate::workspace::Workspace;

/// Crates whose errors must not contain their text.
const NO_TEXT_FIELDS: [&str; 2] = ["ese-engine", "jetcell"];

/// Names of fields that contain the text of an error.
const TEXT_FIELDS: [&str; 3] = ["message", "text", "what"];

/// Finds functions, types and traits whose error type is text, and errors that contain their text.
pub fn check(workspace: &Workspace) -> Result<RuleFindings> {
    let (crates, python) = (workspace.root.join("crates"), workspace.root.join("python"));
    let is_checked = |path: &Path| {
        // The path in a package begins with the folder of the sources.
        let in_crate = path.strip_prefix(&crates).ok().map(|path| path.iter().skip(1).collect::<PathBuf>());
        let in_package = in_crate.or_else(|| path.strip_prefix(&python).ok().map(Path::to_path_buf));
        in_package.is_some_and(|path| path.starts_with("src") && !is_named_for_tests(&path))
    };
    let mut findings = RuleFindings::new();
    for (path, source) in workspace.sources.iter().filter(|(path, _)| is_checked(path)) {
        let shown = workspace.display_path(path);
        let with_fields = NO_TEXT_FIELDS.iter().any(|name| path.starts_with(crates.join(name)));
        findings.extend(text_errors(&source.syntax, with_fields).iter().map(|(name, line)| {
            format!("{shown}:{line}: {name}: the error is text; use an enum that a caller can match")
        }));
    }
    Ok(findings)
}

/// Returns the names and lines of items whose error is text, and `with_fields` also those of errors that contain their
/// text.
fn text_errors(file: &syn::File, with_fields: bool) -> Vec<(String, usize)> {
    let mut errors = TextErrors { found: Vec::new(), with_fields };
    errors.visit_file(file);
    errors.found
}

struct TextErrors {
    found: Vec<(String, usize)>,
    with_fields: bool,
}

impl TextErrors {
    fn add(&mut self, name: &Ident, is_text: bool) {
        if is_text {
            self.found.push((name.to_string(), name.span().start().line));
        }
    }
}

impl Visit<'_> for TextErrors {
    fn visit_item(&mut self, item: &syn::Item) {
        if !is_test_only(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_signature(&mut self, signature: &syn::Signature) {
        let mut results = TextResults::default();
        results.visit_signature(signature);
        self.add(&signature.ident, results.0);
    }

    fn visit_item_type(&mut self, item: &syn::ItemType) {
        let mut results = TextResults::default();
        results.visit_type(&item.ty);
        self.add(&item.ident, results.0);
    }

    fn visit_impl_item_type(&mut self, item: &syn::ImplItemType) {
        self.add(&item.ident, (item.ident == "Err" || item.ident == "Error") && is_text(&item.ty));
    }

    fn visit_item_struct(&mut self, item: &syn::ItemStruct) {
        let is_error = item.ident.to_string().ends_with("Error") && item.fields.len() == 1;
        let is_only_text = is_error && item.fields.iter().all(|field| is_text(&field.ty));
        let has_text = self.with_fields && derives_error(&item.attrs) && has_text(&item.attrs, &item.fields);
        self.add(&item.ident, is_only_text || has_text);
    }

    fn visit_item_enum(&mut self, item: &syn::ItemEnum) {
        let is_checked = self.with_fields && derives_error(&item.attrs);
        for variant in &item.variants {
            self.add(&variant.ident, is_checked && has_text(&variant.attrs, &variant.fields));
        }
    }
}

/// Returns true if thiserror implements the error.
fn derives_error(attributes: &[Attribute]) -> bool {
    attributes.iter().filter(|attribute| attribute.path().is_ident("derive")).any(|attribute| {
        let derived = attribute.meta.require_list().map(|list| list.tokens.to_string()).unwrap_or_default();
        derived.split(|c: char| !c.is_alphanumeric()).any(|name| name == "Error")
    })
}

/// Returns true if a field contains the text of the error: a text with such a name, or the complete message.
fn has_text(attributes: &[Attribute], fields: &Fields) -> bool {
    let is_message = |attribute: &Attribute| {
        attribute.path().is_ident("error")
            && attribute.parse_args::<LitStr>().is_ok_and(|message| message.value() == "{0}")
    };
    fields.iter().any(|field| {
        is_text(&field.ty)
            && match &field.ident {
                Some(name) => TEXT_FIELDS.iter().any(|text| name == text),
                None => attributes.iter().any(is_message),
            }
    })
}

/// Searches for `Result<_, String>`, `Result<_, &str>` and `Result<_, Box<dyn Error>>`.
#[derive(Default)]
struct TextResults(bool);

impl Visit<'_> for TextResults {
    fn visit_path_segment(&mut self, segment: &syn::PathSegment) {
        if segment.ident == "Result"
            && let PathArguments::AngleBracketed(arguments) = &segment.arguments
            && let Some(GenericArgument::Type(error)) = arguments.args.iter().nth(1)
        {
            self.0 |= is_text(error);
        }
        visit::visit_path_segment(self, segment);
    }
}

/// Returns true for `String`, `&str`, `Cow<str>` and `Box<dyn Error>`.
fn is_text(error: &Type) -> bool {
    match error {
        Type::Reference(reference) => is_text(&reference.elem),
        Type::TraitObject(object) => object.bounds.iter().any(|bound| match bound {
            syn::TypeParamBound::Trait(bound) => {
                bound.path.segments.last().is_some_and(|segment| segment.ident == "Error")
            }
            _ => false,
        }),
        Type::Path(path) => path.path.segments.last().is_some_and(|segment| match &segment.arguments {
            PathArguments::AngleBracketed(arguments) if segment.ident == "Box" || segment.ident == "Cow" => {
                arguments.args.iter().any(|argument| match argument {
                    GenericArgument::Type(inner) => is_text(inner),
                    _ => false,
                })
            }
            _ => segment.ident == "String" || segment.ident == "str",
        }),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::text_errors;

    fn names(text: &str) -> Vec<String> {
        text_errors(&syn::parse_file(text).unwrap(), true).into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn errors_that_are_text_are_found() {
        for (text, name) in [
            ("fn one() -> Result<u8, String> { Ok(1) }", "one"),
            ("fn one() -> std::result::Result<(), &'static str> { Ok(()) }", "one"),
            ("pub fn one() -> Result<(), Box<dyn std::error::Error + Send>> { Ok(()) }", "one"),
            ("fn one() -> Option<Result<u8, Cow<'static, str>>> { None }", "one"),
            ("fn one(run: impl Fn() -> Result<(), String>, end: Result<u8, Never>) {}", "one"),
            ("trait Two { fn two(&self) -> Result<(), String>; }", "two"),
            ("impl Two { fn two(&self) -> Result<(), String> { Ok(()) } }", "two"),
            ("type Three = Result<(), String>;", "Three"),
            ("impl FromStr for One { type Err = String; }", "Err"),
            ("impl TryFrom<u8> for One { type Error = &'static str; }", "Error"),
            ("pub struct FourError(pub String);", "FourError"),
            ("mod inner { struct FiveError(String); }", "FiveError"),
            ("struct SixError { text: String }", "SixError"),
            ("#[derive(Debug, thiserror::Error)] enum E { Seven { path: PathBuf, what: String } }", "Seven"),
            ("#[derive(thiserror::Error)] enum E { #[error(\"{0}\")] Eight(String) }", "Eight"),
            ("#[derive(thiserror::Error)] struct Nine { message: String, at: u64 }", "Nine"),
        ] {
            assert_eq!(names(text), [name], "{text}");
        }
    }

    #[test]
    fn typed_errors_and_tests_are_accepted() {
        for text in [
            "fn one() -> Result<String, OneError> { todo!() }",
            "fn one() -> io::Result<String> { todo!() }",
            "type Result<T> = std::result::Result<T, Error>;",
            "struct OneError { path: PathBuf } struct TwoError(io::Error); struct Name(String);",
            "impl FromStr for One { type Err = OneError; } impl Iterator for One { type Item = String; }",
            "#[cfg(test)] mod tests { fn one() -> Result<u8, String> { Ok(1) } }",
            "fn one() { let two = || -> Result<u8, String> { Ok(1) }; }",
            "#[derive(thiserror::Error)] enum E { #[error(\"no {0}\")] Two(String), Three { name: String } }",
            "#[derive(Debug)] enum Report { Two { what: String } }",
        ] {
            assert_eq!(names(text), [""; 0], "{text}");
        }
    }
}
