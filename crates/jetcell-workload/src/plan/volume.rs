//! Checks whether directories and their volumes can be used. The checks leave no traces on disk.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use jetcell_host::UnsuitableStorage;
use jetcell_vfs::parent_directory;
use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags};

use crate::engine::StorageEngine;
use crate::layout::InstancePlan;
use crate::profile::{DatabaseSource, Profile, RecoveryMode, TestKind};
use crate::start_error::StartError;
use crate::units::{ByteSize, DatabaseSize};
use jetcell_host::machine::Mount;

/// Disk space needed by a circular log stream: checkpoint depth, reserve logs and a margin.
const CIRCULAR_LOG_BYTES: u64 = 64 << 20;

/// Returns an error if the directory cannot hold databases or logs. If the directory is missing but its parent
/// exists, adds it to `create`.
pub(crate) fn check_directory(dir: &Path, create: &mut Vec<PathBuf>) -> Result<(), StartError> {
    let probe = match fs::metadata(dir) {
        Ok(metadata) if metadata.is_dir() => dir.to_path_buf(),
        Ok(_) => return Err(StartError::NotADirectory(dir.into())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // If the parent directory is missing too, this is more likely a typing mistake or an unmounted volume.
            let parent = match dir.parent() {
                Some(parent) if parent == Path::new("") => Path::new("."),
                Some(parent) => parent,
                None => dir,
            };
            if !parent.is_dir() || dir.symlink_metadata().is_ok() {
                return Err(StartError::NoDirectory(dir.into()));
            }
            if !create.iter().any(|other| other == dir) {
                create.push(dir.to_path_buf());
            }
            parent.to_path_buf()
        }
        Err(error) => return Err(StartError::io("access", dir)(error)),
    };
    if let Some(mount) = Mount::containing(&probe).filter(Mount::is_in_memory) {
        return Err(UnsuitableStorage::InMemory(dir.into(), mount.file_system).into());
    }
    probe_direct_io(&probe).map_err(|error| match error.raw_os_error() {
        Some(code) if code == rustix::io::Errno::INVAL.raw_os_error() => {
            UnsuitableStorage::NoDirectIo(dir.into()).into()
        }
        _ => StartError::NotWritable { path: dir.into(), error },
    })
}

/// Opens an unnamed file for direct I/O. An unnamed file leaves no trace, not even in the directory's timestamps.
fn probe_direct_io(dir: &Path) -> io::Result<()> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC;
    match rustix::fs::openat(CWD, dir, flags, Mode::RUSR | Mode::WUSR) {
        Ok(_) => Ok(()),
        // The file system does not support unnamed files, so only the permissions can be checked.
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::ISDIR | rustix::io::Errno::NOENT) => {
            Ok(rustix::fs::accessat(CWD, dir, Access::WRITE_OK, AtFlags::empty())?)
        }
        Err(error) => Err(error.into()),
    }
}

/// The volume of a path, which need not exist yet.
struct PathVolume {
    /// Nearest existing parent directory.
    existing_parent: PathBuf,
    /// Identity of the volume; all paths on the volume share it.
    volume: PathVolumeId,
    total: u64,
    free: u64,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum PathVolumeId {
    Device(u64),
    /// Directory of the array.
    Array(PathBuf),
}

fn space_at(engine: &dyn StorageEngine, path: &Path) -> Result<PathVolume, StartError> {
    let cannot = |error: io::Error| StartError::FreeSpace { path: path.into(), error };
    if let Some(array) = engine.array_of(path) {
        let free = engine.files().free_space(path).map_err(cannot)?;
        return Ok(PathVolume {
            existing_parent: array.clone(),
            volume: PathVolumeId::Array(array),
            total: free,
            free,
        });
    }
    let there = path.ancestors().find(|path| path.exists()).unwrap_or(Path::new("."));
    let device = fs::metadata(there).map_err(cannot)?.dev();
    let stat = rustix::fs::statvfs(there).map_err(|errno| cannot(errno.into()))?;
    let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
    Ok(PathVolume {
        existing_parent: there.to_path_buf(),
        volume: PathVolumeId::Device(device),
        total: bytes(stat.f_blocks),
        free: bytes(stat.f_bavail),
    })
}

/// Sets the size of every database. If the size is a share of a volume, all databases on the volume get equal parts of
/// this share. The share also covers their space for growth.
pub(crate) fn size_databases(
    profile: &Profile,
    engine: &dyn StorageEngine,
    instances: &mut [InstancePlan],
) -> Result<(), StartError> {
    let percent = match profile.size {
        DatabaseSize::Absolute(size) => {
            instances.iter_mut().for_each(|instance| instance.initial_bytes = size.0);
            return Ok(());
        }
        DatabaseSize::VolumePercent(percent) => u64::from(percent),
    };
    let spaces: Vec<PathVolume> =
        instances.iter().map(|instance| space_at(engine, &instance.database)).collect::<Result<_, _>>()?;
    for (instance, space) in instances.iter_mut().zip(&spaces) {
        let sharing = spaces.iter().filter(|other| other.volume == space.volume).count() as u64;
        let with_growth = space.total / 100 * percent / sharing;
        let bytes = with_growth / (100 + u64::from(profile.growth_percent)) * 100;
        instance.initial_bytes = bytes >> 20 << 20;
        profile.fits_a_database(ByteSize(instance.initial_bytes)).map_err(|error| {
            StartError::SizeOfVolume { database: instance.database.clone(), percent, error }
        })?;
    }
    Ok(())
}

/// Returns the number of bytes allocated for a file, or 0 if it does not exist.
fn allocated(engine: &dyn StorageEngine, file: &Path) -> u64 {
    if engine.array_of(file).is_some() {
        return engine.files().file_len(file).unwrap_or(0);
    }
    file.metadata().map_or(0, |file| file.blocks().saturating_mul(512))
}

/// Returns an error if the plan needs more space than is free. Files that the run will remove count as free space.
pub(crate) fn check_space(
    profile: &Profile,
    engine: &dyn StorageEngine,
    instances: &[InstancePlan],
    remove: &[PathBuf],
    put_back: bool,
) -> Result<(), StartError> {
    struct VolumeNeeds {
        path: PathBuf,
        needed: u64,
        free: u64,
    }
    let mut volumes: BTreeMap<PathVolumeId, VolumeNeeds> = BTreeMap::new();
    let mut need = |path: &Path, bytes: u64| -> Result<(), StartError> {
        let space = space_at(engine, path)?;
        let new = || VolumeNeeds { path: space.existing_parent, needed: 0, free: space.free };
        let volume = volumes.entry(space.volume).or_insert_with(new);
        volume.needed = volume.needed.saturating_add(bytes);
        Ok(())
    };
    for instance in instances {
        let replayed = match profile.test {
            TestKind::Recovery => u64::from(profile.logs) << 20,
            _ => 0,
        };
        let growth = (instance.initial_bytes / 100 * u64::from(profile.growth_percent)).max(replayed);
        let kept = match (profile.test, profile.mode) {
            (TestKind::Recovery, RecoveryMode::True) => instance.initial_bytes,
            _ => 0,
        };
        // Shared blocks need additional space once they are changed.
        let kept = kept + if profile.reset.is_some() && !put_back { instance.initial_bytes } else { 0 };
        let there = allocated(engine, &instance.database);
        let created = match profile.source {
            DatabaseSource::Open => 0,
            DatabaseSource::Resume => instance.initial_bytes.saturating_sub(there),
            DatabaseSource::New | DatabaseSource::Replace => instance.initial_bytes,
        };
        let directory = parent_directory(&instance.database);
        need(directory, created.saturating_add(growth).saturating_add(kept))?;
        // Without circular logging, all data written to a database is also kept in the logs.
        let logs = match profile.test {
            TestKind::Recovery => replayed,
            _ if profile.circular_log => 0,
            _ => created.saturating_add(growth),
        };
        let kept_logs = if profile.reset.is_some() { CIRCULAR_LOG_BYTES } else { 0 };
        need(&instance.log_dir, logs.saturating_add(CIRCULAR_LOG_BYTES).saturating_add(kept_logs))?;
    }
    if profile.test == TestKind::Replication {
        let of_each = profile.copies as u64 + u64::from(profile.keep_instance.is_none());
        let default = profile.dirs.first().map(|dir| dir.join("copies"));
        let places: Vec<&Path> = match &profile.copy_dirs[..] {
            [] => default.iter().map(|place| &**place).collect(),
            given => given.iter().map(|place| &**place).collect(),
        };
        let databases = instances.iter().map(|one| one.initial_bytes).fold(0, u64::saturating_add);
        let all =
            databases.saturating_add(instances.len() as u64 * CIRCULAR_LOG_BYTES).saturating_mul(of_each);
        for place in &places {
            need(place, all / places.len() as u64)?;
        }
    }
    if let Some(to) = &profile.to {
        let databases = instances.iter().map(|one| one.initial_bytes).fold(0, u64::saturating_add);
        need(to, databases.saturating_add(instances.len() as u64 * CIRCULAR_LOG_BYTES))?;
    }
    for file in remove {
        let volume = match (engine.array_of(file), file.metadata()) {
            (Some(array), _) => PathVolumeId::Array(array),
            (None, Ok(metadata)) => PathVolumeId::Device(metadata.dev()),
            (None, Err(_)) => continue,
        };
        if let Some(volume) = volumes.get_mut(&volume) {
            volume.free += allocated(engine, file);
        }
    }
    match volumes.into_values().find(|volume| volume.needed > volume.free) {
        Some(VolumeNeeds { path, needed, free }) => {
            Err(UnsuitableStorage::NoSpace { path, needed, free }.into())
        }
        None => Ok(()),
    }
}
