//! Finds import cycles between the modules of a crate, at any depth. A module and the modules within it may import each
//! other.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use petgraph::algo::tarjan_scc;
use petgraph::graphmap::DiGraphMap;

use crate::RuleFindings;
use crate::modules::ModuleTree;
use crate::workspace::Workspace;

/// Paths from the crate root of an importing module and of the module that defines the imported item.
type ModulePaths<'a> = (&'a [String], &'a [String]);

/// Arrows between the modules of one folder, each with an import that causes it.
type Arrows<'a> = BTreeMap<(&'a str, &'a str), ModulePaths<'a>>;

/// Finds cycles between the modules of each folder. A module stands for its file and everything within it.
pub fn check(workspace: &Workspace) -> Result<RuleFindings> {
    let mut findings = RuleFindings::new();
    for package in &workspace.members {
        let libraries = package.targets.iter().filter(|target| {
            target.kind.iter().any(|kind| kind == "lib" || kind == "cdylib" || kind == "bin")
                && workspace.sources.contains_key(&target.src_path)
        });
        for target in libraries {
            let tree = ModuleTree::load(&target.src_path, &workspace.sources)?;
            let path = |module: usize| tree.modules[module].path.as_slice();
            let imports = tree.imports();
            let circles = find_cycles(imports.iter().map(|import| (path(import.from), path(import.to))));
            findings.extend(circles.iter().map(|circle| format!("{}: {circle}", package.name)));
        }
    }
    Ok(findings)
}

/// Finds the cycles of imports. Each import is an arrow between two modules of one folder: the modules in which the
/// paths of importer and item diverge.
fn find_cycles<'a>(imports: impl IntoIterator<Item = ModulePaths<'a>>) -> RuleFindings {
    let mut folders: BTreeMap<&[String], Arrows<'a>> = BTreeMap::new();
    for (from, to) in imports {
        let depth = from.iter().zip(to).take_while(|(one, other)| one == other).count();
        if let (Some(importer), Some(imported)) = (from.get(depth), to.get(depth)) {
            let arrows = folders.entry(&from[..depth]).or_default();
            arrows.entry((importer, imported)).or_insert((from, to));
        }
    }
    let mut findings = RuleFindings::new();
    for (folder, arrows) in &folders {
        for circle in strongly_connected_components(arrows.keys().copied()) {
            let inside = arrows.iter().filter(|((from, to), _)| circle.contains(from) && circle.contains(to));
            let shown = inside.map(|((from, to), (importer, imported))| {
                format!("{from} > {to} ({} imports from {})", importer.join("::"), imported.join("::"))
            });
            let folder = if folder.is_empty() { String::new() } else { format!(" in {}", folder.join("::")) };
            let shown: Vec<String> = shown.collect();
            findings.push(format!("cycle of {} modules{folder}: {}", circle.len(), shown.join("; ")));
        }
    }
    findings
}

/// Returns the strongly connected components with more than one node.
fn strongly_connected_components<'a>(
    arrows: impl Iterator<Item = (&'a str, &'a str)>,
) -> Vec<BTreeSet<&'a str>> {
    let graph: DiGraphMap<&str, ()> = arrows.collect();
    let components = tarjan_scc(&graph).into_iter().filter(|component| component.len() > 1);
    components.map(|component| component.into_iter().collect()).collect()
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::source::SourceFile;

    /// Returns the cycles of imports, each given as `importer > item` with paths of modules.
    fn found(imports: &[&str]) -> RuleFindings {
        let path = |text: &str| text.split("::").map(str::to_owned).collect::<Vec<_>>();
        let arrow = |import: &&str| {
            let (from, to) = import.split_once(" > ").unwrap();
            (path(from), path(to))
        };
        let imports: Vec<_> = imports.iter().map(arrow).collect();
        find_cycles(imports.iter().map(|(from, to)| (from.as_slice(), to.as_slice())))
    }

    #[test]
    fn two_siblings_that_import_each_other_form_a_cycle() {
        let cycle = "cycle of 2 modules: a > b (a imports from b); b > a (b imports from a)";
        assert_eq!(found(&["a > b", "b > a"]), [cycle]);
        let cycle = "cycle of 2 modules in c: a > b (c::a imports from c::b); b > a (c::b imports from c::a)";
        assert_eq!(found(&["c::a > c::b", "c::b > c::a"]), [cycle]);
    }

    #[test]
    fn folders_can_form_a_cycle_without_a_file_cycle() {
        let cycle = "cycle of 2 modules: a > b (a::x imports from b); b > a (b imports from a::y)";
        assert_eq!(found(&["a::x > b", "b > a::y"]), [cycle]);
    }

    #[test]
    fn a_cycle_of_folders_below_the_root_is_found() {
        let cycles = found(&[
            "commands::disk::test > commands::test::volumes",
            "commands::test::volumes > commands::raid::directory",
            "commands::raid::bench > commands::disk::test",
            "commands::raid::bench > console",
        ]);
        assert_eq!(cycles.len(), 1, "{cycles:?}");
        assert!(cycles[0].starts_with("cycle of 3 modules in commands: disk > test ("), "{cycles:?}");
    }

    #[test]
    fn a_cycle_within_a_folder_of_a_folder_is_found_once() {
        let cycles = found(&["a::b::c > a::b::d::e", "a::b::d > a::b::c", "a::f > a::b", "a::f > g"]);
        assert_eq!(cycles.len(), 1, "{cycles:?}");
        assert!(cycles[0].starts_with("cycle of 2 modules in a::b: c > d ("), "{cycles:?}");
    }

    #[test]
    fn a_module_and_the_modules_within_it_may_import_each_other() {
        assert!(found(&["a > a::x", "a::x > a", "a::x::y > a", "a > a::x::y"]).is_empty());
        assert!(found(&["a > b", "b > c", "a > c", "a::x > b::y"]).is_empty());
    }

    #[test]
    fn imports_of_files_are_resolved_before_cycles_are_searched() {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a/mod.rs", "pub mod x; mod y; pub use y::Y;"),
            ("a/x.rs", "use crate::b::B;"),
            ("a/y.rs", "pub struct Y;"),
            ("b.rs", "use crate::a::Y; pub struct B;"),
        ];
        let sources = files
            .iter()
            .map(|(path, text)| (PathBuf::from(path), SourceFile::parse((*text).to_owned()).unwrap()))
            .collect();
        let tree = ModuleTree::load(Path::new("lib.rs"), &sources).unwrap();
        let path = |module: usize| tree.modules[module].path.as_slice();
        let imports = tree.imports();
        let cycles = find_cycles(imports.iter().map(|import| (path(import.from), path(import.to))));
        assert_eq!(cycles, ["cycle of 2 modules: a > b (a::x imports from b); b > a (b imports from a::y)"]);
    }
}
