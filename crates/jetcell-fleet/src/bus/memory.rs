//! An in-process broker for tests.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use parking_lot::Mutex;

use super::Bus;

/// An in-process message broker. Clones share the same broker.
#[derive(Clone, Debug, Default)]
pub struct MemoryBroker(Arc<Mutex<Vec<Subscription>>>);

/// A subject, and the queue that receives its messages.
type Subscription = (String, Sender<Vec<u8>>);

/// A connection to an in-process broker ([`MemoryBroker`]).
#[derive(Debug)]
pub struct MemoryBus {
    hub: MemoryBroker,
    received: Mutex<Receiver<Vec<u8>>>,
}

impl MemoryBroker {
    /// Connects and subscribes to these subjects. A `*` at the end of a subject is a wildcard.
    pub fn connect(&self, subjects: &[String]) -> MemoryBus {
        let (sender, receiver) = channel();
        let own = subjects.iter().map(|subject| (subject.clone(), sender.clone()));
        self.0.lock().extend(own);
        MemoryBus { hub: self.clone(), received: Mutex::new(receiver) }
    }
}

impl Bus for MemoryBus {
    fn publish(&self, subject: &str, payload: Vec<u8>) {
        let wants = |wanted: &str| match wanted.strip_suffix('*') {
            Some(begin) => subject.starts_with(begin),
            None => subject == wanted,
        };
        self.hub.0.lock().retain(|(wanted, sender)| !wants(wanted) || sender.send(payload.clone()).is_ok());
    }

    fn receive(&self, wait: Duration) -> Option<Vec<u8>> {
        self.received.lock().recv_timeout(wait).ok()
    }
}
