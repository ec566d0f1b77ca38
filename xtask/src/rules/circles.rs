//! Finds import cycles between the modules of a crate. A parent and its children may import each other.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use petgraph::algo::tarjan_scc;
use petgraph::graphmap::DiGraphMap;

use crate::RuleFindings;
use crate::modules::{ModuleImport, ModuleTree};
use crate::workspace::Workspace;

/// Finds cycles between files, and between the top-level folders of a crate.
pub fn check(workspace: &Workspace) -> Result<RuleFindings> {
    let mut findings = RuleFindings::new();
    for package in &workspace.members {
        let libraries = package.targets.iter().filter(|target| {
            target.kind.iter().any(|kind| kind == "lib" || kind == "cdylib" || kind == "bin")
                && workspace.sources.contains_key(&target.src_path)
        });
        for target in libraries {
            let tree = ModuleTree::load(&target.src_path, &workspace.sources)?;
            findings.extend(find_cycles(&tree).iter().map(|circle| format!("{}: {circle}", package.name)));
        }
    }
    Ok(findings)
}

fn find_cycles(tree: &ModuleTree) -> RuleFindings {
    let imports: BTreeSet<ModuleImport> =
        tree.imports().into_iter().filter(|import| !tree.is_within(import.from, import.to)).collect();
    let name = |module: usize| tree.modules[module].path.join("::");
    let files: BTreeSet<(String, String)> =
        imports.iter().map(|import| (name(import.from), name(import.to))).collect();
    let top = |module: usize| tree.modules[module].path.first().cloned().unwrap_or_default();
    let folders: BTreeSet<(String, String)> = imports
        .iter()
        .map(|import| (top(import.from), top(import.to)))
        .filter(|(from, to)| from != to)
        .collect();
    let within = strongly_connected_components(&files);
    let between = strongly_connected_components(&folders);
    let describe = |kind: &str, circle: &Vec<String>, arrows: &BTreeSet<(String, String)>| {
        let arrows: BTreeMap<&String, Vec<&str>> = circle
            .iter()
            .map(|from| {
                let to = arrows.iter().filter(|(one, other)| one == from && circle.contains(other));
                (from, to.map(|(_, other)| other.as_str()).collect())
            })
            .collect();
        let arrows: Vec<String> =
            arrows.iter().map(|(from, to)| format!("{from} > {}", to.join(", "))).collect();
        format!("cycle of {} {kind}: {}", circle.len(), arrows.join("; "))
    };
    let files = within.iter().map(|circle| describe("modules", circle, &files));
    files.chain(between.iter().map(|circle| describe("folders", circle, &folders))).collect()
}

/// Returns the strongly connected components with more than one node.
fn strongly_connected_components(arrows: &BTreeSet<(String, String)>) -> Vec<Vec<String>> {
    let graph: DiGraphMap<&str, ()> = arrows.iter().map(|(from, to)| (from.as_str(), to.as_str())).collect();
    let components = tarjan_scc(&graph).into_iter().filter(|component| component.len() > 1);
    let sorted = components.map(|component| {
        let mut names: Vec<String> = component.into_iter().map(str::to_owned).collect();
        names.sort();
        names
    });
    sorted.collect()
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::source::SourceFile;

    fn found(files: &[(&str, &str)]) -> RuleFindings {
        let sources = files
            .iter()
            .map(|(path, text)| (PathBuf::from(path), SourceFile::parse((*text).to_owned()).unwrap()))
            .collect();
        find_cycles(&ModuleTree::load(Path::new("lib.rs"), &sources).unwrap())
    }

    #[test]
    fn two_siblings_that_import_each_other_form_a_cycle() {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "use crate::b::B; pub struct A;"),
            ("b.rs", "use crate::a::A; pub struct B;"),
        ];
        assert_eq!(found(&files), ["cycle of 2 modules: a > b; b > a", "cycle of 2 folders: a > b; b > a"]);
    }

    #[test]
    fn folders_can_form_a_cycle_without_a_file_cycle() {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a/mod.rs", "pub mod x; pub mod y;"),
            ("a/x.rs", "use crate::b::B;"),
            ("a/y.rs", "pub struct Y;"),
            ("b.rs", "use crate::a::y::Y; pub struct B;"),
        ];
        assert_eq!(found(&files), ["cycle of 2 folders: a > b; b > a"]);
    }

    #[test]
    fn a_parent_and_child_may_import_each_other() {
        let files = [
            ("lib.rs", "mod a;"),
            ("a.rs", "mod x; use x::X; pub struct A;"),
            ("a/x.rs", "use super::A; pub struct X;"),
        ];
        assert!(found(&files).is_empty());
    }
}
