//! Damage to pages that the engine detects during a run, counted by kind.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use ese_engine::{Corruption, Event, EventKind, EventSink, PageDamage, PageDamageKind, PageDefect, PageFlaw};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// Maximum number of damaged pages to remember. Beyond this number, a page that is reported
/// again is counted again.
const MAX_PAGES: usize = 10_000;

/// Number of findings of one kind, with a description of the first one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DamageCount {
    /// Number of findings.
    pub count: u64,
    /// Description of the first finding. Empty if there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub first: String,
}

/// Damage that the engine detected during a run. Transfers that failed are counted elsewhere, as I/O errors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PageDamageCounts {
    /// Reads of pages whose flipped bits were corrected with the checksum. ESE: event 399.
    pub corrected: DamageCount,
    /// Pages and logs with a wrong checksum, an invalid structure, or another page's number. ESE: -1018, -1118.
    pub wrong_checksums: DamageCount,
    /// Pages whose last write never reached the device: they are empty or too old. ESE: -1019, -566.
    pub lost_writes: DamageCount,
}

/// Kind of failure of the storage that ended a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StorageFailure {
    /// A transfer failed.
    Io,
    /// A page or a log has a wrong checksum or content.
    WrongChecksum,
    /// A write was acknowledged and never reached the device.
    LostWrite,
}

impl DamageCount {
    /// Adds findings. `describe` describes the first of them, and is only called if there are none yet.
    fn add(&mut self, count: u64, describe: impl FnOnce() -> String) {
        if self.count == 0 {
            self.first = describe();
        }
        self.count = self.count.saturating_add(count);
    }
}

impl PageDamageCounts {
    /// Adds the damage of another host or of another part of the run.
    pub fn add(&mut self, other: &PageDamageCounts) {
        for (mine, others) in [
            (&mut self.corrected, &other.corrected),
            (&mut self.wrong_checksums, &other.wrong_checksums),
            (&mut self.lost_writes, &other.lost_writes),
        ] {
            mine.add(others.count, || others.first.clone());
        }
    }

    /// Adds the error that ended the load, unless damage of the same kind was already counted.
    pub(crate) fn with_failure(mut self, failure: StorageFailure, text: &str) -> PageDamageCounts {
        let count = match failure {
            StorageFailure::Io => return self,
            StorageFailure::WrongChecksum => &mut self.wrong_checksums,
            StorageFailure::LostWrite => &mut self.lost_writes,
        };
        if count.count == 0 {
            count.add(1, || text.to_string());
        }
        self
    }
}

impl StorageFailure {
    /// Returns the failure that caused an error, or `None` if the storage is not the cause. A full volume or an
    /// exceeded limit is not a storage failure.
    pub(crate) fn from_error(error: &Error) -> Option<StorageFailure> {
        use ese_engine::Error::{Corrupt, Io, Log, PageTime, ReadOnly};
        let Error::Engine(error) = error else { return None };
        match error {
            Io { .. } | ReadOnly(_) => Some(StorageFailure::Io),
            PageTime { .. } => Some(StorageFailure::LostWrite),
            Corrupt { fault, .. } if is_lost_write(fault) => Some(StorageFailure::LostWrite),
            Corrupt { .. } | Log { .. } => Some(StorageFailure::WrongChecksum),
            _ => None,
        }
    }
}

fn is_lost_write(fault: &Corruption) -> bool {
    match fault {
        Corruption::Page(PageDefect::Zero) | Corruption::PageTime(_) => true,
        Corruption::Redo { fault, .. } | Corruption::BulkLoad(fault) => is_lost_write(fault),
        _ => false,
    }
}

/// Counts the damage that the engine reports, and forwards all events. Clones share the counters.
#[derive(Clone, Default)]
pub(crate) struct DamageTally(Arc<Mutex<CountedDamage>>);

#[derive(Default)]
struct CountedDamage {
    counts: PageDamageCounts,
    /// Pages that have been counted. Every read of a damaged page reports it again.
    pages: BTreeSet<(PathBuf, u32)>,
}

impl DamageTally {
    /// Returns the damage so far.
    pub(crate) fn counts(&self) -> PageDamageCounts {
        self.0.lock().counts.clone()
    }

    fn count(&self, damage: &PageDamage) {
        let PageDamage { file, page, fault, .. } = damage;
        let mut counted = self.0.lock();
        let CountedDamage { counts, pages } = &mut *counted;
        let count = match fault {
            PageDamageKind::Corrected(_) => &mut counts.corrected,
            PageDamageKind::Checksum | PageDamageKind::WrongPage(_) => &mut counts.wrong_checksums,
            PageDamageKind::Missing => &mut counts.lost_writes,
            PageDamageKind::Unreadable(_) => return,
        };
        let is_corrected = matches!(fault, PageDamageKind::Corrected(_));
        if is_corrected || pages.len() >= MAX_PAGES || pages.insert((file.clone(), page.get())) {
            count.add(1, || format!("{}: page {page}: {}", file.display(), describe_flaw(fault)));
        }
    }
}

fn describe_flaw(fault: &PageDamageKind) -> String {
    match fault {
        PageDamageKind::Corrected(bits) => PageFlaw::FlippedBits(bits.clone()).to_string(),
        PageDamageKind::Checksum => PageFlaw::Checksum.to_string(),
        PageDamageKind::WrongPage(stored) => PageFlaw::WrongPage(*stored).to_string(),
        PageDamageKind::Missing => PageDefect::Zero.to_string(),
        PageDamageKind::Unreadable(error) => error.clone(),
    }
}

/// Counts the damage that events report, then passes the events on to a sink.
pub(crate) struct CountingSink<S> {
    pub(crate) tally: DamageTally,
    pub(crate) sink: S,
}

impl<S: EventSink> EventSink for CountingSink<S> {
    fn event(&self, event: &Event) {
        if let EventKind::PageDamaged(damage) = &event.kind {
            self.tally.count(damage);
        }
        self.sink.event(event);
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use ese_engine::{Error as EngineError, InstanceFailure, UsageError};
    use ese_format::PageNumber;

    use super::*;

    fn damage(page: u32, fault: PageDamageKind) -> PageDamage {
        let page = PageNumber::new(page).unwrap();
        PageDamage { file: "/d/a.edb".into(), offset: 0, bytes: 32768, page, fault }
    }

    #[test]
    fn corrected_bits_wrong_checksums_and_lost_writes_are_counted_apart() {
        let tally = DamageTally::default();
        for _ in 0..3 {
            tally.count(&damage(7, PageDamageKind::Corrected(vec![8002])));
            tally.count(&damage(8, PageDamageKind::Checksum));
            tally.count(&damage(9, PageDamageKind::WrongPage(4)));
            tally.count(&damage(10, PageDamageKind::Missing));
            tally.count(&damage(11, PageDamageKind::Unreadable("I/O error".into())));
        }
        let counts = tally.counts();
        assert_eq!(
            (counts.corrected.count, counts.wrong_checksums.count, counts.lost_writes.count),
            (3, 2, 1),
            "each corrected read, each damaged page"
        );
        assert_eq!(counts.corrected.first, "/d/a.edb: page 7: flipped bits at byte.bit 1000.2");
        assert_eq!(counts.wrong_checksums.first, "/d/a.edb: page 8: wrong checksum (-1018)");
        assert_eq!(counts.lost_writes.first, "/d/a.edb: page 10: never written (all zeros) (-1019)");
        let mut both = counts.clone();
        both.add(&counts);
        assert_eq!((both.corrected.count, &both.corrected.first), (6, &counts.corrected.first));
    }

    #[test]
    fn the_error_that_ended_a_load_has_one_kind() {
        let of = |error: EngineError| StorageFailure::from_error(&error.into());
        let io = |number| of(EngineError::io("/d/a.edb", &io::Error::from_raw_os_error(number)));
        let (device, read_only, no_space, quota) = (5, 30, 28, 122);
        assert_eq!([io(device), io(read_only)], [Some(StorageFailure::Io); 2]);
        assert_eq!([io(no_space), io(quota)], [None; 2]);
        assert_eq!(of(EngineError::ReadOnly(InstanceFailure::Ended)), Some(StorageFailure::Io));
        assert_eq!(of(EngineError::from(UsageError::NoTransaction)), None);
        assert_eq!(of(EngineError::Cancelled), None);
        let corrupt = |defect: PageDefect| {
            of(EngineError::Corrupt { path: "/d/a.edb".into(), page: None, fault: defect.into() })
        };
        assert_eq!(corrupt(PageDefect::Checksum), Some(StorageFailure::WrongChecksum));
        assert_eq!(corrupt(PageDefect::WrongPage(3)), Some(StorageFailure::WrongChecksum));
        assert_eq!(corrupt(PageDefect::Zero), Some(StorageFailure::LostWrite));

        let counts = PageDamageCounts::default().with_failure(StorageFailure::LostWrite, "page 7");
        assert_eq!((counts.lost_writes.count, counts.wrong_checksums.count), (1, 0));
        let again = counts.clone().with_failure(StorageFailure::LostWrite, "page 7");
        assert_eq!(again, counts, "the event of the page was already counted");
        let none = PageDamageCounts::default().with_failure(StorageFailure::Io, "EIO");
        assert_eq!(none, PageDamageCounts::default());
    }
}
