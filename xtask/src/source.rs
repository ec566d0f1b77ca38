//! A Rust file: its text, its syntax tree, and the paths in its code.

use anyhow::Result;
use syn::visit::{self, Visit};

/// A parsed Rust file.
pub struct SourceFile {
    /// Text of the file.
    pub text: String,
    /// Syntax tree of the file.
    pub syntax: syn::File,
}

/// A path such as `crate::cache::Cache`, and the line that contains it.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedPath {
    /// Segments of the path.
    pub segments: Vec<String>,
    /// Name that an import binds; `None` for a glob import or a path in other code.
    pub name: Option<String>,
    /// True if the path is part of a `use` item.
    pub import: bool,
    /// True if the path is part of a `use` item that other modules can see.
    pub is_re_export: bool,
    /// Line number, starting at 1.
    pub line: usize,
}

impl SourceFile {
    /// Parses a file.
    pub fn parse(text: String) -> Result<SourceFile> {
        let syntax = syn::parse_file(&text)?;
        Ok(SourceFile { text, syntax })
    }

    /// Returns the number of lines.
    pub fn lines(&self) -> usize {
        self.text.lines().count()
    }
}

/// Returns true if the attributes exclude an item from a normal build, as for tests and model checks.
pub fn is_test_only(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let condition = match &attribute.meta {
            syn::Meta::List(list) if list.path.is_ident("cfg") => list.tokens.to_string(),
            _ => return attribute.path().is_ident("test"),
        };
        ["test", "shuttle", "loom"].iter().any(|cfg| {
            condition == *cfg
                || condition.starts_with("all")
                    && condition.split(|c: char| !c.is_alphanumeric()).any(|word| word == *cfg)
                    && !condition.contains("not")
        })
    })
}

/// Returns the paths in items, except in test code and in nested modules.
pub fn paths_in(items: &[syn::Item]) -> Vec<NamedPath> {
    let mut paths = PathCollector::default();
    items.iter().filter(|item| !matches!(item, syn::Item::Mod(_))).for_each(|item| paths.visit_item(item));
    paths.paths
}

#[derive(Default)]
struct PathCollector {
    paths: Vec<NamedPath>,
    /// True within a `use` item that other modules can see.
    is_re_export: bool,
}

impl PathCollector {
    fn import(&mut self, prefix: &[String], tree: &syn::UseTree) {
        let with = |ident: &syn::Ident| [prefix, &[ident.to_string()]].concat();
        let mut add = |segments: Vec<String>, name: Option<String>, ident: proc_macro2::Span| {
            let is_re_export = self.is_re_export;
            self.paths.push(NamedPath {
                segments,
                name,
                import: true,
                is_re_export,
                line: ident.start().line,
            });
        };
        match tree {
            syn::UseTree::Path(path) => self.import(&with(&path.ident), &path.tree),
            syn::UseTree::Group(group) => group.items.iter().for_each(|tree| self.import(prefix, tree)),
            syn::UseTree::Glob(glob) => add(prefix.to_vec(), None, glob.star_token.spans[0]),
            syn::UseTree::Name(name) if name.ident == "self" => {
                add(prefix.to_vec(), prefix.last().cloned(), name.ident.span());
            }
            syn::UseTree::Name(name) => {
                add(with(&name.ident), Some(name.ident.to_string()), name.ident.span());
            }
            syn::UseTree::Rename(rename) => {
                let segments = if rename.ident == "self" { prefix.to_vec() } else { with(&rename.ident) };
                add(segments, Some(rename.rename.to_string()), rename.ident.span());
            }
        }
    }
}

impl<'ast> Visit<'ast> for PathCollector {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !is_test_only(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item(&mut self, item: &'ast syn::ImplItem) {
        if !matches!(item, syn::ImplItem::Fn(function) if is_test_only(&function.attrs)) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.is_re_export = !matches!(item.vis, syn::Visibility::Inherited);
        self.import(&[], &item.tree);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if let Some(first) = path.segments.first()
            && segments.len() > 1
        {
            let line = first.ident.span().start().line;
            let (name, import, is_re_export) = (None, false, false);
            self.paths.push(NamedPath { segments, name, import, is_re_export, line });
        }
        visit::visit_path(self, path);
    }
}

/// Returns the attributes of an item, if this kind of item can have attributes.
pub fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        syn::Item::Type(item) => &item.attrs,
        syn::Item::Union(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &str) -> Vec<String> {
        let file = syn::parse_file(text).unwrap();
        paths_in(&file.items).iter().map(|path| path.segments.join("::")).collect()
    }

    #[test]
    fn imports_and_paths_in_code_are_found() {
        assert_eq!(paths("use a::{b, c::{self, d as e}, f::*};"), ["a::b", "a::c", "a::c::d", "a::f"]);
        assert_eq!(paths("fn f() -> crate::x::Y { std::fs::read(0) }"), ["crate::x::Y", "std::fs::read"]);
    }

    #[test]
    fn test_code_is_excluded() {
        assert!(paths("#[cfg(test)] use a::b; #[cfg(test)] mod tests { use c::d; }").is_empty());
        assert!(
            paths("struct S; impl S { #[cfg(test)] fn f() { a::b() } }").iter().all(|path| path != "a::b")
        );
        assert!(
            paths("#[cfg(all(test, not(shuttle)))] use a::b;").len() == 1,
            "a condition with not() is kept"
        );
    }
}
