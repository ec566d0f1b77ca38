//! Limits the transfer rate of a disk for this process, so that a virtual disk that is memory of its host behaves as a disk.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};

use crate::control_group::{ControlGroup, MemoryLimit, hierarchy};

/// The limit is in force until this is dropped.
pub struct DiskLimit {
    disk: String,
    /// The files of the control group that hold the limit.
    files: Vec<PathBuf>,
    _group: Option<ControlGroup>,
}

impl DiskLimit {
    /// Limits reads, and writes, of the disk that has `path` to so many bytes per second. `memory` is the group that limits
    /// the memory of this process.
    pub fn enter(path: &Path, bytes_per_second: u64, memory: &ControlGroup) -> Result<DiskLimit> {
        let disk = disk_of(path)?;
        // In version 2, a process is in one group, which has all its limits.
        if let Some(own) = memory.own.as_ref().filter(|own| own.join("io.max").exists()) {
            let file = own.join("io.max");
            fs::write(&file, format!("{disk} rbps={bytes_per_second} wbps={bytes_per_second}"))
                .with_context(|| file.display().to_string())?;
            return Ok(DiskLimit { disk, files: vec![file], _group: None });
        }
        let home = hierarchy("blkio").ok_or_else(|| anyhow!("no I/O controller that this user may use"))?;
        let limits = ["blkio.throttle.read_bps_device", "blkio.throttle.write_bps_device"];
        let values: Vec<_> =
            limits.iter().map(|file| (*file, format!("{disk} {bytes_per_second}"))).collect();
        let group =
            ControlGroup::create(home, &values, MemoryLimit::None("a group for the disk".to_string()))?;
        Ok(DiskLimit { disk, files: Vec::new(), _group: Some(group) })
    }
}

impl Drop for DiskLimit {
    fn drop(&mut self) {
        for file in &self.files {
            let _ = fs::write(file, format!("{} rbps=max wbps=max", self.disk));
        }
    }
}

/// The numbers of the disk, not of its partition, that has a path.
fn disk_of(path: &Path) -> Result<String> {
    let device = fs::metadata(path)?.dev();
    let numbers = format!("{}:{}", libc::major(device), libc::minor(device));
    let sys = fs::canonicalize(Path::new("/sys/dev/block").join(&numbers))
        .with_context(|| format!("{} is on no block device", path.display()))?;
    match sys.join("partition").exists() {
        false => Ok(numbers),
        true => Ok(fs::read_to_string(sys.join("../dev"))?.trim().to_string()),
    }
}
