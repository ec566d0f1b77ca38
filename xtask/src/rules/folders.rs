//! Checks the tables of folders in ARCHITECTURE.md: the modules of a crate import only modules in lower rows.
//!
//! The line before such a table is "Folders of `CRATE` from the top down." Modules in the same row may import each
//! other, unless this forms a cycle.

use std::collections::BTreeSet;

use anyhow::{Context, Result};

use crate::RuleFindings;
use crate::modules::ModuleTree;
use crate::workspace::Workspace;

/// A table of folders: the crate, and the names of its modules in each row, from the top down.
struct FolderTable {
    package: String,
    rows: Vec<Vec<String>>,
}

/// Finds imports that run up in a table, and modules that are missing from it.
pub fn check(workspace: &Workspace) -> Result<RuleFindings> {
    let text = workspace.documents.get(&workspace.root.join("ARCHITECTURE.md")).context("ARCHITECTURE.md")?;
    let mut findings = RuleFindings::new();
    for table in folder_tables(text) {
        let package = workspace.member(&table.package).with_context(|| table.package.clone())?;
        let library = package.targets.iter().find(|target| target.kind.iter().any(|kind| kind == "lib"));
        let library = library.with_context(|| format!("the library of {}", table.package))?;
        let tree = ModuleTree::load(&library.src_path, &workspace.sources)?;
        findings.extend(find_violations(&tree, &table));
    }
    Ok(findings)
}

fn folder_tables(text: &str) -> Vec<FolderTable> {
    let mut tables = Vec::new();
    for section in text.split("Folders of `").skip(1) {
        let Some((package, rest)) = section.split_once("` from the top down.") else { continue };
        let lines =
            rest.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
        let cells = lines.skip(2).filter_map(|line| line.split('|').nth(1));
        let rows = cells.map(|cell| {
            let names = cell.split('`').skip(1).step_by(2).filter_map(|path| path.split('/').next());
            names.map(|name| name.trim_end_matches(".rs").to_owned()).collect()
        });
        tables.push(FolderTable { package: package.to_owned(), rows: rows.collect() });
    }
    tables
}

fn find_violations(tree: &ModuleTree, table: &FolderTable) -> RuleFindings {
    let package = &table.package;
    let row_of = |name: &String| table.rows.iter().position(|row| row.contains(name));
    let top = |module: usize| tree.modules[module].path.first();
    // Modules within the root file only re-export.
    let root = &tree.modules[0].file;
    let files = (0..tree.modules.len()).filter(|module| tree.modules[*module].file != *root);
    let names: BTreeSet<&String> = files.filter_map(top).collect();
    let missing = names.iter().filter(|name| row_of(name).is_none());
    let missing = missing.map(|name| format!("{package}: {name} is missing from the table of folders"));
    let listed = table.rows.iter().flatten().filter(|name| !names.contains(name));
    let unknown =
        listed.map(|name| format!("{package}: the table of folders lists {name}, which does not exist"));
    let upward = tree.imports().into_iter().filter_map(|import| {
        let (from, to) = (top(import.from)?, top(import.to)?);
        let runs_up = row_of(from)? > row_of(to)?;
        let file = tree.modules[import.from].path.join("/");
        runs_up.then(|| format!("{package}: {file} uses {to}, which is above {from} in the table of folders"))
    });
    missing.chain(unknown).chain(upward.collect::<BTreeSet<_>>()).collect()
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::source::SourceFile;

    const TEXT: &str = "\
Folders of `ese-engine` from the top down. A folder uses folders below it.\n\n\
| folder | question |\n| --- | --- |\n| `a/mod.rs`, `a/` | `x`? |\n| `b.rs`, `c.rs` | |\n\nOther text.\n";

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
        let [table] = &folder_tables(TEXT)[..] else { panic!("one table") };
        assert_eq!(table.rows, [vec!["a", "a"], vec!["b", "c"]]);
        assert_eq!(
            find_violations(&tree, table),
            [
                "ese-engine: d is missing from the table of folders",
                "ese-engine: the table of folders lists c, which does not exist",
                "ese-engine: b uses a, which is above b in the table of folders",
            ]
        );
    }
}
