//! A host joins: its session on this thread, its test on another one.

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

/// Longest wait for a message, so that beats are punctual.
const TICK: Duration = Duration::from_millis(20);

/// What the thread of the test tells the session.
enum Told {
    Refused(String),
    Ended(Result<Parcel, String>),
}

/// How a host left its fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaving {
    /// Why.
    pub departure: Departure,
    /// Why its test was stopped before its time, if it was.
    pub stopped: Option<String>,
}

/// The test of a host: what it is asked to do, and what it does.
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
                false => Err("the fleet was stopped before the test began".into()),
            })
        }
    };
    // The session may have left.
    let _ = told.send(outcome);
}

/// Takes part in a fleet until the coordinator lets the host go, or until the host has to end without it. `interrupted` is the request
/// of the host's user.
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
        // Its end ends the thread if no order came.
        let orders = orders;
        loop {
            let mut calls = match bus.receive(TICK) {
                Some(bytes) => session.receive(clocks.now(), &bytes),
                None => Vec::new(),
            };
            match tells.try_recv() {
                Ok(Told::Refused(reason)) => session.refuse(reason),
                Ok(Told::Ended(outcome)) => session.end(outcome),
                Err(_) => {}
            }
            if interrupted.is_set() {
                session.interrupt("stopped on this host by its user");
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
                        // The test may still wait at a gate.
                        progress.stop().stop();
                        return Leaving { departure, stopped: session.stopped().map(String::from) };
                    }
                }
            }
        }
    })
}
