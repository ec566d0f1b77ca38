//! Process-wide settings.

/// Makes a write beyond the process's file size limit (`ulimit -f`) fail with an error. By default, the kernel kills
/// the process without a message.
pub fn report_file_size_limit() {
    /// Linux: `SIGXFSZ`.
    const FILE_SIZE_EXCEEDED: i32 = 25;
    /// POSIX: `SIG_IGN`.
    const IGNORE: usize = 1;
    unsafe extern "C" {
        fn signal(signal: i32, action: usize) -> usize;
    }
    // SAFETY: ignoring a signal runs no code in this program, and the numbers are those used by Linux.
    unsafe {
        signal(FILE_SIZE_EXCEEDED, IGNORE);
    }
}
