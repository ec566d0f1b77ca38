//! Tests with calls that never return. Such a call may or may not have taken effect, but all earlier promises must be
//! kept.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use jetcell_vfs::{CrashOptions, File, FileLayer, IoReason, OpenMode, SimVfs, Vfs, VfsLayer};

use super::*;

const DIRECTORY: &str = "/tested";

/// Kind of call that stalls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum StallingCall {
    Write,
    Sync,
}

struct StallPoint {
    call: StallingCall,
    /// Counts down the calls of this kind. The call that finds the counter at 1 stalls.
    left: AtomicU64,
    /// If true, the stalled call still takes effect on the disk.
    done: bool,
    reached: mpsc::Sender<()>,
    /// Receives a message when the test is over, which releases the stalled call.
    end: Mutex<mpsc::Receiver<()>>,
}

impl StallPoint {
    fn pass(&self, call: StallingCall, run: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        if call != self.call || self.left.fetch_sub(1, Ordering::SeqCst) != 1 {
            return run();
        }
        if self.done {
            run()?;
        }
        self.reached.send(()).unwrap();
        let _ = self.end.lock().unwrap().recv();
        Err(io::ErrorKind::TimedOut.into())
    }
}

struct StallingDisk {
    disk: SimVfs,
    stall: Arc<StallPoint>,
}

struct StallingFile {
    file: Arc<dyn File>,
    stall: Arc<StallPoint>,
}

impl VfsLayer for StallingDisk {
    fn inner(&self) -> &dyn Vfs {
        &self.disk
    }
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let file = self.disk.open(path, mode)?;
        Ok(Arc::new(StallingFile { file, stall: self.stall.clone() }))
    }
}

impl FileLayer for StallingFile {
    fn inner(&self) -> &dyn File {
        &*self.file
    }
    fn write_at(&self, offset: u64, data: &[u8], reason: IoReason) -> io::Result<()> {
        self.stall.pass(StallingCall::Write, || self.file.write_at(offset, data, reason))
    }
    fn sync(&self, reason: IoReason) -> io::Result<()> {
        self.stall.pass(StallingCall::Sync, || self.file.sync(reason))
    }
}

struct SharedWitness(Arc<Mutex<MemoryWitness>>);

impl Witness for SharedWitness {
    fn store(&mut self, line: &JournalLine) -> io::Result<()> {
        self.0.lock().unwrap().store(line)
    }
}

#[test]
fn a_stalled_call_is_undecided_and_earlier_acknowledgements_are_checked() {
    for seed in 0..24 {
        let call = [StallingCall::Write, StallingCall::Sync][seed as usize % 2];
        let (reached, waits) = mpsc::channel();
        let (ends, end) = mpsc::channel();
        let (left, done) = (AtomicU64::new(30 + seed * 5), seed / 2 % 2 == 0);
        let stall = Arc::new(StallPoint { call, left, done, reached, end: Mutex::new(end) });
        let disk = SimVfs::new();
        let storage = TestedStorage::with_single_path(Arc::new(StallingDisk { disk: disk.clone(), stall }));
        let kept = Arc::new(Mutex::new(MemoryWitness::default()));
        let mut witness = SharedWitness(kept.clone());
        let writer = std::thread::spawn(move || {
            let begin = DurabilityJournalHeader::new(seed, FailureLevel::Power, false, DIRECTORY.into());
            write(&storage, Path::new(DIRECTORY), &begin, &mut witness, &mut |_| true)
        });
        waits.recv().unwrap();
        // The power is cut while the call is stalled.
        let (after, journal) = (disk.crash(seed, CrashOptions::default()), kept.lock().unwrap().journal());
        let nothing = SimVfs::new();
        nothing.put(Path::new("/tested/other"), b"x");
        drop(ends);
        writer.join().unwrap().unwrap();
        let journal = journal.unwrap();
        assert!(journal.failed.is_none() && !journal.ended && journal.last.0 > 20);
        let verdict = |disk: &SimVfs| verify(disk, Path::new(DIRECTORY), &journal).unwrap();
        let found = verdict(&after);
        assert!(found.is_passed(), "seed {seed}, {call:?}, done {done}: {:?}", found.findings);
        assert!(found.kinds.iter().any(|tally| tally.undecided > 0), "seed {seed}, {call:?}");
        assert!(verdict(&nothing).findings.len() > 5);
    }
}
