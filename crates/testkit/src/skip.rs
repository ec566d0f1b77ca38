//! Skips tests that cannot run on this machine. Skipped tests print a message, are counted, and can be turned into
//! failures.
//!
//! libtest cannot mark a running test as skipped, and reports it as passed. [`skip`] therefore appends a line to the
//! file named in `JETCELL_SKIPPED`, and `test.sh` prints the number of lines at its end.

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;

/// Requirement of a test that a machine may not meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Real files that Windows wrote.
    Corpus,
    /// Feature of the kernel, a device, or a file system.
    Kernel,
    /// A NATS server.
    Nats,
    /// Clients for network block devices.
    Nbd,
    /// Independent readers of ESE databases.
    Readers,
    /// Files of the repository that a package does not contain.
    Repository,
    /// Root privileges: loop devices, mounts, namespaces, other users.
    Root,
    /// External program, such as a browser or an mkfs program.
    Tools,
    /// User other than root.
    User,
}

impl Need {
    /// Returns the name in the summary.
    pub fn name(self) -> &'static str {
        match self {
            Need::Corpus => "corpus",
            Need::Kernel => "kernel",
            Need::Nats => "nats",
            Need::Nbd => "nbd",
            Need::Readers => "readers",
            Need::Repository => "repository",
            Need::Root => "root",
            Need::Tools => "tools",
            Need::User => "user",
        }
    }

    /// Returns the environment variable that, if set to `1`, turns a missing requirement into a failure.
    pub fn variable(self) -> String {
        format!("JETCELL_REQUIRE_{}", self.name().to_uppercase())
    }

    /// Returns true if a missing requirement is a failure.
    pub fn is_required(self) -> bool {
        std::env::var_os(self.variable()).is_some_and(|value| value == "1")
    }
}

/// Records that the current test cannot run. `why` is shown to people.
///
/// # Panics
/// Panics if the requirement is mandatory.
#[track_caller]
pub fn skip(need: Need, why: impl Display) {
    let name = need.name();
    assert!(!need.is_required(), "{} is set, and {name} is missing: {why}", need.variable());
    eprintln!("skipped: {name}: {why}");
    let Some(list) = std::env::var_os("JETCELL_SKIPPED") else { return };
    let thread = std::thread::current();
    let why = why.to_string().replace(['\n', '\t'], " ");
    let line = format!("{name}\t{}\t{why}\n", thread.name().unwrap_or("unnamed"));
    // A single write keeps the lines of concurrent processes intact.
    let added = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&list)
        .and_then(|mut file| file.write_all(line.as_bytes()));
    added.unwrap_or_else(|error| panic!("{}: {error}", list.display()));
}
