//! Files and block devices that are to become members. Missing files are created; files in use are refused.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use jetcell_host::machine::DirectoryStorage;
use jetcell_vfs::{IoReason, OpenMode, Vfs, create_new, is_locked, parent_directory, sync_file};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;

use crate::outcome::{CommandContext, CommandError, CommandResult};

/// Files that were created for an array. Dropping this value removes them unless they have become members.
pub struct CreatedMemberFiles<'a> {
    vfs: &'a dyn Vfs,
    created: Vec<PathBuf>,
}

impl<'a> CreatedMemberFiles<'a> {
    /// Creates the files that do not exist. If `is_sparse` is true, no blocks are allocated for them. Fails if an
    /// existing file is in use.
    pub fn create_missing(
        vfs: &'a dyn Vfs,
        paths: &[PathBuf],
        size: Option<u64>,
        is_sparse: bool,
    ) -> CommandResult<CreatedMemberFiles<'a>> {
        let missing: Vec<&PathBuf> = paths.iter().filter(|path| !path.exists()).collect();
        for path in paths.iter().filter(|path| path.exists()) {
            refuse_used(path)?;
        }
        let mut files = CreatedMemberFiles { vfs, created: vec![] };
        for path in missing {
            let shown = path.display();
            let Some(size) = size else {
                return Err(CommandError::new(format_args!("{shown} does not exist"))
                    .advise("to create files, add --size, or specify a different path"));
            };
            if path.starts_with("/dev") {
                return Err(CommandError::new(format_args!(
                    "{shown}: the device does not exist, and files cannot be created in this directory"
                )));
            }
            if files.created.contains(path) {
                return Err(CommandError::new(format_args!("{shown} is specified more than once"))
                    .advise("each member must be a separate file"));
            }
            files.create_file(path, size, is_sparse).context(format_args!("{shown}: cannot be created"))?;
        }
        Ok(files)
    }

    fn create_file(&mut self, path: &Path, size: u64, is_sparse: bool) -> std::io::Result<()> {
        if is_sparse {
            // `create_new` returns the new file itself, even if the path is replaced by another file.
            let file = create_new(path)?;
            self.created.push(path.to_path_buf());
            file.set_len(size)?;
            sync_file(&file)?;
        } else {
            let file = self.vfs.open(path, OpenMode::CreateNew)?;
            self.created.push(path.to_path_buf());
            file.grow(size)?;
            file.sync(IoReason::Other)?;
        }
        self.vfs.sync_directory(parent_directory(path))
    }

    /// Keeps the files, because the array uses them.
    pub fn keep(mut self) {
        self.created.clear();
    }
}

impl Drop for CreatedMemberFiles<'_> {
    fn drop(&mut self) {
        for path in &self.created {
            // The original error is reported, so a failure of the removal is ignored.
            let _ = self.vfs.remove(path);
        }
    }
}

/// Returns true if a path is a link to a file, or a dangling link. Links to devices, such as those in /dev/disk, are
/// common device names and are not included.
pub fn is_link_to_file(path: &Path) -> bool {
    let is_device = || std::fs::metadata(path).is_ok_and(|found| found.file_type().is_block_device());
    path.is_symlink() && !is_device()
}

/// Fails if another program uses the file or the device.
fn refuse_used(path: &Path) -> CommandResult<()> {
    let shown = path.display();
    let metadata = std::fs::metadata(path).context(&shown)?;
    if metadata.is_dir() {
        return Err(CommandError::new(format_args!("{shown} is a directory"))
            .advise("a member must be a file or a block device"));
    }
    let busy = || {
        CommandError::new(format_args!("{shown} is in use by another process"))
            .advise("end that process, or specify a different member")
    };
    if is_locked(path).context(&shown)? {
        return Err(busy());
    }
    if metadata.file_type().is_block_device() {
        // With these flags, the kernel refuses to open devices that are mounted or belong to another array.
        let flags = OFlags::RDWR | OFlags::EXCL | OFlags::CLOEXEC;
        match rustix::fs::openat(CWD, path, flags, Mode::empty()) {
            Err(Errno::BUSY) => {
                return Err(CommandError::new(format_args!(
                    "{shown} is in use: it is mounted, or part of another array"
                )));
            }
            other => {
                other.map_err(io::Error::from).context(shown)?;
            }
        }
    }
    Ok(())
}

/// Returns warnings about members on the same device, because they would fail together.
pub fn shared_devices(members: &[PathBuf]) -> Vec<String> {
    let mut by_device: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for path in members {
        let Ok(metadata) = std::fs::metadata(path) else { continue };
        let known = DirectoryStorage::examine(path).device.map(|device| device.name);
        let device = known.unwrap_or_else(|| format!("with the number {}", metadata.dev()));
        by_device.entry(device).or_default().push(path.display().to_string());
    }
    let shared = by_device.into_iter().filter(|(_, members)| members.len() > 1);
    let warning = |(device, members): (String, Vec<String>)| {
        let (count, first, last) = (members.len(), &members[0], &members[members.len() - 1]);
        format!(
            "Warning: {count} members ({first} to {last}) are on one device ({device}); if it fails, all of \
             them fail"
        )
    };
    shared.map(warning).collect()
}
