//! Group commit. Tracks the threads that wait for the writer, and decides whether a commit waits for others to share
//! its write.

use std::time::Duration;

use ese_format::LogPosition;
use jetcell_sync::Arc;
use jetcell_sync::atomic::{AtomicU8, Ordering};
use jetcell_sync::thread::Thread;
use jetcell_vfs::Clock;

/// Decides whether a commit waits for other commits.
///
/// Sessions that commit one transaction after another form two groups that alternate: while one group's commits are
/// being written, the threads of the other group work. If a commit waits until all sessions have arrived, one write is
/// enough for both groups. This is faster only if the sessions arrive soon. Each time they do not, waiting is suspended
/// for a larger number of writes than before.
pub(super) struct GroupCommit {
    /// Number of commits that took part in the last write or are waiting for the next write.
    pub expected: usize,
    /// Maximum time that a commit waits.
    pub max_wait: Duration,
    /// Number of writes for which waiting is still suspended.
    suspended: u32,
    /// Number of writes for which waiting will be suspended after the next timeout.
    next_suspension: u32,
}

/// Maximum wait as a multiple of the duration of the last write. A group forms within the duration of one write, and
/// writing the group takes the same time again. With a shorter wait, the thread that waits with a timeout would be
/// woken unnecessarily during the write.
const WAIT_IN_WRITES: u32 = 2;
const MIN_WAIT: Duration = Duration::from_micros(20);
const MAX_WAIT: Duration = Duration::from_millis(1);
const MIN_SUSPENSION: u32 = 16;
const MAX_SUSPENSION: u32 = 1024;

impl GroupCommit {
    pub fn new() -> GroupCommit {
        GroupCommit { expected: 1, max_wait: MIN_WAIT, suspended: 0, next_suspension: MIN_SUSPENSION }
    }

    /// Returns whether a commit should wait until more than `present` commits are present. Called once by each commit
    /// that could start a write.
    pub fn should_wait(&mut self, present: usize) -> bool {
        if self.suspended > 0 {
            self.suspended -= 1;
            return false;
        }
        if present >= self.expected {
            if self.expected > 1 {
                self.next_suspension = MIN_SUSPENSION;
            }
            return false;
        }
        true
    }

    /// Records how long a write took.
    pub fn record_write_time(&mut self, duration: Duration) {
        self.max_wait = (duration * WAIT_IN_WRITES).clamp(MIN_WAIT, MAX_WAIT);
    }

    /// Records that the group did not become complete in time, and suspends waiting.
    pub fn timed_out(&mut self) {
        self.suspended = self.next_suspension;
        self.next_suspension = (self.next_suspension * 2).min(MAX_SUSPENSION);
    }
}

/// Why a thread is waiting for log records to become durable.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitPurpose {
    Commit,
    Flush,
}

/// Result of waiting for log records to become durable.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitResult {
    /// The records are durable, or the log has failed.
    Durable = 1,
    /// The waiting thread is now the writer.
    BecomeWriter = 2,
}

/// A thread that waits for the writer.
pub(super) struct CommitWaiter {
    pub upto: LogPosition,
    pub purpose: WaitPurpose,
    thread: Thread,
    /// Numeric value of a [`WaitResult`], or zero while the thread waits.
    result: AtomicU8,
}

impl CommitWaiter {
    /// Creates a waiter for the calling thread.
    pub fn new(upto: LogPosition, purpose: WaitPurpose) -> Arc<CommitWaiter> {
        Arc::new(CommitWaiter {
            upto,
            purpose,
            thread: jetcell_sync::thread::current(),
            result: AtomicU8::new(0),
        })
    }

    /// Ends the wait with the given result.
    pub fn wake(&self, result: WaitResult) {
        self.result.store(result as u8, Ordering::Release);
        self.thread.unpark();
    }

    /// Prepares the waiter for reuse.
    pub fn reset(&self) {
        self.result.store(0, Ordering::Relaxed);
    }

    fn result(&self) -> Option<WaitResult> {
        match self.result.load(Ordering::Acquire) {
            1 => Some(WaitResult::Durable),
            2 => Some(WaitResult::BecomeWriter),
            _ => None,
        }
    }

    /// Waits without a time limit.
    pub fn wait(&self) -> WaitResult {
        loop {
            if let Some(result) = self.result() {
                return result;
            }
            jetcell_sync::thread::park();
        }
    }

    /// Waits up to `max_wait`. Returns `None` after that time.
    pub fn wait_for(&self, max_wait: Duration, clock: &dyn Clock) -> Option<WaitResult> {
        let end = clock.monotonic() + max_wait;
        // A late wake-up from an earlier wait can end one park, but not two. A simulated clock may not advance, so
        // the end of the wait must not depend on the clock alone.
        for _ in 0..2 {
            let left = end.saturating_sub(clock.monotonic());
            if left.is_zero() || self.result().is_some() {
                break;
            }
            jetcell_sync::thread::park_timeout(left);
        }
        self.result()
    }
}

#[cfg(test)]
mod tests {
    use jetcell_vfs::{RealClock, SimClock};

    use super::*;

    #[test]
    fn group_commit_is_suspended_after_waits_time_out() {
        let mut group = GroupCommit::new();
        assert!(!group.should_wait(1), "no other commit is known");
        group.expected = 3;
        assert!(group.should_wait(1) && group.should_wait(2) && !group.should_wait(3));
        for writes in [MIN_SUSPENSION, 2 * MIN_SUSPENSION] {
            group.timed_out();
            assert!((0..writes).all(|_| !group.should_wait(1)) && group.should_wait(1));
        }
        assert!(!group.should_wait(3), "the group is complete");
        group.timed_out();
        assert!((0..MIN_SUSPENSION).all(|_| !group.should_wait(1)) && group.should_wait(1));
    }

    #[test]
    fn a_commit_waits_at_most_the_time_for_two_writes() {
        let mut group = GroupCommit::new();
        for (write, wait) in [(0, 20), (9, 20), (11, 22), (300, 600), (501, 1000), (9000, 1000)] {
            group.record_write_time(Duration::from_micros(write));
            assert_eq!(group.max_wait, Duration::from_micros(wait), "a write of {write} µs");
        }
    }

    #[test]
    fn a_late_wake_up_does_not_end_the_next_wait() {
        let clock = RealClock::new();
        let waiter = CommitWaiter::new(LogPosition::MIN, WaitPurpose::Commit);
        waiter.wake(WaitResult::Durable);
        waiter.reset();
        let (before, max_wait) = (clock.monotonic(), Duration::from_millis(20));
        assert!(waiter.wait_for(max_wait, &clock).is_none());
        assert!(clock.monotonic() - before >= max_wait);
    }

    #[test]
    fn a_wait_ends_even_if_the_clock_is_stopped() {
        let waiter = CommitWaiter::new(LogPosition::MIN, WaitPurpose::Commit);
        assert!(waiter.wait_for(Duration::from_millis(1), &SimClock::new()).is_none());
    }
}
