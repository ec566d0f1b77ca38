//! Tests that the reads of a tree start before the last leaves of the previous tree have been read.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use ese_check::{CheckOptions, check_database};
use ese_format::page::PageFlags;
use ese_format::{PageNumber, PageSize, TreeId};
use jetcell_vfs::{File, FileLayer, IoReason, OpenMode, Transfer, Vfs, VfsLayer};
use testkit::corpus::Corpus;
use testkit::damage::EditableDatabase;

use crate::memory::MemoryDirectory;

/// Time after which a delayed read completes even if the reads of the next tree have not started.
const MAX_READ_DELAY: Duration = Duration::from_secs(3);

type TreeByLeaf = HashMap<PageNumber, TreeId>;

/// Observations on the reads of a check.
#[derive(Default)]
struct ObservedReads {
    /// Trees in the order in which the reads of their leaves started.
    begun: Vec<TreeId>,
    /// Trees whose reads started too late.
    late: Vec<TreeId>,
}

/// File system that delays reads of the last leaf of each tree until the reads of the next tree have started.
struct DelayingVfs {
    inner: MemoryDirectory,
    file: Mutex<Option<DelayingFile>>,
}

#[derive(Clone)]
struct DelayingFile {
    inner: Arc<dyn File>,
    size: PageSize,
    leaves: Arc<TreeByLeaf>,
    /// Tree whose reads must start before the read of a delayed leaf completes, by leaf.
    held: Arc<HashMap<PageNumber, TreeId>>,
    reads: Arc<(Mutex<ObservedReads>, Condvar)>,
}

impl DelayingFile {
    /// Records a read and returns the tree for which it has to wait.
    fn begin(&self, offset: u64, len: usize) -> Option<TreeId> {
        let size = self.size.bytes() as u64;
        let pages = offset / size..(offset + len as u64).div_ceil(size);
        let pages = pages.filter_map(|place| PageNumber::new((place as u32).checked_sub(1)?));
        let (reads, changed) = &*self.reads;
        let mut wait = None;
        for page in pages {
            let mut reads = reads.lock().unwrap();
            if let Some(tree) = self.leaves.get(&page).filter(|tree| !reads.begun.contains(tree)) {
                reads.begun.push(*tree);
                changed.notify_all();
            }
            wait = wait.or(self.held.get(&page).copied());
        }
        wait
    }
}

impl FileLayer for DelayingFile {
    fn inner(&self) -> &dyn File {
        &*self.inner
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8], reason: IoReason) -> io::Result<()> {
        self.begin(offset, buffer.len());
        self.inner.read_at(offset, buffer, reason)
    }
    fn submit(&self, batch: Vec<Transfer>) {
        for transfer in batch {
            let Some(next) = self.begin(transfer.offset, transfer.buffer.len()) else {
                self.inner.submit(vec![transfer]);
                continue;
            };
            let file = self.clone();
            thread::spawn(move || {
                let (reads, changed) = &*file.reads;
                let waits = |reads: &mut ObservedReads| !reads.begun.contains(&next);
                let (mut reads, waited) =
                    changed.wait_timeout_while(reads.lock().unwrap(), MAX_READ_DELAY, waits).unwrap();
                if waited.timed_out() {
                    reads.late.push(next);
                }
                drop(reads);
                file.inner.submit(vec![transfer]);
            });
        }
    }
}

impl VfsLayer for DelayingVfs {
    fn inner(&self) -> &dyn Vfs {
        &self.inner
    }
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let inner = self.inner.open(path, mode)?;
        let file = self.file.lock().unwrap().clone().unwrap();
        Ok(Arc::new(DelayingFile { inner, ..file }))
    }
}

/// Checks a database while the reads of these leaves are delayed.
fn check(
    database: &EditableDatabase,
    leaves: &Arc<TreeByLeaf>,
    held: HashMap<PageNumber, TreeId>,
) -> (ObservedReads, String) {
    let memory = MemoryDirectory::new(database.bytes.clone());
    let reads = Arc::default();
    let inner = memory.open(&memory.path, OpenMode::Read).unwrap();
    let file = DelayingFile {
        inner,
        size: database.size,
        leaves: leaves.clone(),
        held: Arc::new(held),
        reads: Arc::clone(&reads),
    };
    let holding = DelayingVfs { inner: memory, file: Mutex::new(Some(file)) };
    let path = holding.inner.path.clone();
    let report = check_database(&holding, &path, &CheckOptions::default()).unwrap();
    let reads = std::mem::take(&mut *reads.0.lock().unwrap());
    (reads, format!("{report:?}"))
}

#[test]
fn the_next_tree_is_prefetched_before_the_current_tree_ends() {
    let Some(corpus) = Corpus::locate() else { return };
    for name in ["db/32k/Windows-search.edb", "db/8k/ntds-initial.dit"] {
        let database = EditableDatabase::new(corpus.read(name));
        // Trees of two levels, except those that are read before the tables: the root, the catalog, and its shadow.
        let roots = database.find(|page| {
            let wanted = PageFlags::ROOT | PageFlags::PARENT_OF_LEAF;
            page.flags().contains(wanted)
                && !page.flags().contains(PageFlags::SPACE)
                && page.tree() > TreeId(3)
        });
        let (mut leaves, mut last) = (TreeByLeaf::new(), HashMap::new());
        for root in roots {
            let page = database.page(root);
            for leaf in page.nodes().filter_map(|node| node.child()) {
                leaves.insert(leaf, page.tree());
                last.insert(page.tree(), leaf);
            }
        }
        let leaves = Arc::new(leaves);
        let (free, report) = check(&database, &leaves, HashMap::new());
        assert!(free.begun.len() >= 5, "{name}: {} trees", free.begun.len());
        let pairs = free.begun.windows(2).map(|pair| (last[&pair[0]], pair[1]));
        let (reads, same) = check(&database, &leaves, pairs.collect());
        assert_eq!(reads.late, [], "{name}, of {} trees", free.begun.len());
        assert_eq!((reads.begun, same), (free.begun, report), "{name}");
    }
}
