//! What a crate must not touch: the file system and clocks beside `jetcell-vfs`, locks beside `jetcell-sync`, unsafe code.

use anyhow::Result;

use crate::Findings;
use crate::modules::ModuleTree;
use crate::workspace::Workspace;

const FILES: [&str; 2] = ["std::fs", "rustix::fs"];
/// These wait for the other end of a pipe, and read a device without an end. Paths that users give are read with `jetcell_vfs::read_input`.
const READS: [&str; 4] = ["std::fs::read", "std::fs::read_to_string", "fs::read", "fs::read_to_string"];
const CLOCKS: [&str; 2] = ["std::time::Instant", "std::time::SystemTime"];
const LOCKS: [&str; 8] = [
    "parking_lot",
    "std::thread",
    "std::sync::atomic",
    "std::sync::mpsc",
    "std::sync::Mutex",
    "std::sync::RwLock",
    "std::sync::Condvar",
    "std::sync::Barrier",
];

/// Crates, and the paths that their code must not name.
const FORBIDDEN: [(&str, &[&[&str]]); 10] = [
    ("ese-format", &[&FILES, &CLOCKS, &LOCKS]),
    ("ese-engine", &[&FILES, &CLOCKS, &LOCKS]),
    ("ese-check", &[&FILES]),
    ("jetcell-dump", &[&FILES, &CLOCKS]),
    ("jetcell-vfs", &[&LOCKS]),
    ("jetcell-fleet", &[&READS]),
    ("jetcell-lab", &[&READS]),
    ("jetcell-remote", &[&READS]),
    ("jetcell-report", &[&READS]),
    ("jetcell-sizing", &[&READS]),
];

/// The one crate with unsafe code.
const UNSAFE: &str = "jetcell-vfs";
/// The locks of the model checker implement unsafe traits; no build that ships has them.
const FORBID: [&str; 2] = ["#![forbid(unsafe_code)]", "#![cfg_attr(not(shuttle), forbid(unsafe_code))]"];

/// Forbidden paths that a crate names outside its tests.
pub fn check(workspace: &Workspace) -> Result<Findings> {
    let mut findings = Findings::new();
    for (name, paths) in FORBIDDEN {
        let Some(package) = workspace.member(name) else { continue };
        let Some(library) =
            package.targets.iter().find(|target| target.kind.iter().any(|kind| kind == "lib"))
        else {
            continue;
        };
        for module in ModuleTree::load(&library.src_path, &workspace.sources)?.modules {
            for path in &module.paths {
                let text = path.segments.join("::");
                if paths.iter().copied().flatten().any(|forbidden| names(&text, forbidden)) {
                    findings.push(format!("{}:{}: {text}", workspace.shown(&module.file), path.line));
                }
            }
        }
    }
    Ok(findings)
}

/// Whether a path is the forbidden one or lies below it.
fn names(path: &str, forbidden: &str) -> bool {
    path.strip_prefix(forbidden).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// Libraries and programs without `#![forbid(unsafe_code)]`, but for the crate that has all unsafe code.
pub fn check_unsafe(workspace: &Workspace) -> Result<Findings> {
    let members = workspace.members.iter().filter(|package| package.name != UNSAFE);
    let roots = members.flat_map(|package| {
        package.targets.iter().filter(|target| {
            target.kind.iter().any(|kind| kind == "lib" || kind == "cdylib" || kind == "bin")
        })
    });
    let open = roots.filter(|target| {
        let source = workspace.sources.get(&target.src_path);
        source.is_some_and(|source| !FORBID.iter().any(|forbid| source.text.contains(forbid)))
    });
    Ok(open
        .map(|target| format!("{}: no #![forbid(unsafe_code)]", workspace.shown(&target.src_path)))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn a_path_below_the_forbidden_one_is_found_and_a_longer_name_is_not() {
        assert!(names("std::fs::read", "std::fs") && names("std::fs", "std::fs"));
        assert!(!names("std::fsx", "std::fs"));
        assert!(!names("std::fs::read_dir", "std::fs::read"));
    }
}
