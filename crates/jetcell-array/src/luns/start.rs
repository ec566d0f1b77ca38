//! Creates a volume, and starts it after a shutdown or a crash.

use std::path::PathBuf;

use jetcell_sync::Arc;
use jetcell_vfs::Vfs;

use super::block_map::walk;
use super::catalogue::Catalogue;
use super::space::Space;
use super::write_log::{Entry, LogIdentity, WriteLog};
use super::{AREA, FIRST_BLOCK, LunVolume, MapReader, Maps, Pending};
use crate::array::Array;
use crate::error::{ArrayError, Refusal, Result};
use crate::geometry::BLOCK;

/// Options for the write log of a volume.
#[derive(Clone)]
pub struct LogOptions {
    /// File system that contains the log.
    pub vfs: Arc<dyn Vfs>,
    /// Path of the log.
    pub path: PathBuf,
    /// Size of a new log in bytes. The log of an existing volume keeps its size. The size limits how much can be
    /// written between two consistency points, unless nothing is flushed.
    pub bytes: u64,
    /// Whether to start although the log is lost or damaged. In that case, acknowledged writes after the last
    /// consistency point are lost.
    pub forget: bool,
}

impl LogOptions {
    /// Returns options for a log of 64 MiB, which must be intact.
    pub fn new(vfs: Arc<dyn Vfs>, path: PathBuf) -> LogOptions {
        LogOptions { vfs, path, bytes: 64 << 20, forget: false }
    }
}

/// Returns the current catalogue.
fn newest_catalogue(array: &mut Array) -> Result<Option<Catalogue>> {
    let blocks = array.layout().blocks();
    let mut newest: Option<Catalogue> = None;
    for area in 0..2 {
        let mut bytes = vec![0; AREA as usize * BLOCK];
        array.read(area * AREA, &mut bytes)?;
        let found = Catalogue::decode(&bytes, blocks).filter(|found| found.sequence % 2 == area);
        let is_newer =
            |found: &Catalogue| newest.as_ref().is_none_or(|other| found.sequence > other.sequence);
        newest = found.filter(is_newer).or(newest);
    }
    Ok(newest)
}

/// Returns a space with the catalogue's window, in which the blocks to which the maps refer are used.
fn space_of(array: &mut Array, maps: &mut Maps, catalogue: &Catalogue) -> Result<Space> {
    let mut space = Space::new(*array.layout());
    let mut reader = MapReader { maps, array, sequence: catalogue.sequence };
    for (root, height) in catalogue.trees() {
        // If a node has already been visited, all blocks below it have been visited, too.
        walk(&mut reader, root, height, &mut |block| space.take(block))?;
    }
    space.set_window(&catalogue.window);
    Ok(space)
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
    /// The array cannot be read.
    pub fn is_on(array: &mut Array) -> Result<bool> {
        Ok(array.layout().blocks() > FIRST_BLOCK && newest_catalogue(array)?.is_some())
    }

    /// Creates a volume without LUNs on an array that was never written, and starts it.
    ///
    /// # Errors
    /// The array was written before, or is too small.
    pub fn create(array: Array, log: &LogOptions) -> Result<LunVolume> {
        let blocks = array.layout().blocks();
        let catalogue = Catalogue { next_lun: 1, is_clean: true, ..Catalogue::default() };
        let file = if blocks <= 2 * FIRST_BLOCK {
            let text = format!("the array has {blocks} blocks, but LUNs need more than {}", 2 * FIRST_BLOCK);
            Err(Refusal::Parameter(text).into())
        } else if array.was_written() {
            Err(Refusal::Parameter("the array contains other data; LUNs need a new array".into()).into())
        } else {
            let identity = LogIdentity { array: array.id(), made: catalogue.sequence, bytes: log.bytes };
            WriteLog::create(&*log.vfs, &log.path, identity)
        };
        match file {
            Ok(file) => {
                let catalogue = Catalogue { log_bytes: file.bytes(), ..catalogue };
                LunVolume::with_space(array, catalogue, file)?.open()
            }
            Err(error) => refuse(array, error),
        }
    }

    /// If an array contains LUNs, clears the rows that a crash may have left inconsistent. This does not require the
    /// write log, and does not change anything to which a LUN refers. It is necessary before the array is scrubbed or
    /// rebuilt. [`LunVolume::start`] does the same.
    ///
    /// # Errors
    /// The array cannot be read or written, or the volume is damaged.
    pub fn settle(array: &mut Array) -> Result<()> {
        if array.layout().blocks() <= FIRST_BLOCK {
            return Ok(());
        }
        let Some(catalogue) = newest_catalogue(array)?.filter(|catalogue| !catalogue.is_clean) else {
            return Ok(());
        };
        let rows = space_of(array, &mut Maps::default(), &catalogue)?.doubtful_rows();
        array.clear_rows(&rows)
    }

    /// Starts the volume on an array.
    ///
    /// # Errors
    /// The array has no volume; the write log is needed, but is lost or damaged; or the volume is damaged.
    pub fn start(mut array: Array, log: &LogOptions) -> Result<LunVolume> {
        let Some(catalogue) = newest_catalogue(&mut array)? else {
            let text = "the array does not contain LUNs, or both catalogues of its LUNs are damaged";
            return refuse(array, Refusal::Parameter(text.into()).into());
        };
        let (sequence, point, was_clean) = (catalogue.sequence, catalogue.point, catalogue.is_clean);
        let identity =
            LogIdentity { array: array.id(), made: catalogue.log_made, bytes: catalogue.log_bytes };
        let opened = (!was_clean).then(|| {
            WriteLog::open(&*log.vfs, &log.path, identity)
                .and_then(|mut file| Ok((file.replay(point)?, file)))
        });
        let make = || {
            let identity = LogIdentity { made: sequence, ..identity };
            WriteLog::create_again(&*log.vfs, &log.path, log.bytes, identity)
        };
        let found = match opened {
            Some(Ok((entries, file))) => Ok((entries, file, identity.made)),
            Some(Err(error)) if !log.forget => Err(error),
            Some(Err(_)) => make().and_then(|mut file| file.clear().map(|()| (vec![], file, sequence))),
            None => make().map(|file| (vec![], file, sequence)),
        };
        let (entries, file, log_made) = match found {
            Ok(found) => found,
            Err(error) => return refuse(array, error),
        };
        // The size of a log from an earlier version stays unknown until the log is replaced.
        let log_bytes = if file.is_from_earlier_version() { 0 } else { file.bytes() };
        let catalogue = Catalogue { log_made, log_bytes, ..catalogue };
        let mut volume = LunVolume::with_space(array, catalogue, file)?;
        if !was_clean {
            let rows = volume.space.doubtful_rows();
            volume.array.clear_rows(&rows)?;
        }
        volume.replay(entries)?;
        if volume.log.is_from_earlier_version() {
            volume.replace_log(log)?;
        }
        volume.open()
    }

    /// Replaces a log from an earlier version with a new one. The old log's content is written to the array first.
    fn replace_log(&mut self, log: &LogOptions) -> Result<()> {
        self.shut_log()?;
        let (array, made) = (self.array.id(), self.catalogue.sequence);
        let identity = LogIdentity { array, made, bytes: 0 };
        self.log = WriteLog::create_again(&*log.vfs, &log.path, log.bytes, identity)?;
        (self.catalogue.log_made, self.catalogue.log_bytes) = (made, self.log.bytes());
        Ok(())
    }

    /// Creates the volume, and determines which blocks are used by its maps.
    fn with_space(mut array: Array, catalogue: Catalogue, log: WriteLog) -> Result<LunVolume> {
        array.journal_new_rows();
        let space = Space::new(*array.layout());
        let mut volume = LunVolume {
            array,
            catalogue,
            space,
            log,
            maps: Maps::default(),
            pending: Default::default(),
            early: Default::default(),
            point: None,
            pending_data: 0,
            filling: None,
            unlogged: Default::default(),
            pending_leaves: Default::default(),
            counters: Default::default(),
            has_failed: false,
        };
        volume.sweep()?;
        Ok(volume)
    }

    /// Opens the volume. From here on, the log is needed, and rows of the window may have any content after a crash.
    fn open(mut self) -> Result<LunVolume> {
        self.catalogue.is_clean = false;
        if self.pending.is_empty() {
            self.end_point()?;
        } else {
            self.consistency_point()?;
        }
        Ok(self)
    }

    /// Determines which blocks are in use, which are the blocks to which a map refers.
    pub(super) fn sweep(&mut self) -> Result<()> {
        self.space = space_of(&mut self.array, &mut self.maps, &self.catalogue)?;
        Ok(())
    }

    fn replay(&mut self, entries: Vec<Entry>) -> Result<()> {
        for Entry { lun, first, count, data } in entries {
            // The log cannot refer to a deleted LUN, because the deletion was a consistency point.
            let blocks = self.catalogue.luns.iter().find(|entry| entry.id == lun).map(|entry| entry.blocks);
            if blocks.is_none_or(|blocks| first.checked_add(count).is_none_or(|end| end > blocks)) {
                return Err(ArrayError::Luns("the write log names blocks that no LUN has".into()));
            }
            match data {
                Some(data) => {
                    for (index, block) in (first..).zip(data) {
                        self.put_pending(lun, index, Pending::Data(block));
                    }
                }
                None => {
                    for index in self.mapped_blocks(lun, first..first + count)? {
                        self.put_pending(lun, index, Pending::Hole);
                    }
                }
            }
        }
        Ok(())
    }

    /// Adds a block to the next consistency point. Returns true if it replaces data that no consistency point has
    /// written.
    pub(super) fn put_pending(&mut self, lun: u32, index: u64, content: Pending) -> bool {
        self.early.replace(lun, index);
        self.pending_data += u64::from(matches!(content, Pending::Data(_)));
        let before = self.pending.insert((lun, index), content);
        let replaces_data = matches!(before, Some(Pending::Data(_)));
        self.pending_data -= u64::from(replaces_data);
        self.pending_leaves.insert((lun, index / super::block_map::FAN_OUT as u64));
        replaces_data
    }
}
