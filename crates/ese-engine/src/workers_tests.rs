//! Tests of shared threads: limits, isolation between volumes, wake-ups and removal.

use std::collections::HashSet;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use jetcell_vfs::RealClock;

use super::*;

const LONG: Duration = Duration::from_secs(3600);
/// Timeout for operations that normally take milliseconds.
const TIMEOUT: Duration = Duration::from_secs(60);

fn workers(threads: usize) -> Arc<Workers> {
    Workers::start(threads, Arc::new(RealClock::new())).unwrap()
}

/// Returns a step that counts its calls and requests a pause.
fn counting(count: &Arc<AtomicUsize>, pause: Duration) -> StepFunction {
    let count = count.clone();
    Box::new(move || {
        count.fetch_add(1, Ordering::SeqCst);
        Some(pause)
    })
}

/// Returns a step that blocks until the channel's sender is dropped.
fn blocked(gate: &Arc<Mutex<Receiver<()>>>) -> StepFunction {
    let gate = gate.clone();
    Box::new(move || {
        // One step holds the lock while it waits for the channel; the others wait for the lock.
        let _ = gate.lock().recv();
        Some(LONG)
    })
}

fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + TIMEOUT;
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn many_tasks_run_on_a_fixed_number_of_pool_threads() {
    let workers = workers(3);
    let group = workers.group();
    let threads = Arc::new(Mutex::new(HashSet::new()));
    let counts: Vec<Arc<AtomicUsize>> = (0..200).map(|_| Arc::default()).collect();
    let task = |count: &Arc<AtomicUsize>| {
        let (threads, count) = (threads.clone(), count.clone());
        group.add(
            StepKind::Pages,
            Box::new(move || {
                threads.lock().insert(thread::current().id());
                count.fetch_add(1, Ordering::SeqCst);
                Some(Duration::from_millis(2))
            }),
        )
    };
    let tasks: Vec<TaskHandle> = counts.iter().map(task).collect();
    eventually("all tasks run again and again", || {
        counts.iter().all(|count| count.load(Ordering::SeqCst) >= 3)
    });
    TaskHandle::remove_all(&tasks);
    assert!(threads.lock().len() <= 3);
    let after: Vec<usize> = counts.iter().map(|count| count.load(Ordering::SeqCst)).collect();
    std::thread::sleep(Duration::from_millis(20));
    let later: Vec<usize> = counts.iter().map(|count| count.load(Ordering::SeqCst)).collect();
    assert_eq!(after, later, "no step after the removal");
}

#[test]
fn a_stalled_volume_does_not_block_other_volumes() {
    let workers = workers(6);
    let (slow, fast, other) = (workers.group(), workers.group(), workers.group());
    let (open, gate) = channel();
    let gate = Arc::new(Mutex::new(gate));
    let kinds = [StepKind::Log, StepKind::Pages];
    let held: Vec<TaskHandle> = (0..40).map(|number| slow.add(kinds[number % 2], blocked(&gate))).collect();
    let counts: [Arc<AtomicUsize>; 4] = Default::default();
    let pause = Duration::from_millis(1);
    let tasks: Vec<TaskHandle> = [(&fast, 0), (&fast, 1), (&other, 2), (&other, 3)]
        .map(|(group, at)| group.add(kinds[at % 2], counting(&counts[at], pause)))
        .into();
    eventually("others go on", || counts.iter().all(|count| count.load(Ordering::SeqCst) > 20));
    assert_eq!(workers.shared.state.lock().groups[&slow.id].steps, 2, "a third of the threads");
    drop(open);
    TaskHandle::remove_all(&held);
    TaskHandle::remove_all(&tasks);
    assert_eq!(workers.shared.state.lock().all.steps, 0);
}

#[test]
fn a_due_task_briefly_waits_for_the_active_worker_thread() {
    let mut state = WorkersState::default();
    let (group, now) = (state.new_id(), Duration::from_millis(100));
    state.groups.insert(group, RunningSteps::default());
    let [first, second, third] = std::array::from_fn(|_| {
        let id = state.new_id();
        let (kind, step): (_, StepFunction) = (StepKind::Log, Box::new(|| None));
        let task = Task {
            group,
            kind,
            step: Some(step),
            due: now,
            runs_on: None,
            woken: Arc::default(),
            removed: false,
        };
        state.tasks.insert(id, task);
        state.queue.insert((now, id));
        id
    });
    let taken = |state: &mut WorkersState, now| state.take_due(now, 8).map(|(id, _)| id);
    assert_eq!(taken(&mut state, now), Some(first), "no thread runs steps");
    assert_eq!((taken(&mut state, now), state.next_due_time(now)), (None, Some(now + DUE_GRACE_PERIOD)));
    state.tasks[&second].woken.store(true, Ordering::SeqCst);
    assert_eq!(taken(&mut state, now), Some(second), "a task that was woken does not wait");
    assert_eq!(taken(&mut state, now + DUE_GRACE_PERIOD), Some(third));
}

#[test]
fn blocked_page_steps_leave_threads_for_log_steps() {
    for threads in [2, 4, 7] {
        let workers = workers(threads);
        let group = workers.group();
        let (open, gate) = channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        let held: Vec<TaskHandle> =
            (0..3 * threads).map(|_| group.add(StepKind::Pages, blocked(&gate))).collect();
        // Simulates a page that can be written only after the log has been written.
        let mut open = Some(open);
        let log = group.add(
            StepKind::Log,
            Box::new(move || {
                open.take();
                Some(LONG)
            }),
        );
        eventually("the log was written", || {
            gate.try_lock().is_some_and(|gate| gate.try_recv() == Err(mpsc_disconnected()))
        });
        TaskHandle::remove_all(&held);
        TaskHandle::remove_all(&[log]);
    }
}

fn mpsc_disconnected() -> std::sync::mpsc::TryRecvError {
    std::sync::mpsc::TryRecvError::Disconnected
}

#[test]
fn a_woken_task_runs_at_once_or_reruns_if_running() {
    let workers = workers(2);
    let group = workers.group();
    let count = Arc::<AtomicUsize>::default();
    let task = group.add(StepKind::Log, counting(&count, LONG));
    eventually("the first step", || count.load(Ordering::SeqCst) == 1);
    for number in 2..50 {
        task.wake();
        eventually("a step for each wake", || count.load(Ordering::SeqCst) == number);
    }
    // A task that is woken while its step runs must run again, because the step may have missed the new work.
    let (sender, gate) = channel::<()>();
    let (entered, enter) = channel::<()>();
    let steps = Arc::<AtomicUsize>::default();
    let counted = steps.clone();
    let slow = group.add(
        StepKind::Log,
        Box::new(move || {
            counted.fetch_add(1, Ordering::SeqCst);
            let _ = entered.send(());
            let _ = gate.recv();
            Some(LONG)
        }),
    );
    enter.recv_timeout(TIMEOUT).unwrap();
    slow.wake();
    slow.wake();
    drop(sender);
    eventually("one more step", || steps.load(Ordering::SeqCst) == 2);
    TaskHandle::remove_all(&[task, slow]);
    assert_eq!(steps.load(Ordering::SeqCst), 2);
}

#[test]
fn a_task_can_end_during_a_step_and_drop_resources() {
    let workers = workers(2);
    let group = workers.group();
    /// Uses the pool in its destructor, as an instance does when it ends.
    struct PoolOwner(Arc<WorkerGroup>, Arc<AtomicUsize>);
    impl Drop for PoolOwner {
        fn drop(&mut self) {
            drop(self.0.add(StepKind::Pages, counting(&self.1, LONG)));
        }
    }
    let count = Arc::<AtomicUsize>::default();
    let owned = PoolOwner(group.clone(), count.clone());
    group.add(
        StepKind::Pages,
        Box::new(move || {
            let _kept = &owned;
            None
        }),
    );
    eventually("the owned value was dropped", || count.load(Ordering::SeqCst) == 1);
    // A task that removes itself does not wait for its own step.
    let own = Arc::new(Mutex::new(None::<TaskHandle>));
    let (removed, ended) = (own.clone(), Arc::<AtomicUsize>::default());
    let end = ended.clone();
    let task = group.add(
        StepKind::Pages,
        Box::new(move || {
            let Some(task) = removed.lock().take() else { return Some(Duration::from_millis(1)) };
            TaskHandle::remove_all(&[task]);
            end.fetch_add(1, Ordering::SeqCst);
            Some(Duration::ZERO)
        }),
    );
    *own.lock() = Some(task);
    eventually("it ended", || ended.load(Ordering::SeqCst) == 1);
    eventually("only the sleeping task is left", || workers.shared.state.lock().tasks.len() == 1);
}

#[test]
fn dropping_the_last_pool_owner_stops_the_threads() {
    let workers = workers(4);
    let shared = Arc::downgrade(&workers.shared);
    let group = workers.group();
    let count = Arc::<AtomicUsize>::default();
    let task = group.add(StepKind::Pages, counting(&count, Duration::ZERO));
    eventually("it runs", || count.load(Ordering::SeqCst) > 10);
    TaskHandle::remove_all(std::slice::from_ref(&task));
    drop((workers, group, task));
    assert!(shared.upgrade().is_none(), "all threads have ended");
}

#[test]
fn long_pauses_are_rounded_to_shared_wakeup_times() {
    let [ms, us] = [Duration::from_millis, Duration::from_micros];
    for now in (0..20_000).step_by(7).map(us) {
        for pause in [ms(10), ms(20), us(12_345), ms(160)] {
            let due = due_after(now, pause);
            assert!(
                due >= now + pause
                    && due < now + pause + DUE_RESOLUTION
                    && due.as_nanos().is_multiple_of(DUE_RESOLUTION.as_nanos())
            );
        }
        assert_eq!(due_after(now, ms(1)), now + ms(1), "a short pause is as it was asked for");
    }
    assert_eq!(due_after(ms(100), ms(20)), ms(120));
    assert_eq!(due_after(Duration::MAX, ms(20)), Duration::MAX);
}
