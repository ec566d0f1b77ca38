//! Reads and checks the leaves of one tree with several threads, and joins the results in the order of the tree.
//!
//! The walk passes on the pages that parents of leaves refer to. They are collected into tasks of about 1 MiB, whose
//! reads start at once. A thread takes a task, waits for its reads, verifies the pages and checks the leaves. A page that
//! is no sound leaf of the tree goes back to the walk, which reports it.
//!
//! Invariants: the findings do not depend on the order in which threads finish; memory holds at most [`PER_THREAD`]
//! tasks for each thread, or [`FEWEST`] if these are more, and the spare buffers of the check; a tree smaller than one task starts no
//! thread.

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Scope};

use ese_format::checksum::PageIntegrity;
use ese_format::page::Page;
use ese_format::{DbTime, PageNumber};
use jetcell_vfs::{IoBuffer, IoReason, Transfer, TransferKind};

use crate::database::Database;
use crate::findings::Findings;
use crate::leaf::{Fork, LeafSequence, TreeContext, TreeSummary};
use crate::page_status::PageStatus;
use crate::tree::{Entry, LeafQueue, WalkState, Walker, visit_child};
use crate::tree_shape::TreeShape;

/// Bytes of the pages of a task.
const TASK_LEN: usize = 1 << 20;
/// Bytes of neighbouring pages that are read with one transfer.
const RUN_LEN: usize = 256 * 1024;
/// Tasks for each thread that are in work at a time.
const PER_THREAD: usize = 3;
/// Tasks in work at a time with few threads, so that reads are in flight while a thread judges pages.
const FEWEST: usize = 8;

/// Pages to check, and where their bytes will be.
struct Task<V> {
    number: u64,
    entries: Vec<Entry>,
    /// For each entry the run it is read with, and where in its buffer.
    places: Vec<(usize, usize)>,
    runs: usize,
    reads: Receiver<(usize, io::Result<()>, IoBuffer)>,
    visitor: V,
}

/// The result of a task.
struct TaskResult<V> {
    number: u64,
    entries: Vec<Entry>,
    pieces: Vec<Piece<V>>,
    findings: Findings,
    /// Of all pages that could be read.
    verdicts: Vec<(PageNumber, PageStatus)>,
    buffers: Vec<IoBuffer>,
}

/// Part of a task.
enum Piece<V> {
    /// Sound leaves next to each other.
    Leaves(Range<usize>, LeafSequence, V),
    /// A page that is no sound leaf of the tree.
    Other(usize),
}

/// Walks the tree with several threads, for large trees.
pub(crate) fn walk_parallel<V: Fork>(
    walker: &mut Walker<'_, '_>,
    shape: &TreeShape,
    visitor: V,
) -> (TreeSummary, V) {
    let (database, newest, findings) = (walker.reader.database, walker.newest, walker.findings.like());
    thread::scope(|scope| {
        let mut state = WalkState::new(shape, visitor);
        if !database.pace.is_throttled() {
            state.workers = Some(Box::new(LeafWorkers::new(scope, database, shape, newest, findings)));
        }
        (state.walk(walker), state.visitor)
    })
}

/// The threads of one walk.
pub(crate) struct LeafWorkers<'scope, 'env, V> {
    scope: &'scope Scope<'scope, 'env>,
    database: &'env Database,
    shape: &'env TreeShape,
    newest: DbTime,
    /// How the threads report.
    findings: Findings,
    threads: usize,
    tasks: Option<Sender<Task<V>>>,
    done_sender: Sender<TaskResult<V>>,
    done: Receiver<TaskResult<V>>,
    /// Entries of the next task.
    entries: Vec<Entry>,
    started: u64,
    joined: u64,
    /// Results of tasks that finished before an earlier task.
    early: HashMap<u64, TaskResult<V>>,
}

impl<'scope, 'env, V: Fork + 'scope> LeafWorkers<'scope, 'env, V> {
    /// Starts no thread yet.
    pub(crate) fn new(
        scope: &'scope Scope<'scope, 'env>,
        database: &'env Database,
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
            done_sender,
            done,
            entries: Vec::new(),
            started: 0,
            joined: 0,
            early: HashMap::new(),
        }
    }

    fn task_pages(&self) -> usize {
        (TASK_LEN / self.database.page_size.bytes()).max(1)
    }

    /// Starts the threads, once.
    fn tasks(&mut self) -> Sender<Task<V>> {
        if let Some(tasks) = &self.tasks {
            return tasks.clone();
        }
        let (sender, tasks) = channel::<Task<V>>();
        let tasks = Arc::new(Mutex::new(tasks));
        for _ in 0..self.threads {
            let (tasks, done, findings) = (tasks.clone(), self.done_sender.clone(), self.findings.like());
            let (database, shape, newest) = (self.database, self.shape, self.newest);
            self.scope.spawn(move || {
                loop {
                    let task = tasks.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok(task) = task else { return };
                    let mut local = findings.like();
                    let context = TreeContext { database, shape, findings: &mut local, newest };
                    let (number, entries, pieces, verdicts, buffers) = judge(task, context);
                    let all = TaskResult { number, entries, pieces, findings: local, verdicts, buffers };
                    if done.send(all).is_err() {
                        return;
                    }
                }
            });
        }
        self.tasks.insert(sender).clone()
    }

    /// Starts the reads of the collected entries.
    fn start(&mut self, visitor: V) {
        let entries = std::mem::take(&mut self.entries);
        let size = self.database.page_size;
        let mut pages: Vec<(PageNumber, usize)> =
            entries.iter().enumerate().map(|(index, entry)| (entry.child, index)).collect();
        pages.sort_unstable();
        let longest = (RUN_LEN / size.bytes()).max(1);
        let (sender, reads) = channel();
        // Pages beyond the end of the file have no place.
        let mut places = vec![(usize::MAX, 0); entries.len()];
        let mut batch = Vec::new();
        let held = pages.iter().take_while(|(page, _)| self.database.holds(*page)).count();
        let held = pages.get(..held).unwrap_or_default();
        for run in held.chunk_by(|a, b| a.0.plus(1) == b.0).flat_map(|run| run.chunks(longest)) {
            let Some((first, _)) = run.first() else { continue };
            let (offset, len, start) = self.database.aligned_range(*first, run.len() as u32);
            for (place, (_, index)) in run.iter().enumerate() {
                if let Some(slot) = places.get_mut(*index) {
                    *slot = (batch.len(), start + place * size.bytes());
                }
            }
            let (number, sender) = (batch.len(), sender.clone());
            batch.push(Transfer {
                kind: TransferKind::Read,
                offset,
                buffer: self.database.spare.take(len),
                reason: IoReason::Verify,
                // The receiver is gone if the check was cancelled.
                done: Box::new(move |result, buffer| drop(sender.send((number, result, buffer)))),
            });
        }
        let task = Task { number: self.started, entries, places, runs: batch.len(), reads, visitor };
        self.started += 1;
        self.database.file.submit(batch);
        // The threads live as long as `self`.
        drop(self.tasks().send(task));
    }

    /// Waits for the next task in the order of the tree, and adds its result to the state.
    fn join_next(&mut self, walker: &mut Walker<'_, '_>, state: &mut WalkState<'_, V>) {
        let done = loop {
            if let Some(done) = self.early.remove(&self.joined) {
                break done;
            }
            match self.done.recv() {
                Ok(done) => drop(self.early.insert(done.number, done)),
                Err(_) => unreachable!("the workers hold a sender"),
            }
        };
        self.joined += 1;
        if let Some(judged) = walker.reader.judged().as_mut().filter(|_| walker.claims.is_some()) {
            for (page, verdict) in done.verdicts {
                judged.judge(page, verdict);
            }
            judged.report(walker.findings);
        }
        walker.findings.take_over(done.findings);
        for piece in done.pieces {
            match piece {
                Piece::Leaves(range, sequence, visitor) => {
                    let leaves = done.entries.get(range).unwrap_or_default().iter().map(|entry| entry.child);
                    state.sequence.join(sequence, leaves, &mut walker.context(self.shape));
                    state.visitor.join(visitor, walker.findings);
                }
                Piece::Other(index) => {
                    if let Some(entry) = done.entries.get(index) {
                        visit_child(walker, state, entry);
                    }
                }
            }
        }
        self.database.spare.put_back(done.buffers);
    }
}

impl<'scope, V: Fork + 'scope> LeafQueue<V> for LeafWorkers<'scope, '_, V> {
    fn add(&mut self, walker: &mut Walker<'_, '_>, state: &mut WalkState<'_, V>, entry: Entry) {
        self.entries.push(entry);
        if self.entries.len() < self.task_pages() {
            return;
        }
        let most = (self.threads * PER_THREAD).max(FEWEST) as u64;
        while self.started - self.joined >= most {
            self.join_next(walker, state);
        }
        self.start(state.visitor.fork());
    }

    fn drain(&mut self, walker: &mut Walker<'_, '_>, state: &mut WalkState<'_, V>) {
        if self.tasks.is_some() && !self.entries.is_empty() {
            self.start(state.visitor.fork());
        }
        while self.joined < self.started {
            self.join_next(walker, state);
        }
        let few = std::mem::take(&mut self.entries);
        walker.reader.prefetch(few.iter().map(|entry| entry.child));
        for entry in &few {
            visit_child(walker, state, entry);
        }
    }
}

type Judged<V> = (u64, Vec<Entry>, Vec<Piece<V>>, Vec<(PageNumber, PageStatus)>, Vec<IoBuffer>);

/// Verifies and checks the pages of a task.
fn judge<V: Fork>(task: Task<V>, mut context: TreeContext<'_>) -> Judged<V> {
    let mut buffers: Vec<Option<IoBuffer>> = Vec::new();
    buffers.resize_with(task.runs, || None);
    let mut failed = Vec::new();
    for (number, result, buffer) in task.reads.iter().take(task.runs) {
        match (result, buffers.get_mut(number)) {
            (Ok(()), Some(slot)) => *slot = Some(buffer),
            // One bad sector must not hide its neighbours: the walk reads these one by one.
            _ => failed.push(buffer),
        }
    }
    let size = context.database.page_size;
    let mut verdicts = Vec::with_capacity(task.entries.len());
    let mut pieces: Vec<Piece<V>> = Vec::new();
    for (index, (entry, (run, start))) in task.entries.iter().zip(&task.places).enumerate() {
        let buffer = buffers.get_mut(*run).and_then(Option::as_mut);
        let bytes = buffer.and_then(|buffer| buffer.get_mut(*start..*start + size.bytes()));
        let verdict = bytes.map(|bytes| (context.database.judge_page(bytes, entry.child), &*bytes));
        let good = verdict
            .as_ref()
            .filter(|(verdict, _)| matches!(verdict, PageStatus::Page(PageIntegrity::Good, _)));
        let page = good.map(|(_, bytes)| (Page::new(bytes, size), *bytes));
        if let Some((page, bytes)) = page.filter(|(page, _)| page.is_leaf() && context.belongs(page)) {
            context.check_layout(entry.child, bytes);
            context.check_header(entry.child, &page, entry.depth);
            if !matches!(pieces.last(), Some(Piece::Leaves(..))) {
                pieces.push(Piece::Leaves(index..index, LeafSequence::within_tree(), task.visitor.fork()));
            }
            if let Some(Piece::Leaves(range, sequence, visitor)) = pieces.last_mut() {
                range.end = index + 1;
                let bounds = (entry.low.as_deref(), entry.high.as_deref());
                sequence.leaf(&mut context, visitor, (entry.child, &page, entry.depth), bounds);
            }
        } else {
            pieces.push(Piece::Other(index));
        }
        verdicts.extend(verdict.map(|(verdict, _)| (entry.child, verdict)));
    }
    let buffers = buffers.into_iter().flatten().chain(failed).collect();
    (task.number, task.entries, pieces, verdicts, buffers)
}
