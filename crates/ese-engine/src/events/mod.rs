//! Events: what happened in the engine, with the numbers and categories of ESE, for administrators and programs.
//!
//! The engine reports each event once, through [`EventSink`]. An event has typed content ([`EventKind`]); its number,
//! category, severity, parameters and text follow from that, so that no caller formats a message. The texts are our own.

mod category;
mod defragmentation;
mod description;
mod divergence;
mod kind;
mod profile;
mod replication;
mod snapshot;
mod space;

use std::path::Path;

use jetcell_sync::Arc;
use jetcell_vfs::Clock;

pub use self::category::{EventCategory, EventSeverity};
pub use self::defragmentation::{DefragEvent, DefragReport, DefragTotals, LayoutReport, WindowAdvice};
pub use self::description::{EventDescription, EventValue};
pub use self::divergence::{DivergenceKind, PageDivergence};
pub use self::kind::{EventKind, PageDamage, PageFault, PassReport};
pub use self::profile::EventProfile;
pub use self::replication::CopyEvent;
pub use self::snapshot::SnapshotEvent;
pub use self::space::{ShrinkReport, SpaceEvent, TrimReport};

/// Receives the events of an instance. The engine calls it from any of its threads, so it must be quick; it must not call
/// the engine.
pub trait EventSink: Send + Sync {
    /// An event happened.
    fn event(&self, event: &Event);
}

/// One event.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// When it happened, in milliseconds since 1970 UTC.
    pub at_unix_ms: i64,
    /// The instance: the path of its logs.
    pub instance: String,
    /// What happened.
    pub kind: EventKind,
    /// Whose numbers the event has.
    pub profile: EventProfile,
}

impl Event {
    /// The event for people and programs.
    pub fn describe(&self) -> EventDescription {
        self.kind.describe(self.profile)
    }
}

/// Where the parts of an instance, or of a copy, report events.
#[derive(Clone)]
pub struct Events(Option<Arc<Reporter>>);

struct Reporter {
    sink: Arc<dyn EventSink>,
    clock: Arc<dyn Clock>,
    instance: String,
    profile: EventProfile,
}

impl Events {
    /// Events without a receiver.
    pub fn unheard() -> Events {
        Events(None)
    }

    /// Events of the instance, or of the copy, with its logs in `directory`.
    pub fn new(
        sink: Option<Arc<dyn EventSink>>,
        clock: Arc<dyn Clock>,
        directory: &Path,
        profile: EventProfile,
    ) -> Events {
        let instance = directory.display().to_string();
        Events(sink.map(|sink| Arc::new(Reporter { sink, clock, instance, profile })))
    }

    /// Reports an event.
    pub fn report(&self, kind: EventKind) {
        if let Some(reporter) = &self.0 {
            reporter.sink.event(&Event {
                at_unix_ms: reporter.clock.unix_ms(),
                instance: reporter.instance.clone(),
                kind,
                profile: reporter.profile,
            });
        }
    }
}
