//! Interface to the message broker.

mod memory;
mod nats;

use std::time::Duration;

use thiserror::Error;

pub use memory::{MemoryBroker, MemoryBus};
pub use nats::{NatsAccess, NatsBus};

/// Maximum size in bytes of a file that contains a token, a seed or credentials.
pub(crate) const MAX_SECRET_BYTES: u64 = 64 << 10;
/// Maximum size of a certificate or key file, in bytes.
pub(crate) const MAX_PEM_BYTES: u64 = 1 << 20;

/// Reason why a message broker cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BusError {
    /// The broker does not respond. It may do so later.
    #[error("{0}")]
    Unreachable(String),
    /// The broker rejects this client, or the options are invalid.
    #[error("{0}")]
    Refused(String),
}

/// A connection to a message broker that delivers each message at most once. The subscriptions are created
/// when it connects.
pub trait Bus: Send + Sync {
    /// Publishes a message to a subject. A message that cannot be sent now is dropped.
    fn publish(&self, subject: &str, payload: Vec<u8>);
    /// Returns the next message from the subscriptions, waiting for at most `wait`.
    fn receive(&self, wait: Duration) -> Option<Vec<u8>>;
    /// Waits until all messages that can be sent have been sent.
    fn flush(&self) {}
}
