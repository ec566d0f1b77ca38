//! Process-wide settings.

/// Makes a write beyond the file size limit of the process (`ulimit -f`) fail with an error. By default the kernel
/// ends the process without a message.
pub fn report_file_size_limit() {
    /// Linux: `SIGXFSZ`.
    const FILE_SIZE_EXCEEDED: i32 = 25;
    /// POSIX: `SIG_IGN`.
    const IGNORE: usize = 1;
    unsafe extern "C" {
        fn signal(signal: i32, action: usize) -> usize;
    }
    // SAFETY: ignoring a signal runs no code of this program, and the numbers are those of Linux.
    unsafe {
        signal(FILE_SIZE_EXCEEDED, IGNORE);
    }
}

/// Returns the name of this host for messages. Only ASCII letters, digits, dots, hyphens and underscores of the
/// system's name are kept, at most 255 characters.
pub fn host_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    name.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_')).take(255).collect()
}
