//! Takes part in a fleet, with the session on the current thread and the test on another one.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use jetcell_workload::StopSignal;

use crate::bus::Bus;
use crate::clock::Clocks;
use crate::directory_mark::DirectoryMark;
use crate::host::{Call, Departure, HostSession, Progress};
use crate::message::{Gate, Order};
use crate::parcel::Parcel;
use crate::test_run::Work;

/// Maximum time to wait for a message. This limit ensures that heartbeats are sent on time.
const RECEIVE_TIMEOUT: Duration = Duration::from_millis(20);

/// A message from the test thread to the session.
enum Told {
    Refused(String),
    Ended(Result<Parcel, String>),
}

/// Outcome of taking part in a fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaving {
    /// Reason why the session has ended.
    pub departure: Departure,
    /// Reason why the test was stopped early, if it was.
    pub stopped: Option<String>,
}

/// Waits for the host's assignment and runs its test.
fn work_off(
    work: &mut dyn Work,
    orders: &Receiver<(Order, DirectoryMark)>,
    told: &Sender<Told>,
    progress: &Progress,
    clocks: Clocks,
) {
    let Ok((order, mark)) = orders.recv() else { return };
    let prepared = work.accept(&order, &mark).and_then(|()| {
        progress.pass(Gate::Confirm);
        work.confirm()
    });
    let outcome = match prepared {
        Err(reason) => Told::Refused(reason),
        Ok(()) => {
            progress.pass(Gate::Create);
            Told::Ended(match progress.is_open(Gate::Create) {
                true => work.run(progress, clocks),
                false => Err("the fleet was stopped before the test started".into()),
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
    work: &mut dyn Work,
    interrupted: &StopSignal,
) -> Leaving {
    let clocks = Clocks::begin();
    let progress = session.progress().clone();
    let progress = &progress;
    let (orders, wanted) = channel();
    let (told, tells) = channel();
    std::thread::scope(|scope| {
        scope.spawn(move || work_off(work, &wanted, &told, progress, clocks));
        // Dropping the sender ends the test thread if no assignment arrived.
        let orders = orders;
        loop {
            let mut calls = match bus.receive(RECEIVE_TIMEOUT) {
                Some(bytes) => session.receive(clocks.now(), &bytes),
                None => Vec::new(),
            };
            match tells.try_recv() {
                Ok(Told::Refused(reason)) => session.refuse(reason),
                Ok(Told::Ended(outcome)) => session.end(outcome),
                Err(_) => {}
            }
            if interrupted.is_set() {
                session.interrupt("stopped on this host by the user");
            }
            calls.extend(session.tick(clocks.now()));
            for call in calls {
                match call {
                    Call::Send(subject, payload) => bus.publish(&subject, payload),
                    Call::Begin(order) => {
                        let _ = orders.send((order, session.mark()));
                    }
                    Call::Leave(departure) => {
                        bus.flush();
                        // The test may still be waiting at a barrier.
                        progress.stop().stop();
                        return Leaving { departure, stopped: session.stopped().map(String::from) };
                    }
                }
            }
        }
    })
}
