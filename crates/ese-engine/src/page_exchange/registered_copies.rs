//! The reported state of an instance's registered copies.

use std::collections::BTreeMap;

use jetcell_sync::Mutex;

use crate::core::Core;
use crate::events::{CopyEvent, EventKind};
use crate::log::CopyRegistration;

/// Time in milliseconds after which a copy without contact is considered unavailable. Copies make contact every ten
/// seconds.
const COPY_TIMEOUT_MS: i64 = 30_000;

/// The copies, indexed by identifier, each with its state at the last poll.
#[derive(Default)]
pub(super) struct RegisteredCopies(Mutex<BTreeMap<String, ObservedCopy>>);

#[derive(Clone, Default, PartialEq, Eq)]
struct ObservedCopy {
    waiting: Option<String>,
    cut_off: bool,
}

impl RegisteredCopies {
    /// Polls the copies. Reports each copy that has started waiting, stopped waiting, or been cut off since the last
    /// call. Returns all copies.
    pub fn poll(&self, core: &Core) -> Vec<CopyRegistration> {
        let copies = core.log().copies();
        let mut seen = self.0.lock();
        let before = std::mem::take(&mut *seen);
        for copy in &copies {
            let now = ObservedCopy { waiting: copy.waiting.clone(), cut_off: core.log().is_cut_off(copy) };
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

/// Returns true if a copy is active and may therefore send a page.
pub(super) fn is_active(copy: &CopyRegistration, now_unix_ms: i64) -> bool {
    now_unix_ms.saturating_sub(copy.contact_unix_ms) < COPY_TIMEOUT_MS
}
