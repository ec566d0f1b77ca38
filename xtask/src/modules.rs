//! The modules of one crate, and their imports. Re-exports are resolved to the module that defines the item.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::source::{NamedPath, SourceFile, attributes, is_test_only, paths_in};

/// Maximum number of steps when re-exports are followed.
const MAX_STEPS: usize = 32;

/// One module: a file, or a module within a file.
pub struct Module {
    /// Path from the crate root.
    pub path: Vec<String>,
    /// File that contains the module.
    pub file: PathBuf,
    /// Paths that the code of the module contains.
    pub paths: Vec<NamedPath>,
    parent: Option<usize>,
    children: HashMap<String, usize>,
    items: HashSet<String>,
}

/// An import of one module from another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ModuleImport {
    /// The importing module.
    pub from: usize,
    /// Module that defines the imported item.
    pub to: usize,
}

/// The modules of a crate without test code. The first module is the root.
pub struct ModuleTree {
    /// All modules.
    pub modules: Vec<Module>,
}

impl ModuleTree {
    /// Reads the module tree of a root file.
    pub fn load(root: &Path, sources: &BTreeMap<PathBuf, SourceFile>) -> Result<ModuleTree> {
        let mut tree = ModuleTree { modules: Vec::new() };
        let file = sources.get(root).with_context(|| format!("{} was not read", root.display()))?;
        tree.add(Vec::new(), root, None, &file.syntax.items, sources);
        Ok(tree)
    }

    fn add(
        &mut self,
        path: Vec<String>,
        file: &Path,
        parent: Option<usize>,
        items: &[syn::Item],
        sources: &BTreeMap<PathBuf, SourceFile>,
    ) -> usize {
        let number = self.modules.len();
        self.modules.push(Module {
            path: path.clone(),
            file: file.to_owned(),
            paths: paths_in(items),
            parent,
            children: HashMap::new(),
            items: items.iter().filter_map(defined).collect(),
        });
        for item in items {
            let syn::Item::Mod(item) = item else { continue };
            if is_test_only(&item.attrs) {
                continue;
            }
            let name = item.ident.to_string();
            let child_path = [path.as_slice(), std::slice::from_ref(&name)].concat();
            let child = match &item.content {
                Some((_, items)) => self.add(child_path, file, Some(number), items, sources),
                None => {
                    let Some(child_file) = file_of(file, &name, sources) else { continue };
                    let items = &sources[&child_file].syntax.items;
                    self.add(child_path, &child_file, Some(number), items, sources)
                }
            };
            self.modules[number].children.insert(name, child);
        }
        number
    }

    /// Returns every import between modules in different files, without duplicates.
    pub fn imports(&self) -> BTreeSet<ModuleImport> {
        let mut imports = BTreeSet::new();
        for (from, module) in self.modules.iter().enumerate() {
            for path in &module.paths {
                if let Some(to) = self.resolve(from, &path.segments, MAX_STEPS)
                    && self.modules[to].file != module.file
                {
                    imports.insert(ModuleImport { from, to });
                }
            }
        }
        imports
    }

    /// Returns the module that defines the item at a path in module `from`; `None` if the item is defined in another
    /// crate.
    fn resolve(&self, from: usize, path: &[String], steps: usize) -> Option<usize> {
        let steps = steps.checked_sub(1)?;
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => self.descend(0, rest, steps),
            "self" => self.descend(from, rest, steps),
            "super" => self.descend(self.modules[from].parent?, rest, steps),
            name if self.modules[from].children.contains_key(name) => self.descend(from, path, steps),
            name => {
                let import = self.imported(from, name)?;
                // The crate's own name would lead back to this import.
                (import.segments.first() != Some(first)).then_some(())?;
                self.resolve(from, &[&import.segments, rest].concat(), steps)
            }
        }
    }

    fn descend(&self, module: usize, path: &[String], steps: usize) -> Option<usize> {
        let Some((first, rest)) = path.split_first() else { return Some(module) };
        let here = &self.modules[module];
        if first == "super" {
            return self.descend(here.parent?, rest, steps);
        }
        if let Some(&child) = here.children.get(first) {
            return self.descend(child, rest, steps);
        }
        if here.items.contains(first) {
            return Some(module);
        }
        if let Some(import) = self.imported(module, first) {
            return self.resolve(module, &[&import.segments, rest].concat(), steps);
        }
        let globs = here.paths.iter().filter(|path| path.import && path.name.is_none());
        globs
            .filter_map(|glob| self.resolve(module, &glob.segments, steps))
            .find(|&target| {
                let target = &self.modules[target];
                target.items.contains(first) || target.children.contains_key(first)
            })
            .or(Some(module))
    }

    fn imported(&self, module: usize, name: &str) -> Option<&NamedPath> {
        self.modules[module].paths.iter().find(|path| path.import && path.name.as_deref() == Some(name))
    }
}

/// Returns the name that an item defines.
fn defined(item: &syn::Item) -> Option<String> {
    if is_test_only(attributes(item)) {
        return None;
    }
    let ident = match item {
        syn::Item::Const(item) => &item.ident,
        syn::Item::Enum(item) => &item.ident,
        syn::Item::Fn(item) => &item.sig.ident,
        syn::Item::Static(item) => &item.ident,
        syn::Item::Struct(item) => &item.ident,
        syn::Item::Trait(item) => &item.ident,
        syn::Item::Type(item) => &item.ident,
        syn::Item::Macro(item) => item.ident.as_ref()?,
        _ => return None,
    };
    Some(ident.to_string())
}

/// Returns the file of the child module `name` of the module in `file`.
pub fn file_of(file: &Path, name: &str, sources: &BTreeMap<PathBuf, SourceFile>) -> Option<PathBuf> {
    let directory = match file.file_name()?.to_str()? {
        "lib.rs" | "main.rs" | "mod.rs" => file.parent()?.to_owned(),
        _ => file.with_extension(""),
    };
    let candidates = [directory.join(format!("{name}.rs")), directory.join(name).join("mod.rs")];
    candidates.into_iter().find(|candidate| sources.contains_key(candidate))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> ModuleTree {
        let sources = files
            .iter()
            .map(|(path, text)| (PathBuf::from(path), SourceFile::parse((*text).to_owned()).unwrap()))
            .collect();
        ModuleTree::load(Path::new("lib.rs"), &sources).unwrap()
    }

    fn imports(files: &[(&str, &str)]) -> Vec<String> {
        let tree = tree(files);
        let name = |module: usize| tree.modules[module].path.join("::");
        tree.imports().iter().map(|import| format!("{} > {}", name(import.from), name(import.to))).collect()
    }

    #[test]
    fn a_re_export_is_followed_to_the_file_that_defines_the_item() {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a/mod.rs", "mod x; pub use x::Thing;"),
            ("a/x.rs", "pub struct Thing;"),
            ("b.rs", "use crate::a::Thing; fn f() { crate::a::Thing::new() }"),
        ];
        assert_eq!(imports(&files), ["a > a::x", "b > a::x"]);
    }

    #[test]
    fn glob_re_exports_and_super_are_followed() {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "pub use crate::b::*;"),
            ("b.rs", "pub struct Thing; mod c;"),
            ("b/c.rs", "use super::super::a::Thing; use super::Thing as T;"),
        ];
        assert_eq!(imports(&files), ["a > b", "b::c > b"]);
    }

    #[test]
    fn test_modules_are_excluded() {
        let files =
            [("lib.rs", "mod a; mod b;"), ("a.rs", "#[cfg(test)] mod t { use crate::b::B; }"), ("b.rs", "")];
        assert!(imports(&files).is_empty());
    }
}
