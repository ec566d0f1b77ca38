//! Settings for an instance's events: their receiver and their numbering scheme.

use jetcell_sync::Arc;

use crate::events::{EventProfile, EventSink};

/// Settings for events.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct EventOptions {
    /// Receives the events of the instance.
    pub sink: Option<Arc<dyn EventSink>>,
    /// Event numbering scheme for maintenance events.
    pub profile: EventProfile,
}
