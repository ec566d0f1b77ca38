//! Checks names of types and constructors. A type name is defined once in the workspace, so that a reader who finds it has
//! found all of it. A name that is private to one file may recur in other files.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use syn::visit::{self, Visit};

use crate::RuleFindings;
use crate::workspace::Workspace;

/// Names that every crate may define for itself.
const REPEATED: [&str; 3] = ["Config", "Error", "Result"];

/// Pairs of files of which a build compiles only one, so both define the same types.
const ALTERNATIVES: [[&str; 2]; 4] = [
    ["jetcell-array-service/src/volumes/mod.rs", "shared/no_arrays.rs"],
    ["live/no_screen.rs", "live/screen.rs"],
    ["src/native.rs", "src/shuttle/time.rs"],
    ["tls/absent.rs", "tls/secured.rs"],
];

/// Definitions of one name: place, and whether other files can see the type.
type Definitions<'a> = BTreeMap<String, Vec<(&'a Path, usize, bool)>>;

/// Finds types that are defined more than once, and constructors that are named `of`.
pub fn check(workspace: &Workspace) -> Result<RuleFindings> {
    let mut definitions = Definitions::new();
    let mut findings = RuleFindings::new();
    for (path, source) in &workspace.sources {
        let mut names = Names::default();
        names.visit_file(&source.syntax);
        for (name, line, is_visible) in names.types {
            definitions.entry(name).or_default().push((path, line, is_visible));
        }
        let shown = workspace.display_path(path);
        findings.extend(
            names.constructors.iter().map(|line| format!("{shown}:{line}: a function is named `of`")),
        );
    }
    for (name, places) in definitions {
        let visible: Vec<_> = places.iter().filter(|place| place.2).collect();
        if visible.len() < 2 || REPEATED.contains(&name.as_str()) || are_alternatives(&visible) {
            continue;
        }
        let places: Vec<String> = visible
            .iter()
            .map(|(path, line, _)| format!("{}:{line}", workspace.display_path(path)))
            .collect();
        findings.push(format!("{name} is defined more than once: {}", places.join(", ")));
    }
    Ok(findings)
}

fn are_alternatives(places: &[&(&Path, usize, bool)]) -> bool {
    let is_in = |pair: &[&str; 2]| places.iter().all(|(path, ..)| pair.iter().any(|end| path.ends_with(end)));
    let is_absent = |path: &Path| path.ends_with("format/absent.rs");
    let [one, other] = places else { return false };
    ALTERNATIVES.iter().any(is_in) || is_absent(one.0) != is_absent(other.0)
}

/// Types and functions that a file defines.
#[derive(Default)]
struct Names {
    types: Vec<(String, usize, bool)>,
    constructors: Vec<usize>,
}

impl Names {
    fn add(&mut self, name: &syn::Ident, visibility: &syn::Visibility) {
        let is_visible = !matches!(visibility, syn::Visibility::Inherited);
        self.types.push((name.to_string(), name.span().start().line, is_visible));
    }
}

impl Visit<'_> for Names {
    fn visit_item_struct(&mut self, item: &syn::ItemStruct) {
        self.add(&item.ident, &item.vis);
    }

    fn visit_item_enum(&mut self, item: &syn::ItemEnum) {
        self.add(&item.ident, &item.vis);
    }

    fn visit_item_union(&mut self, item: &syn::ItemUnion) {
        self.add(&item.ident, &item.vis);
    }

    fn visit_item_trait(&mut self, item: &syn::ItemTrait) {
        self.add(&item.ident, &item.vis);
        visit::visit_item_trait(self, item);
    }

    fn visit_item_type(&mut self, item: &syn::ItemType) {
        self.add(&item.ident, &item.vis);
    }

    fn visit_signature(&mut self, signature: &syn::Signature) {
        if signature.ident == "of" {
            self.constructors.push(signature.ident.span().start().line);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use syn::visit::Visit;

    use super::{Names, are_alternatives};

    #[test]
    fn types_of_all_modules_and_functions_named_of_are_found() {
        let mut names = Names::default();
        let text =
            "pub struct One; mod inner { enum Two {} pub(crate) type Three = u8; } impl One { fn of() {} }";
        names.visit_file(&syn::parse_file(text).unwrap());
        let types: Vec<_> =
            names.types.iter().map(|(name, _, is_visible)| (name.as_str(), *is_visible)).collect();
        assert_eq!(types, [("One", true), ("Two", false), ("Three", true)]);
        assert_eq!(names.constructors, [1]);
    }

    #[test]
    fn two_halves_of_a_conditional_compilation_may_share_a_name() {
        let place = |path| (Path::new(path), 1, true);
        let (one, other) = (place("a/src/tls/absent.rs"), place("a/src/tls/secured.rs"));
        assert!(are_alternatives(&[&one, &other]));
        let (one, other) = (place("a/src/format/absent.rs"), place("a/src/format/parquet.rs"));
        assert!(are_alternatives(&[&one, &other]));
        assert!(!are_alternatives(&[&place("a/src/one.rs"), &place("a/src/other.rs")]));
    }
}
