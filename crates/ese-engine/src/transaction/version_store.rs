//! The version store, which maps each changed node to the chain of its versions, newest last.
//!
//! Invariants: a chain is changed only under the write latch of the node's page. A reader that holds the page latch
//! therefore sees a node and a chain that match. The size of the store never exceeds the limit. A version is removed
//! from its chain when its change is undone, or when no snapshot needs the earlier state.

use crossbeam_utils::CachePadded;
use jetcell_sync::Arc;
use jetcell_sync::atomic::{AtomicIsize, AtomicU32, AtomicUsize, Ordering};
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use ese_format::PageNumber;
use jetcell_sync::{Mutex, MutexGuard};
use twox_hash::XxHash3_64;

use super::active_replaces::ActiveReplaces;
use super::{ReadView, Version, VersionChange};
use crate::cache::AttachedFileId;
use crate::sharded::Sharded;
use crate::splitmix::BuildSplitMixHasher;
use crate::{Error, Result};

/// State of a node as one reader sees it.
#[derive(Debug, Clone)]
pub struct ResolvedNode {
    /// Whether the record exists for the reader.
    pub exists: bool,
    /// If set, the version whose before-image replaces the data on the page.
    pub before: Option<Arc<Version>>,
}

impl ResolvedNode {
    /// Returns the data that the reader sees, given the data on the page.
    pub fn data<'a>(&'a self, stored: &'a [u8]) -> &'a [u8] {
        match self.before.as_deref().map(|version| &version.change) {
            Some(VersionChange::Replace { before }) => before,
            _ => stored,
        }
    }
}

const SHARDS: usize = 64;
type VersionChains = HashMap<u64, VersionChain, BuildSplitMixHasher>;

/// Versions of the nodes that have the same hash. Nearly always, this is one node with one change.
struct VersionChain {
    oldest: Arc<Version>,
    newer: Vec<Arc<Version>>,
}

impl VersionChain {
    fn newest_first(&self) -> impl Iterator<Item = &Arc<Version>> {
        self.newer.iter().rev().chain([&self.oldest])
    }
}

#[derive(Default)]
struct Shard {
    chains: Mutex<VersionChains>,
    /// Number of versions. Readers can check for zero without taking the lock.
    count: AtomicUsize,
}

impl Shard {
    /// Locks and returns the chains, or returns `None` if there are none.
    fn chains(&self) -> Option<MutexGuard<'_, VersionChains>> {
        (self.count.load(Ordering::Acquire) > 0).then(|| self.chains.lock())
    }
}

/// Counts the bytes in use. Each thread counts in its own shard, and adds its count to the shared sum when the count
/// is large enough.
#[derive(Default)]
struct ByteCounter {
    published: CachePadded<AtomicIsize>,
    unpublished: Sharded<AtomicIsize>,
}

impl ByteCounter {
    fn add(&self, bytes: isize, threshold: isize) {
        let mine = self.unpublished.shard(self.unpublished.own_shard());
        let unpublished = mine.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if unpublished.abs() >= threshold {
            self.published.fetch_add(mine.swap(0, Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    fn sum(&self) -> usize {
        let unpublished = self.unpublished.iter().map(|shard| shard.load(Ordering::Relaxed));
        usize::try_from(self.published.load(Ordering::Relaxed) + unpublished.sum::<isize>()).unwrap_or(0)
    }
}

/// Stores all node versions in an instance.
pub struct VersionStore {
    shards: Vec<CachePadded<Shard>>,
    replaces: CachePadded<ActiveReplaces>,
    bytes: ByteCounter,
    limit: usize,
    /// Number of bytes that a thread may count before it adds them to the shared sum.
    grain: usize,
    next_id: CachePadded<AtomicU32>,
}

impl VersionStore {
    /// Creates a store with a maximum size of `limit` bytes.
    pub fn new(limit: usize) -> VersionStore {
        VersionStore {
            shards: (0..SHARDS).map(|_| CachePadded::default()).collect(),
            replaces: CachePadded::default(),
            bytes: ByteCounter::default(),
            limit,
            grain: limit / 1024,
            next_id: CachePadded::new(AtomicU32::new(1)),
        }
    }

    /// Returns the number of bytes in use.
    pub fn bytes(&self) -> usize {
        self.bytes.sum()
    }

    /// Returns a number for the next change.
    pub fn next_id(&self) -> u32 {
        match self.next_id.fetch_add(1, Ordering::Relaxed) {
            // The numbers wrap around. 0 means that there is no version.
            0 => self.next_id(),
            id => id,
        }
    }

    /// Continues numbering after `id`, the newest number used before a crash, or 0 if there was none.
    pub fn continue_ids_after(&self, id: u32) {
        if id != 0 {
            self.next_id.store(id.wrapping_add(1), Ordering::Relaxed);
        }
    }

    /// Returns an error if another change would exceed the limit. Undo needs no room, so this never makes a rollback
    /// fail.
    pub fn check_room(&self) -> Result<()> {
        if self.holds(self.limit) { Err(self.full_error()) } else { Ok(()) }
    }

    /// Returns the error for a session that must not change anything because the store is full.
    pub(crate) fn full_error(&self) -> Error {
        Error::VersionStoreFull { limit_bytes: self.limit }
    }

    /// Returns whether the remaining room is little more than the oldest transaction may need to end.
    pub fn is_nearly_full(&self) -> bool {
        self.holds(self.limit - self.limit / 16)
    }

    fn holds(&self, bytes: usize) -> bool {
        // The shared sum can be off by the counts that threads have not added yet.
        let published = self.bytes.published.load(Ordering::Relaxed).max(0) as usize;
        published >= bytes - bytes / 16 && self.bytes() >= bytes
    }

    /// Adds a change as the newest version of its node. The caller must hold the page's write latch.
    pub fn add(&self, version: Arc<Version>) {
        self.bytes.add(version.bytes() as isize, self.grain as isize);
        if let VersionChange::Replace { .. } = &version.change {
            self.replaces.add(&version);
        }
        let hash = hash_of(version.tree, &version.bookmark);
        let shard = self.shard(hash);
        let mut chains = shard.chains.lock();
        match chains.entry(hash) {
            Entry::Occupied(mut chain) => chain.get_mut().newer.push(version),
            Entry::Vacant(place) => drop(place.insert(VersionChain { oldest: version, newer: Vec::new() })),
        }
        shard.count.store(chains.len(), Ordering::Release);
    }

    /// Removes a version that was undone or that no snapshot needs. If it was undone, the caller must hold the page's
    /// write latch.
    pub fn remove(&self, version: &Arc<Version>) {
        version.settled.store(true, Ordering::Release);
        let hash = hash_of(version.tree, &version.bookmark);
        let shard = self.shard(hash);
        let mut chains = shard.chains.lock();
        let Entry::Occupied(mut entry) = chains.entry(hash) else { return };
        let chain = entry.get_mut();
        if let Some(at) = chain.newer.iter().position(|other| Arc::ptr_eq(other, version)) {
            chain.newer.remove(at);
        } else if !Arc::ptr_eq(&chain.oldest, version) {
            return;
        } else if chain.newer.is_empty() {
            entry.remove();
        } else {
            chain.oldest = chain.newer.remove(0);
        }
        shard.count.store(chains.len(), Ordering::Release);
        drop(chains);
        self.bytes.add(-(version.bytes() as isize), self.grain as isize);
        if version.transaction.committed().is_none() {
            self.end_replaces([version].into_iter());
        }
    }

    /// Releases the space reserved for undoing these changes, because they have been committed or undone.
    pub fn end_replaces<'a>(&self, versions: impl Iterator<Item = &'a Arc<Version>>) {
        let mut replaced =
            versions.filter(|version| matches!(version.change, VersionChange::Replace { .. })).peekable();
        if replaced.peek().is_some() {
            self.replaces.remove(replaced);
        }
    }

    /// Returns the newest version of a node that is still in the store.
    pub fn newest(&self, tree: (AttachedFileId, PageNumber), bookmark: &[u8]) -> Option<Arc<Version>> {
        let hash = hash_of(tree, bookmark);
        let chains = self.shard(hash).chains()?;
        chains.get(&hash)?.newest_first().find(|version| version.is_for(tree, bookmark)).cloned()
    }

    /// Returns the node's state for `view`, given its state on the page.
    pub fn resolve(
        &self,
        tree: (AttachedFileId, PageNumber),
        bookmark: &[u8],
        deleted: bool,
        view: &ReadView,
    ) -> ResolvedNode {
        let mut state = ResolvedNode { exists: !deleted, before: None };
        let hash = hash_of(tree, bookmark);
        let Some(chains) = self.shard(hash).chains() else { return state };
        let Some(chain) = chains.get(&hash) else { return state };
        for version in chain.newest_first().filter(|version| version.is_for(tree, bookmark)) {
            if view.sees(&version.transaction) {
                break;
            }
            match version.change {
                VersionChange::Insert => state.exists = false,
                VersionChange::FlagDelete => state.exists = true,
                VersionChange::Replace { .. } | VersionChange::ReplaceUnknown => {
                    state.before = Some(version.clone());
                }
            }
        }
        state
    }

    /// Returns true if `view` must not change the node because a transaction that the view cannot see changed it
    /// first.
    pub fn conflicts(&self, tree: (AttachedFileId, PageNumber), bookmark: &[u8], view: &ReadView) -> bool {
        self.newest(tree, bookmark).is_some_and(|version| !view.sees(&version.transaction))
    }

    /// Returns the nodes with bookmarks from `first` to `last` whose data a running transaction has replaced. Each node
    /// is given as one of its versions, with the length of the longest data that undo can restore.
    pub fn undo_lengths(
        &self,
        tree: (AttachedFileId, PageNumber),
        first: &[u8],
        last: &[u8],
    ) -> Vec<(Arc<Version>, usize)> {
        let mut lengths: Vec<(Arc<Version>, usize)> = Vec::new();
        self.replaces.between(tree, first, last, |version| {
            let VersionChange::Replace { before } = &version.change else { return };
            if !version.transaction.is_running() {
                return;
            }
            match lengths.last_mut().filter(|(other, _)| other.bookmark == version.bookmark) {
                Some((_, longest)) => *longest = before.len().max(*longest),
                None => lengths.push((version.clone(), before.len())),
            }
        });
        lengths
    }

    /// Returns whether a running transaction has replaced data.
    pub fn has_replaces(&self) -> bool {
        !self.replaces.is_empty()
    }

    fn shard(&self, hash: u64) -> &Shard {
        &self.shards[(hash >> 58) as usize % SHARDS]
    }
}

fn hash_of(tree: (AttachedFileId, PageNumber), bookmark: &[u8]) -> u64 {
    let seed = u64::from(tree.0.0) << 32 | u64::from(tree.1.get());
    XxHash3_64::oneshot_with_seed(seed, bookmark)
}

#[cfg(test)]
mod tests {
    use ese_format::LogPosition;
    use jetcell_sync::atomic::AtomicBool;

    use super::super::{Transaction, TransactionTable};
    use super::*;

    const TREE: (AttachedFileId, PageNumber) = (AttachedFileId(0), PageNumber::fixed(31));

    fn change(
        store: &VersionStore,
        transaction: &Arc<Transaction>,
        key: &[u8],
        change: VersionChange,
    ) -> Arc<Version> {
        let version = Arc::new(Version {
            tree: TREE,
            bookmark: key.into(),
            key_len: key.len(),
            transaction: transaction.clone(),
            id: store.next_id(),
            level: 1,
            change,
            settled: AtomicBool::new(false),
            undo_logged: Mutex::new(None),
        });
        store.add(version.clone());
        version
    }

    #[test]
    fn older_snapshots_see_older_versions() {
        let (table, store) = (TransactionTable::default(), VersionStore::new(1 << 20));
        let first = table.begin(1);
        let before = table.begin(1);
        change(&store, &first, b"k", VersionChange::Insert);
        table.commit::<()>(&first, |_| Ok(LogPosition::MIN)).unwrap();
        let middle = table.begin(1);
        let second = table.begin(1);
        change(&store, &second, b"k", VersionChange::Replace { before: b"one"[..].into() });
        change(&store, &second, b"k", VersionChange::FlagDelete);
        let view = |t: &Arc<Transaction>| ReadView { own: Some(t.clone()), snapshot: t.snapshot };
        assert!(!store.resolve(TREE, b"k", true, &view(&before)).exists);
        let seen = store.resolve(TREE, b"k", true, &view(&middle));
        assert!(seen.exists);
        assert_eq!(seen.data(b"two"), b"one");
        assert!(!store.resolve(TREE, b"k", true, &view(&second)).exists);
        assert!(store.conflicts(TREE, b"k", &view(&middle)) && !store.conflicts(TREE, b"k", &view(&second)));
        let lengths = |first: &[u8], last: &[u8]| -> Vec<usize> {
            store.undo_lengths(TREE, first, last).into_iter().map(|(_, length)| length).collect()
        };
        assert_eq!(lengths(b"k", b"k"), [3], "of a running transaction");
        assert_eq!((lengths(b"a", b"j"), lengths(b"k\0", b"z")), (vec![], vec![]));
        table.commit::<()>(&second, |_| Ok(LogPosition::MIN)).unwrap();
        assert!(lengths(b"a", b"z").is_empty(), "committed");
    }

    #[test]
    fn numbers_continue_across_their_wrap_without_zero() {
        let store = VersionStore::new(4096);
        store.continue_ids_after(0);
        assert_eq!(store.next_id(), 1);
        store.continue_ids_after(u32::MAX - 1);
        assert_eq!([store.next_id(), store.next_id()], [u32::MAX, 1]);
    }

    #[test]
    fn the_limit_is_enforced_and_removal_frees_room() {
        let (table, store) = (TransactionTable::default(), VersionStore::new(4096));
        let t = table.begin(1);
        let mut all = Vec::new();
        while store.check_room().is_ok() {
            assert!(store.bytes() < 4096);
            assert_eq!(store.is_nearly_full(), store.bytes() >= 4096 - 4096 / 16);
            all.push(change(&store, &t, &all.len().to_be_bytes(), VersionChange::Insert));
        }
        assert!(store.bytes() >= 4096 && all.len() > 5);
        all.iter().for_each(|version| store.remove(version));
        assert_eq!(store.bytes(), 0);
        assert!(store.newest(TREE, &0usize.to_be_bytes()).is_none());
    }

    #[test]
    fn every_version_byte_is_charged_to_the_limit() {
        let (table, store) = (TransactionTable::default(), VersionStore::new(1 << 20));
        let t = table.begin(1);
        let bytes_of = |key: &[u8], what: VersionChange| {
            let before = store.bytes();
            change(&store, &t, key, what);
            store.bytes() - before
        };
        let least = bytes_of(b"k", VersionChange::Insert);
        assert!(least > std::mem::size_of::<Version>());
        assert_eq!(bytes_of(&[7; 101], VersionChange::Insert), least + 100);
        assert_eq!(bytes_of(b"l", VersionChange::Replace { before: [1; 500][..].into() }), least + 500);
    }
}
