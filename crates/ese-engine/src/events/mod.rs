//! Events that the engine reports to administrators and programs, with ESE's numbers and categories.
//!
//! The engine reports each event once, through [`EventSink`]. An event has typed content ([`EventKind`]). Its number,
//! category, severity, parameters and text are derived from this content, so callers do not format messages. The
//! texts are Jetcell's, not ESE's.

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
pub use self::kind::{EventKind, PageDamage, PageDamageKind, PassReport};
pub use self::profile::EventProfile;
pub use self::replication::CopyEvent;
pub use self::snapshot::SnapshotEvent;
pub use self::space::{ShrinkReport, SpaceEvent, TrimReport};

/// Interface that receives the events reported by an instance. Any engine thread may call it. Implementations must
/// return quickly, and must not call the engine.
pub trait EventSink: Send + Sync {
    /// Receives one event.
    fn event(&self, event: &Event);
}

/// An event reported by an instance, with its time and kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Time of the event in milliseconds since 1970 UTC.
    pub at_unix_ms: i64,
    /// Instance that reported the event, identified by the path of its logs.
    pub instance: String,
    /// Kind and parameters of the event.
    pub kind: EventKind,
    /// Numbering scheme for the event.
    pub profile: EventProfile,
}

impl Event {
    /// Returns the description of the event for users and programs.
    pub fn describe(&self) -> EventDescription {
        self.kind.describe(self.profile)
    }
}

/// Handle for reporting events, shared by the parts of an instance or a copy.
#[derive(Clone)]
pub struct EventReporter(Option<Arc<EventReporterInner>>);

struct EventReporterInner {
    sink: Arc<dyn EventSink>,
    clock: Arc<dyn Clock>,
    instance: String,
    profile: EventProfile,
}

impl EventReporter {
    /// Creates a reporter that discards all events.
    pub fn discarding() -> EventReporter {
        EventReporter(None)
    }

    /// Creates a reporter for the instance or copy whose logs are in `directory`.
    pub fn new(
        sink: Option<Arc<dyn EventSink>>,
        clock: Arc<dyn Clock>,
        directory: &Path,
        profile: EventProfile,
    ) -> EventReporter {
        let instance = directory.display().to_string();
        EventReporter(sink.map(|sink| Arc::new(EventReporterInner { sink, clock, instance, profile })))
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
