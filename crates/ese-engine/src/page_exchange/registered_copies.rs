//! What the registered copies of an instance have said.

use std::collections::BTreeMap;

use jetcell_sync::Mutex;

use crate::core::Core;
use crate::events::{CopyEvent, EventKind};
use crate::log::CopyRegistration;

/// A copy that has not said anything for so long is not there, in milliseconds. It speaks every ten seconds.
const AWAY_AFTER_MS: i64 = 30_000;

/// The copies, as they were when they were looked at last, by their identities.
#[derive(Default)]
pub(super) struct RegisteredCopies(Mutex<BTreeMap<String, Seen>>);

#[derive(Clone, Default, PartialEq, Eq)]
struct Seen {
    waiting: Option<String>,
    cut_off: bool,
}

impl RegisteredCopies {
    /// Looks at the copies, and reports those that wait, or are cut off, since the last call. Returns them.
    pub fn look(&self, core: &Core) -> Vec<CopyRegistration> {
        let copies = core.log().copies();
        let mut seen = self.0.lock();
        let before = std::mem::take(&mut *seen);
        for copy in &copies {
            let now = Seen { waiting: copy.waiting.clone(), cut_off: core.log().is_cut_off(copy) };
            let before = before.get(&copy.id).cloned().unwrap_or_default();
            let report = |event| core.events.report(EventKind::Copy { copy: copy.copy.clone(), event });
            match &now.waiting {
                waiting if *waiting == before.waiting => {}
                Some(what) => report(CopyEvent::Waiting { what: what.clone() }),
                None => report(CopyEvent::Continued),
            }
            if now.cut_off && !before.cut_off {
                let limit = core.log().copy_lag_limit();
                report(CopyEvent::CutOff { needs: copy.needs.0, limit });
            }
            seen.insert(copy.id.clone(), now);
        }
        copies
    }
}

/// Whether a copy is at work, so that it may send a page.
pub(super) fn is_there(copy: &CopyRegistration, now_unix_ms: i64) -> bool {
    now_unix_ms.saturating_sub(copy.contact_unix_ms) < AWAY_AFTER_MS
}
