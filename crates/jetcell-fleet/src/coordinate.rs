//! Connects a coordinator to a broker and runs it until the fleet has finished.

use std::time::Duration;

use jetcell_workload::StopSignal;

use crate::bus::Bus;
use crate::clock::Clocks;
use crate::coordinator::{Coordinator, Effect, News, Saved};

/// Maximum time to wait for a message. This limit ensures that heartbeats are sent on time.
const RECEIVE_TIMEOUT: Duration = Duration::from_millis(20);

/// How long the coordinator continues to send messages after the fleet has finished.
const FAREWELL: Duration = Duration::from_millis(500);

/// Maximum number of messages that are handled before the timers are checked again.
const MAX_AT_ONCE: usize = 256;

/// Sends a message. Returns any other effect for later processing.
fn send(bus: &dyn Bus, effect: Effect) -> Option<Effect> {
    match effect {
        Effect::Send(subject, payload) => {
            bus.publish(&subject, payload);
            None
        }
        other => Some(other),
    }
}

/// Stores and displays a coordinator's results.
pub trait Keeper {
    /// Stores a host's result and makes it durable.
    fn keep(&mut self, rank: u32, bytes: &[u8]) -> Result<(), String>;
    /// Stores the state, from which another process can continue the run.
    fn save(&mut self, state: &Saved);
    /// Reports an event to the user.
    fn tell(&mut self, news: &News, fleet: &Coordinator);
    /// Shows the fleet's progress. Called several times per second.
    fn show(&mut self, _fleet: &Coordinator, _now_ns: u64) {}
}

/// Runs the coordinator until every host has finished, been lost or left. `stop` is set when the user requests a
/// stop.
pub fn coordinate(
    coordinator: &mut Coordinator,
    clocks: Clocks,
    bus: &dyn Bus,
    keeper: &mut dyn Keeper,
    stop: &StopSignal,
) {
    let mut farewell = None;
    loop {
        let mut effects = Vec::new();
        let mut received = bus.receive(RECEIVE_TIMEOUT);
        for _ in 0..MAX_AT_ONCE {
            let Some(bytes) = received.take() else { break };
            let answers = coordinator.receive(clocks.steady_ns(), &bytes);
            effects.extend(answers.into_iter().filter_map(|effect| send(bus, effect)));
            received = bus.receive(Duration::ZERO);
        }
        let now = clocks.steady_ns();
        if stop.is_set() {
            coordinator.request_stop("stopped on request");
        }
        effects.extend(coordinator.tick(now));
        for effect in effects {
            match send(bus, effect) {
                Some(Effect::Keep(rank, bytes)) => {
                    let kept = keeper.keep(rank, &bytes);
                    coordinator.kept(rank, kept);
                }
                Some(Effect::Tell(news)) => keeper.tell(&news, coordinator),
                Some(Effect::Send(..)) | None => {}
            }
        }
        if let Some(state) = coordinator.take_changed() {
            keeper.save(&state);
        }
        keeper.show(coordinator, now);
        if coordinator.is_over() {
            let over_ns = *farewell.get_or_insert(now);
            // During this time, hosts that missed their dismissal receive it again.
            if now.saturating_sub(over_ns) >= FAREWELL.as_nanos() as u64 {
                break;
            }
        }
    }
    bus.flush();
}
