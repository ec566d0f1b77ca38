//! Interface to the programs and kernel files used to make file systems.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use jetcell_vfs::read_input_bytes;
use thiserror::Error;

/// Maximum number of bytes to read from a kernel file.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// Error returned if a system program cannot be run or fails.
#[derive(Debug, Error)]
#[error("{command}: {failure}")]
pub struct SystemError {
    /// The program's command line.
    pub command: String,
    /// The reason.
    #[source]
    pub failure: SystemFailure,
}

/// Reason why a system program failed.
#[derive(Debug, Error)]
pub enum SystemFailure {
    /// The kernel returned an error.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The program exited with a failure.
    #[error("{}", if .message.is_empty() { .status.to_string() } else { .message.clone() })]
    Exit {
        /// Exit status of the program.
        status: ExitStatus,
        /// Last line of its standard error output, or empty if there was none.
        message: String,
    },
    /// A file system was not unmounted.
    #[error("still mounted after umount")]
    StillMounted,
}

/// Interface to the system on which file systems are made.
pub trait System {
    /// Runs a program to completion with `input` on its standard input. Returns its standard output.
    ///
    /// # Errors
    /// Returns an error if the program cannot be run or exits with a failure.
    fn run(&self, command: Command, input: &[u8]) -> Result<String, SystemError>;

    /// Returns true if a program with this name exists.
    fn has_program(&self, program: &str) -> bool;

    /// Reads a kernel text file. Returns an empty string if it cannot be read.
    fn read(&self, path: &str) -> String;

    /// Returns the names in a kernel directory, or none if it cannot be read.
    fn list_directory(&self, directory: &str) -> Vec<String>;
}

/// The local machine, as an implementation of [`System`].
pub struct LocalSystem;

/// Maximum number of bytes to read from a program's output.
const MAX_OUTPUT: usize = 1 << 20;
/// Directories with administration programs, searched even if they are not in the user's `PATH`.
const ADMIN_DIRECTORIES: [&str; 2] = ["/usr/sbin", "/sbin"];

impl LocalSystem {
    fn program(name: &str) -> Option<PathBuf> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let places = std::env::split_paths(&path).chain(ADMIN_DIRECTORIES.map(PathBuf::from));
        places.map(|place| place.join(name)).find(|file| is_program(file))
    }
}

fn is_program(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

impl System for LocalSystem {
    fn run(&self, mut command: Command, input: &[u8]) -> Result<String, SystemError> {
        let shown = command_line(&command);
        let system_error = |failure| SystemError { command: shown.clone(), failure };
        let io_error = |error: io::Error| system_error(error.into());
        let name = command.get_program().to_string_lossy().into_owned();
        if let Some(program) = LocalSystem::program(&name) {
            let mut found = Command::new(program);
            found.args(command.get_args());
            command = found;
        }
        // The program runs in a separate process group. Ctrl-C therefore does not end a program that cleans up after a
        // test. Output goes to files rather than pipes, because a program that stays in the background would keep a
        // pipe open.
        let kept = || create_output_file().map_err(io_error);
        let (stdout, stderr) = (kept()?, kept()?);
        let copy = |file: &fs::File| file.try_clone().map_err(io_error);
        command.process_group(0).stdin(Stdio::piped()).stdout(copy(&stdout)?).stderr(copy(&stderr)?);
        let mut child = command.spawn().map_err(io_error)?;
        if let Some(mut stdin) = child.stdin.take() {
            match stdin.write_all(input) {
                // The program did not read its standard input.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
                other => other.map_err(io_error)?,
            }
        }
        let status = child.wait().map_err(io_error)?;
        if !status.success() {
            let stderr = read_output(stderr);
            let last = stderr.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
            let message = last.trim().to_string();
            return Err(system_error(SystemFailure::Exit { status, message }));
        }
        Ok(read_output(stdout))
    }

    fn has_program(&self, program: &str) -> bool {
        LocalSystem::program(program).is_some()
    }

    fn read(&self, path: &str) -> String {
        read_input_bytes(Path::new(path), MAX_FILE_BYTES)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    fn list_directory(&self, directory: &str) -> Vec<String> {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

/// Creates an in-memory file for a program's output.
fn create_output_file() -> io::Result<fs::File> {
    let file = rustix::fs::memfd_create("output", rustix::fs::MemfdFlags::CLOEXEC)?;
    Ok(fs::File::from(file))
}

/// Returns the output written so far. A background process may still append to it.
fn read_output(file: fs::File) -> String {
    let mut bytes = vec![0; MAX_OUTPUT];
    let len = file.read_at(&mut bytes, 0).unwrap_or(0);
    bytes.truncate(len);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Formats a command as a user would type it.
fn command_line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
pub(crate) mod fake {
    use std::cell::RefCell;
    use std::collections::BTreeMap;
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    /// A fake machine with the given programs and kernel files. It records the commands that it is asked to run.
    #[derive(Default)]
    pub(crate) struct FakeSystem {
        programs: Vec<String>,
        files: RefCell<BTreeMap<String, String>>,
        commands: RefCell<Vec<String>>,
        /// Prefixes of the commands that fail.
        failing: Vec<String>,
        /// Prefixes of commands, each with the output that the command prints.
        printing: Vec<(String, String)>,
        /// Prefixes of commands, each with a kernel file that the command changes and the file's new content.
        changing: Vec<(String, String, String)>,
    }

    impl FakeSystem {
        pub fn with_programs(mut self, names: &[&str]) -> FakeSystem {
            self.programs.extend(names.iter().map(std::string::ToString::to_string));
            self
        }

        pub fn with_file(self, path: &str, text: &str) -> FakeSystem {
            self.files.borrow_mut().insert(path.into(), text.into());
            self
        }

        pub fn failing(mut self, command: &str) -> FakeSystem {
            self.failing.push(command.into());
            self
        }

        pub fn printing(mut self, command: &str, text: &str) -> FakeSystem {
            self.printing.push((command.into(), text.into()));
            self
        }

        pub fn changing(mut self, command: &str, path: &str, text: &str) -> FakeSystem {
            self.changing.push((command.into(), path.into(), text.into()));
            self
        }

        pub fn commands(&self) -> Vec<String> {
            self.commands.borrow().clone()
        }
    }

    impl System for FakeSystem {
        fn run(&self, command: Command, input: &[u8]) -> Result<String, SystemError> {
            let mut shown = command_line(&command);
            if !input.is_empty() {
                shown += &format!(" < {} bytes", input.len());
            }
            self.commands.borrow_mut().push(shown.clone());
            if self.failing.iter().any(|begin| shown.starts_with(begin)) {
                let failure =
                    SystemFailure::Exit { status: ExitStatus::from_raw(1 << 8), message: "failed".into() };
                return Err(SystemError { command: shown, failure });
            }
            for (_, path, text) in self.changing.iter().filter(|(begin, ..)| shown.starts_with(begin)) {
                self.files.borrow_mut().insert(path.clone(), text.clone());
            }
            let printed = self.printing.iter().find(|(begin, _)| shown.starts_with(begin));
            Ok(printed.map(|(_, text)| text.clone()).unwrap_or_default())
        }

        fn has_program(&self, program: &str) -> bool {
            self.programs.iter().any(|known| known == program)
        }

        fn read(&self, path: &str) -> String {
            self.files.borrow().get(path).cloned().unwrap_or_default()
        }

        fn list_directory(&self, directory: &str) -> Vec<String> {
            let below = format!("{directory}/");
            let names = self.files.borrow();
            let names = names.keys().filter_map(|path| path.strip_prefix(&below));
            let mut names: Vec<String> =
                names.map(|rest| rest.split('/').next().unwrap_or(rest).to_string()).collect();
            names.dedup();
            names
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(program: &str, arguments: &[&str], input: &str) -> Result<String, String> {
        let mut command = Command::new(program);
        command.args(arguments);
        LocalSystem.run(command, input.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn programs_receive_input_and_the_last_line_is_the_error() {
        assert_eq!(run("cat", &[], "text").unwrap(), "text");
        assert_eq!(run("true", &[], &"not read".repeat(100_000)).unwrap(), "");
        let error = run("sh", &["-c", "echo first >&2; echo last >&2; exit 3"], "").unwrap_err();
        assert!(error.starts_with("sh -c ") && error.ends_with(": last"), "{error}");
        assert_eq!(run("sh", &["-c", "exit 3"], "").unwrap_err(), "sh -c exit 3: exit status: 3");
        assert!(
            run("jetcell-no-such-program", &["-x"], "")
                .unwrap_err()
                .starts_with("jetcell-no-such-program -x: ")
        );
        assert!(LocalSystem.has_program("sh") && !LocalSystem.has_program("jetcell-no-such-program"));
        assert!(
            LocalSystem.read("/proc/filesystems").contains("proc") && LocalSystem.read("/none").is_empty()
        );
        assert!(LocalSystem.list_directory("/proc/self").contains(&"fd".to_string()));
    }
}
