//! Aborts the process on panics in code whose unwinding would leave other threads waiting.

/// Runs work that other threads wait for and that cannot be resumed. A panic aborts the process like a crash, because
/// recovery can handle a crash, but not threads that wait forever.
pub fn abort_on_panic<T>(work: impl FnOnce() -> T) -> T {
    struct AbortOnUnwind;
    impl Drop for AbortOnUnwind {
        fn drop(&mut self) {
            std::process::abort();
        }
    }
    if cfg!(shuttle) {
        // The Shuttle scheduler reports the panic, with the schedule that led to it.
        return work();
    }
    let guard = AbortOnUnwind;
    let result = work();
    std::mem::forget(guard);
    result
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use super::*;

    const CHILD: &str = "JETCELL_TEST_PANICS";

    /// This test runs itself again in a child process, which may abort.
    #[test]
    fn a_panic_in_a_joined_thread_aborts_the_process() {
        if std::env::var_os(CHILD).is_some() {
            let thread = jetcell_sync::thread::spawn(|| abort_on_panic(|| panic!("half done")));
            let _ = thread.join();
            std::process::exit(0);
        }
        let name = "panic::tests::a_panic_in_a_joined_thread_aborts_the_process";
        let mut child = Command::new(std::env::current_exe().unwrap());
        let output = child.args(["--exact", name, "--nocapture"]).env(CHILD, "1").output().unwrap();
        assert_eq!(output.status.signal(), Some(6), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("half done"), "{output:?}");
        assert_eq!(abort_on_panic(|| 7), 7);
    }
}
