//! Protection against torn pages: each page image goes to a side file, durably, before it goes to its place.
//!
//! ESE trusts the device to write a page as a whole; a power cut in the middle of a 32 KiB write can then cost a
//! page that redo cannot rebuild. With this protection a page that is found torn after a crash is put back from
//! the side file before redo starts. It costs a second, sequential write of every page.
//!
//! ```text
//! <database>.jdw, a ring of batches that starts over at 0 when the next one does not fit:
//!   0     8        36     40                      4096         4096 + page size
//!   | magic | signDb | count | (pgno, hash) ...     | image 0    | image 1 ...
//! ```
//!
//! Invariants: the images of a batch are durable before any of its pages is written in place; a batch is only
//! overwritten after the pages it holds were written in place and the database file was synced. Images are
//! believed only if their XXH3 matches (ESE's checksum is linear, and a tear through repeated content can pass it),
//! so a torn or stale batch does no harm: of several good images of a page the one with the
//! highest dbtime counts, and only if the page in the database is damaged or not newer.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ese_format::checksum::{PageVerdict, verify_page};
use ese_format::header::DatabaseHeader;
use ese_format::page::Page;
use ese_format::{PageNumber, PageSize, Signature};
use parking_lot::{Condvar, Mutex};
use twox_hash::XxHash3_64;
use vfs::{File, IoBuffer, IoReason, OpenMode, Vfs};

use crate::{Error, Result};

const MAGIC: u64 = u64::from_le_bytes(*b"jetcelDW");
const DESCRIPTOR: usize = 4096;
/// Page numbers that fit a descriptor.
const MAX_BATCH: usize = (DESCRIPTOR - ENTRIES) / ENTRY;
const ENTRIES: usize = 40;
const ENTRY: usize = 12;
/// Bytes of the ring.
const RING: u64 = 8 << 20;

/// The side file of one database.
pub(crate) struct DoubleWrite {
    database: Arc<dyn File>,
    file: Arc<dyn File>,
    signature: Signature,
    page_size: PageSize,
    state: Mutex<State>,
    released: Condvar,
}

struct State {
    next: u64,
    /// A batch is being written, or its pages are.
    busy: bool,
    /// The first failure of a write or sync.
    failed: Option<String>,
}

/// The turn of one batch, held until its pages are in place; the next batch waits for it. Not to be dropped with
/// `state` locked.
pub struct Protection(Arc<DoubleWrite>);

impl Drop for Protection {
    fn drop(&mut self) {
        self.0.state.lock().busy = false;
        self.0.released.notify_one();
    }
}

/// Path of the side file.
pub(crate) fn path_of(database: &Path) -> PathBuf {
    database.with_extension("jdw")
}

/// Removes the side file, durably. For a database that is clean or has been restored: all its pages are whole, and
/// images would be believed even if somebody has put an older copy in its place since they were made.
pub(crate) fn discard(vfs: &dyn Vfs, database: &Path) -> Result<()> {
    let side = path_of(database);
    let failed = |e: std::io::Error| Error::io(&side, &e);
    if vfs.exists(&side) {
        vfs.remove(&side).map_err(failed)?;
    }
    // Also if it is not there: who removed it may have left that to the kernel.
    vfs.sync_directory(side.parent().unwrap_or(Path::new("."))).map_err(failed)
}

impl DoubleWrite {
    /// Opens or creates the side file. Call [`restore`] or [`discard`] before.
    pub fn open(
        vfs: &dyn Vfs,
        path: &Path,
        database: Arc<dyn File>,
        header: &DatabaseHeader,
    ) -> Result<Arc<DoubleWrite>> {
        let side = path_of(path);
        let failed = |e: std::io::Error| Error::io(&side, &e);
        let mode = if vfs.exists(&side) { OpenMode::Write } else { OpenMode::CreateNew };
        let file = vfs.open(&side, mode).map_err(failed)?;
        // Also if it is there: a process killed right after creating it may have left the name to the kernel.
        vfs.sync_directory(side.parent().unwrap_or(Path::new("."))).map_err(failed)?;
        if file.len().map_err(failed)? < RING {
            file.grow(RING).map_err(failed)?;
            file.sync(IoReason::Other).map_err(failed)?;
        }
        Ok(Arc::new(DoubleWrite {
            database,
            file,
            signature: header.signature,
            page_size: header.page_size,
            state: Mutex::new(State { next: 0, busy: false, failed: None }),
            released: Condvar::new(),
        }))
    }

    /// Largest number of pages in one batch.
    pub fn batch_limit(&self) -> usize {
        MAX_BATCH.min((RING as usize - DESCRIPTOR) / self.page_size.bytes())
    }

    /// Makes sealed page images durable in the side file. Write the pages in place, then drop the result.
    ///
    /// After a failure every call fails: nothing is tried again, and whoever waits learns of it in turn.
    pub fn protect(self: &Arc<Self>, pages: &[(PageNumber, &[u8])]) -> Result<Protection> {
        let (turn, at) = {
            let mut state = self.state.lock();
            while state.busy {
                self.released.wait(&mut state);
            }
            if let Some(cause) = &state.failed {
                // Only one is woken at a time; it passes that on.
                self.released.notify_one();
                return Err(Error::ReadOnly(cause.clone()));
            }
            state.busy = true;
            // Made before anything can fail: however that ends, the turn ends with it, and the next one is woken.
            (Protection(self.clone()), state.next)
        };
        // Meanwhile nobody else gets past `busy`.
        match self.write(at, pages) {
            Ok(next) => self.state.lock().next = next,
            Err(error) => {
                self.state.lock().failed = Some(error.cause());
                return Err(error);
            }
        }
        Ok(turn)
    }

    /// Writes a batch at an offset, or at 0 if it does not fit there. Returns where it ends.
    fn write(&self, mut at: u64, pages: &[(PageNumber, &[u8])]) -> Result<u64> {
        let size = self.page_size.bytes();
        let len = DESCRIPTOR + pages.len() * size;
        let failed =
            |file: &dyn File, e: std::io::Error| Error::ReadOnly(format!("{}: {e}", file.path().display()));
        if at + len as u64 > RING {
            self.database.sync(IoReason::EvictionWrite).map_err(|e| failed(&*self.database, e))?;
            at = 0;
        }
        let mut batch = IoBuffer::zeroed(len);
        batch[..8].copy_from_slice(&MAGIC.to_le_bytes());
        batch[8..36].copy_from_slice(&self.signature.to_bytes());
        batch[36..40].copy_from_slice(&(pages.len() as u32).to_le_bytes());
        for (i, (page, image)) in pages.iter().enumerate() {
            let entry = ENTRIES + ENTRY * i;
            batch[entry..entry + 4].copy_from_slice(&page.get().to_le_bytes());
            batch[entry + 4..entry + ENTRY].copy_from_slice(&XxHash3_64::oneshot(image).to_le_bytes());
            let at = DESCRIPTOR + i * size;
            batch[at..at + size].copy_from_slice(image);
        }
        self.file.write_at(at, &batch, IoReason::EvictionWrite).map_err(|e| failed(&*self.file, e))?;
        self.file.sync(IoReason::EvictionWrite).map_err(|e| failed(&*self.file, e))?;
        Ok(at + len as u64)
    }
}

/// Puts torn pages of a database back from its side file. Returns how many. Runs before redo, on a dirty database.
pub(crate) fn restore(
    vfs: &dyn Vfs,
    path: &Path,
    database: &dyn File,
    header: &DatabaseHeader,
) -> Result<usize> {
    let side = path_of(path);
    if !vfs.exists(&side) {
        return Ok(0);
    }
    let failed = |e: std::io::Error| Error::io(&side, &e);
    let file = vfs.open(&side, OpenMode::Write).map_err(failed)?;
    // Images that a killed process had written may still be in the kernel only; putting one in its place can be torn.
    file.sync(IoReason::Other).map_err(failed)?;
    let len = file.len().map_err(failed)? / DESCRIPTOR as u64 * DESCRIPTOR as u64;
    let size = header.page_size.bytes();
    let mut newest: std::collections::BTreeMap<PageNumber, (u64, u64)> = std::collections::BTreeMap::new();
    let mut descriptor = IoBuffer::zeroed(DESCRIPTOR);
    let mut image = IoBuffer::zeroed(size);
    // Batches of the current and of the previous round overlap at any block, so every block may start one.
    let mut at = 0;
    while at + DESCRIPTOR as u64 <= len {
        file.read_at(at, &mut descriptor, IoReason::DatabaseRead).map_err(failed)?;
        let block = at;
        at += DESCRIPTOR as u64;
        if descriptor[..8] != MAGIC.to_le_bytes() || descriptor[8..36] != header.signature.to_bytes() {
            continue;
        }
        let word = |i: usize| u32::from_le_bytes(descriptor[i..i + 4].try_into().unwrap_or_default());
        let count = (word(36) as usize).min(MAX_BATCH);
        for i in 0..count {
            let image_at = block + DESCRIPTOR as u64 + (i * size) as u64;
            let entry = ENTRIES + ENTRY * i;
            let Some(page) = PageNumber::new(word(entry)).filter(|_| image_at + size as u64 <= len) else {
                break;
            };
            file.read_at(image_at, &mut image, IoReason::DatabaseRead).map_err(failed)?;
            let hash = u64::from(word(entry + 4)) | u64::from(word(entry + 8)) << 32;
            if XxHash3_64::oneshot(&image) == hash
                && verify_page(&mut image, header.page_size, page) == PageVerdict::Good
            {
                let time = Page::new(&image, header.page_size).db_time().0;
                let entry = newest.entry(page).or_insert((time, image_at));
                *entry = (*entry).max((time, image_at));
            }
        }
    }
    let broken = |e: std::io::Error| Error::io(path, &e);
    let database_len = database.len().map_err(broken)?;
    let mut stored = IoBuffer::zeroed(size);
    let mut restored = 0;
    for (page, (image_time, image_at)) in newest {
        let offset = header.page_size.offset_of(page);
        if offset + size as u64 > database_len {
            continue;
        }
        database.read_at(offset, &mut stored, IoReason::DatabaseRead).map_err(broken)?;
        let verdict = verify_page(&mut stored, header.page_size, page);
        file.read_at(image_at, &mut image, IoReason::DatabaseRead).map_err(failed)?;
        // ESE's checksum is linear: a tear between two states that differ little can pass it. The first sector says
        // which state the write was to reach; an image of that state or a later one is as good or better.
        let newer = Page::new(&stored, header.page_size).db_time().0 > image_time;
        if verdict == PageVerdict::Zero
            || (verdict == PageVerdict::Good && (newer || stored[..] == image[..]))
        {
            continue;
        }
        database.write_at(offset, &image, IoReason::EvictionWrite).map_err(broken)?;
        restored += 1;
    }
    if restored > 0 {
        database.sync(IoReason::EvictionWrite).map_err(broken)?;
    }
    Ok(restored)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ese_format::checksum::seal_page;
    use ese_format::page::{NodeFlags, PageFlags, PageMut};
    use ese_format::{DbTime, LogTime, TreeId};
    use std::sync::mpsc;
    use std::time::Duration;
    use vfs::{CrashOptions, Fault, FaultEffect, FaultTarget, FaultVfs, SimVfs};

    const SIZE: PageSize = PageSize::KIB_4;
    const PAGE: PageNumber = PageNumber::fixed(5);

    fn image(time: u64, fill: u8) -> Vec<u8> {
        let mut bytes = vec![0; SIZE.bytes()];
        let mut page = PageMut::format(&mut bytes, SIZE, PAGE, TreeId(9), PageFlags::LEAF);
        page.insert_node(0, NodeFlags::empty(), b"k", &[fill; 3900]).unwrap();
        page.set_db_time(DbTime(time));
        seal_page(&mut bytes, SIZE, PAGE);
        bytes
    }

    /// What a database page that was `stored` is after a crash, when the image written last is changed by `damage`.
    fn restored(stored: &[u8], written: &[u8], damage: impl Fn(&mut [u8])) -> (usize, Vec<u8>) {
        let vfs = SimVfs::new();
        let path = Path::new("/data.edb");
        let file = vfs.open(path, OpenMode::CreateNew).unwrap();
        let offset = SIZE.offset_of(PAGE);
        let write = |file: &dyn File, offset: u64, bytes: &[u8]| {
            let mut buffer = IoBuffer::zeroed(bytes.len());
            buffer.copy_from_slice(bytes);
            file.write_at(offset, &buffer, IoReason::Other).unwrap();
        };
        write(&*file, offset, stored);
        let signature = Signature::new(7, LogTime::NONE);
        let header = DatabaseHeader::fresh(SIZE, signature, signature);
        let side = DoubleWrite::open(&vfs, path, file.clone(), &header).unwrap();
        drop(side.protect(&[(PAGE, written)]).unwrap());
        let mut torn = written.to_vec();
        damage(&mut torn);
        write(&*vfs.open(&path_of(path), OpenMode::Write).unwrap(), DESCRIPTOR as u64, &torn);
        let count = restore(&vfs, path, &*file, &header).unwrap();
        let mut found = IoBuffer::zeroed(SIZE.bytes());
        file.read_at(offset, &mut found, IoReason::Other).unwrap();
        (count, found.to_vec())
    }

    #[test]
    fn a_torn_page_comes_back_and_a_newer_one_stays() {
        let (old, new) = (image(10, 1), image(20, 2));
        let mut torn = new.clone();
        torn[2048..].copy_from_slice(&old[2048..]);
        assert_eq!(restored(&torn, &new, |_| ()), (1, new.clone()));
        assert_eq!(restored(&new, &old, |_| ()), (0, new));
    }

    #[test]
    fn a_torn_image_is_not_believed_though_its_checksum_passes() {
        let (old, new) = (image(10, 1), image(20, 2));
        let tear = |bytes: &mut [u8]| bytes[1024..2048].fill(0);
        let mut torn = new.clone();
        tear(&mut torn);
        assert_eq!(verify_page(&mut torn, SIZE, PAGE), PageVerdict::Good, "the checksum does not see it");
        assert_eq!(restored(&old, &new, tear), (0, old));
    }

    #[test]
    fn a_side_file_whose_creator_was_killed_has_its_name_when_images_are_in_it() {
        let signature = Signature::new(7, LogTime::NONE);
        let header = DatabaseHeader::fresh(SIZE, signature, signature);
        let open = |disk: &SimVfs| {
            let database = disk.open(Path::new("/data.edb"), OpenMode::Write).unwrap();
            DoubleWrite::open(disk, Path::new("/data.edb"), database, &header)
        };
        for operations in 1..5 {
            let disk = SimVfs::new();
            disk.put(Path::new("/data.edb"), &[]);
            disk.stop_after(operations);
            let _ = open(&disk);
            let disk = disk.process_kill();
            drop(open(&disk).unwrap().protect(&[(PAGE, &image(10, 1))]).unwrap());
            let lost = CrashOptions { lose_name: 1.0, ..CrashOptions::default() };
            assert!(disk.crash(1, lost).contents(&path_of(Path::new("/data.edb"))).is_some(), "{operations}");
        }
    }

    /// Whoever waits for its turn gets an error, too, and soon: nobody comes afterwards who would wake it. What failed is
    /// not tried again: of a second sync that succeeds nobody knows what it has left out.
    #[test]
    fn a_failure_ends_the_wait_of_all_and_is_not_retried() {
        let full = RING as usize / (DESCRIPTOR + SIZE.bytes());
        let cases = [
            (FaultTarget::Write, ".jdw", 1, true),
            (FaultTarget::Write, ".jdw", 1, false),
            (FaultTarget::Sync, ".jdw", 1, false),
            (FaultTarget::Sync, ".edb", full, false),
        ];
        for (target, part, batches, forever) in cases {
            let disk = Arc::new(FaultVfs::new(Arc::new(SimVfs::new())));
            let path = Path::new("/data.edb");
            let database = disk.open(path, OpenMode::CreateNew).unwrap();
            let signature = Signature::new(7, LogTime::NONE);
            let header = DatabaseHeader::fresh(SIZE, signature, signature);
            let side = DoubleWrite::open(&*disk, path, database, &header).unwrap();
            let image = image(10, 1);
            let mut protection = None;
            for _ in 0..batches {
                drop(protection.take());
                protection = Some(side.protect(&[(PAGE, &image)]).unwrap());
            }
            let (done, ended) = mpsc::channel();
            for _ in 0..2 {
                let (side, image, done) = (side.clone(), image.clone(), done.clone());
                std::thread::spawn(move || {
                    let result = side.protect(&[(PAGE, &image)]).map(drop);
                    let _ = done.send(result);
                });
            }
            assert!(ended.recv_timeout(Duration::from_millis(100)).is_err(), "they wait for their turn");
            let fault = Fault::new(target, FaultEffect::IoError).on_path(part);
            disk.inject(if forever { fault.forever() } else { fault });
            drop(protection);
            for _ in 0..2 {
                let result = ended.recv_timeout(Duration::from_secs(5)).expect("nobody waits for ever");
                let error = result.unwrap_err().to_string();
                assert!(error.contains(part), "{error}");
            }
            assert_eq!(disk.fired(), 1, "{target:?} of {part}");
        }
    }
}
