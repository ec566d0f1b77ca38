//! The programs and files of the system with which file systems are made, behind one interface.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use jetcell_vfs::read_input_bytes;
use thiserror::Error;

/// Most bytes of a file of the kernel that are read.
const LARGEST: u64 = 16 << 20;

/// A program of the system failed.
#[derive(Debug, Error)]
#[error("{command}: {what}")]
pub struct SystemError {
    /// The program with its arguments.
    pub command: String,
    /// The last line of its errors, or what the kernel said.
    pub what: String,
}

/// What a file system is made with.
pub trait System {
    /// Runs a program to its end, with `input` on its standard input. Returns its standard output.
    ///
    /// # Errors
    /// It cannot be run, or says that it failed.
    fn run(&self, command: Command, input: &[u8]) -> Result<String, SystemError>;

    /// Whether there is a program with this name.
    fn finds(&self, program: &str) -> bool;

    /// A text file of the kernel; empty if it cannot be read.
    fn read(&self, path: &str) -> String;

    /// The names in a directory of the kernel; none if it cannot be read.
    fn names(&self, directory: &str) -> Vec<String>;
}

/// This machine.
pub struct LocalSystem;

/// Bytes of a program's output that are looked at.
const MOST_OUTPUT: usize = 1 << 20;
/// Where programs of an administrator are, also if the user's path does not say it.
const ADMINISTRATION: [&str; 2] = ["/usr/sbin", "/sbin"];

impl LocalSystem {
    fn program(name: &str) -> Option<PathBuf> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let places = std::env::split_paths(&path).chain(ADMINISTRATION.map(PathBuf::from));
        places.map(|place| place.join(name)).find(|file| is_program(file))
    }
}

fn is_program(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

impl System for LocalSystem {
    fn run(&self, mut command: Command, input: &[u8]) -> Result<String, SystemError> {
        let shown = words(&command);
        let failed = |what: String| SystemError { command: shown.clone(), what };
        let name = command.get_program().to_string_lossy().into_owned();
        if let Some(program) = LocalSystem::program(&name) {
            let mut found = Command::new(program);
            found.args(command.get_args());
            command = found;
        }
        // A group of its own: Ctrl-C ends the test, and not the programs that clean up behind it.
        // Not pipes: a program that goes on in the background would keep them open.
        let kept = || kept_output().map_err(|error| failed(error.to_string()));
        let (stdout, stderr) = (kept()?, kept()?);
        let copy = |file: &fs::File| file.try_clone().map_err(|error| failed(error.to_string()));
        command.process_group(0).stdin(Stdio::piped()).stdout(copy(&stdout)?).stderr(copy(&stderr)?);
        let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
        if let Some(mut stdin) = child.stdin.take() {
            match stdin.write_all(input) {
                // The program does not read it.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
                other => other.map_err(|error| failed(error.to_string()))?,
            }
        }
        let status = child.wait().map_err(|error| failed(error.to_string()))?;
        if !status.success() {
            let stderr = text_of(stderr);
            let last = stderr.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it failed");
            return Err(failed(last.trim().to_string()));
        }
        Ok(text_of(stdout))
    }

    fn finds(&self, program: &str) -> bool {
        LocalSystem::program(program).is_some()
    }

    fn read(&self, path: &str) -> String {
        read_input_bytes(Path::new(path), LARGEST)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    fn names(&self, directory: &str) -> Vec<String> {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

/// A file in memory for the output of a program.
fn kept_output() -> io::Result<fs::File> {
    let file = rustix::fs::memfd_create("output", rustix::fs::MemfdFlags::CLOEXEC)?;
    Ok(fs::File::from(file))
}

/// The output so far, of which a background process may write more.
fn text_of(file: fs::File) -> String {
    let mut bytes = vec![0; MOST_OUTPUT];
    let len = file.read_at(&mut bytes, 0).unwrap_or(0);
    bytes.truncate(len);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A command as a user would type it.
fn words(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
pub(crate) mod fake {
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    use super::*;

    /// A machine with these programs and kernel files, which notes what it is asked to run.
    #[derive(Default)]
    pub(crate) struct FakeSystem {
        programs: Vec<String>,
        files: RefCell<BTreeMap<String, String>>,
        commands: RefCell<Vec<String>>,
        /// Commands that begin so fail.
        failing: Vec<String>,
        /// Commands that begin so print this.
        printing: Vec<(String, String)>,
        /// Commands that begin so change this file of the kernel to this.
        changing: Vec<(String, String, String)>,
    }

    impl FakeSystem {
        pub fn with_programs(mut self, names: &[&str]) -> FakeSystem {
            self.programs.extend(names.iter().map(|name| name.to_string()));
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
            let mut shown = words(&command);
            if !input.is_empty() {
                shown += &format!(" < {} bytes", input.len());
            }
            self.commands.borrow_mut().push(shown.clone());
            if self.failing.iter().any(|begin| shown.starts_with(begin)) {
                return Err(SystemError { command: shown, what: "no".into() });
            }
            for (_, path, text) in self.changing.iter().filter(|(begin, ..)| shown.starts_with(begin)) {
                self.files.borrow_mut().insert(path.clone(), text.clone());
            }
            let printed = self.printing.iter().find(|(begin, _)| shown.starts_with(begin));
            Ok(printed.map(|(_, text)| text.clone()).unwrap_or_default())
        }

        fn finds(&self, program: &str) -> bool {
            self.programs.iter().any(|known| known == program)
        }

        fn read(&self, path: &str) -> String {
            self.files.borrow().get(path).cloned().unwrap_or_default()
        }

        fn names(&self, directory: &str) -> Vec<String> {
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
    fn programs_get_their_input_and_their_last_line_is_the_error() {
        assert_eq!(run("cat", &[], "text").unwrap(), "text");
        assert_eq!(run("true", &[], &"not read".repeat(100_000)).unwrap(), "");
        let error = run("sh", &["-c", "echo first >&2; echo last >&2; exit 3"], "").unwrap_err();
        assert!(error.starts_with("sh -c ") && error.ends_with(": last"), "{error}");
        assert!(
            run("jetcell-no-such-program", &["-x"], "")
                .unwrap_err()
                .starts_with("jetcell-no-such-program -x: ")
        );
        assert!(LocalSystem.finds("sh") && !LocalSystem.finds("jetcell-no-such-program"));
        assert!(
            LocalSystem.read("/proc/filesystems").contains("proc") && LocalSystem.read("/none").is_empty()
        );
        assert!(LocalSystem.names("/proc/self").contains(&"fd".to_string()));
    }
}
