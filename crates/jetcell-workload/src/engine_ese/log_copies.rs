//! Simulates the log reads of additional copies, as in Jetstress. Each copy reads a closed log's header once and its
//! body twice. Network transfer and replay are not simulated.
//!
//! ```text
//!  for each closed log and further copy:  4 KiB header, then two passes of four reads over the body
//!  a log of 1 MiB:                        9 reads, 4,096 + 2 x 1,044,480 = 2,093,056 bytes
//! ```

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ese_engine::Instance;
use ese_engine::internals::log::LogNames;
use ese_format::Generation;
use jetcell_vfs::{CountedVfs, IoBuffer, IoOperation, IoReason, OpenMode, Vfs, abort_on_panic};

use crate::measurement::{IoTotals, LogCopySummary};

/// Size of a log header in bytes.
const HEADER_BYTES: u64 = 4096;
/// Number of reads in one pass over the body of a log.
const READS_PER_PASS: u64 = 4;
/// Number of passes over the body of a log.
const PASSES: u32 = 2;
/// Interval at which the reader polls for closed logs.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Maximum time to wait for a closed log to be renamed.
const RENAME_TIMEOUT: Duration = Duration::from_secs(5);

/// Reads one instance's closed logs until it is stopped or dropped.
pub(super) struct ClosedLogReader {
    counted: Arc<CountedVfs>,
    shared: Arc<LogReaderState>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct LogReaderState {
    quit: AtomicBool,
    logs: AtomicU64,
    missed: AtomicU64,
}

impl ClosedLogReader {
    /// Starts reading the logs that `instance` closes after this call, on behalf of `copies` additional copies.
    pub(super) fn start(
        files: &Arc<dyn Vfs>,
        names: LogNames,
        instance: &Arc<Instance>,
        copies: u32,
    ) -> io::Result<ClosedLogReader> {
        let counted = Arc::new(CountedVfs::new(files.clone()));
        let shared = Arc::<LogReaderState>::default();
        let work = {
            let (counted, shared) = (counted.clone(), shared.clone());
            // The thread must not keep the instance alive after its owner drops it.
            let core = Arc::downgrade(instance.core());
            let first = instance.core().log().tail().generation;
            let newest = move || core.upgrade().map(|core| core.log().tail().generation);
            move || abort_on_panic(|| shared.work(&*counted, &names, first, copies, newest))
        };
        let thread = std::thread::Builder::new().name("jetcell-copies".into()).spawn(work)?;
        Ok(ClosedLogReader { counted, shared, thread: Some(thread) })
    }

    /// Returns the total reads so far.
    pub(super) fn reads(&self) -> IoTotals {
        super::totals(&self.counted.snapshot(), &[IoReason::LogRead], IoOperation::Read)
    }

    /// Stops the reads and returns the summary.
    pub(super) fn finish(mut self) -> LogCopySummary {
        self.stop();
        let LogReaderState { logs, missed, .. } = &*self.shared;
        LogCopySummary { logs: logs.load(Relaxed), missed: missed.load(Relaxed), ..LogCopySummary::default() }
    }

    fn stop(&mut self) {
        self.shared.quit.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for ClosedLogReader {
    fn drop(&mut self) {
        self.stop();
    }
}

impl LogReaderState {
    fn work(
        &self,
        files: &dyn Vfs,
        names: &LogNames,
        mut next: Generation,
        copies: u32,
        newest: impl Fn() -> Option<Generation>,
    ) {
        while !self.quit.load(Relaxed) {
            let Some(newest) = newest() else { return };
            while next < newest && !self.quit.load(Relaxed) {
                match self.read_after_rename(files, names, next, copies) {
                    Ok(()) => {
                        self.logs.fetch_add(1, Relaxed);
                    }
                    Err(_) if self.quit.load(Relaxed) => return,
                    // Circular logging may have removed the log before it could be read.
                    Err(_) => {
                        self.missed.fetch_add(1, Relaxed);
                    }
                }
                next = next.next();
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Reads a log. The engine gives a closed log its final name only after opening the next log, so this function
    /// waits for that name.
    fn read_after_rename(
        &self,
        files: &dyn Vfs,
        names: &LogNames,
        generation: Generation,
        copies: u32,
    ) -> io::Result<()> {
        let path = names.archived(generation);
        let began = Instant::now();
        loop {
            match files.open(&path, OpenMode::Read) {
                Ok(file) => return (0..copies).try_for_each(|_| read_log(&*file)),
                Err(error)
                    if error.kind() == io::ErrorKind::NotFound
                        && began.elapsed() < RENAME_TIMEOUT
                        && !self.quit.load(Relaxed) =>
                {
                    std::thread::sleep(POLL_INTERVAL);
                }
                Err(error) => return Err(error),
            }
        }
    }
}

fn read_log(file: &dyn jetcell_vfs::File) -> io::Result<()> {
    let end = file.len()?;
    let piece =
        (end.saturating_sub(HEADER_BYTES) / READS_PER_PASS).next_multiple_of(HEADER_BYTES).max(HEADER_BYTES);
    let mut buffer = IoBuffer::zeroed(piece as usize);
    file.read_at(0, &mut buffer[..HEADER_BYTES as usize], IoReason::LogRead)?;
    for _ in 0..PASSES {
        let mut at = HEADER_BYTES;
        while at < end {
            let len = piece.min(end - at);
            file.read_at(at, &mut buffer[..len as usize], IoReason::LogRead)?;
            at += len;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use jetcell_vfs::SimVfs;

    #[test]
    fn a_1_mib_log_needs_the_same_reads_as_jetstress() {
        let disk = SimVfs::new();
        let path = std::path::Path::new("/E0000000001.log");
        disk.open(path, OpenMode::CreateNew).unwrap().grow(1 << 20).unwrap();
        let counted = CountedVfs::new(Arc::new(disk));
        read_log(&*counted.open(path, OpenMode::Read).unwrap()).unwrap();
        let reads = super::super::totals(&counted.snapshot(), &[IoReason::LogRead], IoOperation::Read);
        assert_eq!((reads.operations, reads.bytes), (9, 2_093_056));
    }
}
