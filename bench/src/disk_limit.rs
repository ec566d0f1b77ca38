//! Limits the transfers of a disk for this process, so that a virtual disk that is memory of its host behaves as a
//! disk.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};

use crate::control_group::{ControlGroup, MemoryLimitSource, hierarchy};

/// Quantity that is limited.
#[derive(Clone, Copy)]
pub enum DiskLimitKind {
    /// Bytes of reads, and of writes.
    BytesPerSecond(u64),
    ReadsPerSecond(u64),
}

impl DiskLimitKind {
    /// The words of `io.max`, which version 2 has.
    fn words(self) -> String {
        match self {
            DiskLimitKind::BytesPerSecond(bytes) => format!("rbps={bytes} wbps={bytes}"),
            DiskLimitKind::ReadsPerSecond(reads) => format!("riops={reads}"),
        }
    }

    /// The files of version 1, and the value of all.
    fn files(self) -> (&'static [&'static str], u64) {
        match self {
            DiskLimitKind::BytesPerSecond(bytes) => {
                (&["blkio.throttle.read_bps_device", "blkio.throttle.write_bps_device"], bytes)
            }
            DiskLimitKind::ReadsPerSecond(reads) => (&["blkio.throttle.read_iops_device"], reads),
        }
    }
}

/// The limit is in force until this is dropped.
pub struct DiskLimit {
    disk: String,
    /// The files of the control group that hold the limit.
    files: Vec<PathBuf>,
    _group: Option<ControlGroup>,
}

impl DiskLimit {
    /// Limits the disk that has `path`. `memory` is the group that limits the memory of this process.
    pub fn enter(path: &Path, limit: DiskLimitKind, memory: &ControlGroup) -> Result<DiskLimit> {
        let disk = disk_of(path)?;
        // In version 2, a process is in one group, which has all its limits.
        if let Some(own) = memory.own.as_ref().filter(|own| own.join("io.max").exists()) {
            let file = own.join("io.max");
            fs::write(&file, format!("{disk} {}", limit.words()))
                .with_context(|| file.display().to_string())?;
            return Ok(DiskLimit { disk, files: vec![file], _group: None });
        }
        let home = hierarchy("blkio")
            .ok_or_else(|| anyhow!("this user does not have access to an I/O controller"))?;
        let (limits, value) = limit.files();
        let values: Vec<_> = limits.iter().map(|file| (*file, format!("{disk} {value}"))).collect();
        let group =
            ControlGroup::create(home, &values, MemoryLimitSource::None("a group for the disk".to_string()))?;
        Ok(DiskLimit { disk, files: Vec::new(), _group: Some(group) })
    }
}

impl Drop for DiskLimit {
    fn drop(&mut self) {
        for file in &self.files {
            let _ = fs::write(file, format!("{} rbps=max wbps=max riops=max", self.disk));
        }
    }
}

/// The numbers of the disk, not of its partition, that has a path.
fn disk_of(path: &Path) -> Result<String> {
    let device = fs::metadata(path)?.dev();
    let numbers = format!("{}:{}", libc::major(device), libc::minor(device));
    let sys = fs::canonicalize(Path::new("/sys/dev/block").join(&numbers))
        .with_context(|| format!("{} is not on a block device", path.display()))?;
    if sys.join("partition").exists() {
        Ok(fs::read_to_string(sys.join("../dev"))?.trim().to_string())
    } else {
        Ok(numbers)
    }
}
