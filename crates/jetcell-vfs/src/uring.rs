//! Asynchronous transfers through io_uring.
//!
//! One thread owns the ring. Callers append to a queue and wake the thread, through an eventfd that the ring
//! itself reads, only if it sleeps. The thread starts whatever has gathered and waits for completions in a single
//! system call, so the busier it is the fewer calls each transfer costs. A request issued by a thread dies with
//! that thread; that is why callers do not enter the ring themselves. Completions run on the ring's thread, and what
//! they submit goes to the kernel at once: the device is busy again while they look at what has arrived.
//!
//! Invariants: a flight owns its buffer and its open file until the kernel has reported its completion; the thread
//! ends only when no flight is left; completions run while nothing of the ring is borrowed.

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

use crate::descriptor::{Descriptor, is_transient};
use crate::engine::{BACKLOG, Engine, Job, may_wait, this_thread_completes};
use crate::{Transfer, TransferKind, abort_on_panic};

/// Transfers in flight at a time.
const DEPTH: usize = 128;
/// Room for all flights and the wake-up request, so that pushing never fails.
const ENTRIES: u32 = 256;
/// Marks the completion of the wake-up request.
const WAKE: u64 = u64::MAX;
/// Longest request; the rest of a longer transfer follows when it is done.
const REQUEST: usize = 1 << 30;

pub(crate) struct Uring {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    queue: Mutex<Queue>,
    room: Condvar,
    /// The ring's thread waits, or is about to, for more than what is in flight.
    asleep: AtomicBool,
    wake: OwnedFd,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    closed: bool,
}

impl Uring {
    /// Fails where the kernel has no io_uring or forbids it.
    pub fn new() -> io::Result<Uring> {
        let wake = rustix::event::eventfd(0, EventfdFlags::CLOEXEC)?;
        let shared = Shared { queue: Mutex::default(), room: Condvar::new(), asleep: false.into(), wake };
        let shared = Arc::new(shared);
        let (created, creation) = mpsc::channel();
        let thread = jetcell_sync::thread::Builder::new().name("vfs-uring".into()).spawn({
            let shared = shared.clone();
            move || {
                let pilot = Pilot::new(shared);
                // The receiver waits for exactly this message.
                let _ = created.send(pilot.as_ref().map(|_| ()).map_err(|error| error.raw_os_error()));
                if let Ok(pilot) = pilot {
                    let pilot = Rc::new(pilot);
                    PILOT.set(Some(pilot.clone()));
                    // Unwinding would free memory that the kernel still transfers to and from.
                    abort_on_panic(|| pilot.run());
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

impl Shared {
    fn wake_if_asleep(&self) {
        if self.asleep.swap(false, Ordering::SeqCst) {
            self.ring_the_bell();
        }
    }

    fn ring_the_bell(&self) {
        while rustix::io::write(&self.wake, &1u64.to_ne_bytes()) == Err(Errno::INTR) {}
    }
}

impl Engine for Uring {
    fn name(&self) -> &'static str {
        "io_uring"
    }

    fn submit(&self, file: &Arc<Descriptor>, batch: Vec<Transfer>) {
        let pilot = PILOT.with_borrow(|pilot| pilot.clone());
        if let Some(pilot) = pilot.filter(|pilot| Arc::ptr_eq(&pilot.shared, &self.shared)) {
            return pilot.submit(file, batch);
        }
        let mut queue = self.shared.queue.lock();
        while queue.jobs.len() >= BACKLOG && may_wait() {
            self.shared.room.wait(&mut queue);
        }
        queue.jobs.extend(batch.into_iter().map(|transfer| Job { file: file.clone(), transfer }));
        drop(queue);
        self.shared.wake_if_asleep();
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        self.shared.queue.lock().closed = true;
        self.shared.wake_if_asleep();
        // The last handle may go away inside a completion; then the thread ends by itself.
        let other =
            self.thread.take().filter(|thread| thread.thread().id() != jetcell_sync::thread::current().id());
        if let Some(thread) = other {
            // The thread cannot panic: completions that do end the process.
            let _ = thread.join();
        }
    }
}

/// A transfer that the kernel is working on.
struct Flight {
    job: Job,
    transferred: usize,
}

thread_local! {
    /// Of a ring's own thread.
    static PILOT: RefCell<Option<Rc<Pilot>>> = const { RefCell::new(None) };
}

/// The ring's thread.
struct Pilot {
    shared: Arc<Shared>,
    deck: RefCell<Deck>,
}

impl Pilot {
    fn new(shared: Arc<Shared>) -> io::Result<Pilot> {
        let deck = RefCell::new(Deck::new(shared.wake.as_raw_fd())?);
        Ok(Pilot { shared, deck })
    }

    /// For completions: starts the transfers at once, unless others wait for their turn.
    fn submit(&self, file: &Arc<Descriptor>, batch: Vec<Transfer>) {
        let mut jobs = batch.into_iter().map(|transfer| Job { file: file.clone(), transfer });
        let mut queue = self.shared.queue.lock();
        if !queue.jobs.is_empty() {
            return queue.jobs.extend(jobs);
        }
        drop(queue);
        let mut deck = self.deck.borrow_mut();
        while !deck.free.is_empty()
            && let Some(job) = jobs.next()
        {
            deck.start(Flight { job, transferred: 0 });
        }
        deck.submit();
        drop(deck);
        // The loop looks into the queue before it waits.
        if jobs.len() > 0 {
            self.shared.queue.lock().jobs.extend(jobs);
        }
    }

    fn run(&self) {
        this_thread_completes();
        let mut finished = Vec::with_capacity(ENTRIES as usize);
        loop {
            let closed = self.board();
            let idle = {
                let deck = self.deck.borrow();
                if closed && deck.free.len() == DEPTH && deck.failed.is_empty() {
                    break;
                }
                // With no free flight only a completion helps, and no bell. Jobs that could not start left room after
                // all, and whoever queues more does not know that it takes a bell.
                let asleep = self.shared.asleep.load(Ordering::SeqCst);
                deck.failed.is_empty() && (closed || deck.free.is_empty() || asleep)
            };
            if idle {
                let mut deck = self.deck.borrow_mut();
                deck.listen();
                deck.wait();
            }
            self.shared.asleep.store(false, Ordering::SeqCst);
            self.land(&mut finished);
        }
        // The kernel must not write to the bell once it is freed.
        if self.deck.borrow().listening {
            self.shared.ring_the_bell();
            while self.deck.borrow().listening {
                self.deck.borrow_mut().wait();
                self.land(&mut finished);
            }
        }
        PILOT.set(None);
    }

    /// Starts queued jobs while there is room; true when no more will come.
    fn board(&self) -> bool {
        let mut deck = self.deck.borrow_mut();
        let mut queue = self.shared.queue.lock();
        let count = queue.jobs.len().min(deck.free.len());
        let crowded = queue.jobs.len() >= BACKLOG;
        let jobs: Vec<Job> = queue.jobs.drain(..count).collect();
        if crowded && queue.jobs.len() < BACKLOG {
            self.shared.room.notify_all();
        }
        let closed = queue.closed && queue.jobs.is_empty();
        // Under the lock: whoever appends from now on sees it.
        self.shared.asleep.store(deck.free.len() > count && !closed, Ordering::SeqCst);
        drop(queue);
        for job in jobs {
            deck.start(Flight { job, transferred: 0 });
        }
        closed
    }

    /// Runs the completions of what has ended.
    fn land(&self, finished: &mut Vec<(u64, i32)>) {
        let failed = {
            let mut deck = self.deck.borrow_mut();
            finished.extend(deck.ring.completion().map(|entry| (entry.user_data(), entry.result())));
            std::mem::take(&mut deck.failed)
        };
        for (slot, result) in finished.drain(..) {
            let ended = self.deck.borrow_mut().ended(slot, result);
            if let Some((job, outcome)) = ended {
                job.finish(outcome);
            }
        }
        for (job, error) in failed {
            job.finish(Err(error));
        }
    }
}

/// The ring and what is under way in it.
struct Deck {
    ring: IoUring,
    flights: Vec<Option<Flight>>,
    free: Vec<usize>,
    /// Could not be started.
    failed: Vec<(Job, io::Error)>,
    /// What the wake-up request reads into; boxed, because the kernel keeps its address.
    bell: Box<[u8; 8]>,
    wake: RawFd,
    listening: bool,
}

impl Deck {
    fn new(wake: RawFd) -> io::Result<Deck> {
        let tuned = IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(ENTRIES);
        let ring = tuned.or_else(|_| IoUring::new(ENTRIES))?;
        let flights = (0..DEPTH).map(|_| None).collect();
        let free = (0..DEPTH).collect();
        Ok(Deck { ring, flights, free, failed: Vec::new(), bell: Box::default(), wake, listening: false })
    }

    /// Hands a transfer to the ring; there is a free place.
    fn start(&mut self, mut flight: Flight) {
        let transfer = &mut flight.job.transfer;
        let offset = transfer.offset + flight.transferred as u64;
        let rest = &mut transfer.buffer[flight.transferred..];
        let file = match flight.job.file.for_range(offset, rest.len()) {
            Ok(file) => types::Fd(file.as_raw_fd()),
            Err(error) => return self.failed.push((flight.job, error)),
        };
        let len = rest.len().min(REQUEST) as u32;
        let entry = match transfer.kind {
            TransferKind::Read => opcode::Read::new(file, rest.as_mut_ptr(), len).offset(offset).build(),
            TransferKind::Write => opcode::Write::new(file, rest.as_ptr(), len).offset(offset).build(),
        };
        let slot = self.free.pop().expect("there is a free place");
        self.flights[slot] = Some(flight);
        // SAFETY: the flight owns the buffer and the open file, does not touch the buffer, and stays in its slot
        // until the completion of this entry is reaped; `Pilot::run` does not return before.
        unsafe { self.push(entry.user_data(slot as u64)) }
    }

    /// Has the ring read the eventfd, so that waiting for completions also waits for callers.
    fn listen(&mut self) {
        if !self.listening {
            self.listening = true;
            let entry =
                opcode::Read::new(types::Fd(self.wake), self.bell.as_mut_ptr(), self.bell.len() as u32)
                    .build();
            // SAFETY: bell and eventfd live until `Pilot::run` has seen this request complete.
            unsafe { self.push(entry.user_data(WAKE)) }
        }
    }

    /// # Safety
    /// Memory and file of the entry must stay valid until its completion is reaped.
    unsafe fn push(&mut self, entry: squeue::Entry) {
        // SAFETY: passed on to the caller.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.expect("the ring has room for every flight");
    }

    /// Has the kernel begin with what was started. Whatever it does not accept is still in the ring and goes with the
    /// next call.
    fn submit(&mut self) {
        let _ = self.ring.submit();
    }

    fn wait(&mut self) {
        if let Err(error) = self.ring.submit_and_wait(1) {
            let code = error.raw_os_error().map(Errno::from_raw_os_error);
            // Whatever the reason: buffers are with the kernel, so the only way is on. What was not accepted is
            // still in the ring and goes with the next call.
            if code != Some(Errno::INTR) {
                jetcell_sync::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    /// What became of a flight, unless there is more of it to transfer.
    fn ended(&mut self, slot: u64, result: i32) -> Option<(Job, io::Result<()>)> {
        if slot == WAKE {
            self.listening = false;
            return None;
        }
        let mut flight = self.flights[slot as usize].take()?;
        self.free.push(slot as usize);
        let buffer = &flight.job.transfer.buffer;
        let outcome = match usize::try_from(result) {
            Ok(0) if !buffer.is_empty() => Err(match flight.job.transfer.kind {
                TransferKind::Read => io::ErrorKind::UnexpectedEof.into(),
                TransferKind::Write => io::ErrorKind::WriteZero.into(),
            }),
            Ok(count) => {
                flight.transferred += count;
                if flight.transferred < buffer.len() {
                    self.start(flight);
                    return None;
                }
                Ok(())
            }
            Err(_) if is_transient(Errno::from_raw_os_error(-result)) => {
                self.start(flight);
                return None;
            }
            Err(_) => Err(io::Error::from_raw_os_error(-result)),
        };
        Some((flight.job, outcome))
    }
}
