//! Interface to the message broker.

mod memory;
mod nats;

use std::borrow::Cow;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use async_nats::client::SubscribeError;
use async_nats::{ConnectError, ConnectErrorKind};
use thiserror::Error;

pub use memory::{MemoryBroker, MemoryBus};
pub use nats::{NatsAccess, NatsBus};

/// Maximum size in bytes of a file that contains a token, a seed or credentials.
pub(crate) const MAX_SECRET_BYTES: u64 = 64 << 10;
/// Maximum size of a certificate or key file, in bytes.
pub(crate) const MAX_PEM_BYTES: u64 = 1 << 20;

/// Reason why a message broker cannot be used.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages describe the variants and their fields")]
pub enum BusError {
    #[error("the NATS server at {url} does not respond")]
    NoResponse { url: String },
    #[error("failed to connect to the NATS server at {url}: {}", error_with_causes(.error))]
    Connect { url: String, error: ConnectError },
    #[error("{}", error_with_causes(.0))]
    Subscribe(SubscribeError),
    #[error("the address in --nats contains a password, which all users of this machine can read")]
    PasswordInAddress,
    #[error("{}: {error}", .path.display())]
    File {
        path: PathBuf,
        #[source]
        error: io::Error,
    },
    #[error("failed to start the NATS client: {0}")]
    NotStarted(#[source] io::Error),
    #[error("the NATS client has stopped")]
    Stopped,
}

impl BusError {
    /// Returns true if the broker does not respond. It may respond later.
    pub fn is_unreachable(&self) -> bool {
        use ConnectErrorKind::{Dns, Io, TimedOut};
        match self {
            BusError::NoResponse { .. } => true,
            BusError::Connect { error, .. } => matches!(error.kind(), Dns | TimedOut | Io),
            _ => false,
        }
    }

    /// Returns what the user can do about the error, for example `start it, or correct --nats`.
    pub fn advice(&self) -> Option<Cow<'static, str>> {
        use ConnectErrorKind::{Authentication, AuthorizationViolation};
        Some(Cow::Borrowed(match self {
            _ if self.is_unreachable() => "start it, or correct --nats",
            BusError::Connect { error, .. }
                if matches!(error.kind(), Authentication | AuthorizationViolation) =>
            {
                "check --token-file, --credentials or --nkey-file"
            }
            BusError::PasswordInAddress => "put it in a file for --token-file, --credentials or --nkey-file",
            _ => return None,
        }))
    }
}

/// Formats an error with its causes, omitting repeated text.
fn error_with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

/// A connection to a message broker that delivers each message at most once. The subscriptions are created
/// when it connects.
pub trait Bus: Send + Sync {
    /// Publishes a message to a subject. A message that cannot be sent now is dropped.
    fn publish(&self, subject: &str, payload: Vec<u8>);
    /// Returns the next message from the subscriptions, waiting for at most `wait`.
    fn receive(&self, wait: Duration) -> Option<Vec<u8>>;
    /// Waits until every message that can be sent has been sent.
    fn flush(&self) {}
}
