//! Skips tests that cannot run on this machine. A skipped test prints a message and is counted. Skips can be turned
//! into failures.
//!
//! libtest cannot mark a running test as skipped, and reports it as passed. [`skip`] therefore appends a line to the
//! file named in `JETCELL_SKIPPED`, and `test.sh` prints the number of lines when it ends.

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;

/// Something that a test requires and that a machine may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestRequirement {
    /// Real files written by Windows.
    Corpus,
    /// A feature of the kernel, a device, or a file system.
    Kernel,
    /// A NATS server.
    Nats,
    /// Clients for network block devices.
    Nbd,
    /// Independent readers of ESE databases.
    Readers,
    /// Repository files that are not included in a package.
    Repository,
    /// Root privileges, for loop devices, mounts, namespaces, or other users.
    Root,
    /// An external program, such as a browser or an mkfs program.
    Tools,
    /// A user other than root.
    User,
}

impl TestRequirement {
    /// Returns the name used in the summary.
    pub fn name(self) -> &'static str {
        match self {
            TestRequirement::Corpus => "corpus",
            TestRequirement::Kernel => "kernel",
            TestRequirement::Nats => "nats",
            TestRequirement::Nbd => "nbd",
            TestRequirement::Readers => "readers",
            TestRequirement::Repository => "repository",
            TestRequirement::Root => "root",
            TestRequirement::Tools => "tools",
            TestRequirement::User => "user",
        }
    }

    /// Returns the name of the environment variable. If it is set to `1`, a test that lacks this requirement fails.
    pub fn variable(self) -> String {
        format!("JETCELL_REQUIRE_{}", self.name().to_uppercase())
    }

    /// Returns true if a test must fail when this requirement is not met.
    pub fn is_required(self) -> bool {
        std::env::var_os(self.variable()).is_some_and(|value| value == "1")
    }
}

/// Records that the current test cannot run. `why` is shown to the user.
///
/// # Panics
/// Panics if the requirement must be met.
#[track_caller]
pub fn skip(need: TestRequirement, why: impl Display) {
    let name = need.name();
    assert!(!need.is_required(), "{} is set, and {name} is missing: {why}", need.variable());
    eprintln!("skipped: {name}: {why}");
    let Some(list) = std::env::var_os("JETCELL_SKIPPED") else { return };
    let thread = std::thread::current();
    let why = why.to_string().replace(['\n', '\t'], " ");
    let line = format!("{name}\t{}\t{why}\n", thread.name().unwrap_or("unnamed"));
    // A single write keeps lines from concurrent processes intact.
    let added = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&list)
        .and_then(|mut file| file.write_all(line.as_bytes()));
    added.unwrap_or_else(|error| panic!("{}: {error}", list.display()));
}
