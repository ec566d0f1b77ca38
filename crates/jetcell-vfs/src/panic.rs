//! Panics in places where unwinding is worse than an end.

/// Runs work that others wait for and nobody takes up again. Should it panic, the process ends, as it would in a crash,
/// which recovery can deal with; what cannot be dealt with is a wait without end.
pub fn abort_on_panic<T>(work: impl FnOnce() -> T) -> T {
    struct AbortOnUnwind;
    impl Drop for AbortOnUnwind {
        fn drop(&mut self) {
            std::process::abort();
        }
    }
    if cfg!(shuttle) {
        // The scheduler reports the panic, with the schedule that led to it.
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

    /// The test runs itself once more, in a process that may die.
    #[test]
    fn a_panic_ends_the_process_though_its_thread_is_joined_and_says_why() {
        if std::env::var_os(CHILD).is_some() {
            let thread = jetcell_sync::thread::spawn(|| abort_on_panic(|| panic!("half done")));
            let _ = thread.join();
            std::process::exit(0);
        }
        let name = "panic::tests::a_panic_ends_the_process_though_its_thread_is_joined_and_says_why";
        let mut child = Command::new(std::env::current_exe().unwrap());
        let output = child.args(["--exact", name, "--nocapture"]).env(CHILD, "1").output().unwrap();
        assert_eq!(output.status.signal(), Some(6), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("half done"), "{output:?}");
        assert_eq!(abort_on_panic(|| 7), 7);
    }
}
