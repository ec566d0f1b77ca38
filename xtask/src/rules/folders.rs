//! Checks the lists of folders in ARCHITECTURE.md: the modules of a crate import only modules that follow in the list.
//!
//! Before such a list is "Folders of `CRATE` from the top down." An entry begins with paths, followed by a colon.
//! Modules in the same entry may import each other, unless this forms a cycle.

use std::collections::BTreeSet;

use anyhow::{Context, Result};

use crate::RuleFindings;
use crate::modules::ModuleTree;
use crate::workspace::Workspace;

/// A list of folders: the crate, and the names of its modules in each entry, from the top down.
struct FolderList {
    package: String,
    entries: Vec<Vec<String>>,
}

/// Finds imports that run up in a list, and modules that are missing from it.
pub fn check(workspace: &Workspace) -> Result<RuleFindings> {
    let text = workspace.documents.get(&workspace.root.join("ARCHITECTURE.md")).context("ARCHITECTURE.md")?;
    let mut findings = RuleFindings::new();
    for list in folder_lists(text) {
        let package = workspace.member(&list.package).with_context(|| list.package.clone())?;
        let library = package.targets.iter().find(|target| target.kind.iter().any(|kind| kind == "lib"));
        let library = library.with_context(|| format!("the library of {}", list.package))?;
        let tree = ModuleTree::load(&library.src_path, &workspace.sources)?;
        findings.extend(find_violations(&tree, &list));
    }
    Ok(findings)
}

fn folder_lists(text: &str) -> Vec<FolderList> {
    let mut lists = Vec::new();
    for section in text.split("Folders of `").skip(1) {
        let Some((package, rest)) = section.split_once("` from the top down.") else { continue };
        let lines = rest
            .lines()
            .skip_while(|line| !line.starts_with("- "))
            .take_while(|line| line.starts_with("- ") || line.starts_with("  "));
        let paths = lines.filter_map(|line| line.strip_prefix("- ")?.split(':').next());
        let entries = paths.map(|paths| {
            let names = paths.split('`').skip(1).step_by(2).filter_map(|path| path.split('/').next());
            names.map(|name| name.trim_end_matches(".rs").to_owned()).collect()
        });
        lists.push(FolderList { package: package.to_owned(), entries: entries.collect() });
    }
    lists
}

fn find_violations(tree: &ModuleTree, list: &FolderList) -> RuleFindings {
    let package = &list.package;
    let entry_of = |name: &String| list.entries.iter().position(|entry| entry.contains(name));
    let top = |module: usize| tree.modules[module].path.first();
    // Modules within the root file only re-export.
    let root = &tree.modules[0].file;
    let files = (0..tree.modules.len()).filter(|module| tree.modules[*module].file != *root);
    let names: BTreeSet<&String> = files.filter_map(top).collect();
    let missing = names.iter().filter(|name| entry_of(name).is_none());
    let missing = missing.map(|name| format!("{package}: {name} is missing from the list of folders"));
    let listed = list.entries.iter().flatten().filter(|name| !names.contains(name));
    let unknown =
        listed.map(|name| format!("{package}: the list of folders has {name}, which does not exist"));
    let upward = tree.imports().into_iter().filter_map(|import| {
        let (from, to) = (top(import.from)?, top(import.to)?);
        let runs_up = entry_of(from)? > entry_of(to)?;
        let file = tree.modules[import.from].path.join("/");
        runs_up.then(|| format!("{package}: {file} uses {to}, which is above {from} in the list of folders"))
    });
    missing.chain(unknown).chain(upward.collect::<BTreeSet<_>>()).collect()
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::source::SourceFile;

    const TEXT: &str = "\
Folders of `ese-engine` from the top down. A folder uses folders that follow it.\n\n\
- `a/`: has `x`,\n  and `y`.\n- `b.rs`, `c.rs`: other.\n\n- `z`: other text.\n";

    #[test]
    fn an_import_of_a_folder_above_is_found() {
        let files = [
            ("lib.rs", "mod a; mod b; mod d;"),
            ("a/mod.rs", "use crate::b::B; pub struct A; mod x;"),
            ("a/x.rs", "use super::A;"),
            ("b.rs", "use crate::a::A; pub struct B;"),
            ("d.rs", ""),
        ];
        let sources = files
            .iter()
            .map(|(path, text)| (PathBuf::from(path), SourceFile::parse((*text).to_owned()).unwrap()))
            .collect();
        let tree = ModuleTree::load(Path::new("lib.rs"), &sources).unwrap();
        let [list] = &folder_lists(TEXT)[..] else { panic!("one list") };
        assert_eq!(list.entries, [vec!["a"], vec!["b", "c"]]);
        assert_eq!(
            find_violations(&tree, list),
            [
                "ese-engine: d is missing from the list of folders",
                "ese-engine: the list of folders has c, which does not exist",
                "ese-engine: b uses a, which is above b in the list of folders",
            ]
        );
    }
}
