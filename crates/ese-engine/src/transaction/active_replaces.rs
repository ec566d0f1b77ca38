//! Replace operations of running transactions, in node order. A tree uses them to reserve page space for undo.

use std::borrow::Borrow;
use std::cmp::Ordering::{self, Equal};
use std::collections::BTreeSet;
use std::ops::Bound;

use ese_format::PageNumber;
use jetcell_sync::atomic::{self, AtomicUsize};
use jetcell_sync::{Arc, Mutex};

use super::Version;
use crate::cache::AttachedFileId;

/// Sort key: tree, bookmark and version number.
type ReplaceKey<'a> = ((AttachedFileId, PageNumber), &'a [u8], u32);

/// A value that has a sort key: an entry, or a search bound.
trait HasReplaceKey {
    fn key(&self) -> ReplaceKey<'_>;
}

impl HasReplaceKey for ReplaceKey<'_> {
    fn key(&self) -> ReplaceKey<'_> {
        *self
    }
}

struct ReplaceEntry(Arc<Version>);

impl HasReplaceKey for ReplaceEntry {
    fn key(&self) -> ReplaceKey<'_> {
        (self.0.tree, &self.0.bookmark, self.0.id)
    }
}

impl<'a> Borrow<dyn HasReplaceKey + 'a> for ReplaceEntry {
    fn borrow(&self) -> &(dyn HasReplaceKey + 'a) {
        self
    }
}

macro_rules! ordered_by_key {
    ($($ordered:ty),*) => { $(
        impl Ord for $ordered {
            fn cmp(&self, other: &Self) -> Ordering {
                self.key().cmp(&other.key())
            }
        }

        impl PartialOrd for $ordered {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }

        impl PartialEq for $ordered {
            fn eq(&self, other: &Self) -> bool {
                self.cmp(other) == Equal
            }
        }

        impl Eq for $ordered {}
    )* };
}

ordered_by_key!(dyn HasReplaceKey + '_, ReplaceEntry);

/// Replace operations of all running transactions.
#[derive(Default)]
pub(super) struct ActiveReplaces {
    entries: Mutex<BTreeSet<ReplaceEntry>>,
    /// Number of replace operations. Readers can check for zero without acquiring the lock.
    count: AtomicUsize,
}

impl ActiveReplaces {
    pub fn add(&self, version: &Arc<Version>) {
        let mut entries = self.entries.lock();
        entries.insert(ReplaceEntry(version.clone()));
        self.count.store(entries.len(), atomic::Ordering::Release);
    }

    pub fn remove<'a>(&self, versions: impl Iterator<Item = &'a Arc<Version>>) {
        let mut entries = self.entries.lock();
        for version in versions {
            let place: &dyn HasReplaceKey = &(version.tree, &*version.bookmark, version.id);
            entries.remove(place);
        }
        self.count.store(entries.len(), atomic::Ordering::Release);
    }

    pub fn is_empty(&self) -> bool {
        self.count.load(atomic::Ordering::Acquire) == 0
    }

    /// Returns the replace operations in a tree whose bookmarks are between `first` and `last` inclusive, in order.
    pub fn between(
        &self,
        tree: (AttachedFileId, PageNumber),
        first: &[u8],
        last: &[u8],
        mut see: impl FnMut(&Arc<Version>),
    ) {
        let (first, last): (ReplaceKey<'_>, ReplaceKey<'_>) = ((tree, first, 0), (tree, last, u32::MAX));
        let range: (Bound<&dyn HasReplaceKey>, _) =
            (Bound::Included(&first), Bound::Included(&last as &dyn HasReplaceKey));
        self.entries.lock().range::<dyn HasReplaceKey, _>(range).for_each(|entry| see(&entry.0));
    }
}
