//! Runs a coordinator on a broker until there is nothing left to wait for.

use std::time::Duration;

use jetcell_workload::StopSignal;

use crate::bus::Bus;
use crate::clock::Clocks;
use crate::coordinator::{Coordinator, Effect, News, Saved};

/// Longest wait for a message, so that beats are punctual.
const TICK: Duration = Duration::from_millis(20);

/// Time in which hosts hear the last words of the coordinator.
const FAREWELL: Duration = Duration::from_millis(500);

/// Messages that are handled before time is looked at again.
const MOST_AT_ONCE: usize = 256;

/// Sends a message. Other effects are for later.
fn send(bus: &dyn Bus, effect: Effect) -> Option<Effect> {
    match effect {
        Effect::Send(subject, payload) => {
            bus.publish(&subject, payload);
            None
        }
        other => Some(other),
    }
}

/// What the coordinator keeps and shows.
pub trait Keeper {
    /// Stores the result of a host, durably.
    fn keep(&mut self, rank: u32, bytes: &[u8]) -> Result<(), String>;
    /// Stores the state that another process can take up.
    fn save(&mut self, state: &Saved);
    /// Tells the user what happened.
    fn tell(&mut self, news: &News, fleet: &Coordinator);
    /// Shows where the fleet is; called several times per second.
    fn show(&mut self, _fleet: &Coordinator, _now_ns: u64) {}
}

/// Coordinates until every host has ended, is lost or has left. `stop` is the request of the user.
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
        let mut received = bus.receive(TICK);
        for _ in 0..MOST_AT_ONCE {
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
            // Hosts whose last message was lost hear of their dismissal meanwhile.
            if now.saturating_sub(over_ns) >= FAREWELL.as_nanos() as u64 {
                break;
            }
        }
    }
    bus.flush();
}
