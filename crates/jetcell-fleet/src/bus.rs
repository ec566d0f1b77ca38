//! The seam to the message broker.

mod memory;
mod nats;

use std::time::Duration;

use thiserror::Error;

pub use memory::{Hub, MemoryBus};
pub use nats::{Access, NatsBus};

/// Largest file with a token, a seed or credentials.
pub(crate) const LARGEST_SECRET: u64 = 64 << 10;
/// Largest file with certificates or a key.
pub(crate) const LARGEST_PEM: u64 = 1 << 20;

/// Why the broker cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BusError {
    /// It does not answer; it may do so later.
    #[error("{0}")]
    Unreachable(String),
    /// It refuses this client, or the options are wrong.
    #[error("{0}")]
    Refused(String),
}

/// A connection to a broker that delivers messages at most once. Its subscriptions are made when it connects.
pub trait Bus: Send + Sync {
    /// Sends a message to a subject. A message that cannot be sent now is dropped.
    fn publish(&self, subject: &str, payload: Vec<u8>);
    /// The next message of the subscriptions, waiting for at most this long.
    fn receive(&self, wait: Duration) -> Option<Vec<u8>>;
    /// Waits until everything has been sent that can be sent.
    fn flush(&self) {}
}
