//! Defragments one database step by step.

use std::time::Duration;

use ese_format::TreeId;
use jetcell_sync::atomic::{AtomicBool, Ordering};
use jetcell_sync::{Arc, Mutex};

use super::options::{DefragKind, DefragOptions};
use super::state::{DefragPosition, DefragProgress, DefragState, DefragStateStore};
use crate::btree::{CompactionResult, CompactionRules, Tree};
use crate::catalog::{CatalogTree, SystemTables};
use crate::events::{DefragEvent, DefragReport, EventKind};
use crate::pace::{CleanPageWait, CleanPageWaitEvent, MaintenancePacer};
use crate::storage::DatabaseFile;
use crate::transaction::{ReadView, Services};
use crate::{Error, Result};

/// Maximum number of leaves per step. They are read ahead together.
pub(super) const LEAVES_PER_STEP: usize = 32;

/// Number of leaves after which the state is stored, as in ESE. The state is also stored after [`SAVE_AFTER`].
const LEAVES_PER_SAVE: u64 = 500;
const LEAVES_PER_LAYOUT_SAVE: u64 = 128;
const SAVE_AFTER: Duration = Duration::from_secs(5);

/// Minimum time between the starts of two passes, as in ESE.
const PASS_INTERVAL: Duration = Duration::from_secs(3600);

/// Interval at which the task polls when it waits for its turn, for the end of a backup, or for clean pages.
const WAIT: Duration = Duration::from_millis(100);

/// Maximum interval at which the task checks whether its maintenance window has started.
const WINDOW_WAIT: Duration = Duration::from_secs(60);

/// Number of page writes to start each time the task finds that most of the cache is dirty.
const CLEANED_PAGES: usize = 256;

const DAY_MS: i64 = 86_400_000;

/// Online defragmentation of one database.
pub(crate) struct Defragmentation {
    pub(super) file: Arc<DatabaseFile>,
    services: Arc<Services>,
    pub(super) tables: Arc<SystemTables>,
    /// State of the running defragmentation. Locked during a step.
    work: Mutex<Option<DefragPass>>,
    /// Requests the current step to stop early.
    pub(super) stop: AtomicBool,
    pub(super) progress: Mutex<DefragProgress>,
}

pub(super) struct DefragPass {
    pub(super) options: DefragOptions,
    keeper: Option<Box<dyn DefragStateStore>>,
    pace: MaintenancePacer,
    /// Time at which the next step may start.
    due: Duration,
    /// Position and results so far of the current pass. The position is `None` if no pass is in progress.
    pub(super) state: DefragState,
    /// Remaining trees of the pass, with the next tree at the end. `None`: the catalog has not been read yet.
    pub(super) trees: Option<Vec<CatalogTree>>,
    /// Trees that a sequential layout may have to queue, with the next tree at the end.
    pub(super) candidates: Vec<CatalogTree>,
    /// Running time of the pass.
    ran: Duration,
    /// The number of leaves processed and the running time of the pass when its state was last stored.
    saved: (u64, Duration),
    /// Whether work is suspended: not started yet, or waiting for the next maintenance window.
    suspended: bool,
    clean_pages: CleanPageWait,
}

impl Defragmentation {
    pub fn new(
        file: Arc<DatabaseFile>,
        services: Arc<Services>,
        tables: Arc<SystemTables>,
    ) -> Defragmentation {
        Defragmentation {
            file,
            services,
            tables,
            work: Mutex::default(),
            stop: AtomicBool::default(),
            progress: Mutex::default(),
        }
    }

    /// Returns the progress since the database was attached.
    pub fn progress(&self) -> DefragProgress {
        self.progress.lock().clone()
    }

    /// Starts the defragmentation. Returns `false` if it is already running.
    pub fn begin(&self, options: DefragOptions, keeper: Option<Box<dyn DefragStateStore>>) -> Result<bool> {
        let mut slot = self.work.lock();
        if slot.is_some() {
            return Ok(false);
        }
        let stored = keeper.as_ref().map_or(Ok(None), |keeper| keeper.load())?;
        let mut work = DefragPass {
            pace: MaintenancePacer::new(self.file.cache.fault_times()),
            options,
            keeper,
            due: self.file.vfs.clock().monotonic(),
            state: stored.unwrap_or_default(),
            trees: None,
            candidates: Vec::new(),
            ran: Duration::ZERO,
            saved: (0, Duration::ZERO),
            suspended: true,
            clean_pages: CleanPageWait::default(),
        };
        work.ran = Duration::from_secs(work.state.pass.seconds);
        work.saved = (work.state.pass.pages_visited, work.ran);
        let mut progress = self.progress.lock();
        (progress.running, progress.failure) = (true, None);
        progress.pass = work.state.pass.clone();
        progress.queued = work.state.queue.len() as u64;
        drop(progress);
        *slot = Some(work);
        self.stop.store(false, Ordering::Release);
        Ok(true)
    }

    /// Stops the defragmentation, waits for the current step, and stores the state.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        let mut slot = self.work.lock();
        let Some(mut work) = slot.take() else { return };
        self.suspend(&mut work);
        let mut progress = self.progress.lock();
        progress.pass = work.state.pass;
        progress.running = false;
    }

    /// Performs one step if it is due. Returns the time until the next step, or `None` if the defragmentation is not
    /// running.
    pub fn step(&self) -> Result<Option<Duration>> {
        let mut slot = self.work.lock();
        let Some(work) = slot.as_mut() else { return Ok(None) };
        let clock = self.file.vfs.clock();
        let began = clock.monotonic();
        let early = work.due.saturating_sub(began);
        if !early.is_zero() {
            return Ok(Some(early));
        }
        if let Some(wait) = self.must_wait(work) {
            return Ok(Some(wait));
        }
        self.resume(work);
        let outcome = self.work_on(work);
        let took = clock.monotonic().saturating_sub(began);
        work.ran = work.ran.saturating_add(took);
        let leaves = match outcome {
            Ok(leaves) => leaves,
            Err(error) => {
                work.due = clock.monotonic().saturating_add(work.options.throttle.pause.max(WAIT));
                return Err(self.failed(error));
            }
        };
        let bytes = leaves * self.file.page_size.bytes();
        let mut pause = work.pace.pause(&work.options.throttle, bytes, took, self.file.cache.fault_times());
        work.ran = work.ran.saturating_add(pause);
        if work.state.position.is_none() {
            if work.options.single_pass {
                *slot = None;
                self.progress.lock().running = false;
                return Ok(None);
            }
            let next = work.state.pass.began_unix_ms + PASS_INTERVAL.as_millis() as i64;
            pause = pause.max(Duration::from_millis((next - clock.unix_ms()).max(0) as u64));
        }
        work.due = clock.monotonic().saturating_add(pause);
        Ok(Some(pause))
    }

    /// Returns the time to wait if no step may run now. A step must wait outside the maintenance window, while it is
    /// another database's turn, while a backup is running, and while most of the cache is dirty.
    fn must_wait(&self, work: &mut DefragPass) -> Option<Duration> {
        let (cache, clock) = (&self.file.cache, self.file.vfs.clock());
        let closed = work.options.window.map_or(Duration::ZERO, |window| window.wait(clock.unix_ms()));
        if !closed.is_zero() {
            self.suspend(work);
            return Some(closed.min(WINDOW_WAIT));
        }
        let turn = work.options.turn.as_ref();
        if turn.is_some_and(|turn| !turn.acquire(self.cache_id(), self.file.file_id)) {
            return Some(WAIT);
        }
        if self.services.backup_running.load(Ordering::Acquire) {
            return Some(WAIT);
        }
        let counters = cache.counters();
        let mostly_dirty = counters.dirty * 2 > counters.frames;
        match work.clean_pages.note(mostly_dirty, clock.monotonic()) {
            Some(CleanPageWaitEvent::Paused) => self.report(DefragEvent::Paused),
            Some(CleanPageWaitEvent::Continued) => self.report(DefragEvent::Continued),
            None => {}
        }
        let wait = work.clean_pages.wait(mostly_dirty);
        if wait {
            // A failed write is ignored here, because the cache reports it to all its users.
            let _ = cache.write_below(self.file.file_id, self.file.log.tail(), CLEANED_PAGES);
        }
        wait.then_some(WAIT)
    }

    /// Starts work in a maintenance window, resuming an interrupted pass.
    fn resume(&self, work: &mut DefragPass) {
        if !std::mem::take(&mut work.suspended) || work.state.position.is_none() {
            return;
        }
        work.state.pass.invocations += 1;
        self.describe(work);
        match work.options.kind {
            DefragKind::Compaction => self.report(DefragEvent::Resumed(work.state.pass.clone())),
            DefragKind::SequentialLayout => self.report_queue(work),
        }
    }

    /// Ends work in a maintenance window.
    fn suspend(&self, work: &mut DefragPass) {
        if std::mem::replace(&mut work.suspended, true) {
            return;
        }
        self.release_turn(work);
        if work.state.position.is_none() {
            return;
        }
        self.describe(work);
        // If the state cannot be stored, the pass later resumes from the previously stored state.
        let _ = self.save(work, true);
        if work.options.kind == DefragKind::Compaction {
            self.report(DefragEvent::Interrupted);
        }
    }

    fn release_turn(&self, work: &DefragPass) {
        if let Some(turn) = &work.options.turn {
            turn.release(self.cache_id(), self.file.file_id);
        }
    }

    fn cache_id(&self) -> usize {
        Arc::as_ptr(&self.file.cache) as usize
    }

    pub(super) fn report(&self, event: DefragEvent) {
        let database = self.file.path.clone();
        self.file.events.report(EventKind::Defragmentation { database, event });
    }

    /// Records a failure, and reports it unless it is the same as the previous failure.
    fn failed(&self, error: Error) -> Error {
        let what = error.full_text();
        let mut progress = self.progress.lock();
        if progress.failure.as_ref() != Some(&what) {
            progress.failure = Some(what.clone());
            let error = error.jet_code();
            self.report(DefragEvent::Failed { error, what });
        }
        error
    }

    /// Updates the duration of the pass in seconds and days.
    fn describe(&self, work: &mut DefragPass) {
        let pass = &mut work.state.pass;
        let now = self.file.vfs.clock().unix_ms();
        pass.seconds = work.ran.as_secs();
        pass.days = (now - pass.began_unix_ms).max(0) as u64 / DAY_MS as u64 + 1;
    }

    /// Processes some leaves. Returns their number.
    fn work_on(&self, work: &mut DefragPass) -> Result<usize> {
        let position = match work.state.position.clone() {
            Some(position) => position,
            None => self.begin_pass(work)?,
        };
        // Trees are removed only while cleanup is paused. While it is paused, the trees that this step finds
        // therefore stay in place.
        let paused = self.services.ended.pause();
        if self.queue_next(work)? {
            drop(paused);
            self.save(work, true)?;
            return Ok(0);
        }
        let trees = match &mut work.trees {
            Some(trees) => trees,
            None => {
                let mut trees = self.tables.all_trees(&ReadView::latest())?;
                let queue = &work.state.queue;
                trees.retain(|tree| match work.options.kind {
                    DefragKind::Compaction => tree.id >= position.tree,
                    DefragKind::SequentialLayout => queue.iter().any(|queued| queued.tree == tree.id),
                });
                trees.reverse();
                work.trees.insert(trees)
            }
        };
        let Some(next) = trees.last().copied() else {
            self.end_pass(work)?;
            return Ok(0);
        };
        let key = if next.id == position.tree { position.key } else { Vec::new() };
        let mut leaves = 0;
        let position = match self.tables.trees.find(next.root, next.id)? {
            Some(tree) => {
                tree.set_density(next.density);
                self.work_on_tree(work, &tree, key, &mut leaves)?
            }
            None => None,
        };
        self.note_queued(work, &next, position.as_deref())?;
        drop(paused);
        let trees = work.trees.get_or_insert_default();
        if position.is_none() {
            trees.pop();
        }
        // If no tree remains, the pass is complete, also when it is resumed at this position.
        let after = TreeId(next.id.0.saturating_add(1));
        let key = position.unwrap_or_default();
        let tree = if key.is_empty() { trees.last().map_or(after, |tree| tree.id) } else { next.id };
        let done = tree != next.id;
        work.state.position = Some(DefragPosition { tree, key });
        {
            let mut progress = self.progress.lock();
            progress.tree = Some(tree);
            progress.pass = work.state.pass.clone();
            progress.failure = None;
        }
        self.save(work, done && work.options.kind == DefragKind::SequentialLayout)?;
        Ok(leaves)
    }

    /// Processes leaves of a tree. Returns the key at which the work continues, or `None` if the entire tree is done.
    fn work_on_tree(
        &self,
        work: &mut DefragPass,
        tree: &Arc<Tree>,
        mut key: Vec<u8>,
        leaves: &mut usize,
    ) -> Result<Option<Vec<u8>>> {
        let forward = work.options.kind == DefragKind::SequentialLayout;
        if forward || !key.is_empty() {
            let ahead = tree.sibling_leaves(&key, forward, LEAVES_PER_STEP)?;
            self.file.cache.preread(&ahead.iter().map(|page| self.file.page_key(*page)).collect::<Vec<_>>());
        }
        let partial_merges = work.options.partial_merges;
        while *leaves < LEAVES_PER_STEP && !self.stop.load(Ordering::Acquire) {
            let rules =
                CompactionRules { oldest: self.services.transactions.oldest_snapshot(), partial_merges };
            let done = if forward {
                tree.lay_out(&key, rules)
            } else {
                tree.compact_before(Some(&*key).filter(|key| !key.is_empty()), rules)
            };
            let done = match done {
                Ok(Some(done)) => done,
                Ok(None) => return Ok(None),
                Err(error) if self.is_damage(&error) => {
                    self.skip(error);
                    return Ok(None);
                }
                Err(error) => return Err(error),
            };
            self.count(work, &done);
            match done.failure {
                Some(error) if self.is_damage(&error) => self.skip(error),
                Some(error) => return Err(error),
                None => {}
            }
            *leaves += 1;
            match done.position {
                Some(position) => key = position,
                None => return Ok(None),
            }
        }
        Ok(Some(key))
    }

    fn count(&self, work: &mut DefragPass, done: &CompactionResult) {
        let (freed, partly, moved) = (u64::from(done.freed), u64::from(done.partial), u64::from(done.moved));
        let pass = &mut work.state.pass;
        pass.pages_visited += 1;
        pass.pages_freed += freed;
        pass.partial_merges += partly;
        pass.pages_moved += moved;
        if let Some(queued) = work.state.queue.first_mut() {
            queued.pages_visited += 1;
            queued.pages_freed += freed;
            queued.partial_merges += partly;
            queued.pages_moved += moved;
        }
        let mut progress = self.progress.lock();
        progress.pages_visited += 1;
        progress.pages_freed += freed;
        progress.partial_merges += partly;
        progress.pages_moved += moved;
    }

    /// Returns true if the error means that a page of the database is unreadable or invalid. Such an error would
    /// recur.
    pub(super) fn is_damage(&self, error: &Error) -> bool {
        match error {
            Error::Corrupt { page, .. } => page.is_some(),
            Error::Io { path, .. } => *path == self.file.path,
            _ => false,
        }
    }

    /// Counts and reports a damaged page or tree. The work continues after it.
    pub(super) fn skip(&self, error: Error) {
        self.progress.lock().skipped += 1;
        self.report(DefragEvent::Failed { error: error.jet_code(), what: error.full_text() });
    }

    fn begin_pass(&self, work: &mut DefragPass) -> Result<DefragPosition> {
        if work.options.kind == DefragKind::SequentialLayout {
            work.candidates = self.tables.all_trees(&ReadView::latest())?;
            work.candidates.reverse();
        }
        let total = work.state.pass.total;
        let began_unix_ms = self.file.vfs.clock().unix_ms();
        work.state.pass = DefragReport { began_unix_ms, invocations: 1, total, ..DefragReport::default() };
        work.trees = None;
        (work.ran, work.saved) = (Duration::ZERO, (0, Duration::ZERO));
        if work.options.kind == DefragKind::Compaction {
            self.report(DefragEvent::Started);
        }
        let position = DefragPosition::default();
        work.state.position = Some(position.clone());
        Ok(position)
    }

    fn end_pass(&self, work: &mut DefragPass) -> Result<()> {
        self.describe(work);
        let mut complete = DefragState { pass: work.state.pass.clone(), ..DefragState::default() };
        complete.pass.add_to_total();
        if let Some(keeper) = &work.keeper {
            keeper.save(&complete)?;
        }
        work.state = complete;
        {
            let mut progress = self.progress.lock();
            progress.passes += 1;
            progress.tree = None;
            progress.pass = work.state.pass.clone();
        }
        if work.options.kind == DefragKind::Compaction {
            self.report(DefragEvent::Completed(work.state.pass.clone()));
        }
        self.release_turn(work);
        Ok(())
    }

    /// Stores the state if this is due, or if `now` is true.
    fn save(&self, work: &mut DefragPass, now: bool) -> Result<()> {
        let (leaves, ran) = work.saved;
        let visited = work.state.pass.pages_visited;
        let often = match work.options.kind {
            DefragKind::Compaction => LEAVES_PER_SAVE,
            DefragKind::SequentialLayout => LEAVES_PER_LAYOUT_SAVE,
        };
        let due = visited >= leaves + often || work.ran >= ran.saturating_add(SAVE_AFTER);
        if !now && !due {
            return Ok(());
        }
        self.describe(work);
        if let Some(keeper) = &work.keeper {
            keeper.save(&work.state)?;
        }
        work.saved = (visited, work.ran);
        Ok(())
    }
}
