//! Creates a volume, and starts it after a shutdown or a crash.

use std::path::PathBuf;

use jetcell_array::{Array, ArrayError, ArrayRefusal, BLOCK, LunError, Result};
use jetcell_sync::Arc;
use jetcell_vfs::Vfs;

use super::block_allocator::BlockAllocator;
use super::block_map::walk;
use super::catalogue::LunCatalogue;
use super::next_point::{NextPoint, PendingBlock};
use super::write_log::{WriteLog, WriteLogEntry, WriteLogIdentity};
use super::{CATALOGUE_AREA_BLOCKS, FIRST_BLOCK, LunVolume, MapCache, MapReader};

/// Options for a volume's write log.
#[derive(Clone)]
pub struct WriteLogOptions {
    /// File system that contains the log.
    pub vfs: Arc<dyn Vfs>,
    /// Path of the log.
    pub path: PathBuf,
    /// Size of a new log in bytes. The log of an existing volume keeps its size. The size limits how much can be
    /// written between two consistency points, unless nothing is flushed.
    pub bytes: u64,
    /// Whether to start although the log is lost or damaged. In that case, acknowledged writes after the last
    /// consistency point are lost.
    pub discard_damaged: bool,
}

impl WriteLogOptions {
    /// Returns options for a log of 64 MiB, which must be intact.
    pub fn new(vfs: Arc<dyn Vfs>, path: PathBuf) -> WriteLogOptions {
        WriteLogOptions { vfs, path, bytes: 64 << 20, discard_damaged: false }
    }
}

/// Result of [`LunVolume::clear_torn_rows`].
#[derive(Debug)]
#[must_use]
pub enum TornRows {
    /// No row has been left inconsistent by a crash.
    Cleared,
    /// A row that is needed to determine which rows may be inconsistent is lost. No row was cleared.
    Unknown(ArrayError),
}

/// Returns the current catalogue.
fn newest_catalogue(array: &mut Array) -> Result<Option<LunCatalogue>> {
    let blocks = array.layout().blocks();
    let mut newest: Option<LunCatalogue> = None;
    for area in 0..2 {
        let mut bytes = vec![0; CATALOGUE_AREA_BLOCKS as usize * BLOCK];
        array.read(area * CATALOGUE_AREA_BLOCKS, &mut bytes)?;
        let found = LunCatalogue::decode(&bytes, blocks).filter(|found| found.sequence % 2 == area);
        let is_newer =
            |found: &LunCatalogue| newest.as_ref().is_none_or(|other| found.sequence > other.sequence);
        newest = found.filter(is_newer).or(newest);
    }
    Ok(newest)
}

/// Returns an allocator with the catalogue's window, and with all blocks to which the maps refer marked as used.
fn build_allocator(
    array: &mut Array,
    maps: &mut MapCache,
    catalogue: &LunCatalogue,
) -> Result<BlockAllocator> {
    let mut space = BlockAllocator::new(*array.layout());
    let mut reader = MapReader { maps, array, sequence: catalogue.sequence };
    for (root, height) in catalogue.trees() {
        // If a node has already been visited, all blocks below it have been visited, too.
        walk(&mut reader, root, height, &mut |block| space.mark_used(block))?;
    }
    space.set_window(&catalogue.window);
    Ok(space)
}

/// Returns the rows that a crash may have left inconsistent. There are none if the array has no LUNs.
fn find_torn_rows(array: &mut Array) -> Result<Vec<u64>> {
    match newest_catalogue(array)? {
        Some(catalogue) if !catalogue.is_clean => {
            Ok(build_allocator(array, &mut MapCache::default(), &catalogue)?.possibly_torn_rows())
        }
        _ => Ok(vec![]),
    }
}

/// Shuts the array down, and returns the error. Without this shutdown, the next startup would assume that the array
/// crashed.
fn refuse<T>(array: Array, error: ArrayError) -> Result<T> {
    array.close()?;
    Err(error)
}

impl LunVolume {
    /// Returns true if an array contains a volume of LUNs.
    ///
    /// # Errors
    /// Returns an error if the array cannot be read.
    pub fn exists_on(array: &mut Array) -> Result<bool> {
        Ok(array.layout().blocks() > FIRST_BLOCK && newest_catalogue(array)?.is_some())
    }

    /// Creates a volume without LUNs on an array that was never written, and starts it.
    ///
    /// # Errors
    /// Returns an error if the array was written before, or is too small.
    pub fn create(array: Array, log: &WriteLogOptions) -> Result<LunVolume> {
        let blocks = array.layout().blocks();
        let catalogue = LunCatalogue { next_lun: 1, is_clean: true, ..LunCatalogue::default() };
        let file = if blocks <= 2 * FIRST_BLOCK {
            Err(ArrayRefusal::TooSmallForLuns { blocks, needed: 2 * FIRST_BLOCK }.into())
        } else if array.was_written() {
            Err(ArrayRefusal::ArrayHasData.into())
        } else {
            let identity =
                WriteLogIdentity { array: array.id(), created_after: catalogue.sequence, bytes: log.bytes };
            WriteLog::create(&*log.vfs, &log.path, identity)
        };
        match file {
            Ok(file) => {
                let catalogue = LunCatalogue { log_bytes: file.bytes(), ..catalogue };
                LunVolume::with_space(array, catalogue, file)?.open()
            }
            Err(error) => refuse(array, error),
        }
    }

    /// If an array contains LUNs, clears the rows that a crash may have left inconsistent. This does not require the
    /// write log, and does not change anything to which a LUN refers. It is necessary before the array is scrubbed or
    /// rebuilt. [`LunVolume::start`] does the same.
    ///
    /// If a row with a catalogue or a block map is lost, no row is cleared. An older catalogue does not tell which
    /// blocks are in use.
    ///
    /// # Errors
    /// Returns an error if the array cannot be read or written, or if the volume is damaged.
    pub fn clear_torn_rows(array: &mut Array) -> Result<TornRows> {
        if array.layout().blocks() <= FIRST_BLOCK {
            return Ok(TornRows::Cleared);
        }
        let rows = match find_torn_rows(array) {
            Err(lost @ (ArrayError::Unrecoverable { .. } | ArrayError::Inconsistent { .. })) => {
                return Ok(TornRows::Unknown(lost));
            }
            found => found?,
        };
        array.row_writer().clear_rows(&rows)?;
        Ok(TornRows::Cleared)
    }

    /// Starts the volume on an array.
    ///
    /// # Errors
    /// Returns an error if the array has no volume, if the volume is damaged, or if a write log that is needed is lost
    /// or damaged.
    pub fn start(mut array: Array, log: &WriteLogOptions) -> Result<LunVolume> {
        let Some(catalogue) = newest_catalogue(&mut array)? else {
            return refuse(array, ArrayRefusal::NoCatalogue.into());
        };
        let (sequence, point, was_clean) = (catalogue.sequence, catalogue.point, catalogue.is_clean);
        let identity = WriteLogIdentity {
            array: array.id(),
            created_after: catalogue.log_created_after,
            bytes: catalogue.log_bytes,
        };
        let opened = (!was_clean).then(|| {
            WriteLog::open(&*log.vfs, &log.path, identity)
                .and_then(|mut file| Ok((file.replay(point)?, file)))
        });
        let make = || {
            let identity = WriteLogIdentity { created_after: sequence, ..identity };
            WriteLog::recreate(&*log.vfs, &log.path, log.bytes, identity)
        };
        let found = match opened {
            Some(Ok((entries, file))) => Ok((entries, file, identity.created_after)),
            Some(Err(error)) if !log.discard_damaged => Err(error),
            Some(Err(_)) => make().and_then(|mut file| file.clear().map(|()| (vec![], file, sequence))),
            None => make().map(|file| (vec![], file, sequence)),
        };
        let (entries, file, log_made) = match found {
            Ok(found) => found,
            Err(error) => return refuse(array, error),
        };
        // The size of a log from an earlier version stays unknown until the log is replaced.
        let log_bytes = if file.is_from_earlier_version() { 0 } else { file.bytes() };
        let catalogue = LunCatalogue { log_created_after: log_made, log_bytes, ..catalogue };
        let mut volume = LunVolume::with_space(array, catalogue, file)?;
        if !was_clean {
            let rows = volume.space.possibly_torn_rows();
            volume.array.row_writer().clear_rows(&rows)?;
        }
        volume.replay(entries)?;
        if volume.log.is_from_earlier_version() {
            volume.replace_log(log)?;
        }
        volume.open()
    }

    /// Replaces a log from an earlier version with a new one. The old log's content is written to the array first.
    fn replace_log(&mut self, log: &WriteLogOptions) -> Result<()> {
        self.retire_log()?;
        let (array, made) = (self.array.id(), self.catalogue.sequence);
        let identity = WriteLogIdentity { array, created_after: made, bytes: 0 };
        self.log = WriteLog::recreate(&*log.vfs, &log.path, log.bytes, identity)?;
        (self.catalogue.log_created_after, self.catalogue.log_bytes) = (made, self.log.bytes());
        Ok(())
    }

    /// Creates the volume, and determines which blocks are used by its maps.
    fn with_space(mut array: Array, catalogue: LunCatalogue, log: WriteLog) -> Result<LunVolume> {
        array.journal_new_rows();
        let space = BlockAllocator::new(*array.layout());
        let mut volume = LunVolume {
            array,
            catalogue,
            space,
            log,
            maps: MapCache::default(),
            next: NextPoint::default(),
            in_flight_point: None,
            counters: Default::default(),
            has_failed: false,
        };
        volume.rebuild_allocator()?;
        Ok(volume)
    }

    /// Opens the volume. From here on, the log is needed, and rows of the window may have any content after a crash.
    fn open(mut self) -> Result<LunVolume> {
        self.catalogue.is_clean = false;
        if self.next.pending() == 0 {
            self.commit_catalogue()?;
        } else {
            self.consistency_point()?;
        }
        Ok(self)
    }

    /// Determines which blocks are in use: those to which a map refers.
    pub(super) fn rebuild_allocator(&mut self) -> Result<()> {
        self.space = build_allocator(&mut self.array, &mut self.maps, &self.catalogue)?;
        Ok(())
    }

    fn replay(&mut self, entries: Vec<WriteLogEntry>) -> Result<()> {
        for WriteLogEntry { lun, first, count, data } in entries {
            // The log cannot refer to a deleted LUN, because the deletion was a consistency point.
            let blocks = self.catalogue.luns.iter().find(|entry| entry.id == lun).map(|entry| entry.blocks);
            if blocks.is_none_or(|blocks| first.checked_add(count).is_none_or(|end| end > blocks)) {
                return Err(LunError::WriteOutsideLuns.into());
            }
            match data {
                Some(data) => {
                    for (index, block) in (first..).zip(data) {
                        self.next.put_logged(lun, index, PendingBlock::Data(block));
                    }
                }
                None => {
                    for index in self.mapped_blocks(lun, first..first + count)? {
                        self.next.put_logged(lun, index, PendingBlock::Hole);
                    }
                }
            }
        }
        Ok(())
    }
}
