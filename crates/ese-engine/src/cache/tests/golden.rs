//! Compares the reads, writes and cached pages of a fixed sequence of operations with the files in `tests/golden`.
//!
//! These tests detect changes to thresholds and to the victim order, even if no page is lost. `JETCELL_BLESS=1 cargo
//! test -p ese-engine golden` rewrites the files. Explain the differences in the commit message.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::Ordering;

use ese_format::PageNumber;
use twox_hash::XxHash3_64;

use super::{CacheFixture, disk};
use crate::cache::{CacheOptions, EvictionPolicy};
use crate::splitmix::mix64;

const PAGES: u32 = 1600;
/// Number of operations per line of the file.
const ROUND: usize = 150;

/// A cache with a workload and a record of its results.
struct CacheWorkload {
    fixture: CacheFixture,
    seed: u64,
    model: Vec<u64>,
    text: String,
}

impl CacheWorkload {
    fn new(cache_pages: usize, change: impl FnOnce(&mut CacheOptions)) -> CacheWorkload {
        let fixture = CacheFixture::with_options(cache_pages, PAGES, false, change);
        CacheWorkload { fixture, seed: 7, model: vec![0; PAGES as usize + 1], text: String::new() }
    }

    fn below(&mut self, end: u32) -> u32 {
        self.seed += 1;
        (mix64(self.seed) % u64::from(end)) as u32
    }

    /// Picks a page, most often from a small working set.
    fn page(&mut self) -> u32 {
        let end = [PAGES, PAGES / 4, PAGES / 16, PAGES / 16][self.below(4) as usize];
        self.below(end) + 1
    }

    /// Performs one operation, which is a change with a probability of `changes` percent.
    fn step(&mut self, changes: u32) {
        let (page, kind, value) = (self.page(), self.below(100), self.seed);
        let changes = self.below(100) < changes;
        let fixture = &self.fixture;
        if changes {
            match kind {
                0..70 => _ = fixture.set_by_delta(page, value),
                70..80 => _ = fixture.set(page, value),
                80..90 => _ = fixture.set_with_undo(page, value),
                90..97 => {
                    let undo = fixture.set_with_undo(page, value);
                    undo.commit(fixture.log.append());
                }
                _ => {
                    let mut latch = fixture.cache.create(fixture.key(page)).unwrap().write();
                    disk::format(&mut latch, PageNumber::fixed(page));
                    latch.mark_dirty(fixture.log.tip());
                    self.model[page as usize] = 0;
                    return;
                }
            }
            self.model[page as usize] = value;
            return;
        }
        match kind {
            0..8 => {
                fixture.cache.preread(&[0, 1, 2, 9, 10].map(|step| fixture.key((page + step).min(PAGES))));
            }
            8..14 => drop(fixture.cache.fetch_cold(fixture.key(page)).unwrap()),
            14..20 => _ = fixture.cache.clean_step().unwrap(),
            20 => {
                let old = disk::number_of(fixture.log.tip()).saturating_sub(400);
                fixture.cache.write_below(fixture.file, disk::position(old), 12).unwrap();
            }
            21 => fixture.cache.sync_file(fixture.file).unwrap(),
            _ => assert_eq!(fixture.value(page), self.model[page as usize]),
        }
    }

    /// Changes pages until only `left` frames are available. Then performs a few cleaner steps while the device
    /// completes only as many writes as are needed to free transfer buffers.
    fn clean_with_slow_device(&mut self, left: usize) {
        for page in (1..=PAGES).rev() {
            if self.fixture.cache.residents().pool().available() <= left {
                break;
            }
            self.seed += 1;
            self.fixture.set(page, self.seed);
            self.model[page as usize] = self.seed;
        }
        self.line(&format!("{left} left"));
        // A buffer can be up to twice as long as the pages it holds.
        let most = (self.fixture.cache.limits.transfer_pages / 2).saturating_sub(1);
        self.fixture.disk.hold_at_most.store(most, Ordering::SeqCst);
        self.fixture.disk.hold.store(true, Ordering::SeqCst);
        let done = [(); 12].map(|()| self.fixture.cache.clean_step().unwrap());
        let held = self.fixture.disk.held().len();
        self.fixture.disk.release();
        let _ = writeln!(self.text, "cleaner: {done:?}, {held} transfers in flight");
    }

    /// Appends a line that describes the events since the previous line and the cache state.
    fn line(&mut self, name: &str) {
        let disk = &self.fixture.disk;
        let reads = std::mem::take(&mut *disk.reads.lock());
        let writes = std::mem::take(&mut *disk.writes.lock());
        let order = XxHash3_64::oneshot(format!("{reads:?} {writes:?}").as_bytes());
        let pages: usize = writes.iter().map(|(_, pages)| pages).sum();
        let (cache, now) = (&self.fixture.cache, self.fixture.cache.counters());
        let deltas = &cache.shared.deltas;
        let _ = writeln!(
            self.text,
            "{name}: read {}, wrote {pages} in {}, order {order:016x}; available {}, dirty {}, must write {} ({} soon), \
             evicted dirty {}, deltas {} B in {} frames, at most {} B",
            reads.len(),
            writes.len(),
            now.available,
            now.dirty,
            cache.shared.must_write_pages(),
            cache.shared.must_write_pages_soon(),
            now.evicted_dirty,
            deltas.bytes(),
            deltas.frames(),
            deltas.max_delta_bytes(),
        );
    }

    /// Runs alternating phases with more and with fewer changes. Then writes and reads all pages.
    fn run(mut self, name: &str) {
        for round in 0..40 {
            let changes = [60, 30, 90, 5][round / 4 % 4];
            (0..ROUND).for_each(|_| self.step(changes));
            self.line(&format!("round {round}"));
            match round % 10 {
                3 => {
                    let start = self.fixture.cache.limits.start;
                    self.clean_with_slow_device([start * 2 / 3, start / 3, start, start / 2][round / 10]);
                }
                9 => {
                    self.fixture.cache.flush_file(self.fixture.file).unwrap();
                    self.line("flush");
                }
                _ => {}
            }
        }
        self.fixture.cache.flush_file(self.fixture.file).unwrap();
        assert!((1..=PAGES).all(|page| self.fixture.disk.value(page) == self.model[page as usize]));
        self.line("end");
        let _ = writeln!(self.text, "{:#?}", self.fixture.cache.counters());
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
        testkit::golden::compare(&golden, &self.text);
    }
}

#[test]
fn trace_with_deltas_in_most_of_the_cache() {
    CacheWorkload::new(160, |_| ()).run("cache-deltas.txt");
}

#[test]
fn trace_with_deltas_and_little_memory_and_budget() {
    let work = CacheWorkload::new(300, |options| {
        options.eviction = EvictionPolicy::KeepDeltas { memory_permille: 60 };
        options.history_pages = 40;
        options.coalesce_bytes = 3 * disk::SIZE.bytes();
    });
    work.fixture.cache.bound_checkpoint_depth(40 * disk::SIZE.bytes() as u64);
    work.run("cache-few-deltas.txt");
}

#[test]
fn trace_without_deltas_and_with_heavy_cleaning() {
    let write_back = |options: &mut CacheOptions| {
        options.eviction = EvictionPolicy::WriteBack;
        options.start_cleaning_permille = 200;
        options.stop_cleaning_permille = 450;
        options.seed = 3;
    };
    CacheWorkload::new(700, write_back).run("cache-write-back.txt");
}

#[test]
fn trace_of_the_smallest_cache() {
    CacheWorkload::new(16, |options| options.eviction = EvictionPolicy::WriteBack).run("cache-smallest.txt");
}
