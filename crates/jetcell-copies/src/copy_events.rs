//! Events for one copy, except those from its replay.

use std::path::Path;

use ese_engine::{CopyEvent, EventKind, EventProfile, EventReporter, EventSink};
use jetcell_sync::Arc;
use jetcell_vfs::Vfs;

/// Reports the events for one copy.
pub(crate) struct CopyEvents {
    events: EventReporter,
    copy: String,
}

impl CopyEvents {
    pub fn new(vfs: &dyn Vfs, directory: &Path, sink: Option<Arc<dyn EventSink>>) -> CopyEvents {
        let events = EventReporter::new(sink, vfs.clock(), directory, EventProfile::default());
        CopyEvents { events, copy: directory.display().to_string() }
    }

    /// Creates a reporter that discards all events.
    pub fn disabled() -> CopyEvents {
        CopyEvents { events: EventReporter::discarding(), copy: String::new() }
    }

    pub fn report(&self, event: CopyEvent) {
        self.events.report(EventKind::Copy { copy: self.copy.clone(), event });
    }
}
