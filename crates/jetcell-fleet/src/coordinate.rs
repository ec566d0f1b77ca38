//! Connects a coordinator to a broker and runs it until the fleet has finished.

use std::time::Duration;

use jetcell_workload::Cancellation;

use crate::bus::Bus;
use crate::clock::HostClocks;
use crate::coordinator::{Coordinator, CoordinatorAction, CoordinatorState, FleetEvent, StoreResultError};

/// Maximum time to wait for a message. This limit ensures that heartbeats are sent on time.
const RECEIVE_TIMEOUT: Duration = Duration::from_millis(20);

/// Time for which the coordinator continues to send messages after the fleet has finished.
const FINAL_SEND_TIME: Duration = Duration::from_millis(500);

/// Maximum number of messages that are handled before the timers are checked again.
const MAX_MESSAGE_BATCH: usize = 256;

/// Sends a message. Returns any other effect for later processing.
fn send(bus: &dyn Bus, effect: CoordinatorAction) -> Option<CoordinatorAction> {
    match effect {
        CoordinatorAction::Send(subject, payload) => {
            bus.publish(&subject, payload);
            None
        }
        other => Some(other),
    }
}

/// Interface for storing and displaying a coordinator's results.
pub trait CoordinatorBackend {
    /// Stores a host's result and makes it durable.
    fn store_result(&mut self, rank: u32, bytes: &[u8]) -> Result<(), StoreResultError>;
    /// Stores the state. Another process can continue the run from it.
    fn save_state(&mut self, state: &CoordinatorState);
    /// Reports an event to the user.
    fn report(&mut self, news: &FleetEvent, fleet: &Coordinator);
    /// Shows the fleet's progress. Called several times per second.
    fn show_progress(&mut self, _fleet: &Coordinator, _now_ns: u64) {}
}

/// Runs the coordinator until every host has finished, been lost or left. `stop` is set when the user requests a
/// stop.
pub fn coordinate(
    coordinator: &mut Coordinator,
    clocks: HostClocks,
    bus: &dyn Bus,
    backend: &mut dyn CoordinatorBackend,
    stop: &Cancellation,
) {
    let mut farewell = None;
    loop {
        let mut effects = Vec::new();
        let mut received = bus.receive(RECEIVE_TIMEOUT);
        for _ in 0..MAX_MESSAGE_BATCH {
            let Some(bytes) = received.take() else { break };
            let answers = coordinator.receive(clocks.steady_ns(), &bytes);
            effects.extend(answers.into_iter().filter_map(|effect| send(bus, effect)));
            received = bus.receive(Duration::ZERO);
        }
        let now = clocks.steady_ns();
        if stop.is_cancelled() {
            coordinator.request_stop();
        }
        effects.extend(coordinator.tick(now));
        for effect in effects {
            match send(bus, effect) {
                Some(CoordinatorAction::StoreResult(rank, bytes)) => {
                    let stored = backend.store_result(rank, &bytes);
                    coordinator.record_stored_result(rank, stored);
                }
                Some(CoordinatorAction::Report(event)) => backend.report(&event, coordinator),
                Some(CoordinatorAction::Send(..)) | None => {}
            }
        }
        if let Some(state) = coordinator.take_changed_state() {
            backend.save_state(&state);
        }
        backend.show_progress(coordinator, now);
        if coordinator.is_finished() {
            let over_ns = *farewell.get_or_insert(now);
            // Until then, hosts that missed their dismissal receive it again.
            if now.saturating_sub(over_ns) >= FINAL_SEND_TIME.as_nanos() as u64 {
                break;
            }
        }
    }
    bus.flush();
}
