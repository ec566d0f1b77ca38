//! Tests of results that the kernel rarely returns. The requests are real, but the tests replace their results.

use super::*;
use crate::retry::MAX_INTERRUPTIONS;
use crate::{IoBuffer, IoReason, OpenMode};
use testkit::{TestRequirement, skip};

const INTERRUPTED: i32 = -4;
const AGAIN: i32 = -11;
const LEN: usize = 8192;

/// An in-flight table with a file, for tests. The constructor returns `None` if the kernel does not support
/// `io_uring`.
struct RingFixture {
    table: InFlightTable,
    file: Arc<Descriptor>,
    _wake: OwnedFd,
    _directory: tempfile::TempDir,
}

impl RingFixture {
    fn new() -> Option<RingFixture> {
        let wake = rustix::event::eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        let table = InFlightTable::new(wake.as_raw_fd())
            .inspect_err(|error| skip(TestRequirement::Kernel, format!("{error}")))
            .ok()?;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, [7; LEN]).unwrap();
        let file = Arc::new(Descriptor::open(&path, OpenMode::Read, false).unwrap());
        Some(RingFixture { table, file, _wake: wake, _directory: directory })
    }

    fn push(&mut self) {
        let done = Box::new(|_, _| {});
        let (kind, buffer) = (TransferKind::Read, IoBuffer::zeroed(LEN));
        let transfer = Transfer { kind, offset: 0, buffer, reason: IoReason::Other, done };
        let job = QueuedTransfer { file: self.file.clone(), transfer };
        self.table.push_transfer(InFlightTransfer { job, transferred: 0, retries: RetryCounter::default() });
    }

    /// Returns the slot and the result of the request in flight after the kernel has completed it.
    fn reap(&mut self) -> (u64, i32) {
        loop {
            self.table.wait();
            let entry = self.table.ring.completion().next();
            if let Some(entry) = entry {
                return (entry.user_data(), entry.result());
            }
        }
    }
}

#[test]
fn an_interrupted_request_is_retried_a_bounded_number_of_times() {
    for code in [INTERRUPTED, AGAIN] {
        let Some(mut bench) = RingFixture::new() else { return };
        bench.push();
        for _ in 0..MAX_INTERRUPTIONS {
            let (slot, _) = bench.reap();
            assert!(bench.table.complete(slot, code).is_none());
        }
        let (slot, _) = bench.reap();
        let (_, outcome) = bench.table.complete(slot, code).unwrap();
        assert_eq!(outcome.unwrap_err().raw_os_error(), Some(-code));
        assert_eq!(bench.table.free.len(), DEPTH);
    }
}

#[test]
fn interrupted_and_short_transfers_are_completed() {
    let Some(mut bench) = RingFixture::new() else { return };
    bench.push();
    for (code, rest) in
        [(INTERRUPTED, LEN), (AGAIN, LEN), (1000, LEN), (INTERRUPTED, LEN - 1000), (96, LEN - 1000)]
    {
        let (slot, result) = bench.reap();
        assert_eq!(result, rest as i32);
        assert!(bench.table.complete(slot, code).is_none());
    }
    let (slot, result) = bench.reap();
    assert_eq!(result as usize, LEN - 1096);
    let (job, outcome) = bench.table.complete(slot, result).unwrap();
    outcome.unwrap();
    assert!(job.transfer.buffer.iter().all(|byte| *byte == 7));
    // A read that returns zero bytes is at the end of the file and is not retried.
    bench.push();
    let (slot, _) = bench.reap();
    let (_, outcome) = bench.table.complete(slot, 0).unwrap();
    assert_eq!(outcome.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
}
