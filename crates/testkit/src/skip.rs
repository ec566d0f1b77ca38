//! Tests that cannot run on this machine. They say so, are counted, and can be made failures.
//!
//! libtest knows no test that was skipped while it ran, and reports such a test as passed. [`skip`] therefore adds a line to the file
//! that `JETCELL_SKIPPED` names, and `test.sh` prints their number at its end.

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;

/// What a test needs and a machine may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The real files of Windows.
    Corpus,
    /// A feature of the kernel, of a device or of a file system.
    Kernel,
    /// A NATS server.
    Nats,
    /// Clients of network block devices.
    Nbd,
    /// The independent readers of ESE databases.
    Readers,
    /// Files of the repository that a package does not have.
    Repository,
    /// Rights of root: loop devices, mounts, namespaces, other users.
    Root,
    /// A program, for example a browser or a maker of file systems.
    Tools,
    /// A user other than root.
    User,
}

impl Need {
    /// The name in the summary.
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

    /// The variable that makes a missing need a failure if it is `1`.
    pub fn variable(self) -> String {
        format!("JETCELL_REQUIRE_{}", self.name().to_uppercase())
    }

    /// Whether the caller must have it.
    pub fn is_required(self) -> bool {
        std::env::var_os(self.variable()).is_some_and(|value| value == "1")
    }
}

/// Notes that the current test cannot run. `why` is for people.
///
/// # Panics
/// The need is required.
#[track_caller]
pub fn skip(need: Need, why: impl Display) {
    let name = need.name();
    assert!(!need.is_required(), "{} is set, and {name} is missing: {why}", need.variable());
    eprintln!("skipped: {name}: {why}");
    let Some(list) = std::env::var_os("JETCELL_SKIPPED") else { return };
    let thread = std::thread::current();
    let why = why.to_string().replace(['\n', '\t'], " ");
    let line = format!("{name}\t{}\t{why}\n", thread.name().unwrap_or("unnamed"));
    // One write, so that the lines of concurrent processes stay whole.
    let added = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&list)
        .and_then(|mut file| file.write_all(line.as_bytes()));
    added.unwrap_or_else(|error| panic!("{}: {error}", list.display()));
}
