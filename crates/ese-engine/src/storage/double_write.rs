//! Double write: each page image is made durable in a side file before it is written in place.
//!
//! ESE relies on the device to write a page atomically. A power cut during a 32 KiB write can then damage a page in a
//! way that redo cannot repair. With the double write, recovery restores a torn page from the side file before redo
//! starts. The cost is a second, sequential write of every page. InnoDB: the doublewrite buffer.
//!
//! ```text
//! <database>.jdw (data.edb.jdw), a ring of batches; when the next batch does not fit, it is written at offset 0:
//!   0     8        36        64        72     76                    4096         4096 + page size
//!   | magic | signDb | signLog | durable | count | (pgno, hash) ...   | image 0    | image 1 ...
//! ```
//!
//! Invariants:
//! - The images of a batch are durable before any of its pages is written in place.
//! - A batch is overwritten only after its pages were written in place and the database file was synced.
//! - An image is used only if its XXH3 hash matches. ESE's checksum is linear, and a page that is torn within
//!   repeated content can pass it. A torn or stale batch is therefore harmless. If a page has several valid images,
//!   recovery uses the one with the highest dbtime, and only if the page in the database is damaged or not newer.
//! - An image is used only if the log contains its changes. An operator can restore a database and its logs from an
//!   older copy without removing the side file. Each batch records the position up to which the log was durable when
//!   the batch was created. A page is written only when the log is durable up to its last change, so no image
//!   contains later changes. A crash never shortens the durable log. Therefore a log that ends before that position
//!   belongs to a different history.
//! - After recovery has restored the torn pages, it removes all images. Therefore, by the time a different history
//!   grows as long as the old one, no image of the old history remains.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ese_format::checksum::{PageIntegrity, verify_page};
use ese_format::header::DatabaseHeader;
use ese_format::page::Page;
use ese_format::{LogPosition, PageNumber, PageSize, Signature};
use jetcell_sync::{Arc, Condvar, Mutex};
use jetcell_vfs::{File, IoBuffer, IoReason, OpenMode, Vfs, parent_directory};
use twox_hash::XxHash3_64;

use crate::{Error, InstanceFailure, Result};

const MAGIC: u64 = u64::from_le_bytes(*b"jetcelD2");
/// Magic number of batches written by an earlier version. These batches had no log signature, and the file names did
/// not include the database's extension.
const OLD_MAGIC: u64 = u64::from_le_bytes(*b"jetcelDW");
const DESCRIPTOR: usize = 4096;
/// Maximum number of pages in a batch. Their entries must fit into the descriptor.
const MAX_BATCH: usize = (DESCRIPTOR - ENTRIES) / ENTRY;
const COUNT: usize = 72;
const OLD_COUNT: usize = 36;
const ENTRIES: usize = COUNT + 4;
const ENTRY: usize = 12;
/// Size of the ring in bytes.
const RING: u64 = 8 << 20;

/// The double-write side file of one database.
pub(crate) struct DoubleWrite {
    database: Arc<dyn File>,
    file: Arc<dyn File>,
    signature: Signature,
    log_signature: Signature,
    page_size: PageSize,
    state: Mutex<State>,
    released: Condvar,
}

struct State {
    next: u64,
    /// Whether a batch is being written, or its pages are being written in place.
    busy: bool,
    /// First failure of a write or sync.
    failed: Option<InstanceFailure>,
}

/// A batch whose pages are being written in place. The next batch waits until this value is dropped. Must not be
/// dropped while `state` is locked.
pub(crate) struct ActiveBatch(Arc<DoubleWrite>);

impl Drop for ActiveBatch {
    fn drop(&mut self) {
        self.0.state.lock().busy = false;
        self.0.released.notify_one();
    }
}

/// Returns the path of the side file. It contains the database's full file name, because two database names can
/// differ only in their extension.
pub(crate) fn path_of(database: &Path) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push(".jdw");
    path.into()
}

/// Returns the paths of the side file and of a side file left by an earlier version, if they exist. Files that have
/// these names but are not side files are not included.
fn side_files(vfs: &dyn Vfs, database: &Path) -> Result<Vec<PathBuf>> {
    let magic = |path: &Path| -> Result<_> {
        let io_error = |e: std::io::Error| Error::io(path, &e);
        let file = match vfs.open(path, OpenMode::Read) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(io_error)?,
        };
        let mut start = IoBuffer::zeroed(DESCRIPTOR);
        if file.len().map_err(io_error)? >= DESCRIPTOR as u64 {
            file.read_at(0, &mut start, IoReason::DatabaseRead).map_err(io_error)?;
        }
        Ok(start.first_chunk().map(|magic| u64::from_le_bytes(*magic)))
    };
    let (side, old) = (path_of(database), database.with_extension("jdw"));
    // Zero means that no batch has been written yet.
    let is_ours = matches!(magic(&side)?, Some(MAGIC | OLD_MAGIC | 0));
    let is_old = old != side && magic(&old)? == Some(OLD_MAGIC);
    Ok([(side, is_ours), (old, is_old)].into_iter().filter_map(|(path, is)| is.then_some(path)).collect())
}

/// Removes the side file durably. May be called only if all pages of the database are intact: the database is clean,
/// or its torn pages have been restored. The images must not remain, because an operator may later replace the
/// database with an older copy for which they would be wrong.
pub(crate) fn discard(vfs: &dyn Vfs, database: &Path) -> Result<()> {
    for side in side_files(vfs, database)? {
        vfs.remove(&side).map_err(|e| Error::io(&side, &e))?;
    }
    // The directory is synced even if the file does not exist, because an earlier removal may not be durable yet.
    let directory = parent_directory(database);
    vfs.sync_directory(directory).map_err(|e| Error::io(directory, &e))
}

impl DoubleWrite {
    /// Creates the side file for pages whose changes are in the log with the given signature. The caller must call
    /// [`discard`] first. If a file with this name still exists after that, it is not a side file, and the call
    /// fails.
    pub fn create(
        vfs: &dyn Vfs,
        path: &Path,
        database: Arc<dyn File>,
        header: &DatabaseHeader,
        log_signature: Signature,
    ) -> Result<Arc<DoubleWrite>> {
        let side = path_of(path);
        let io_error = |e: std::io::Error| Error::io(&side, &e);
        let file = vfs.open(&side, OpenMode::CreateNew).map_err(io_error)?;
        vfs.sync_directory(parent_directory(&side)).map_err(io_error)?;
        file.grow(RING).map_err(io_error)?;
        file.sync(IoReason::Other).map_err(io_error)?;
        Ok(Arc::new(DoubleWrite {
            database,
            file,
            signature: header.signature,
            log_signature,
            page_size: header.page_size,
            state: Mutex::new(State { next: 0, busy: false, failed: None }),
            released: Condvar::new(),
        }))
    }

    /// Returns the maximum number of pages in one batch.
    pub fn batch_limit(&self) -> usize {
        MAX_BATCH.min((RING as usize - DESCRIPTOR) / self.page_size.bytes())
    }

    /// Makes sealed page images durable in the side file. The caller then writes the pages in place and drops the
    /// result. The log must already be durable up to `durable`, which must cover every change to the pages.
    ///
    /// After a failure, nothing is retried: all waiting and later calls fail.
    pub fn protect(
        self: &Arc<Self>,
        pages: &[(PageNumber, &[u8])],
        durable: LogPosition,
    ) -> Result<ActiveBatch> {
        let (batch, at) = {
            let mut state = self.state.lock();
            while state.busy {
                self.released.wait(&mut state);
            }
            if let Some(failure) = &state.failed {
                // Only one thread is woken at a time; it wakes the next thread when it is done.
                self.released.notify_one();
                return Err(Error::ReadOnly(failure.clone()));
            }
            state.busy = true;
            // The batch is created before anything can fail, because dropping it wakes the next thread in any case.
            (ActiveBatch(self.clone()), state.next)
        };
        // No other thread can proceed while `busy` is set.
        match self.write(at, pages, durable) {
            Ok(next) => self.state.lock().next = next,
            Err(error) => {
                self.state.lock().failed = Some(error.cause());
                return Err(error);
            }
        }
        Ok(batch)
    }

    /// Writes a batch at an offset, or at offset 0 if it does not fit there. Returns the end of the batch.
    fn write(&self, mut at: u64, pages: &[(PageNumber, &[u8])], durable: LogPosition) -> Result<u64> {
        let size = self.page_size.bytes();
        let len = DESCRIPTOR + pages.len() * size;
        let read_only_error =
            |file: &dyn File, e: std::io::Error| Error::ReadOnly(InstanceFailure::io(file.path(), &e));
        if at + len as u64 > RING {
            self.database.sync(IoReason::EvictionWrite).map_err(|e| read_only_error(&*self.database, e))?;
            at = 0;
        }
        let mut batch = IoBuffer::zeroed(len);
        batch[..8].copy_from_slice(&MAGIC.to_le_bytes());
        batch[8..36].copy_from_slice(&self.signature.to_bytes());
        batch[36..64].copy_from_slice(&self.log_signature.to_bytes());
        batch[64..COUNT].copy_from_slice(&durable.to_u64().to_le_bytes());
        batch[COUNT..ENTRIES].copy_from_slice(&(pages.len() as u32).to_le_bytes());
        for (i, (page, image)) in pages.iter().enumerate() {
            let entry = ENTRIES + ENTRY * i;
            batch[entry..entry + 4].copy_from_slice(&page.get().to_le_bytes());
            batch[entry + 4..entry + ENTRY].copy_from_slice(&XxHash3_64::oneshot(image).to_le_bytes());
            let at = DESCRIPTOR + i * size;
            batch[at..at + size].copy_from_slice(image);
        }
        self.file
            .write_at(at, &batch, IoReason::EvictionWrite)
            .map_err(|e| read_only_error(&*self.file, e))?;
        self.file.sync(IoReason::EvictionWrite).map_err(|e| read_only_error(&*self.file, e))?;
        Ok(at + len as u64)
    }
}

/// Restores a database's torn pages from its side file. Returns the number of restored pages. Runs before redo, on a
/// dirty database.
///
/// The log with this signature ends at `until`. Images that belong to another log, or that contain changes after the
/// end of this one, are not used.
pub(crate) fn restore(
    vfs: &dyn Vfs,
    path: &Path,
    database: &dyn File,
    header: &DatabaseHeader,
    log_signature: Signature,
    until: LogPosition,
) -> Result<usize> {
    let known = |descriptor: &[u8]| {
        descriptor[36..64] == log_signature.to_bytes() && position_in(descriptor) <= until
    };
    let mut restored = 0;
    for side in side_files(vfs, path)? {
        restored += restore_from(vfs, &side, known, database, header)?;
    }
    Ok(restored)
}

fn position_in(descriptor: &[u8]) -> LogPosition {
    LogPosition::from_u64(u64::from_le_bytes(descriptor[64..COUNT].try_into().unwrap_or_default()))
}

/// Restores torn pages from the batches in one side file for which `known` returns true.
fn restore_from(
    vfs: &dyn Vfs,
    side: &Path,
    known: impl Fn(&[u8]) -> bool,
    database: &dyn File,
    header: &DatabaseHeader,
) -> Result<usize> {
    let io_error = |e: std::io::Error| Error::io(side, &e);
    let file = vfs.open(side, OpenMode::Write).map_err(io_error)?;
    // If the previous process was killed, its images may not be durable yet. They must be made durable now, because
    // writing an image in place can tear the page.
    file.sync(IoReason::Other).map_err(io_error)?;
    let images = images_in(&*file, known, header).map_err(io_error)?;
    let database_failed = |e: std::io::Error| Error::io(database.path(), &e);
    let database_len = database.len().map_err(database_failed)?;
    let mut stored = IoBuffer::zeroed(header.page_size.bytes());
    let mut restored = 0;
    for (page, image) in images {
        let offset = header.page_size.offset_of(page);
        if offset + stored.len() as u64 > database_len {
            continue;
        }
        database.read_at(offset, &mut stored, IoReason::DatabaseRead).map_err(database_failed)?;
        if image.replaces(&mut stored, header.page_size, page) {
            database.write_at(offset, &image.bytes, IoReason::EvictionWrite).map_err(database_failed)?;
            restored += 1;
        }
    }
    if restored > 0 {
        database.sync(IoReason::EvictionWrite).map_err(database_failed)?;
    }
    Ok(restored)
}

/// The image of a page that was about to be written in place.
pub(crate) struct DoubleWriteImage {
    pub bytes: IoBuffer,
    time: u64,
}

impl DoubleWriteImage {
    /// Returns true if recovery would replace the stored page by this image. Corrects flipped bits in `stored`.
    pub fn replaces(&self, stored: &mut [u8], size: PageSize, page: PageNumber) -> bool {
        let verdict = verify_page(stored, size, page);
        // ESE's checksum is linear and may not detect a tear between two similar states. The first sector contains
        // the dbtime of the state that was being written. An image of that state or a later one is at least as good.
        let newer = Page::new(stored, size).db_time().0 > self.time;
        verdict != PageIntegrity::Zero
            && !(verdict == PageIntegrity::Good && (newer || stored[..] == self.bytes[..]))
    }
}

/// Returns the newest page images for a database whose log with this signature ends at `until`. Changes nothing.
pub(crate) fn page_images(
    vfs: &dyn Vfs,
    path: &Path,
    header: &DatabaseHeader,
    until: LogPosition,
) -> Result<BTreeMap<PageNumber, DoubleWriteImage>> {
    let signature = header.log_signature.to_bytes();
    let known = |descriptor: &[u8]| descriptor[36..64] == signature && position_in(descriptor) <= until;
    let mut images = BTreeMap::new();
    for side in side_files(vfs, path)? {
        let io_error = |e: std::io::Error| Error::io(&side, &e);
        let file = vfs.open(&side, OpenMode::Read).map_err(io_error)?;
        images.extend(images_in(&*file, known, header).map_err(io_error)?);
    }
    Ok(images)
}

/// Returns the newest valid image of each page, from the batches in a side file for which `known` returns true.
fn images_in(
    file: &dyn File,
    known: impl Fn(&[u8]) -> bool,
    header: &DatabaseHeader,
) -> std::io::Result<BTreeMap<PageNumber, DoubleWriteImage>> {
    let len = file.len()? / DESCRIPTOR as u64 * DESCRIPTOR as u64;
    let size = header.page_size.bytes();
    let mut newest: BTreeMap<PageNumber, DoubleWriteImage> = BTreeMap::new();
    let mut descriptor = IoBuffer::zeroed(DESCRIPTOR);
    // Batches from the current round can overwrite those from the previous one at any block, so every block is
    // checked for the start of a batch.
    let mut at = 0;
    while at + DESCRIPTOR as u64 <= len {
        file.read_at(at, &mut descriptor, IoReason::DatabaseRead)?;
        let block = at;
        at += DESCRIPTOR as u64;
        let count_at = match descriptor.first_chunk().map_or(0, |magic| u64::from_le_bytes(*magic)) {
            MAGIC if known(&descriptor) => COUNT,
            OLD_MAGIC => OLD_COUNT,
            _ => continue,
        };
        if descriptor[8..36] != header.signature.to_bytes() {
            continue;
        }
        let word = |i: usize| u32::from_le_bytes(descriptor[i..i + 4].try_into().unwrap_or_default());
        let entries = count_at + 4;
        let count = (word(count_at) as usize).min((DESCRIPTOR - entries) / ENTRY);
        for i in 0..count {
            let image_at = block + DESCRIPTOR as u64 + (i * size) as u64;
            let entry = entries + ENTRY * i;
            let Some(page) = PageNumber::new(word(entry)).filter(|_| image_at + size as u64 <= len) else {
                break;
            };
            let mut bytes = IoBuffer::zeroed(size);
            file.read_at(image_at, &mut bytes, IoReason::DatabaseRead)?;
            let hash = u64::from(word(entry + 4)) | u64::from(word(entry + 8)) << 32;
            if XxHash3_64::oneshot(&bytes) != hash
                || verify_page(&mut bytes, header.page_size, page) != PageIntegrity::Good
            {
                continue;
            }
            let time = Page::new(&bytes, header.page_size).db_time().0;
            if newest.get(&page).is_none_or(|image| image.time <= time) {
                newest.insert(page, DoubleWriteImage { bytes, time });
            }
        }
    }
    Ok(newest)
}

#[cfg(test)]
#[path = "double_write_tests.rs"]
mod tests;
