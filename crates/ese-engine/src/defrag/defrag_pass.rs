//! Defragments one database step by step.

use std::time::Duration;

use ese_format::TreeId;
use jetcell_sync::Arc;

use super::options::{DefragKind, DefragOptions};
use super::state::{DefragPosition, DefragProgress, DefragState};
use crate::btree::{CompactionResult, CompactionRules, LeafLayout, Tree};
use crate::catalog::{CatalogTree, SystemTables};
use crate::events::{DefragEvent, DefragReport, EventKind};
use crate::task::{MaintenancePass, PassLimits, PassStep, PassTimes, StateStore, TaskEvent, TaskHost};
use crate::transaction::ReadView;
use crate::{Error, Result};

/// Maximum number of leaves per step. They are read ahead together.
pub(super) const LEAVES_PER_STEP: usize = 32;

/// Number of leaves after which the state is stored, as in ESE. The state is also stored after [`SAVE_AFTER`].
const LEAVES_PER_SAVE: u64 = 500;
const LEAVES_PER_LAYOUT_SAVE: u64 = 128;
const SAVE_AFTER: Duration = Duration::from_secs(5);

/// Minimum time between the starts of two passes, as in ESE.
const PASS_INTERVAL: Duration = Duration::from_secs(3600);

/// Poll interval of a pass that waits for clean pages, and minimum pause after a step that failed.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A pass that rearranges the leaves of a database's trees.
pub(crate) struct DefragPass {
    pub(super) host: Arc<TaskHost<DefragProgress>>,
    pub(super) tables: Arc<SystemTables>,
    options: DefragOptions,
    store: Option<Box<dyn StateStore<DefragState>>>,
    /// Position and results so far of the current pass.
    pub(super) state: DefragState,
    /// Remaining trees of the pass, with the next tree at the end. `None`: the catalog has not been read yet.
    trees: Option<Vec<CatalogTree>>,
    /// Trees that a sequential layout may have to queue, with the next tree at the end.
    pub(super) candidates: Vec<CatalogTree>,
}

impl MaintenancePass for DefragPass {
    type Progress = DefragProgress;

    fn limits(&self) -> PassLimits {
        PassLimits {
            pages_per_save: match self.options.kind {
                DefragKind::Compaction => LEAVES_PER_SAVE,
                DefragKind::SequentialLayout => LEAVES_PER_LAYOUT_SAVE,
            },
            save_after: SAVE_AFTER,
            retry_after: POLL_INTERVAL,
            pass_interval: Some(PASS_INTERVAL),
            clean_page_poll: Some(POLL_INTERVAL),
            waits_for_bulk_loads: false,
        }
    }

    fn is_in_pass(&self) -> bool {
        self.state.position.is_some()
    }

    fn times(&mut self) -> PassTimes<'_> {
        let DefragReport { began_unix_ms, seconds, invocations, days, .. } = &mut self.state.pass;
        PassTimes { began_unix_ms: *began_unix_ms, seconds, invocations, days }
    }

    fn visited(&self) -> u64 {
        self.state.pass.pages_visited
    }

    fn begin(&mut self) -> Result<()> {
        if self.options.kind == DefragKind::SequentialLayout {
            self.candidates = self.tables.all_trees(&ReadView::latest())?;
            self.candidates.reverse();
        }
        let total = self.state.pass.total;
        let began_unix_ms = self.host.file.vfs.clock().unix_ms();
        self.state.pass = DefragReport { began_unix_ms, invocations: 1, total, ..DefragReport::default() };
        self.state.position = Some(DefragPosition::default());
        self.trees = None;
        Ok(())
    }

    /// Processes the next leaves of the current tree.
    fn step(&mut self) -> Result<PassStep> {
        let position = self.state.position.clone().unwrap_or_default();
        let host = self.host.clone();
        // Trees are removed only while cleanup is paused. While it is paused, the trees that this step finds
        // therefore stay in place.
        let paused = host.services.ended.pause();
        if self.queue_next()? {
            return Ok(PassStep::ReadAndSave(0));
        }
        let trees = match &mut self.trees {
            Some(trees) => trees,
            None => {
                let mut trees = self.tables.all_trees(&ReadView::latest())?;
                let queue = &self.state.queue;
                trees.retain(|tree| match self.options.kind {
                    DefragKind::Compaction => tree.id >= position.tree,
                    DefragKind::SequentialLayout => queue.iter().any(|queued| queued.tree == tree.id),
                });
                trees.reverse();
                self.trees.insert(trees)
            }
        };
        let Some(next) = trees.last().copied() else {
            return Ok(PassStep::ReadLast(0));
        };
        let key = if next.id == position.tree { position.key } else { Vec::new() };
        let mut leaves = 0;
        let position = match self.tables.trees.find(next.root, next.id)? {
            Some(tree) => {
                tree.set_density(next.density);
                self.work_on_tree(&tree, key, &mut leaves)?
            }
            None => None,
        };
        self.note_queued(&next, position.as_deref())?;
        drop(paused);
        let trees = self.trees.get_or_insert_default();
        if position.is_none() {
            trees.pop();
        }
        // If no tree remains, the pass is complete, even if it is resumed at this position.
        let after = TreeId(next.id.0.saturating_add(1));
        let key = position.unwrap_or_default();
        let tree = if key.is_empty() { trees.last().map_or(after, |tree| tree.id) } else { next.id };
        let done = tree != next.id;
        self.state.position = Some(DefragPosition { tree, key });
        let mut progress = host.progress();
        progress.tree = Some(tree);
        self.show(&mut progress);
        let bytes = leaves * host.file.page_size.bytes();
        let save = done && self.options.kind == DefragKind::SequentialLayout;
        Ok(if save { PassStep::ReadAndSave(bytes) } else { PassStep::Read(bytes) })
    }

    fn save(&mut self) -> Result<()> {
        self.store.as_ref().map_or(Ok(()), |store| store.save(&self.state))
    }

    fn end(&mut self) -> Result<()> {
        let mut complete = DefragState { pass: self.state.pass.clone(), ..DefragState::default() };
        complete.pass.add_to_total();
        if let Some(store) = &self.store {
            store.save(&complete)?;
        }
        self.state = complete;
        let mut progress = self.host.progress();
        progress.passes += 1;
        progress.tree = None;
        self.show(&mut progress);
        Ok(())
    }

    fn show(&self, progress: &mut DefragProgress) {
        progress.pass = self.state.pass.clone();
    }

    /// A sequential layout reports its trees instead of its passes.
    fn event(&self, event: TaskEvent<'_>) -> Option<EventKind> {
        let is_layout = self.options.kind == DefragKind::SequentialLayout;
        let event = match event {
            TaskEvent::Resumed if is_layout => self.queue_event(),
            TaskEvent::Started | TaskEvent::Interrupted | TaskEvent::Completed if is_layout => return None,
            TaskEvent::Started => DefragEvent::Started,
            TaskEvent::Resumed => DefragEvent::Resumed(self.state.pass.clone()),
            TaskEvent::Interrupted => DefragEvent::Interrupted,
            TaskEvent::Completed => DefragEvent::Completed(self.state.pass.clone()),
            TaskEvent::Paused => DefragEvent::Paused,
            TaskEvent::Continued => DefragEvent::Continued,
            TaskEvent::Failed(error) => {
                DefragEvent::Failed { error: error.jet_code(), what: error.full_text() }
            }
        };
        Some(EventKind::Defragmentation { database: self.host.file.path.clone(), event })
    }
}

impl DefragPass {
    /// Creates the pass for a defragmentation that is starting. If the database stores an interrupted pass, the new
    /// pass resumes it.
    pub fn new(
        host: &Arc<TaskHost<DefragProgress>>,
        tables: Arc<SystemTables>,
        options: DefragOptions,
        store: Option<Box<dyn StateStore<DefragState>>>,
    ) -> Result<DefragPass> {
        let stored = store.as_ref().map_or(Ok(None), |store| store.load())?;
        let state = stored.unwrap_or_default();
        let (trees, candidates) = (None, Vec::new());
        let pass = DefragPass { host: host.clone(), tables, options, store, state, trees, candidates };
        let mut progress = host.progress();
        pass.show(&mut progress);
        progress.queued = pass.state.queue.len() as u64;
        Ok(pass)
    }

    pub(super) fn report(&self, event: DefragEvent) {
        let database = self.host.file.path.clone();
        self.host.file.events.report(EventKind::Defragmentation { database, event });
    }

    /// Processes leaves of a tree. Returns the key at which the work continues, or `None` if the entire tree is done.
    fn work_on_tree(
        &mut self,
        tree: &Arc<Tree>,
        mut key: Vec<u8>,
        leaves: &mut usize,
    ) -> Result<Option<Vec<u8>>> {
        let host = self.host.clone();
        let file = &host.file;
        let forward = self.options.kind == DefragKind::SequentialLayout;
        if forward || !key.is_empty() {
            let ahead = tree.sibling_leaves(&key, forward, LEAVES_PER_STEP)?;
            file.cache.preread(&ahead.iter().map(|page| file.page_key(*page)).collect::<Vec<_>>());
        }
        let partial_merges = self.options.partial_merges;
        while *leaves < LEAVES_PER_STEP && !host.is_stopping() {
            let rules =
                CompactionRules { oldest: host.services.transactions.oldest_snapshot(), partial_merges };
            let done = if forward {
                LeafLayout::new(tree).lay_out(&key, rules)
            } else {
                tree.lock_structure().compact_before(Some(&*key).filter(|key| !key.is_empty()), rules)
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
            self.count(&done);
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

    fn count(&mut self, done: &CompactionResult) {
        let (freed, partly, moved) = (u64::from(done.freed), u64::from(done.partial), u64::from(done.moved));
        let pass = &mut self.state.pass;
        pass.pages_visited += 1;
        pass.pages_freed += freed;
        pass.partial_merges += partly;
        pass.pages_moved += moved;
        if let Some(queued) = self.state.queue.first_mut() {
            queued.pages_visited += 1;
            queued.pages_freed += freed;
            queued.partial_merges += partly;
            queued.pages_moved += moved;
        }
        let mut progress = self.host.progress();
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
            Error::Io { path, .. } => *path == self.host.file.path,
            _ => false,
        }
    }

    /// Counts and reports a damaged page or tree that the pass skips.
    pub(super) fn skip(&self, error: Error) {
        self.host.progress().skipped += 1;
        self.report(DefragEvent::Failed { error: error.jet_code(), what: error.full_text() });
    }
}
