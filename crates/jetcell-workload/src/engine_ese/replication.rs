//! Passive copies that run in this process. Each copy is seeded while its database is open. Then a separate thread
//! for each copy replicates the closed logs.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use ese_engine::{EventSink, Instance, TornPageProtection};
use ese_format::log::header::SEGMENT_BYTES;
use jetcell_backup::{BackupOptions, Cancellation, TransferControl};
use jetcell_copies::{
    CopyError, CopyState, CopyStatus, DirectorySource, LogSource, ReplayOptions, Replicator, SeedOptions,
    StreamDirectory, seed_running,
};
use jetcell_vfs::{CountedVfs, Vfs, abort_on_panic};
use parking_lot::Mutex;

use super::{OpenInstance, io_counters};
use crate::engine::{PassiveCopies, Result};
use crate::error::Error;
use crate::layout::CopyPlan;
use crate::measurement::CopyCounters;

/// Interval at which a suspended copy checks whether it may resume.
const SUSPENDED_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// All passive copies of a store's databases.
pub(super) struct InProcessCopies {
    followers: Vec<InProcessCopy>,
    held: Arc<AtomicBool>,
}

struct InProcessCopy {
    instance: Arc<Instance>,
    counted: Arc<CountedVfs>,
    directory: PathBuf,
    shared: Arc<CopyThreadState>,
    source: DirectorySource,
    /// Size of a log in bytes.
    log_bytes: u64,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct CopyThreadState {
    quit: AtomicBool,
    /// Last generation to replay. The copy stops after replaying it.
    last: AtomicU64,
    seen: Mutex<CopyCounters>,
    /// Time up to which the copy had all changes when it last polled, in milliseconds since 1970 UTC. 0 if unknown.
    current_unix_ms: AtomicI64,
}

/// Seeds the copies and starts replication.
pub(super) fn start(
    files: &Arc<dyn Vfs>,
    units: &[OpenInstance],
    copies: &[CopyPlan],
    events: Option<Arc<dyn EventSink>>,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<Box<dyn PassiveCopies>> {
    let mut all = InProcessCopies { followers: Vec::new(), held: Arc::default() };
    let mut before = 0;
    for copy in copies {
        let unit = &units[copy.database];
        seed(files, unit, copy, &mut |copied| progress(before + copied))?;
        before += files.file_len(unit.database.path()).unwrap_or(0);
        all.followers.push(InProcessCopy::start(files, unit, copy, events.clone(), all.held.clone())?);
    }
    Ok(Box::new(all))
}

fn source(vfs: &Arc<dyn Vfs>, unit: &OpenInstance) -> DirectorySource {
    let names = &unit.log_names;
    DirectorySource::new(StreamDirectory::new(vfs, names.directory(), names.base(), names.format()))
}

fn seed(
    files: &Arc<dyn Vfs>,
    unit: &OpenInstance,
    copy: &CopyPlan,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<()> {
    // A copy left over from an interrupted test is replaced.
    let again = CopyState::read(&**files, &copy.directory)?.is_some();
    std::thread::scope(|scope| {
        let (cancel, done) = (Cancellation::default(), Arc::<AtomicU64>::default());
        let moved = done.clone();
        let pace = TransferControl {
            cancel: cancel.clone(),
            progress: Some(Arc::new(move |progress| moved.store(progress.done, Relaxed))),
            ..TransferControl::default()
        };
        let options = SeedOptions {
            backup: BackupOptions { pace, ..BackupOptions::default() },
            replace_existing: again,
        };
        let source = source(files, unit);
        let seeding = scope
            .spawn(move || seed_running(files, &unit.instance, &copy.directory, &source, &options).map(drop));
        while !seeding.is_finished() {
            if !progress(done.load(Relaxed)) {
                cancel.cancel();
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        match seeding.join() {
            Ok(seeded) => Ok(seeded?),
            Err(_) => Err(Error::ThreadPanicked),
        }
    })
}

impl InProcessCopy {
    fn start(
        files: &Arc<dyn Vfs>,
        unit: &OpenInstance,
        copy: &CopyPlan,
        events: Option<Arc<dyn EventSink>>,
        held: Arc<AtomicBool>,
    ) -> Result<InProcessCopy> {
        let counted = Arc::new(CountedVfs::new(files.clone()));
        let vfs: Arc<dyn Vfs> = counted.clone();
        let options = ReplayOptions {
            keep_instance: copy.keep_instance,
            stream_log: copy.stream_log,
            cache_bytes: copy.cache_bytes as usize,
            checkpoint_depth: copy.checkpoint_depth,
            // Torn page protection is off, as on the active side, so the copy performs the same writes as ESE.
            torn_page_protection: TornPageProtection::Off,
            events,
            ..ReplayOptions::default()
        };
        let mut copying = Replicator::open(&vfs, &copy.directory, Box::new(source(&vfs, unit)), options)?;
        let (shared, log_bytes) = (Arc::<CopyThreadState>::default(), copying.state().log_bytes);
        shared.last.store(u64::MAX, Relaxed);
        let work = {
            let (shared, vfs) = (shared.clone(), vfs.clone());
            move || {
                abort_on_panic(|| {
                    let followed = shared.follow(&mut copying, &vfs, &held);
                    let ended = followed.and(copying.stop().map(drop));
                    shared.seen.lock().failure = ended.err().map(|error| error.full_text());
                });
            }
        };
        let thread = std::thread::Builder::new()
            .name("jetcell-follower".into())
            .spawn(work)
            .map_err(|error| Error::io(&copy.directory, &error))?;
        Ok(InProcessCopy {
            instance: unit.instance.clone(),
            counted,
            directory: copy.directory.clone(),
            shared,
            source: source(files, unit),
            log_bytes,
            thread: Some(thread),
        })
    }

    fn counters(&self) -> CopyCounters {
        let mut counters = self.shared.seen.lock().clone();
        counters.io = io_counters(&self.counted.snapshot());
        // A suspended copy does not poll its source, so the queue length is computed from the current generation.
        let open = self.instance.core().log().tail().generation.0;
        counters.copy_queue = open.saturating_sub(counters.next.max(1));
        counters.lag_bytes = u64::from(counters.generations_behind()) * self.log_bytes;
        let current = self.shared.current_unix_ms.load(Relaxed);
        if counters.generations_behind() > 0 && current > 0 {
            // Logs were closed since the last poll.
            let age = self.counted.clock().unix_ms().saturating_sub(current).max(1).unsigned_abs();
            counters.lag_seconds = Some(age.div_ceil(1000));
        }
        counters.directory.clone_from(&self.directory);
        counters
    }

    /// Returns how many bytes of durable log the copy has not received.
    fn missing_log(&self) -> u64 {
        let (next, arrived) = {
            let seen = self.shared.seen.lock();
            (seen.next, seen.next_bytes)
        };
        if next == 0 {
            // The copy has not polled its source yet.
            return 0;
        }
        let durable = self.instance.durable();
        let closed = u64::from(durable.generation.0.saturating_sub(next)) * self.log_bytes;
        let open = u64::from(durable.segment) * SEGMENT_BYTES as u64 + u64::from(durable.offset);
        (closed + open).saturating_sub(arrived)
    }

    fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl CopyThreadState {
    fn follow(
        &self,
        copying: &mut Replicator,
        vfs: &Arc<dyn Vfs>,
        held: &AtomicBool,
    ) -> std::result::Result<(), CopyError> {
        let (mut logs, mut streamed) = (0, 0);
        while !self.quit.load(Relaxed) {
            if held.load(Relaxed) {
                std::thread::sleep(SUSPENDED_POLL_INTERVAL);
                continue;
            }
            let step = copying.step()?;
            logs += u64::from(step.replayed);
            streamed += step.streamed_bytes;
            let arrived = copying.received_bytes();
            let state = copying.state();
            {
                let mut seen = self.seen.lock();
                (seen.next, seen.replay_queue, seen.logs) = (state.next, state.replay_queue(), logs);
                (seen.next_bytes, seen.streamed_bytes) = (arrived, streamed);
                let now = vfs.clock().unix_ms();
                seen.lag_seconds = CopyStatus::new(state, now).lag.seconds;
                let age =
                    seen.lag_seconds.map(|seconds| i64::try_from(seconds).unwrap_or(i64::MAX / 1000) * 1000);
                self.current_unix_ms.store(age.map_or(0, |age| now.saturating_sub(age)), Relaxed);
                seen.waiting = step.waiting.as_ref().map(ToString::to_string);
            }
            if step.is_idle() {
                if u64::from(state.replayed) >= self.last.load(Relaxed) {
                    break;
                }
                std::thread::sleep(copying.idle_wait());
            }
        }
        Ok(())
    }
}

impl PassiveCopies for InProcessCopies {
    fn set_suspended(&self, held: bool) {
        self.held.store(held, Relaxed);
    }

    fn counters(&self) -> Vec<CopyCounters> {
        self.followers.iter().map(InProcessCopy::counters).collect()
    }

    fn missing_log(&self) -> Vec<u64> {
        self.followers.iter().map(InProcessCopy::missing_log).collect()
    }

    fn drain(&self) -> Result<()> {
        for follower in &self.followers {
            let log = follower.instance.core().log();
            // `roll_over` does not close the current log if it contains no records.
            log.roll_over()?;
            let last = log.tail().generation.0.saturating_sub(1);
            follower.shared.last.fetch_min(last.into(), Relaxed);
        }
        Ok(())
    }

    fn has_ended(&self) -> bool {
        self.followers.iter().all(|follower| follower.thread.as_ref().is_none_or(JoinHandle::is_finished))
    }

    fn finish(mut self: Box<Self>) -> Vec<CopyCounters> {
        let mut counters = Vec::new();
        for follower in &mut self.followers {
            follower.shared.quit.store(true, Relaxed);
            follower.join();
            counters.push(follower.counters());
            // Without this, the next test would retain logs for a copy that no longer exists.
            if let Ok(Some(state)) = CopyState::read(&*follower.counted, &follower.directory) {
                let _ = follower.source.unregister(&state.id);
            }
        }
        counters
    }
}

impl Drop for InProcessCopies {
    fn drop(&mut self) {
        for follower in &mut self.followers {
            follower.shared.quit.store(true, Relaxed);
            follower.join();
        }
    }
}
