//! Repeats of system calls that a signal interrupted.

use rustix::io::Errno;

/// Repeats without progress before the error is reported. Signals interrupt disk I/O rarely, and never this often: an
/// endless series is a fault of the file system below, which must not hang the process.
const MOST: u32 = 10_000;

/// Counts the interruptions of one transfer.
#[derive(Clone, Copy, Default)]
pub(crate) struct Retries(u32);

impl Retries {
    /// Whether a call that failed with `error` is to be repeated.
    pub fn allow(&mut self, error: Errno) -> bool {
        self.0 = self.0.saturating_add(1);
        matches!(error, Errno::INTR | Errno::AGAIN) && self.0 <= MOST
    }
}

/// Calls until the call succeeds, fails, or was interrupted too often.
pub(crate) fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    let mut retries = Retries::default();
    loop {
        match call() {
            Err(error) if retries.allow(error) => {}
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_repeated_until_it_succeeds_but_not_without_end() {
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
        assert_eq!((forever, calls), (Err(Errno::INTR), MOST + 1));
        let mut calls = 0;
        let failed = retry(|| {
            calls += 1;
            Err::<(), _>(Errno::IO)
        });
        assert_eq!((failed, calls), (Err(Errno::IO), 1));
    }
}
