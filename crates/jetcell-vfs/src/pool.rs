//! Asynchronous transfers by a pool of threads that make blocking calls. This works on every kernel.

use std::collections::VecDeque;

use jetcell_sync::thread::JoinHandle;
use jetcell_sync::{Arc, Condvar, Mutex};

use crate::descriptor::Descriptor;
use crate::engine::{BACKLOG, QueuedTransfer, TransferEngine, mark_completion_thread, may_wait};
use crate::{Transfer, TransferKind};

/// Number of threads, and maximum number of transfers in flight.
const THREADS: usize = 16;

pub(crate) struct TransferPool {
    shared: Arc<PoolInner>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct PoolInner {
    queue: Mutex<PoolQueue>,
    work: Condvar,
    room: Condvar,
}

#[derive(Default)]
struct PoolQueue {
    jobs: VecDeque<QueuedTransfer>,
    idle: usize,
    closed: bool,
}

impl TransferPool {
    pub fn new() -> std::io::Result<TransferPool> {
        let mut pool = TransferPool { shared: Arc::default(), threads: Vec::new() };
        for number in 0..THREADS {
            let shared = pool.shared.clone();
            let thread = jetcell_sync::thread::Builder::new().name(format!("vfs-{number}"));
            pool.threads.push(thread.spawn(move || shared.work())?);
        }
        Ok(pool)
    }
}

impl PoolInner {
    fn work(&self) {
        mark_completion_thread();
        while let Some(mut job) = self.next() {
            let Transfer { kind, offset, buffer, .. } = &mut job.transfer;
            let result = match kind {
                TransferKind::Read => job.file.read_exact_at(*offset, buffer),
                TransferKind::Write => job.file.write_all_at(*offset, buffer),
            };
            job.finish(result);
        }
    }

    fn next(&self) -> Option<QueuedTransfer> {
        let mut queue = self.queue.lock();
        while queue.jobs.is_empty() && !queue.closed {
            queue.idle += 1;
            self.work.wait(&mut queue);
            queue.idle -= 1;
        }
        let job = queue.jobs.pop_front();
        if queue.jobs.len() + 1 == BACKLOG {
            self.room.notify_all();
        }
        job
    }
}

impl TransferEngine for TransferPool {
    fn name(&self) -> &'static str {
        "threads"
    }

    fn submit(&self, file: &Arc<Descriptor>, batch: Vec<Transfer>) {
        let mut queue = self.shared.queue.lock();
        while queue.jobs.len() >= BACKLOG && may_wait() {
            self.shared.room.wait(&mut queue);
        }
        let wanted = batch.len().min(queue.idle);
        queue.jobs.extend(batch.into_iter().map(|transfer| QueuedTransfer { file: file.clone(), transfer }));
        drop(queue);
        (0..wanted).for_each(|_| {
            self.shared.work.notify_one();
        });
    }
}

impl Drop for TransferPool {
    fn drop(&mut self) {
        self.shared.queue.lock().closed = true;
        self.shared.work.notify_all();
        let myself = jetcell_sync::thread::current().id();
        // The last handle may be dropped inside a completion, on a pool thread, which cannot join itself.
        for thread in self.threads.drain(..).filter(|thread| thread.thread().id() != myself) {
            // A join never returns a panic, because a panic in a completion aborts the process.
            let _ = thread.join();
        }
    }
}
