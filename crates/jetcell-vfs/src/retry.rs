//! Limited retries of system calls that a signal interrupted.

use std::io;

use rustix::io::Errno;

/// Maximum number of retries without progress before the error is reported. Signals rarely interrupt disk I/O.
/// Endless interruptions are a bug in the underlying file system, which must not hang the process.
pub(crate) const MAX_INTERRUPTIONS: u32 = 10_000;

/// Counts how often one transfer has been interrupted.
#[derive(Clone, Copy, Default)]
pub(crate) struct RetryCounter(u32);

impl RetryCounter {
    /// Returns true if a call that failed with `error` should be retried.
    pub fn allow(&mut self, error: Errno) -> bool {
        self.0 = self.0.saturating_add(1);
        matches!(error, Errno::INTR | Errno::AGAIN) && self.0 <= MAX_INTERRUPTIONS
    }
}

/// Repeats a call while it is interrupted, until it succeeds, fails, or exceeds the retry limit.
pub(crate) fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    let mut retries = RetryCounter::default();
    loop {
        match call() {
            Err(error) if retries.allow(error) => {}
            result => return result,
        }
    }
}

/// Like [`retry`], but its error never causes the standard library to retry the call without limit.
pub(crate) fn bounded<T>(call: impl FnMut() -> rustix::io::Result<T>) -> io::Result<T> {
    retry(call).map_err(|error| match error {
        Errno::INTR => io::Error::other(format!(
            "the call was interrupted {MAX_INTERRUPTIONS} times without an effect; use a different file \
             system"
        )),
        error => error.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_call_is_retried_a_bounded_number_of_times() {
        let mut left = 50;
        let interrupted = || match left {
            0 => Ok("done"),
            _ => {
                left -= 1;
                Err(if left % 2 == 0 { Errno::INTR } else { Errno::AGAIN })
            }
        };
        assert_eq!(retry(interrupted), Ok("done"));
        let mut calls = 0;
        let forever = retry(|| {
            calls += 1;
            Err::<(), _>(Errno::INTR)
        });
        assert_eq!((forever, calls), (Err(Errno::INTR), MAX_INTERRUPTIONS + 1));
        let mut calls = 0;
        let failed = retry(|| {
            calls += 1;
            Err::<(), _>(Errno::IO)
        });
        assert_eq!((failed, calls), (Err(Errno::IO), 1));
    }

    #[test]
    fn a_standard_library_retry_loop_terminates() {
        struct InterruptedReader(u32);
        impl io::Write for InterruptedReader {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                bounded(|| {
                    self.0 += 1;
                    Err(Errno::INTR)
                })
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut file = InterruptedReader(0);
        let error = io::Write::write_all(&mut file, b"text").unwrap_err();
        assert!(error.to_string().contains("was interrupted 10000 times"), "{error}");
        assert_eq!(file.0, MAX_INTERRUPTIONS + 1);
        assert_eq!(bounded(|| Err::<(), _>(Errno::NOSPC)).unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
