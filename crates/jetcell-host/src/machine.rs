//! Describes the machine of a run: kernel, processor, memory, and for each directory the file system, mount options,
//! device and scheduler. All values are read from `/proc` and `/sys`. A value that cannot be read is omitted, never
//! guessed.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::process::{field, kibibytes_field};

/// A description of the machine on which a test runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Host name.
    pub host: String,
    /// Name of the operating system distribution.
    pub operating_system: String,
    /// Kernel release.
    pub kernel: String,
    /// Processor model.
    pub processor: String,
    /// Number of logical processors.
    pub processors: usize,
    /// Memory size in bytes.
    pub memory_bytes: u64,
    /// Storage under each directory of the run.
    pub storage: Vec<DirectoryStorage>,
}

/// A directory under test, with its mount and device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DirectoryStorage {
    /// Path of the directory.
    #[serde(serialize_with = "jetcell_input::serialize_path")]
    pub directory: PathBuf,
    /// The mount that contains the directory.
    pub mount: Option<Mount>,
    /// The block device of the mount, if it has one.
    pub device: Option<BlockDevice>,
    /// The array that stores the files of the directory. `mount` and `device` are then `None`, because the
    /// machine's file system under the directory does not store the files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<ArrayStorage>,
}

/// A Jetcell array that stores the files of a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrayStorage {
    /// Directory of the array.
    #[serde(serialize_with = "jetcell_input::serialize_path")]
    pub array: PathBuf,
    /// RAID level, such as `raid6`.
    pub level: String,
    /// Members of the array's slots.
    #[serde(serialize_with = "jetcell_input::serialize_paths")]
    pub members: Vec<PathBuf>,
    /// Name of the LUN that stores the files, or `None` if the whole array does.
    pub lun: Option<String>,
    /// Description of the drives that the members simulate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulated_drive: Option<String>,
}

/// A mounted file system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// Mount point.
    #[serde(serialize_with = "jetcell_input::serialize_path")]
    pub point: PathBuf,
    /// Type of the file system, such as `ext4`.
    pub file_system: String,
    /// Source of the mount, such as `/dev/sda1`.
    pub source: String,
    /// Mount options, followed by the options of the file system.
    pub options: String,
}

/// A block device and its settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockDevice {
    /// Kernel name of the whole device, not of a partition.
    pub name: String,
    /// Device model, if the device reports one.
    pub model: Option<String>,
    /// Whether the kernel reports the device as a rotating disk.
    pub rotational: Option<bool>,
    /// Active I/O scheduler.
    pub scheduler: Option<String>,
    /// Maximum number of requests in the queue of the block layer.
    pub queue_requests: Option<u64>,
    /// Write cache mode: `write back` or `write through`.
    pub write_cache: Option<String>,
}

fn read_line(path: impl AsRef<Path>) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_string()).filter(|text| !text.is_empty())
}

impl Machine {
    /// Examines the machine and the storage under `directories`.
    pub fn examine<'a>(directories: impl Iterator<Item = &'a Path>) -> Machine {
        let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
        let mut storage: Vec<DirectoryStorage> = Vec::new();
        for directory in directories {
            if !storage.iter().any(|known| known.directory == directory) {
                storage.push(DirectoryStorage::examine(directory));
            }
        }
        Machine {
            host: read_line("/proc/sys/kernel/hostname").unwrap_or_default(),
            operating_system: field(&release, "PRETTY_NAME").unwrap_or_default().into(),
            kernel: read_line("/proc/sys/kernel/osrelease").unwrap_or_default(),
            processor: field(&processors, "model name").unwrap_or_default().into(),
            processors: jetcell_sync::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: kibibytes_field(&memory, "MemTotal").unwrap_or(0),
            storage,
        }
    }

    /// Records which arrays store the files of directories. Each array is given with the directory whose files it
    /// stores.
    pub fn set_arrays(&mut self, arrays: &[(PathBuf, ArrayStorage)]) {
        for storage in &mut self.storage {
            let found = arrays.iter().find(|(directory, _)| storage.directory.starts_with(directory));
            if let Some((_, array)) = found {
                (storage.mount, storage.device, storage.array) = (None, None, Some(array.clone()));
            }
        }
    }

    /// Returns true if the files of a directory are stored on an array.
    pub fn is_on_array(&self, directory: &Path) -> bool {
        self.storage.iter().any(|storage| storage.directory == directory && storage.array.is_some())
    }
}

impl ArrayStorage {
    /// Returns the level and the number of members, such as `raid6 of 4 members`.
    pub fn level_and_members(&self) -> String {
        format!("{} of {} members", self.level, self.members.len())
    }

    /// Returns the paths of the members, separated by commas.
    pub fn member_list(&self) -> String {
        let names: Vec<String> = self.members.iter().map(|member| member.display().to_string()).collect();
        names.join(", ")
    }
}

impl DirectoryStorage {
    /// Examines the storage under a directory, a file or a block device.
    pub fn examine(directory: &Path) -> DirectoryStorage {
        let number = |metadata: fs::Metadata| {
            if metadata.file_type().is_block_device() { metadata.rdev() } else { metadata.dev() }
        };
        let device =
            fs::metadata(directory).ok().and_then(|metadata| BlockDevice::from_number(number(metadata)));
        let mount = Mount::containing(directory);
        DirectoryStorage { directory: directory.to_path_buf(), mount, device, array: None }
    }
}

impl Mount {
    /// Returns true if the files of the mount are in memory, so a test would not measure any storage. Support for
    /// direct I/O does not indicate real storage, because tmpfs has supported it since Linux 6.6.
    pub fn is_in_memory(&self) -> bool {
        ["tmpfs", "ramfs"].contains(&self.file_system.as_str())
    }

    /// Returns the mount that contains `path`.
    pub fn containing(path: &Path) -> Option<Mount> {
        let path = path.canonicalize().ok()?;
        let table = fs::read_to_string("/proc/self/mountinfo").ok()?;
        // Later mounts at the same mount point hide earlier mounts.
        let mounts = Mount::table(&table).into_iter().filter(|mount| path.starts_with(&mount.point));
        mounts.max_by_key(|mount| mount.point.components().count())
    }

    /// Parses the mounts in a table like `/proc/self/mountinfo`, in table order.
    pub fn table(text: &str) -> Vec<Mount> {
        text.lines().filter_map(Mount::parse).collect()
    }

    /// Parses a line such as `36 35 98:0 /root /point options shared:1 - ext4 /dev/sda1 own-options`.
    fn parse(line: &str) -> Option<Mount> {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(4);
        let (point, options) = (before.next()?, before.next()?);
        let mut after = after.split(' ');
        let (file_system, source) = (after.next()?, after.next()?);
        // An option that occurs in both lists, such as `rw`, is included once.
        let mut all: Vec<&str> = options.split(',').collect();
        for own in after.next().unwrap_or("").split(',') {
            if !own.is_empty() && !all.contains(&own) {
                all.push(own);
            }
        }
        Some(Mount {
            point: PathBuf::from(unescape(point)),
            file_system: file_system.into(),
            source: unescape(source),
            options: all.join(","),
        })
    }
}

/// Decodes the octal escapes in mountinfo. A space and some other characters are written as an escape such as `\040`.
fn unescape(text: &str) -> String {
    let mut parts = text.split('\\');
    let mut out = parts.next().unwrap_or("").to_string();
    for part in parts {
        match part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                out.push(char::from(byte));
                out.push_str(&part[3..]);
            }
            None => {
                out.push('\\');
                out.push_str(part);
            }
        }
    }
    out
}

impl BlockDevice {
    fn from_number(device: u64) -> Option<BlockDevice> {
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let node = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
        // The directory of a partition is inside the directory of its disk.
        let disk = if node.join("partition").exists() { node.parent()?.to_path_buf() } else { node };
        let queue = disk.join("queue");
        let scheduler = read_line(queue.join("scheduler")).map(|all| {
            let active = all.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
            active.map_or(all.clone(), |(name, _)| name.to_string())
        });
        Some(BlockDevice {
            name: disk.file_name()?.to_string_lossy().into_owned(),
            model: read_line(disk.join("device/model")),
            rotational: read_line(queue.join("rotational")).map(|flag| flag == "1"),
            scheduler,
            queue_requests: read_line(queue.join("nr_requests")).and_then(|text| text.parse().ok()),
            write_cache: read_line(queue.join("write_cache")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_lines_are_parsed() {
        let mount = Mount::parse(
            "36 35 98:0 /a /mnt/my\\040disk rw,noatime shared:1 - ext4 /dev/sda1 rw,data=ordered",
        );
        let mount = mount.unwrap();
        assert_eq!(mount.point, Path::new("/mnt/my disk"));
        assert_eq!((mount.file_system.as_str(), mount.source.as_str()), ("ext4", "/dev/sda1"));
        assert_eq!(mount.options, "rw,noatime,data=ordered");
        assert!(Mount::parse("nonsense").is_none());
    }

    #[test]
    fn this_machine_has_a_kernel_and_a_root() {
        let machine = Machine::examine([Path::new("/"), Path::new("/")].into_iter());
        assert!(!machine.kernel.is_empty() && machine.memory_bytes > 0 && machine.processors > 0);
        assert_eq!(machine.storage.len(), 1);
        assert_eq!(Mount::containing(Path::new("/proc/self")).unwrap().file_system, "proc");
    }
}
