//! Sequence numbers of the Begin0 and Commit0 records in the log.

use ese_format::log::record::{Begin0, BeginLevels, Commit0, LogRecord};
use jetcell_sync::atomic::{AtomicU64, Ordering};
use jetcell_sync::{Mutex, MutexGuard};

/// Assigns the sequence numbers that Begin0 and Commit0 records store. ESE: `trxNewest`.
#[derive(Debug)]
pub struct TransactionNumbers {
    /// Held while a number is assigned. The holder must never wait.
    giving: Mutex<()>,
    next: AtomicU64,
}

impl Default for TransactionNumbers {
    fn default() -> TransactionNumbers {
        TransactionNumbers { giving: Mutex::default(), next: AtomicU64::new(1) }
    }
}

impl TransactionNumbers {
    /// Returns the number that the next begin or commit will get.
    pub fn next(&self) -> u64 {
        self.next.load(Ordering::Acquire)
    }

    /// Allocates `count` numbers. Returns the first one.
    pub fn take(&self, count: u64) -> u64 {
        let _one = self.giving.lock();
        self.next.fetch_add(count, Ordering::AcqRel)
    }

    /// Prevents the assignment of numbers while the guard exists.
    pub(crate) fn hold(&self) -> MutexGuard<'_, ()> {
        self.giving.lock()
    }

    /// Marks all numbers up to this one as assigned. The caller must have held the lock since it read
    /// [`TransactionNumbers::next`].
    pub(crate) fn assigned(&self, number: u64) {
        self.next.store(number + 1, Ordering::Release);
    }

    /// Sets the next number after recovery.
    pub fn continue_from(&self, next: u64) {
        self.next.fetch_max(next.max(1), Ordering::AcqRel);
    }

    /// Returns the records that must enclose changes made outside of sessions. ESE redoes a record only after a
    /// Begin0 for its session.
    pub(crate) fn enclosing_records(&self, procid: u16) -> [LogRecord; 2] {
        let begin0 = self.take(2) as u32;
        [
            LogRecord::Begin0(Begin0 { procid, levels: BeginLevels::new(0, 1), begin0 }),
            LogRecord::Commit0(Commit0 { procid, level: 0, commit0: begin0.wrapping_add(1) }),
        ]
    }
}
