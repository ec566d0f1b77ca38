//! Reads and checks the leaves of one tree in parallel, and joins the results in tree order.
//!
//! The walk submits the pages referenced by parents of leaves. These pages are collected into tasks of about 1 MiB.
//! In most cases, read-ahead ([`super::read_ahead`]) has already started their reads. A thread takes a task, waits
//! for its reads, verifies the pages, and checks the leaves. A page that is not a sound leaf of the tree is handed
//! back to the walk, which reports it.
//!
//! Invariants: the findings do not depend on read-ahead or on the order in which threads finish. At most
//! [`MAX_TASKS_PER_THREAD`] tasks per thread are in memory, and at most [`MAX_TASKS`] in total, including those of
//! later trees. The check's spare buffers add to this. A tree smaller than one task does not start any threads.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Scope};
use std::time::Duration;

use ese_format::checksum::PageIntegrity;
use ese_format::page::Page;
use ese_format::{DbTime, PageNumber};
use jetcell_vfs::IoBuffer;

use crate::findings::Findings;
use crate::pages::database::ReadableDatabase;
use crate::pages::page_status::PageStatus;
use crate::pages::task_reads::TaskReads;
use crate::structure::leaf::{LeafSequence, ParallelVisitor, TreeContext, WalkSummary};
use crate::structure::tree::{LeafQueue, LeafReference, TreeWalker, WalkState, visit_child};
use crate::structure::tree_shape::TreeShape;

/// Maximum number of tasks in progress per thread. With fewer, threads would have to wait for slow disks.
const MAX_TASKS_PER_THREAD: usize = 8;
/// Maximum number of tasks in progress.
const MAX_TASKS: usize = 16;
/// Interval at which a walk that is waiting for a task checks whether it can start more reads.
const READ_AHEAD_POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Pages to check, with their reads.
struct LeafTask<V> {
    number: u64,
    entries: Vec<LeafReference>,
    reads: TaskReads,
    visitor: V,
}

/// Result of a task.
struct TaskResult<V> {
    number: u64,
    entries: Vec<LeafReference>,
    pieces: Vec<TaskResultPart<V>>,
    findings: Findings,
    /// Status of each page that could be read.
    verdicts: Vec<(PageNumber, PageStatus)>,
    buffers: Vec<IoBuffer>,
}

/// Part of a task's result.
enum TaskResultPart<V> {
    /// Adjacent sound leaves.
    Leaves(Range<usize>, LeafSequence, V),
    /// A page that is not a sound leaf of the tree.
    Other(usize),
}

/// Walks a large tree using several threads.
pub(crate) fn walk_parallel<V: ParallelVisitor>(
    walker: &mut TreeWalker<'_, '_>,
    shape: &TreeShape,
    visitor: V,
) -> (WalkSummary, V) {
    let (database, newest, findings) =
        (walker.reader.database, walker.newest, walker.findings.new_for_same_file());
    thread::scope(|scope| {
        let mut state = WalkState::new(shape, visitor);
        if !database.pace.is_limited() {
            if let Some(ahead) = &mut walker.read_ahead {
                ahead.begin(walker.reader);
            }
            state.workers = Some(Box::new(LeafWorkers::new(scope, database, shape, newest, findings)));
        }
        (state.walk(walker), state.visitor)
    })
}

/// Worker threads that check leaves for one tree walk.
pub(crate) struct LeafWorkers<'scope, 'env, V> {
    scope: &'scope Scope<'scope, 'env>,
    database: &'env ReadableDatabase,
    shape: &'env TreeShape,
    newest: DbTime,
    /// Template for the threads' findings.
    findings: Findings,
    threads: usize,
    tasks: Option<Sender<LeafTask<V>>>,
    result_sender: Sender<TaskResult<V>>,
    results: Receiver<TaskResult<V>>,
    /// Entries that will form the next task.
    entries: Vec<LeafReference>,
    started: u64,
    joined: u64,
    /// Results of tasks that finished before an earlier task.
    completed_early: HashMap<u64, TaskResult<V>>,
}

impl<'scope, 'env, V: ParallelVisitor + 'scope> LeafWorkers<'scope, 'env, V> {
    /// Creates the state of a parallel walk. Threads are started later.
    pub(crate) fn new(
        scope: &'scope Scope<'scope, 'env>,
        database: &'env ReadableDatabase,
        shape: &'env TreeShape,
        newest: DbTime,
        findings: Findings,
    ) -> LeafWorkers<'scope, 'env, V> {
        let (done_sender, done) = channel();
        LeafWorkers {
            scope,
            database,
            shape,
            newest,
            findings,
            threads: database.threads,
            tasks: None,
            result_sender: done_sender,
            results: done,
            entries: Vec::new(),
            started: 0,
            joined: 0,
            completed_early: HashMap::new(),
        }
    }

    /// Starts the threads on the first call. Returns the channel for tasks.
    fn tasks(&mut self) -> Sender<LeafTask<V>> {
        if let Some(tasks) = &self.tasks {
            return tasks.clone();
        }
        let (sender, tasks) = channel::<LeafTask<V>>();
        let tasks = Arc::new(Mutex::new(tasks));
        for _ in 0..self.threads {
            let (tasks, done, findings) =
                (tasks.clone(), self.result_sender.clone(), self.findings.new_for_same_file());
            let (database, shape, newest) = (self.database, self.shape, self.newest);
            self.scope.spawn(move || {
                loop {
                    let task = tasks.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok(task) = task else { return };
                    if done
                        .send(check_task(task, (database, shape, newest), findings.new_for_same_file()))
                        .is_err()
                    {
                        return;
                    }
                }
            });
        }
        self.tasks.insert(sender).clone()
    }

    /// Returns the maximum number of tasks in progress.
    fn max_tasks(&self) -> usize {
        (self.threads * MAX_TASKS_PER_THREAD).min(MAX_TASKS)
    }

    fn tasks_in_progress(&self) -> usize {
        (self.started - self.joined) as usize
    }

    /// Waits until another task may start.
    fn wait_for_task_slot(&mut self, walker: &mut TreeWalker<'_, '_>, state: &mut WalkState<'_, V>) {
        while self.tasks_in_progress() >= self.max_tasks() {
            self.join_next(walker, state);
        }
    }

    /// Starts reads for further tasks, including those of later trees, up to the maximum number of tasks.
    fn read_ahead(&self, walker: &mut TreeWalker<'_, '_>) {
        if let Some(ahead) = &mut walker.read_ahead {
            ahead.fill(walker.reader, self.max_tasks() - self.tasks_in_progress());
        }
    }

    /// Turns the collected entries into a task. If `here` is true, runs it on the current thread.
    fn start(&mut self, walker: &mut TreeWalker<'_, '_>, state: &mut WalkState<'_, V>, here: bool) {
        let entries = std::mem::take(&mut self.entries);
        let pages: Vec<PageNumber> = entries.iter().map(|entry| entry.child).collect();
        // Tasks that were read ahead already have a reserved slot.
        if walker.read_ahead.as_ref().is_none_or(|ahead| ahead.started() == 0) {
            self.wait_for_task_slot(walker, state);
        }
        let ahead = walker.read_ahead.as_mut().and_then(|ahead| ahead.take(walker.reader, &pages));
        let reads = ahead.unwrap_or_else(|| {
            self.wait_for_task_slot(walker, state);
            TaskReads::start(self.database, pages)
        });
        let task = LeafTask { number: self.started, entries, reads, visitor: state.visitor.fork() };
        self.started += 1;
        self.read_ahead(walker);
        if here {
            let tree = (self.database, self.shape, self.newest);
            let done = check_task(task, tree, self.findings.new_for_same_file());
            self.completed_early.insert(done.number, done);
        } else {
            // Sending cannot fail, because the threads live as long as `self`.
            drop(self.tasks().send(task));
        }
    }

    /// Waits for the next task in tree order and adds its result to the state.
    fn join_next(&mut self, walker: &mut TreeWalker<'_, '_>, state: &mut WalkState<'_, V>) {
        let done = loop {
            if let Some(done) = self.completed_early.remove(&self.joined) {
                break done;
            }
            match self.results.recv_timeout(READ_AHEAD_POLL_INTERVAL) {
                Ok(done) => drop(self.completed_early.insert(done.number, done)),
                // An internal page of the next tree may have been read in the meantime.
                Err(RecvTimeoutError::Timeout) => self.read_ahead(walker),
                Err(RecvTimeoutError::Disconnected) => unreachable!("`self` holds a sender"),
            }
        };
        self.joined += 1;
        self.read_ahead(walker);
        if let Some(judged) = walker.reader.verified_pages().as_mut().filter(|_| walker.claims.is_some()) {
            for (page, verdict) in done.verdicts {
                judged.record(page, verdict);
            }
            judged.report(walker.findings);
        }
        walker.findings.merge(done.findings);
        for piece in done.pieces {
            match piece {
                TaskResultPart::Leaves(range, sequence, visitor) => {
                    let leaves = done.entries.get(range).unwrap_or_default().iter().map(|entry| entry.child);
                    state.sequence.join(sequence, leaves, &mut walker.context(self.shape));
                    state.visitor.join(visitor, walker.findings);
                }
                TaskResultPart::Other(index) => {
                    if let Some(entry) = done.entries.get(index) {
                        visit_child(walker, state, entry);
                    }
                }
            }
        }
        self.database.spare_buffers.give_back(done.buffers);
    }
}

impl<'scope, V: ParallelVisitor + 'scope> LeafQueue<V> for LeafWorkers<'scope, '_, V> {
    fn add(&mut self, walker: &mut TreeWalker<'_, '_>, state: &mut WalkState<'_, V>, entry: LeafReference) {
        self.entries.push(entry);
        if self.entries.len() >= TaskReads::max_pages(self.database) {
            self.start(walker, state, false);
        }
    }

    fn drain(&mut self, walker: &mut TreeWalker<'_, '_>, state: &mut WalkState<'_, V>) {
        self.read_ahead(walker);
        if !self.entries.is_empty() {
            self.start(walker, state, self.tasks.is_none());
        }
        while self.joined < self.started {
            self.join_next(walker, state);
        }
    }
}

/// Verifies and checks a task's pages.
fn check_task<V: ParallelVisitor>(
    task: LeafTask<V>,
    (database, shape, newest): (&ReadableDatabase, &TreeShape, DbTime),
    mut findings: Findings,
) -> TaskResult<V> {
    let LeafTask { number, entries, reads, visitor } = task;
    let mut context = TreeContext { database, shape, findings: &mut findings, newest };
    let mut read = reads.wait(database);
    let size = database.page_size;
    let mut verdicts = Vec::with_capacity(entries.len());
    let mut pieces: Vec<TaskResultPart<V>> = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let verdict = read.get_mut(index).map(|bytes| (database.check_page(bytes, entry.child), &*bytes));
        let good = verdict
            .as_ref()
            .filter(|(verdict, _)| matches!(verdict, PageStatus::Page(PageIntegrity::Good, _)));
        let page = good.map(|(_, bytes)| (Page::new(bytes, size), *bytes));
        if let Some((page, bytes)) = page.filter(|(page, _)| page.is_leaf() && context.belongs(page)) {
            context.check_layout(entry.child, bytes);
            context.check_header(entry.child, &page, entry.depth);
            if !matches!(pieces.last(), Some(TaskResultPart::Leaves(..))) {
                pieces.push(TaskResultPart::Leaves(
                    index..index,
                    LeafSequence::within_tree(),
                    visitor.fork(),
                ));
            }
            if let Some(TaskResultPart::Leaves(range, sequence, visitor)) = pieces.last_mut() {
                range.end = index + 1;
                let bounds = (entry.low.as_deref(), entry.high.as_deref());
                sequence.add_leaf(&mut context, visitor, (entry.child, &page, entry.depth), bounds);
            }
        } else {
            pieces.push(TaskResultPart::Other(index));
        }
        verdicts.extend(verdict.map(|(verdict, _)| (entry.child, verdict)));
    }
    TaskResult { number, entries, pieces, findings, verdicts, buffers: read.into_buffers() }
}
