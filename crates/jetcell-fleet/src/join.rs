//! Takes part in a fleet, with the session on the current thread and the test on another one.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use jetcell_workload::Cancellation;

use crate::bus::Bus;
use crate::clock::HostClocks;
use crate::directory_mark::DirectoryMark;
use crate::host::{HostProgress, HostSession, SessionAction, SessionEnd};
use crate::host_error::{HostRefusal, HostTestError};
use crate::message::{Assignment, Barrier};
use crate::result_transfer::ResultTransfer;
use crate::test_run::HostTask;

/// Maximum time to wait for a message. This limit ensures that heartbeats are sent on time.
const RECEIVE_TIMEOUT: Duration = Duration::from_millis(20);

/// A message from the test thread to the session.
enum TestEvent {
    Refused(HostRefusal),
    Ended(Result<ResultTransfer, HostTestError>),
}

/// Outcome of a host's participation in a fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinOutcome {
    /// Reason why the session has ended.
    pub session_end: SessionEnd,
    /// Reason why the test was stopped early, if it was.
    pub stop_reason: Option<String>,
}

/// Waits for the host's assignment and runs its test.
fn run_assignment(
    work: &mut dyn HostTask,
    orders: &Receiver<(Assignment, DirectoryMark)>,
    told: &Sender<TestEvent>,
    progress: &HostProgress,
    clocks: HostClocks,
) {
    let Ok((order, mark)) = orders.recv() else { return };
    let prepared = work.accept(&order, &mark).and_then(|()| {
        progress.wait_at_barrier(Barrier::Confirm);
        work.confirm()
    });
    let outcome = match prepared {
        Err(refusal) => TestEvent::Refused(refusal),
        Ok(()) => {
            progress.wait_at_barrier(Barrier::Create);
            TestEvent::Ended(if progress.is_released(Barrier::Create) {
                work.run(progress, clocks)
            } else {
                Err(HostTestError::StoppedBeforeStart)
            })
        }
    };
    // The session may already have ended.
    let _ = told.send(outcome);
}

/// Takes part in a fleet until the coordinator dismisses the host, or until the host must stop without the
/// coordinator. `interrupted` is set when the host's user requests a stop.
pub fn join(
    bus: &dyn Bus,
    session: &mut HostSession,
    work: &mut dyn HostTask,
    interrupted: &Cancellation,
) -> JoinOutcome {
    let clocks = HostClocks::start();
    let progress = session.progress().clone();
    let progress = &progress;
    let (orders, wanted) = channel();
    let (told, tells) = channel();
    std::thread::scope(|scope| {
        scope.spawn(move || run_assignment(work, &wanted, &told, progress, clocks));
        // Dropping the sender ends the test thread if no assignment arrived.
        let orders = orders;
        loop {
            let mut calls = match bus.receive(RECEIVE_TIMEOUT) {
                Some(bytes) => session.receive(clocks.now(), &bytes),
                None => Vec::new(),
            };
            match tells.try_recv() {
                Ok(TestEvent::Refused(refusal)) => session.decline(refusal.reason()),
                Ok(TestEvent::Ended(outcome)) => session.record_test_end(outcome),
                Err(_) => {}
            }
            if interrupted.is_cancelled() {
                session.interrupt("stopped on this host by the user");
            }
            calls.extend(session.tick(clocks.now()));
            for call in calls {
                match call {
                    SessionAction::Send(subject, payload) => bus.publish(&subject, payload),
                    SessionAction::RunAssignment(order) => {
                        let _ = orders.send((order, session.directory_mark()));
                    }
                    SessionAction::EndSession(departure) => {
                        bus.flush();
                        // The test may still be waiting at a barrier.
                        progress.stop_signal().cancel();
                        return JoinOutcome {
                            session_end: departure,
                            stop_reason: session.stop_reason().map(String::from),
                        };
                    }
                }
            }
        }
    })
}
