//! Settings of the whole process.

/// Lets a write beyond the largest file size that the process may have (`ulimit -f`) fail with an error. By default the
/// kernel ends the process without a word.
pub fn report_file_size_limit() {
    /// Linux: `SIGXFSZ`.
    const FILE_SIZE_EXCEEDED: i32 = 25;
    /// POSIX: `SIG_IGN`.
    const IGNORE: usize = 1;
    unsafe extern "C" {
        fn signal(signal: i32, action: usize) -> usize;
    }
    // SAFETY: to ignore a signal runs no code of this program, and the numbers are those of Linux.
    unsafe {
        signal(FILE_SIZE_EXCEEDED, IGNORE);
    }
}

/// The name of this host, for people: letters, digits, points and hyphens of what the system says.
pub fn host_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    name.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_')).take(255).collect()
}
