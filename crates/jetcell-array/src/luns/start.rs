//! The beginning of a volume, and its start after a shutdown or a crash.

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

/// The write log of a volume.
#[derive(Clone)]
pub struct LogOptions {
    /// Where its file is.
    pub vfs: Arc<dyn Vfs>,
    /// The file.
    pub path: PathBuf,
    /// Its size when it is made, in bytes. The log of a volume keeps its size. Consistency points are at most this far apart, unless
    /// nothing is flushed.
    pub bytes: u64,
    /// Start although the log is lost or damaged: writes after the last consistency point are lost, although they were acknowledged.
    pub forget: bool,
}

impl LogOptions {
    /// A log of 64 MiB, which must be whole.
    pub fn new(vfs: Arc<dyn Vfs>, path: PathBuf) -> LogOptions {
        LogOptions { vfs, path, bytes: 64 << 20, forget: false }
    }
}

/// The catalogue that counts.
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

/// The blocks that maps refer to, and the window.
fn space_of(array: &mut Array, maps: &mut Maps, catalogue: &Catalogue) -> Result<Space> {
    let mut space = Space::new(*array.layout());
    let mut reader = MapReader { maps, array, sequence: catalogue.sequence };
    for (root, height) in catalogue.trees() {
        // Below a node that is known already, all blocks are known.
        walk(&mut reader, root, height, &mut |block| space.take(block))?;
    }
    space.set_window(&catalogue.window);
    Ok(space)
}

/// Shuts the array down: the next start need not take it for one that crashed.
fn refuse<T>(array: Array, error: ArrayError) -> Result<T> {
    array.close()?;
    Err(error)
}

impl LunVolume {
    /// Whether an array holds a volume of LUNs.
    ///
    /// # Errors
    /// The array cannot be read.
    pub fn is_on(array: &mut Array) -> Result<bool> {
        Ok(array.layout().blocks() > FIRST_BLOCK && newest_catalogue(array)?.is_some())
    }

    /// Makes an array that was never written a volume without LUNs, and starts it.
    ///
    /// # Errors
    /// The array was written, or is too small.
    pub fn create(array: Array, log: &LogOptions) -> Result<LunVolume> {
        let blocks = array.layout().blocks();
        let catalogue = Catalogue { next_lun: 1, is_clean: true, ..Catalogue::default() };
        let file = if blocks <= 2 * FIRST_BLOCK {
            let text =
                format!("the array has {blocks} blocks; LUNs on it need more than {}", 2 * FIRST_BLOCK);
            Err(Refusal::Parameter(text).into())
        } else if array.was_written() {
            Err(Refusal::Parameter("the array holds something else; LUNs need a new one".into()).into())
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

    /// Makes the rows of an array fit together that a crash may have left otherwise, if it holds LUNs. Needs no write log, and changes
    /// nothing that a LUN refers to. Scrubs and rebuilds of the array need it; [`LunVolume::start`] does the same.
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

    /// Starts the volume of an array.
    ///
    /// # Errors
    /// The array holds none; the write log is needed and is lost or damaged; the volume is damaged.
    pub fn start(mut array: Array, log: &LogOptions) -> Result<LunVolume> {
        let Some(catalogue) = newest_catalogue(&mut array)? else {
            let text = "the array holds no LUNs, or both catalogues of its LUNs are damaged";
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

    /// Makes the log again, in its present form. The content of the old one goes to the array first.
    fn replace_log(&mut self, log: &LogOptions) -> Result<()> {
        self.shut_log()?;
        let (array, made) = (self.array.id(), self.catalogue.sequence);
        let identity = LogIdentity { array, made, bytes: 0 };
        self.log = WriteLog::create_again(&*log.vfs, &log.path, log.bytes, identity)?;
        (self.catalogue.log_made, self.catalogue.log_bytes) = (made, self.log.bytes());
        Ok(())
    }

    /// The volume with the space that its maps leave.
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

    /// From here on, the log is needed, and rows of the window may hold anything after a crash.
    fn open(mut self) -> Result<LunVolume> {
        self.catalogue.is_clean = false;
        if self.pending.is_empty() {
            self.end_point()?;
        } else {
            self.consistency_point()?;
        }
        Ok(self)
    }

    /// Finds out which blocks are in use: those that a map refers to.
    pub(super) fn sweep(&mut self) -> Result<()> {
        self.space = space_of(&mut self.array, &mut self.maps, &self.catalogue)?;
        Ok(())
    }

    fn replay(&mut self, entries: Vec<Entry>) -> Result<()> {
        for Entry { lun, first, count, data } in entries {
            // A LUN that was deleted is not written any more: the deletion was a consistency point.
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

    /// Adds a block to the next consistency point.
    /// Returns whether it replaces data that no consistency point has written.
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
