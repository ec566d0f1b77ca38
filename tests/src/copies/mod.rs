//! One active side and two copies on three simulated hosts, from one seed: power cuts on any host at any operation, a network that
//! loses, delays, repeats, reorders and damages answers and is cut, switch-overs, failovers with loss, and reseeds.
//!
//! What must hold after any sequence:
//! - A switch-over, or a failover without a limit, has all commits that were acknowledged as durable, in every case.
//! - A failover with loss has every commit in front of the first generation that it reports as lost.
//! - After an activation that reached the old active side, no instance can be opened there.
//! - At equal log position the pages of both copies equal those of the active side, except for what `load::pages` leaves out.
//! - A damaged page of one side is repaired from another one while both work, once the network is good.
//! - When the network is good again, the queues drain, and each copy follows, or says why it cannot and is reseeded.

mod damage;
mod hosts;
mod load;
mod network;
mod story;
mod tally;
mod wire;

pub use self::story::run;
pub use self::tally::{Faults, Tally};
pub use self::wire::Way;

/// The faults of a seed: every third one has faults until the end.
pub fn faults_of(seed: u64) -> Faults {
    if seed % 3 == 2 { Faults::Unbounded } else { Faults::Bounded }
}

/// How hosts reach each other in a seed of a soak: every fourth one has connections that are cut at any byte.
pub fn way_of(seed: u64) -> Way {
    if seed % 4 == 3 { Way::Connections } else { Way::Calls }
}
