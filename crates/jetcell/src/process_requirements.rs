//! Resources that commands require of the process, which are checked before the commands start.

use std::os::unix::process::CommandExt;
use std::process::Command;

use jetcell_host::try_threads;
use rustix::process::{Resource, getrlimit};

use crate::outcome::{CommandError, CommandResult};

/// Number of threads that a command may start: I/O backend threads, workers, and the thread that waits for Ctrl-C.
/// A storage test checks the threads for its load later.
const REQUIRED_THREADS: usize = 32;

/// Process resources that a command requires.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProcessRequirements {
    /// The command reads or writes a few files.
    Nothing,
    /// The command uses an I/O backend, workers or signals, and as much address space as its caches need.
    ThreadsAndMemory,
}

impl ProcessRequirements {
    /// Fails if the process lacks a resource that the command requires.
    pub fn check(self) -> CommandResult<()> {
        if self == ProcessRequirements::Nothing {
            return Ok(());
        }
        restart_if_address_space_is_limited();
        check_threads()
    }
}

/// Restarts the program with allocators that reserve little address space, if the address space of the process is
/// limited (`ulimit -v`). By default, the allocators reserve a gigabyte in advance, which would leave too little for
/// the load.
fn restart_if_address_space_is_limited() {
    const SETTINGS: [(&str, &str); 2] = [("MALLOC_ARENA_MAX", "1"), ("MIMALLOC_ARENA_RESERVE", "32MiB")];
    let unlimited = getrlimit(Resource::As).current.is_none();
    if unlimited || SETTINGS.iter().any(|(name, _)| std::env::var_os(name).is_some()) {
        return;
    }
    let Ok(program) = std::env::current_exe() else { return };
    let mut arguments = std::env::args_os();
    let mut again = Command::new(program);
    again.arg0(arguments.next().unwrap_or_else(|| "jetcell".into())).args(arguments).envs(SETTINGS);
    // If this fails, the program continues with the default allocators.
    let _ = again.exec();
}

/// Fails if the process cannot start the threads that a command needs. Otherwise, a library would panic later.
fn check_threads() -> CommandResult<()> {
    try_threads(REQUIRED_THREADS).map_err(|(started, error)| {
        CommandError::new(format_args!(
            "the process could start only {started} of {REQUIRED_THREADS} threads ({error})"
        ))
        .advise("raise the limit (ulimit -u, or pids.max of its control group)")
    })
}
