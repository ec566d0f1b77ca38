//! One active side and two copies on three simulated hosts, from one seed. Power is cut on any host at any operation.
//! The network loses, delays, repeats, reorders, and damages answers, and is interrupted. There are switch-overs,
//! failovers with loss, and reseeds.
//!
//! Invariants after any sequence of events:
//! - A switch-over, or a failover without a limit, always has all commits that were acknowledged as durable.
//! - A failover with loss has every commit before the first generation that it reports as lost.
//! - After an activation that reached the old active side, no instance can be opened there.
//! - At equal log positions, the pages of both copies equal those of the active side, except for the parts that
//!   `load::pages` leaves out.
//! - A damaged page of one side is repaired from another side while both are running, once the network has no faults.
//! - When the network has no faults any more, the queues drain. Each copy follows, or reports why it cannot and is
//!   reseeded.

mod damage;
mod host_transport;
mod hosts;
mod load;
mod network;
mod scenario;
mod tally;

pub use self::host_transport::HostTransport;
pub use self::scenario::run;
pub use self::tally::{CopyTally, FaultDuration};

/// Returns the faults of a seed. Every third seed has faults until the end.
pub fn faults_for_seed(seed: u64) -> FaultDuration {
    if seed % 3 == 2 { FaultDuration::Unbounded } else { FaultDuration::Bounded }
}

/// Returns the transport between hosts for a seed of a soak. Every fourth seed has connections that are cut at
/// arbitrary bytes.
pub fn transport_for_seed(seed: u64) -> HostTransport {
    if seed % 4 == 3 { HostTransport::Connections } else { HostTransport::Calls }
}
