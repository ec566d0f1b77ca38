//! Creation of arrays.

use std::io::Read;
use std::path::{Path, PathBuf};

use jetcell_array::{Array, AssembleOptions, BLOCK, CreateArrayOptions, RaidLevel};
use jetcell_host::EventLines;
use jetcell_input::number::human_bytes;
use jetcell_input::quantity::ByteSize;
use serde_json::json;

use crate::directory::{ArrayDirectory, ArrayEventSeverity, ArrayFiles, absolute};
use crate::environment::ServiceEnvironment;
use crate::error::{Error, Result};
use crate::members::{CreatedMemberFiles, SharedDevice, SimulatedDriveOptions};

/// Source of the array's identity.
const RANDOM_SOURCE: &str = "/dev/urandom";
/// Maximum number of blocks in a chunk.
const MAX_CHUNK_BLOCKS: u64 = 64;

/// Request to create an array.
#[derive(Clone, PartialEq, Debug)]
pub struct NewArray {
    /// Directory for the array.
    pub directory: PathBuf,
    /// Level of data protection.
    pub level: RaidLevel,
    /// Files or block devices of equal size.
    pub members: Vec<PathBuf>,
    /// Members that stand by to replace failed members.
    pub spares: Vec<PathBuf>,
    /// Size of missing files, which are created. `None` if missing files are refused.
    pub size: Option<ByteSize>,
    /// Number of consecutive bytes on one member.
    pub chunk: ByteSize,
    /// Name or file of the drive that the members simulate, and the factor by which it is faster than a real one.
    pub simulated_drive: Option<(String, f64)>,
    /// Whether to use members that hold data or belong to an array. Their content is destroyed.
    pub force: bool,
}

/// An array that was created.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CreatedArray {
    /// Identity of the array.
    pub id: u128,
    /// Capacity of the array.
    pub bytes: u64,
    /// Absolute paths of the members.
    pub members: Vec<PathBuf>,
    /// Absolute paths of the spares.
    pub spares: Vec<PathBuf>,
}

impl NewArray {
    /// Creates the array.
    ///
    /// # Errors
    /// Returns an error if the request was refused. Nothing was changed, except on members with data if `force` is set.
    pub fn create(&self, environment: &ServiceEnvironment) -> Result<CreatedArray> {
        ArrayDirectory::refuse_used(&self.directory)?;
        let absolute_paths =
            |paths: &[PathBuf]| paths.iter().map(|path| absolute(path)).collect::<Result<Vec<_>>>();
        let (members, spares) = (absolute_paths(&self.members)?, absolute_paths(&self.spares)?);
        let all = [members.clone(), spares.clone()].concat();
        let drive = self.simulated_drive.as_ref();
        let drive = drive.map(|(name, scale)| SimulatedDriveOptions::new(name, *scale)).transpose()?;
        drive.as_ref().map_or(Ok(()), |drive| drive.check_size(self.size))?;
        let vfs = &environment.vfs;
        let size = self.size.map(|size| size.0);
        let files = CreatedMemberFiles::create_missing(&**vfs, &all, size, drive.is_some())?;
        let options = CreateArrayOptions {
            chunk: self.chunk_blocks()?,
            force: self.force,
            ..CreateArrayOptions::new(self.level, random_id()?)
        };
        Array::create(&**vfs, &members, &options)?;
        let mut array = Array::assemble(vfs.clone(), &members, AssembleOptions::default())?;
        spares.iter().try_for_each(|spare| array.add_spare(spare, self.force))?;
        let (bytes, id) = (array.layout().bytes(), options.id);
        array.close()?;
        // The directory is claimed only at this point, because a refused command must not change anything. Another
        // process may have created an array in the directory in the meantime.
        let path = &self.directory;
        let claimed = ArrayDirectory::claim(&**vfs, path).inspect_err(|_| {
            // The original error is reported, so a failure of the erasure is ignored.
            let _ = Array::erase(&**vfs, id, &all);
        })?;
        let events = EventLines::open(path, true)
            .map_err(|source| Error::EventFile { array: path.clone(), source })?;
        let is_simulated = drive.is_some();
        let (path, listed) = (path.clone(), all.clone());
        let directory = ArrayDirectory {
            path,
            id,
            members: listed,
            former: vec![],
            write_log: None,
            simulated_drive: drive,
        };
        directory.save()?;
        files.keep();
        claimed.keep();
        let (level, count) = (self.level, members.len());
        let text = format!("An array was created: {level}, {count} members, {}.", human_bytes(bytes));
        let figures = json!({ "level": level.to_string(), "members": count, "bytes": bytes });
        let files = ArrayFiles { directory, events };
        files.event("array_created", ArrayEventSeverity::Information, &text, figures);
        if !is_simulated {
            SharedDevice::find_all(&all).into_iter().for_each(|shared| environment.note(shared));
        }
        Ok(CreatedArray { id, bytes, members, spares })
    }

    fn chunk_blocks(&self) -> Result<u32> {
        let blocks = self.chunk.0 / BLOCK as u64;
        let fits = self.chunk.0.is_multiple_of(BLOCK as u64)
            && blocks.is_power_of_two()
            && blocks <= MAX_CHUNK_BLOCKS;
        u32::try_from(blocks).ok().filter(|_| fits).ok_or(Error::ChunkSize(self.chunk))
    }
}

fn random_id() -> Result<u128> {
    let mut bytes = [0; 16];
    let path = Path::new(RANDOM_SOURCE);
    let read = std::fs::File::open(path).and_then(|mut source| source.read_exact(&mut bytes));
    read.map_err(|source| Error::Path { path: path.to_path_buf(), source })?;
    Ok(u128::from_le_bytes(bytes).max(1))
}
