//! Replace operations of running transactions, in node order. A tree uses them to reserve page space for undo.

use std::borrow::Borrow;
use std::cmp::Ordering::{self, Equal};
use std::collections::BTreeSet;
use std::ops::Bound;

use ese_format::PageNumber;
use jetcell_sync::atomic::{self, AtomicUsize};
use jetcell_sync::{Arc, Mutex};

use super::Version;
use crate::cache::FileId;

/// Sort key: tree, bookmark and version number.
type Place<'a> = ((FileId, PageNumber), &'a [u8], u32);

/// A value that has a sort key: an entry, or a search bound.
trait Placed {
    fn place(&self) -> Place<'_>;
}

impl Placed for Place<'_> {
    fn place(&self) -> Place<'_> {
        *self
    }
}

struct Entry(Arc<Version>);

impl Placed for Entry {
    fn place(&self) -> Place<'_> {
        (self.0.tree, &self.0.bookmark, self.0.id)
    }
}

impl<'a> Borrow<dyn Placed + 'a> for Entry {
    fn borrow(&self) -> &(dyn Placed + 'a) {
        self
    }
}

macro_rules! ordered_by_place {
    ($($placed:ty),*) => { $(
        impl Ord for $placed {
            fn cmp(&self, other: &Self) -> Ordering {
                self.place().cmp(&other.place())
            }
        }

        impl PartialOrd for $placed {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }

        impl PartialEq for $placed {
            fn eq(&self, other: &Self) -> bool {
                self.cmp(other) == Equal
            }
        }

        impl Eq for $placed {}
    )* };
}

ordered_by_place!(dyn Placed + '_, Entry);

/// Replace operations of all running transactions.
#[derive(Default)]
pub(super) struct Replaces {
    entries: Mutex<BTreeSet<Entry>>,
    /// Number of replace operations. Readers can check for zero without taking the lock.
    count: AtomicUsize,
}

impl Replaces {
    pub fn add(&self, version: &Arc<Version>) {
        let mut entries = self.entries.lock();
        entries.insert(Entry(version.clone()));
        self.count.store(entries.len(), atomic::Ordering::Release);
    }

    pub fn remove<'a>(&self, versions: impl Iterator<Item = &'a Arc<Version>>) {
        let mut entries = self.entries.lock();
        for version in versions {
            let place: &dyn Placed = &(version.tree, &*version.bookmark, version.id);
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
        tree: (FileId, PageNumber),
        first: &[u8],
        last: &[u8],
        mut see: impl FnMut(&Arc<Version>),
    ) {
        let (first, last): (Place<'_>, Place<'_>) = ((tree, first, 0), (tree, last, u32::MAX));
        let range: (Bound<&dyn Placed>, _) = (Bound::Included(&first), Bound::Included(&last as &dyn Placed));
        self.entries.lock().range::<dyn Placed, _>(range).for_each(|entry| see(&entry.0));
    }
}
