//! Checks for second copies of mechanisms that exist once, in a shared crate.

use anyhow::Result;
use syn::visit::{self, Visit};

use super::test_files::is_named_for_tests;
use crate::RuleFindings;
use crate::source::{attributes, is_test_only};
use crate::workspace::Workspace;

/// A mechanism that only one crate implements.
struct SharedMechanism {
    /// Crate that implements the mechanism.
    home: &'static str,
    /// Ends of paths, and calls of methods without arguments, that only the crate may contain.
    calls: &'static [&'static str],
    /// Items that other crates use.
    instead: &'static str,
    /// Other files that may contain the calls, each with a reason.
    exceptions: &'static [(&'static str, &'static str)],
}

const MECHANISMS: [SharedMechanism; 4] = [
    SharedMechanism {
        home: "jetcell-vfs",
        calls: &["fs::rename", "fs::copy", "File::create", ".sync_all()"],
        instead: "replace_output, UnfinishedFile, rename_durably, clone_or_copy, sync_file or sync_directory",
        exceptions: &[(
            "jetcell-export/src/value_files.rs",
            "moves a set of synced files, and syncs their directory once",
        )],
    },
    SharedMechanism {
        home: "jetcell-host",
        calls: &["ctrlc::"],
        instead: "Interrupt or cancel_on_signals",
        exceptions: &[],
    },
    SharedMechanism {
        home: "jetcell-host",
        calls: &["indicatif::"],
        instead: "ProgressLine or ProgressReport",
        exceptions: &[],
    },
    SharedMechanism {
        home: "jetcell-host",
        calls: &[".accept()"],
        instead: "StoppableListener or PrivateSocket",
        exceptions: &[],
    },
];

/// Members whose code is not checked: they do not ship.
const UNCHECKED: [&str; 3] = ["xtask", "testkit", "system-tests"];

/// Finds calls, in product code, that only the crate with the shared mechanism may contain.
pub fn check(workspace: &Workspace) -> Result<RuleFindings> {
    let mut findings = RuleFindings::new();
    for package in workspace.members.iter().filter(|package| !UNCHECKED.contains(&package.name.as_str())) {
        let code = package.directory().join("src");
        for (file, source) in workspace.sources.iter().filter(|(file, _)| file.starts_with(&code)) {
            if is_named_for_tests(file) {
                continue;
            }
            let shown = workspace.display_path(file).to_string();
            let mut calls = CallCollector::default();
            calls.visit_file(&source.syntax);
            for mechanism in MECHANISMS.iter().filter(|mechanism| mechanism.home != package.name) {
                if mechanism.exceptions.iter().any(|(excepted, _)| shown.ends_with(excepted)) {
                    continue;
                }
                let copies = calls.0.iter().filter(|(call, _)| mechanism.contains(call));
                findings.extend(copies.map(|(call, line)| {
                    format!("{shown}:{line}: {call}; use {} ({})", mechanism.home, mechanism.instead)
                }));
            }
        }
    }
    Ok(findings)
}

impl SharedMechanism {
    fn contains(&self, call: &str) -> bool {
        self.calls.iter().any(|own| {
            call.strip_suffix(own).is_some_and(|before| before.is_empty() || before.ends_with("::"))
                || own.ends_with("::") && call.starts_with(own)
        })
    }
}

/// Collector for paths and method calls in code that ships, with their lines.
#[derive(Default)]
struct CallCollector(Vec<(String, usize)>);

impl<'ast> Visit<'ast> for CallCollector {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !is_test_only(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if let syn::UseTree::Path(path) = &item.tree {
            self.0.push((format!("{}::", path.ident), path.ident.span().start().line));
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if let Some(first) = path.segments.first() {
            self.0.push((segments.join("::"), first.ident.span().start().line));
        }
        visit::visit_path(self, path);
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        let arguments = if call.args.is_empty() { "()" } else { "" };
        self.0.push((format!(".{}{arguments}", call.method), call.method.span().start().line));
        visit::visit_expr_method_call(self, call);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_found_outside_tests() {
        let text = "use ctrlc::set_handler; fn f() { std::fs::rename(a, b)?; x.sync_all()?; OutputFile::create(p) }\n\
            #[cfg(test)] mod tests { fn g() { fs::copy(a, b); } }";
        let mut calls = CallCollector::default();
        calls.visit_file(&syn::parse_file(text).unwrap());
        let copies = |mechanism: &SharedMechanism| -> Vec<&str> {
            calls.0.iter().map(|(call, _)| call.as_str()).filter(|call| mechanism.contains(call)).collect()
        };
        assert_eq!(copies(&MECHANISMS[0]), ["std::fs::rename", ".sync_all()"]);
        assert_eq!(copies(&MECHANISMS[1]), ["ctrlc::"]);
    }
}
