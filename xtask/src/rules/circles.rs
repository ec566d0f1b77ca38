//! Finds import cycles between the modules of a crate.
//!
//! Siblings in every folder are compared, each with everything below it. A folder's own file counts as one of its
//! children, except that it may declare and re-export what they define. Some folders do not follow this yet; their
//! number may not grow.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use petgraph::algo::tarjan_scc;
use petgraph::graphmap::DiGraphMap;

use crate::RuleFindings;
use crate::modules::ModuleTree;
use crate::workspace::Workspace;

/// Number of folders in each crate whose own file and children import each other. These numbers may only fall.
const OWN_FILE_CYCLES: [(&str, usize); 15] = [
    ("ese-check", 1),
    ("ese-engine", 6),
    ("ese-format", 2),
    ("jetcell", 5),
    ("jetcell-array", 5),
    ("jetcell-dump", 1),
    ("jetcell-export", 1),
    ("jetcell-fleet", 1),
    ("jetcell-luns", 2),
    ("jetcell-nbd", 1),
    ("jetcell-report", 5),
    ("jetcell-vfs", 1),
    ("jetcell-workload", 4),
    ("system-tests", 1),
    ("xtask", 1),
];

/// Finds cycles between the files and folders in each folder of a crate.
pub fn check(workspace: &Workspace) -> Result<RuleFindings> {
    let mut findings = RuleFindings::new();
    for package in &workspace.members {
        let libraries = package.targets.iter().filter(|target| {
            target.kind.iter().any(|kind| kind == "lib" || kind == "cdylib" || kind == "bin")
                && workspace.sources.contains_key(&target.src_path)
        });
        for target in libraries {
            let tree = ModuleTree::load(&target.src_path, &workspace.sources)?;
            let (siblings, own_files) = find_cycles(&tree);
            let known = OWN_FILE_CYCLES.iter().find(|(name, _)| *name == package.name).map_or(0, |row| row.1);
            let own_files = Some(own_files).filter(|cycles| cycles.len() > known).unwrap_or_default();
            let found = siblings.iter().chain(&own_files);
            findings.extend(found.map(|cycle| format!("{}: {cycle}", package.name)));
        }
    }
    Ok(findings)
}

/// Name of the node for a folder's own file.
const OWN_FILE: &str = "mod";

/// Returns the cycles between siblings, and the cycles that contain a folder's own file.
fn find_cycles(tree: &ModuleTree) -> (RuleFindings, RuleFindings) {
    // The arrows in each folder.
    let mut folders: BTreeMap<&[String], BTreeSet<(String, String)>> = BTreeMap::new();
    for import in tree.imports() {
        let (from, to) = (&tree.modules[import.from].path, &tree.modules[import.to].path);
        let shared = from.iter().zip(to).take_while(|(one, other)| one == other).count();
        let node = |path: &[String]| path.get(shared).map_or(OWN_FILE, String::as_str).to_owned();
        let (from_node, to_node) = (node(from), node(to));
        if !(import.is_re_export && from_node == OWN_FILE) {
            folders.entry(&from[..shared]).or_default().insert((from_node, to_node));
        }
    }
    let (mut siblings, mut own_files) = (RuleFindings::new(), RuleFindings::new());
    for (folder, arrows) in &folders {
        let is_own_file = |name: &String| name == OWN_FILE;
        let mut between = arrows.clone();
        between.retain(|(from, to)| !is_own_file(from) && !is_own_file(to));
        let found = strongly_connected_components(&between);
        siblings.extend(found.iter().map(|cycle| describe(folder, cycle, &between)));
        let found =
            strongly_connected_components(arrows).into_iter().filter(|cycle| cycle.iter().any(is_own_file));
        own_files.extend(found.map(|cycle| describe(folder, &cycle, arrows)));
    }
    (siblings, own_files)
}

fn describe(folder: &[String], circle: &[String], arrows: &BTreeSet<(String, String)>) -> String {
    let arrows = circle.iter().map(|from| {
        let to = arrows.iter().filter(|(one, other)| one == from && circle.contains(other));
        format!("{from} > {}", to.map(|(_, other)| other.as_str()).collect::<Vec<_>>().join(", "))
    });
    let place = if folder.is_empty() { String::new() } else { format!(" in {}", folder.join("::")) };
    format!("cycle of {}{place}: {}", circle.len(), arrows.collect::<Vec<_>>().join("; "))
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
        let (siblings, own_files) = cycles(files);
        [siblings, own_files].concat()
    }

    fn cycles(files: &[(&str, &str)]) -> (RuleFindings, RuleFindings) {
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
        assert_eq!(found(&files), ["cycle of 2: a > b; b > a"]);
    }

    #[test]
    fn folders_can_form_a_cycle_without_a_file_cycle() {
        let files = [
            ("lib.rs", "mod outer;"),
            ("outer/mod.rs", "mod a; mod b;"),
            ("outer/a/mod.rs", "pub mod x; pub mod y;"),
            ("outer/a/x.rs", "use crate::outer::b::B;"),
            ("outer/a/y.rs", "pub struct Y;"),
            ("outer/b.rs", "use crate::outer::a::y::Y; pub struct B;"),
        ];
        assert_eq!(found(&files), ["cycle of 2 in outer: a > b; b > a"]);
    }

    #[test]
    fn a_folder_may_re_export_what_its_children_define() {
        let uses = |import: &str| {
            found(&[
                ("lib.rs", "mod a;"),
                ("a.rs", &format!("mod x; {import} x::X; pub struct A;")),
                ("a/x.rs", "use super::A; pub struct X;"),
            ])
        };
        assert!(uses("pub use").is_empty());
        assert_eq!(uses("use"), ["cycle of 2 in a: mod > x; x > mod"]);
    }
}
