//! Asynchronous transfers through `io_uring`.
//!
//! One thread owns the ring. Callers append to a queue. If the thread sleeps, callers wake it through an eventfd that
//! the ring itself reads. The thread submits all queued transfers and waits for completions in a single system call,
//! so the number of system calls per transfer decreases under load. The kernel cancels the requests of a thread that
//! exits, so callers do not submit to the ring themselves. Completions run on the ring thread. A transfer that a
//! completion submits goes to the kernel immediately, which keeps the device busy while the completion continues.
//!
//! Invariants: an entry in the in-flight table owns its buffer and its open file until the kernel has reported its
//! completion; the thread exits only when the table is empty; completions run while no part of the ring is borrowed.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::time::Duration;

use io_uring::{IoUring, opcode, squeue, types};
use jetcell_sync::atomic::{AtomicBool, Ordering};
use jetcell_sync::thread::JoinHandle;
use jetcell_sync::{Arc, Condvar, Mutex, mpsc};
use rustix::event::EventfdFlags;
use rustix::io::Errno;

use crate::descriptor::Descriptor;
use crate::engine::{BACKLOG, QueuedTransfer, TransferEngine, mark_completion_thread, may_wait};
use crate::retry::RetryCounter;
use crate::{Transfer, TransferKind, abort_on_panic};

/// Maximum number of transfers in flight.
const DEPTH: usize = 128;
/// Number of ring entries. All slots and the wake-up request fit, so a push never fails.
const ENTRIES: u32 = 256;
/// User data that identifies the wake-up request.
const WAKE: u64 = u64::MAX;
/// Maximum length of a request in bytes. A longer transfer is split into several consecutive requests.
const REQUEST: usize = 1 << 30;

pub(crate) struct Uring {
    shared: Arc<UringInner>,
    thread: Option<JoinHandle<()>>,
}

struct UringInner {
    queue: Mutex<UringQueue>,
    room: Condvar,
    /// True if the ring thread is waiting or about to wait. A new job must then wake it.
    asleep: AtomicBool,
    wake: OwnedFd,
}

#[derive(Default)]
struct UringQueue {
    jobs: VecDeque<QueuedTransfer>,
    closed: bool,
}

impl Uring {
    /// Creates the ring and its thread. Fails if the kernel has no `io_uring` or forbids it.
    pub fn new() -> io::Result<Uring> {
        let wake = rustix::event::eventfd(0, EventfdFlags::CLOEXEC)?;
        let shared = UringInner { queue: Mutex::default(), room: Condvar::new(), asleep: false.into(), wake };
        let shared = Arc::new(shared);
        let (created, creation) = mpsc::channel();
        let thread = jetcell_sync::thread::Builder::new().name("vfs-uring".into()).spawn({
            let shared = shared.clone();
            move || {
                let ring_thread = RingThread::new(shared);
                // The receiver waits for this message, so it still exists.
                let _ = created.send(ring_thread.as_ref().map(|_| ()).map_err(std::io::Error::raw_os_error));
                if let Ok(ring_thread) = ring_thread {
                    let ring_thread = Rc::new(ring_thread);
                    RING_THREAD.set(Some(ring_thread.clone()));
                    // Unwinding would free memory that the kernel still accesses.
                    abort_on_panic(|| ring_thread.run());
                }
            }
        })?;
        match creation.recv() {
            Ok(Ok(())) => Ok(Uring { shared, thread: Some(thread) }),
            Ok(Err(code)) => {
                Err(code.map_or(io::ErrorKind::Unsupported.into(), io::Error::from_raw_os_error))
            }
            Err(_) => Err(io::Error::other("the io_uring thread ended")),
        }
    }
}

impl UringInner {
    fn wake_if_asleep(&self) {
        if self.asleep.swap(false, Ordering::SeqCst) {
            self.signal_wake_event();
        }
    }

    fn signal_wake_event(&self) {
        while rustix::io::write(&self.wake, &1u64.to_ne_bytes()) == Err(Errno::INTR) {}
    }
}

impl TransferEngine for Uring {
    fn name(&self) -> &'static str {
        "io_uring"
    }

    fn submit(&self, file: &Arc<Descriptor>, batch: Vec<Transfer>) {
        let ring_thread = RING_THREAD.with_borrow(std::clone::Clone::clone);
        if let Some(ring_thread) =
            ring_thread.filter(|ring_thread| Arc::ptr_eq(&ring_thread.shared, &self.shared))
        {
            return ring_thread.submit(file, batch);
        }
        let mut queue = self.shared.queue.lock();
        while queue.jobs.len() >= BACKLOG && may_wait() {
            self.shared.room.wait(&mut queue);
        }
        queue.jobs.extend(batch.into_iter().map(|transfer| QueuedTransfer { file: file.clone(), transfer }));
        drop(queue);
        self.shared.wake_if_asleep();
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        self.shared.queue.lock().closed = true;
        self.shared.wake_if_asleep();
        // The last handle may be dropped inside a completion, on the ring thread, which cannot join itself.
        let other =
            self.thread.take().filter(|thread| thread.thread().id() != jetcell_sync::thread::current().id());
        if let Some(thread) = other {
            // The thread cannot panic: a panic in a completion aborts the process.
            let _ = thread.join();
        }
    }
}

/// A transfer that the kernel is processing.
struct InFlightTransfer {
    job: QueuedTransfer,
    transferred: usize,
    retries: RetryCounter,
}

thread_local! {
    /// State of the ring thread. Set only on ring threads.
    static RING_THREAD: RefCell<Option<Rc<RingThread>>> = const { RefCell::new(None) };
}

/// State of the thread that owns the ring.
struct RingThread {
    shared: Arc<UringInner>,
    table: RefCell<InFlightTable>,
}

impl RingThread {
    fn new(shared: Arc<UringInner>) -> io::Result<RingThread> {
        let table = RefCell::new(InFlightTable::new(shared.wake.as_raw_fd())?);
        Ok(RingThread { shared, table })
    }

    /// Submits transfers from a completion immediately. If jobs are queued, they are submitted first.
    fn submit(&self, file: &Arc<Descriptor>, batch: Vec<Transfer>) {
        let mut jobs = batch.into_iter().map(|transfer| QueuedTransfer { file: file.clone(), transfer });
        let mut queue = self.shared.queue.lock();
        if !queue.jobs.is_empty() {
            return queue.jobs.extend(jobs);
        }
        drop(queue);
        let mut table = self.table.borrow_mut();
        while !table.free.is_empty()
            && let Some(job) = jobs.next()
        {
            table.push_transfer(InFlightTransfer { job, transferred: 0, retries: RetryCounter::default() });
        }
        table.submit();
        drop(table);
        // The loop reads the queue before it waits, so no wake-up is needed.
        if jobs.len() > 0 {
            self.shared.queue.lock().jobs.extend(jobs);
        }
    }

    fn run(&self) {
        mark_completion_thread();
        let mut finished = Vec::with_capacity(ENTRIES as usize);
        loop {
            let closed = self.submit_queued();
            let idle = {
                let table = self.table.borrow();
                if closed && table.free.len() == DEPTH && table.failed.is_empty() {
                    break;
                }
                // Without a free slot, the thread waits for a completion, and new jobs need not wake it. If a job
                // failed to start, its slot is free again. The thread must then not wait, because no completion would
                // wake it.
                let asleep = self.shared.asleep.load(Ordering::SeqCst);
                table.failed.is_empty() && (closed || table.free.is_empty() || asleep)
            };
            if idle {
                let mut table = self.table.borrow_mut();
                table.read_wake_event();
                table.wait();
            }
            self.shared.asleep.store(false, Ordering::SeqCst);
            self.reap(&mut finished);
        }
        // The kernel must not write to the wake count after it is freed.
        if self.table.borrow().wake_read_pending {
            self.shared.signal_wake_event();
            while self.table.borrow().wake_read_pending {
                self.table.borrow_mut().wait();
                self.reap(&mut finished);
            }
        }
        RING_THREAD.set(None);
    }

    /// Submits queued jobs while there are free slots. Returns true if the queue is closed and empty.
    fn submit_queued(&self) -> bool {
        let mut table = self.table.borrow_mut();
        let mut queue = self.shared.queue.lock();
        let count = queue.jobs.len().min(table.free.len());
        let crowded = queue.jobs.len() >= BACKLOG;
        let jobs: Vec<QueuedTransfer> = queue.jobs.drain(..count).collect();
        if crowded && queue.jobs.len() < BACKLOG {
            self.shared.room.notify_all();
        }
        let closed = queue.closed && queue.jobs.is_empty();
        // The value is stored while the queue is locked, so every later append sees it.
        self.shared.asleep.store(table.free.len() > count && !closed, Ordering::SeqCst);
        drop(queue);
        for job in jobs {
            table.push_transfer(InFlightTransfer { job, transferred: 0, retries: RetryCounter::default() });
        }
        closed
    }

    /// Removes completed requests from the ring and runs their completions.
    fn reap(&self, finished: &mut Vec<(u64, i32)>) {
        let failed = {
            let mut table = self.table.borrow_mut();
            finished.extend(table.ring.completion().map(|entry| (entry.user_data(), entry.result())));
            std::mem::take(&mut table.failed)
        };
        for (slot, result) in finished.drain(..) {
            let ended = self.table.borrow_mut().complete(slot, result);
            if let Some((job, outcome)) = ended {
                job.finish(outcome);
            }
        }
        for (job, error) in failed {
            job.finish(Err(error));
        }
    }
}

/// The ring and its transfers in flight.
struct InFlightTable {
    ring: IoUring,
    slots: Vec<Option<InFlightTransfer>>,
    free: Vec<usize>,
    /// Jobs that could not be submitted.
    failed: Vec<(QueuedTransfer, io::Error)>,
    /// Buffer for the wake-up request. It is boxed because the kernel keeps its address.
    wake_count: Box<[u8; 8]>,
    wake: RawFd,
    wake_read_pending: bool,
}

impl InFlightTable {
    fn new(wake: RawFd) -> io::Result<InFlightTable> {
        let tuned = IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(ENTRIES);
        let ring = tuned.or_else(|_| IoUring::new(ENTRIES))?;
        let slots = (0..DEPTH).map(|_| None).collect();
        let free = (0..DEPTH).collect();
        Ok(InFlightTable {
            ring,
            slots,
            free,
            failed: Vec::new(),
            wake_count: Box::default(),
            wake,
            wake_read_pending: false,
        })
    }

    /// Adds a transfer to the table and to the ring. The caller has checked that a slot is free.
    fn push_transfer(&mut self, mut in_flight: InFlightTransfer) {
        let transfer = &mut in_flight.job.transfer;
        let offset = transfer.offset + in_flight.transferred as u64;
        let rest = &mut transfer.buffer[in_flight.transferred..];
        let file = match in_flight.job.file.for_range(offset, rest.len()) {
            Ok(file) => types::Fd(file.as_raw_fd()),
            Err(error) => return self.failed.push((in_flight.job, error)),
        };
        let len = rest.len().min(REQUEST) as u32;
        let entry = match transfer.kind {
            TransferKind::Read => opcode::Read::new(file, rest.as_mut_ptr(), len).offset(offset).build(),
            TransferKind::Write => opcode::Write::new(file, rest.as_ptr(), len).offset(offset).build(),
        };
        let slot = self.free.pop().expect("the caller has checked that a slot is free");
        self.slots[slot] = Some(in_flight);
        // SAFETY: the slot owns the buffer and the open file. No code accesses the buffer, and the slot stays
        // occupied until the completion of this entry is reaped; `RingThread::run` does not return before that.
        unsafe { self.push(entry.user_data(slot as u64)) }
    }

    /// Makes the ring read the eventfd. A caller's signal then also ends a wait for completions.
    fn read_wake_event(&mut self) {
        if !self.wake_read_pending {
            self.wake_read_pending = true;
            let entry = opcode::Read::new(
                types::Fd(self.wake),
                self.wake_count.as_mut_ptr(),
                self.wake_count.len() as u32,
            )
            .build();
            // SAFETY: the wake count and the eventfd live until `RingThread::run` has reaped the completion of this
            // request.
            unsafe { self.push(entry.user_data(WAKE)) }
        }
    }

    /// Pushes an entry to the submission queue.
    ///
    /// # Safety
    /// The entry's memory and file must stay valid until its completion is reaped.
    unsafe fn push(&mut self, entry: squeue::Entry) {
        // SAFETY: guaranteed by the caller.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.expect("the ring has room for every slot");
    }

    /// Passes pushed requests to the kernel. Requests that the kernel does not accept stay in the ring for the next
    /// call.
    fn submit(&mut self) {
        let _ = self.ring.submit();
    }

    fn wait(&mut self) {
        if let Err(error) = self.ring.submit_and_wait(1) {
            let code = error.raw_os_error().map(Errno::from_raw_os_error);
            // The thread cannot stop, regardless of the error, because the kernel still uses buffers. Requests that
            // were not accepted stay in the ring for the next call.
            if code != Some(Errno::INTR) {
                jetcell_sync::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    /// Completes a request. Returns the job and its result, or `None` if the rest of the transfer was submitted.
    fn complete(&mut self, slot: u64, result: i32) -> Option<(QueuedTransfer, io::Result<()>)> {
        if slot == WAKE {
            self.wake_read_pending = false;
            return None;
        }
        let mut in_flight = self.slots[slot as usize].take()?;
        self.free.push(slot as usize);
        let buffer = &in_flight.job.transfer.buffer;
        let outcome = match usize::try_from(result) {
            Ok(0) if !buffer.is_empty() => Err(match in_flight.job.transfer.kind {
                TransferKind::Read => io::ErrorKind::UnexpectedEof.into(),
                TransferKind::Write => io::ErrorKind::WriteZero.into(),
            }),
            Ok(count) => {
                in_flight.transferred += count;
                if in_flight.transferred < buffer.len() {
                    self.push_transfer(in_flight);
                    return None;
                }
                Ok(())
            }
            Err(_) if in_flight.retries.allow(Errno::from_raw_os_error(-result)) => {
                self.push_transfer(in_flight);
                return None;
            }
            Err(_) => Err(io::Error::from_raw_os_error(-result)),
        };
        Some((in_flight.job, outcome))
    }
}

#[cfg(test)]
mod tests;
