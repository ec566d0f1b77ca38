//! Checks for forbidden code: file system and clock access other than through `jetcell-vfs`, locks other than through
//! `jetcell-sync`, and unsafe code.

use anyhow::Result;

use crate::RuleFindings;
use crate::modules::ModuleTree;
use crate::workspace::Workspace;

const FILE_APIS: [&str; 2] = ["std::fs", "rustix::fs"];
/// Functions that may block: they wait for the other end of a pipe, and never finish on an endless device.
/// User-supplied paths are read with `jetcell_vfs::read_input`.
const READ_APIS: [&str; 4] = ["std::fs::read", "std::fs::read_to_string", "fs::read", "fs::read_to_string"];
const CLOCK_APIS: [&str; 2] = ["std::time::Instant", "std::time::SystemTime"];
const LOCK_APIS: [&str; 8] = [
    "parking_lot",
    "std::thread",
    "std::sync::atomic",
    "std::sync::mpsc",
    "std::sync::Mutex",
    "std::sync::RwLock",
    "std::sync::Condvar",
    "std::sync::Barrier",
];

/// Crates, and the paths that their code must not contain.
const FORBIDDEN: [(&str, &[&[&str]]); 13] = [
    ("ese-format", &[&FILE_APIS, &CLOCK_APIS, &LOCK_APIS]),
    ("ese-engine", &[&FILE_APIS, &CLOCK_APIS, &LOCK_APIS]),
    ("ese-check", &[&FILE_APIS]),
    ("jetcell-dump", &[&FILE_APIS, &CLOCK_APIS]),
    ("jetcell-host", &[&LOCK_APIS]),
    ("jetcell-vfs", &[&LOCK_APIS]),
    ("jetcell-array-service", &[&READ_APIS]),
    ("jetcell-fleet", &[&READ_APIS]),
    ("jetcell-durability", &[&READ_APIS]),
    ("jetcell-lab", &[&READ_APIS]),
    ("jetcell-remote", &[&READ_APIS]),
    ("jetcell-report", &[&READ_APIS]),
    ("jetcell-sizing", &[&READ_APIS]),
];

/// The only crate that may contain unsafe code.
const UNSAFE: &str = "jetcell-vfs";
/// Accepted attributes. The locks of the model checker implement unsafe traits, but no released build contains them.
const FORBID: [&str; 2] = ["#![forbid(unsafe_code)]", "#![cfg_attr(not(shuttle), forbid(unsafe_code))]"];

/// Finds forbidden paths in the code of a crate outside its tests.
pub fn check(workspace: &Workspace) -> Result<RuleFindings> {
    let mut findings = RuleFindings::new();
    for (name, paths) in FORBIDDEN {
        let is_library = |kind: &String| kind == "lib";
        let library = workspace
            .member(name)
            .and_then(|package| package.targets.iter().find(|target| target.kind.iter().any(is_library)));
        let Some(library) = library else {
            findings.push(format!("{name}: the workspace has no library with this name"));
            continue;
        };
        for module in ModuleTree::load(&library.src_path, &workspace.sources)?.modules {
            for path in &module.paths {
                let text = path.segments.join("::");
                if paths.iter().copied().flatten().any(|forbidden| names(&text, forbidden)) {
                    findings.push(format!("{}:{}: {text}", workspace.display_path(&module.file), path.line));
                }
            }
        }
    }
    Ok(findings)
}

/// Returns true if a path equals the forbidden path or is below it.
fn names(path: &str, forbidden: &str) -> bool {
    path.strip_prefix(forbidden).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// Finds libraries and programs without `#![forbid(unsafe_code)]`, except for the crate that may contain unsafe code.
pub fn check_unsafe(workspace: &Workspace) -> Result<RuleFindings> {
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
        .map(|target| format!("{}: no #![forbid(unsafe_code)]", workspace.display_path(&target.src_path)))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn a_path_under_a_forbidden_path_is_found() {
        assert!(names("std::fs::read", "std::fs") && names("std::fs", "std::fs"));
        assert!(!names("std::fsx", "std::fs"));
        assert!(!names("std::fs::read_dir", "std::fs::read"));
    }
}
