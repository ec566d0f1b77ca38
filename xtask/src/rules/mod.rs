//! The rules, in the order in which they are reported.

mod arrows;
mod builds;
mod circles;
mod copies;
mod dependencies;
mod errors;
mod folders;
mod forbidden;
mod licences;
mod links;
mod locks;
mod manifests;
mod manual;
mod names;
mod shared;
mod sizes;
mod test_files;
mod words;

use anyhow::Result;

use crate::RuleFindings;
use crate::workspace::Workspace;

/// A rule of the repository.
pub struct RepositoryRule {
    /// Name on the command line.
    pub name: &'static str,
    /// Description of the findings of the rule.
    pub claim: &'static str,
    /// Returns the violations of the rule.
    pub check: fn(&Workspace) -> Result<RuleFindings>,
}

/// All rules.
pub const RULES: [RepositoryRule; 19] = [
    RepositoryRule {
        name: "arrows",
        claim: "crate dependencies that are not in ARCHITECTURE.md",
        check: arrows::check,
    },
    RepositoryRule { name: "circles", claim: "import cycles between modules", check: circles::check },
    RepositoryRule {
        name: "folders",
        claim: "imports that run up in a list of folders in ARCHITECTURE.md",
        check: folders::check,
    },
    RepositoryRule {
        name: "forbidden",
        claim: "uses of the file system, clocks, locks and user files outside their seams",
        check: forbidden::check,
    },
    RepositoryRule {
        name: "shared",
        claim: "second copies of mechanisms that a shared crate implements",
        check: shared::check,
    },
    RepositoryRule {
        name: "unsafe",
        claim: "crates that do not forbid unsafe code",
        check: forbidden::check_unsafe,
    },
    RepositoryRule {
        name: "dependencies",
        claim: "dependencies that are unused or not in ARCHITECTURE.md",
        check: dependencies::check,
    },
    RepositoryRule {
        name: "licences",
        claim: "packages whose licence is not allowed by deny.toml",
        check: licences::check,
    },
    RepositoryRule {
        name: "manifests",
        claim: "packages that a registry would reject",
        check: manifests::check,
    },
    RepositoryRule {
        name: "locks",
        claim: "crate dependencies that are missing from the lock file of the benchmarks",
        check: locks::check,
    },
    RepositoryRule {
        name: "builds",
        claim: "crates in excess of the limit for the default build",
        check: builds::check,
    },
    RepositoryRule {
        name: "test-files",
        claim: "files whose names do not distinguish test code from product code",
        check: test_files::check,
    },
    RepositoryRule {
        name: "names",
        claim: "type names with several definitions, and constructors named `of`",
        check: names::check,
    },
    RepositoryRule { name: "errors", claim: "errors that are text instead of types", check: errors::check },
    RepositoryRule { name: "links", claim: "broken links in documents", check: links::check },
    RepositoryRule {
        name: "copies",
        claim: "copies of mechanisms that jetcell-input has for all crates",
        check: copies::check,
    },
    RepositoryRule {
        name: "sizes",
        claim: "files, functions and headers that exceed their limits",
        check: sizes::check,
    },
    RepositoryRule {
        name: "manual",
        claim: "pages that are too long, and terms of the glossary that the code does not use",
        check: manual::check,
    },
    RepositoryRule {
        name: "words",
        claim: "phrases that are not plain technical English",
        check: words::check,
    },
];
