//! Block devices whose content may be overwritten. A device that is mounted, holds the running system, or is used by
//! another layer is refused.

use std::borrow::Cow;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use jetcell_host::machine::Mount;
use jetcell_vfs::{RealOptions, RealVfs};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use thiserror::Error;

use crate::raw_content::describe_raw_content;
use crate::system::System;

/// A block device that nothing else uses, opened exclusively by this process.
#[derive(Debug)]
pub struct ErasableDevice {
    /// Path of the device, with symbolic links resolved.
    pub path: PathBuf,
    claim: OwnedFd,
}

/// Reason why a device cannot be erased.
#[derive(Debug, Error)]
pub enum EraseError {
    /// The path is not a block device.
    #[error("{} is not a block device", .0.display())]
    NotBlockDevice(PathBuf),
    /// The device is a whole disk on which the running system is stored.
    #[error("{} is the disk that the running system uses", .0.display())]
    SystemDisk(PathBuf),
    /// The device or one of its partitions is mounted.
    #[error("{} is mounted on {}", .path.display(), .point.display())]
    Mounted {
        /// The device.
        path: PathBuf,
        /// Mount point.
        point: PathBuf,
    },
    /// Another device is stacked on top of the device.
    #[error("{} is part of {holder}", .path.display())]
    HasHolder {
        /// The device.
        path: PathBuf,
        /// Name of the other device.
        holder: String,
    },
    /// The kernel does not grant exclusive access to the device.
    #[error("{} is in use: it is mounted, used as swap space, or part of another device", .0.display())]
    Busy(PathBuf),
    /// The device contains data.
    #[error("{} contains {found}", .path.display())]
    HasContent {
        /// The device.
        path: PathBuf,
        /// Names of the signatures found on it.
        found: String,
    },
    /// The user has no write access to the device, or the device is read-only.
    #[error("{}: erasing a device requires root and a writable device: {error}", .path.display())]
    NotAllowed {
        /// The device.
        path: PathBuf,
        /// Error that the system returned.
        #[source]
        error: io::Error,
    },
    /// Any other error.
    #[error("failed to access {}: {error}", .path.display())]
    Unusable {
        /// The device.
        path: PathBuf,
        /// Error that the system returned.
        #[source]
        error: io::Error,
    },
}

impl EraseError {
    /// Returns what the user can do about the error, for example `unmount it first`.
    pub fn advice(&self) -> Option<Cow<'static, str>> {
        Some(Cow::Borrowed(match self {
            EraseError::NotBlockDevice(_) => "--erase applies only to block devices",
            EraseError::SystemDisk(_) => "specify a different device",
            EraseError::Mounted { .. } => "unmount it first",
            EraseError::HasHolder { .. } => "stop that device first",
            EraseError::HasContent { .. } => "add --force to erase it",
            EraseError::NotAllowed { .. } => "run the command as root",
            EraseError::Busy(_) | EraseError::Unusable { .. } => return None,
        }))
    }
}

impl ErasableDevice {
    /// Claims a device for exclusive use. Nothing is written. With `force`, unused file systems, partitions,
    /// array members, write logs and ESE files are ignored.
    ///
    /// # Errors
    /// Returns an error if the device must not be erased or cannot be erased.
    pub fn claim(path: &Path, force: bool, system: &dyn System) -> Result<ErasableDevice, EraseError> {
        let unusable = |error| EraseError::Unusable { path: path.into(), error };
        let device = path.canonicalize().map_err(unusable)?;
        let metadata = fs::metadata(&device).map_err(unusable)?;
        if !metadata.file_type().is_block_device() {
            return Err(EraseError::NotBlockDevice(path.into()));
        }
        let node = node(metadata.rdev());
        check_unused(path, &device, &node, system)?;
        let flags = OFlags::RDWR | OFlags::EXCL | OFlags::CLOEXEC;
        let claim = rustix::fs::openat(CWD, &device, flags, Mode::empty()).map_err(|error| match error {
            Errno::BUSY => EraseError::Busy(path.into()),
            Errno::ACCESS | Errno::PERM | Errno::ROFS => {
                EraseError::NotAllowed { path: path.into(), error: error.into() }
            }
            other => unusable(other.into()),
        })?;
        if !force && let Some(found) = raw_content(&device).or_else(|| signatures(&device, system)) {
            return Err(EraseError::HasContent { path: path.into(), found });
        }
        Ok(ErasableDevice { path: device, claim })
    }

    /// Releases the claim, which allows programs to make and mount a file system on the device. Returns the device's
    /// path.
    pub fn release(self) -> PathBuf {
        drop(self.claim);
        self.path
    }
}

/// Returns a device's sysfs directory.
fn node(number: u64) -> PathBuf {
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let link = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    link.canonicalize().unwrap_or(link)
}

/// Fails if the kernel reports that the device is in use, for example by a mount or a holder. If this function misses a
/// use, the later exclusive open fails.
fn check_unused(path: &Path, device: &Path, node: &Path, system: &dyn System) -> Result<(), EraseError> {
    let partitions: Vec<String> = system
        .list_directory(&node.display().to_string())
        .into_iter()
        .filter(|name| node.join(name).join("partition").exists())
        .collect();
    let root = fs::metadata("/").map(|root| node_of_mount(root.dev(), "/", system)).unwrap_or_default();
    let below = root.iter().flat_map(|root| disks_below(root, system, 0)).collect::<Vec<_>>();
    if below.iter().any(|disk| disk == node) {
        return Err(EraseError::SystemDisk(path.into()));
    }
    let parts = partitions.iter().map(|name| Path::new("/dev").join(name));
    let parts: Vec<PathBuf> = std::iter::once(device.to_path_buf()).chain(parts).collect();
    for mount in Mount::table(&system.read("/proc/self/mountinfo")) {
        if parts.iter().any(|part| *part == Path::new(&mount.source)) {
            return Err(EraseError::Mounted { path: path.into(), point: mount.point });
        }
    }
    let nodes = std::iter::once(node.to_path_buf()).chain(partitions.iter().map(|name| node.join(name)));
    for node in nodes {
        if let Some(holder) =
            system.list_directory(&node.join("holders").display().to_string()).into_iter().next()
        {
            return Err(EraseError::HasHolder { path: path.into(), holder });
        }
    }
    Ok(())
}

/// Returns the device on which a mounted file system is stored. A file system that spans several devices has an
/// anonymous device number; in this case, the device is determined from the mount source.
pub(crate) fn node_of_mount(number: u64, point: &str, system: &dyn System) -> Option<PathBuf> {
    let own = node(number);
    if own.exists() {
        return Some(own);
    }
    let mounts = Mount::table(&system.read("/proc/self/mountinfo"));
    let mount = mounts.into_iter().rfind(|mount| mount.point == Path::new(point))?;
    if mount.file_system == "overlay" {
        return layers(&mount.options).find_map(|layer| {
            let below = node(fs::metadata(layer).ok()?.dev());
            below.exists().then_some(below)
        });
    }
    let device = fs::metadata(mount.source).ok()?;
    device.file_type().is_block_device().then(|| node(device.rdev()))
}

/// Returns the directories of an overlay, with the writable directory first. These paths do not resolve inside a
/// container, but if something on the device is mounted, opening it exclusively still fails.
fn layers(options: &str) -> impl Iterator<Item = &str> {
    let option_values =
        |key: &'static str| options.split(',').filter_map(move |option| option.strip_prefix(key));
    option_values("upperdir=").chain(option_values("lowerdir=").flat_map(|layers| layers.split(':')))
}

/// Maximum number of stacked device layers to follow.
const MAX_LAYERS: usize = 16;

/// Returns the whole disks on which a device is stored. If the device is a disk, this is the device itself.
pub(crate) fn disks_below(node: &Path, system: &dyn System, layer: usize) -> Vec<PathBuf> {
    let disk = if node.join("partition").exists() {
        node.parent().unwrap_or(node).to_path_buf()
    } else {
        node.to_path_buf()
    };
    let slaves = node.join("slaves");
    let below = system.list_directory(&slaves.display().to_string()).into_iter();
    let below = below.filter(|_| layer < MAX_LAYERS);
    let below = below.filter_map(|name| slaves.join(name).canonicalize().ok());
    let mut all: Vec<PathBuf> = below.flat_map(|slave| disks_below(&slave, system, layer + 1)).collect();
    all.push(disk);
    all
}

/// Returns a description of content that `wipefs` does not know, or a message if the device cannot be examined.
fn raw_content(device: &Path) -> Option<String> {
    RealVfs::new(RealOptions::default())
        .and_then(|vfs| describe_raw_content(&vfs, device))
        .unwrap_or_else(|error| Some(format!("unrecognized data ({error})")))
}

/// Returns the signatures on a device, as reported by `wipefs` in read-only mode, or a message that describes the
/// error if `wipefs` fails.
fn signatures(device: &Path, system: &dyn System) -> Option<String> {
    let mut look = Command::new("wipefs");
    look.args(["--no-act", "--noheadings", "--output", "TYPE"]).arg(device);
    match system.run(look, &[]) {
        Ok(found) => {
            let mut names: Vec<&str> = found.split_whitespace().collect();
            names.sort_unstable();
            names.dedup();
            (!names.is_empty()).then(|| names.join(", "))
        }
        Err(error) => Some(format!("unrecognized data ({error})")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::LocalSystem;
    use crate::system::fake::FakeSystem;
    use testkit::{TestRequirement, skip};

    #[test]
    fn anything_except_a_block_device_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "text").unwrap();
        let refused = |path: &Path| ErasableDevice::claim(path, true, &LocalSystem).unwrap_err();
        assert!(matches!(refused(&file), EraseError::NotBlockDevice(_)));
        assert!(matches!(refused(directory.path()), EraseError::NotBlockDevice(_)));
        assert!(matches!(refused(Path::new("/dev/null")), EraseError::NotBlockDevice(_)));
        assert!(matches!(refused(&directory.path().join("none")), EraseError::Unusable { .. }));
    }

    #[test]
    fn the_disk_of_the_running_system_is_refused() {
        let Some(root) = node_of_mount(fs::metadata("/").unwrap().dev(), "/", &LocalSystem) else {
            return skip(
                TestRequirement::Kernel,
                "the disk of this system is not visible, as in a container",
            );
        };
        let disks = disks_below(&root, &LocalSystem, 0);
        assert!(!disks.is_empty());
        for disk in disks {
            let device = Path::new("/dev").join(disk.file_name().unwrap());
            if device.exists() {
                let refused = ErasableDevice::claim(&device, true, &LocalSystem).unwrap_err();
                assert!(matches!(refused, EraseError::SystemDisk(_)), "{refused}");
            } else {
                skip(TestRequirement::Kernel, format!("{} is not in /dev", device.display()));
            }
        }
    }

    #[test]
    fn an_overlay_resolves_to_the_disks_of_the_layers() {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let upper = directory.path().display();
        let own = node(fs::metadata(directory.path()).unwrap().dev());
        let found = |options: &str| {
            let table = format!("36 35 0:99 / / rw - overlay overlay {options}\n");
            let system = FakeSystem::default().with_file("/proc/self/mountinfo", &table);
            // No device has this number.
            node_of_mount(rustix::fs::makedev(0, 9_999), "/", &system)
        };
        assert_eq!(found("rw,lowerdir=/none,upperdir=/none"), None);
        if !own.exists() {
            return skip(TestRequirement::Kernel, "the device of this directory is not visible");
        }
        assert_eq!(
            found(&format!("rw,lowerdir=/none:/none2,upperdir={upper},workdir=/none")),
            Some(own.clone())
        );
        assert_eq!(found(&format!("ro,lowerdir=/none:{upper}")), Some(own));
    }

    #[test]
    fn mounts_and_holders_are_named() {
        let (device, node) = (Path::new("/dev/sdz"), Path::new("/sys/devices/x/block/sdz"));
        let refused = |system: &FakeSystem| {
            let error = check_unused(device, device, node, system).unwrap_err();
            jetcell_input::with_advice(&error, error.advice())
        };
        let mounted = FakeSystem::default()
            .with_file("/proc/self/mountinfo", "36 35 8:0 / /mnt/data rw - btrfs /dev/sdz rw\n");
        assert_eq!(refused(&mounted), "/dev/sdz is mounted on /mnt/data; unmount it first");
        let held = FakeSystem::default().with_file("/sys/devices/x/block/sdz/holders/md0", "");
        assert_eq!(refused(&held), "/dev/sdz is part of md0; stop that device first");
        assert!(check_unused(device, device, node, &FakeSystem::default()).is_ok());
    }

    #[test]
    fn signatures_are_named_once_and_failed_probes_report_data() {
        let device = Path::new("/dev/sdz");
        let look = |system: FakeSystem| signatures(device, &system);
        assert_eq!(look(FakeSystem::default()), None);
        assert_eq!(look(FakeSystem::default().printing("wipefs", "gpt\ngpt\next4\n")).unwrap(), "ext4, gpt");
        assert!(look(FakeSystem::default().failing("wipefs")).unwrap().starts_with("unrecognized data"));
    }
}
