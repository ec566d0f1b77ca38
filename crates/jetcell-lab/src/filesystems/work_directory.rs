//! Work directory in which a test makes file systems, and everything that must be removed when the test ends.
//!
//! The kernel knows what is mounted and attached below the directory, so the test keeps no list of its own. No matter
//! when a test is killed, the next one uses the directory's name to find everything that remains.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jetcell_host::machine::Mount;
use jetcell_vfs::is_locked;
use rustix::fs::{CWD, FlockOperation, Mode, OFlags};

use crate::system::{System, SystemError, SystemFailure};

const DIRECTORY_PREFIX: &str = ".jetcell-filesystems-";
/// Maximum number of attempts to unmount. A process that has just exited may keep a mount busy for a moment.
const MAX_UNMOUNT_ATTEMPTS: u32 = 30;
const UNMOUNT_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// A test's work directory, locked for as long as this value exists.
pub(super) struct WorkDirectory {
    pub(super) leftover: LeftoverDirectory,
    _lock: OwnedFd,
}

/// A work directory that may be left over from a killed test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftoverDirectory {
    path: PathBuf,
    /// Unique part of the names of devices and pools, which are not located below the directory.
    id: String,
}

impl WorkDirectory {
    /// Creates a new directory in `parent`.
    pub(super) fn create(parent: &Path) -> io::Result<WorkDirectory> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let id = format!("{}-{:x}", std::process::id(), now.as_micros());
        // Paths in the mount table contain no symbolic links.
        let path = parent.canonicalize()?.join(format!("{DIRECTORY_PREFIX}{id}"));
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let lock = rustix::fs::openat(CWD, &path, flags, Mode::empty())?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        Ok(WorkDirectory { leftover: LeftoverDirectory { path, id }, _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        &self.leftover.path
    }

    /// Returns the name for a device or pool, which is not located below the directory.
    pub(super) fn name(&self, number: usize) -> String {
        format!("{}{number}", self.leftover.names())
    }
}

impl LeftoverDirectory {
    /// Returns the work directories in `parent` whose tests are no longer running.
    ///
    /// # Errors
    /// Returns an error if `parent` cannot be read.
    pub fn in_directory(parent: &Path) -> io::Result<Vec<LeftoverDirectory>> {
        let parent = parent.canonicalize()?;
        let mut found = Vec::new();
        for entry in fs::read_dir(&parent)? {
            found.extend(LeftoverDirectory::at(entry?.path())?);
        }
        Ok(found)
    }

    /// Returns the work directories of tests that are no longer running, but only those that still contain a mount or
    /// the image of a loop device. Searches the whole machine.
    pub fn in_use(system: &dyn System) -> Vec<LeftoverDirectory> {
        let mounts = Mount::table(&system.read("/proc/self/mountinfo")).into_iter().map(|mount| mount.point);
        let image = |name: String| system.read(&format!("/sys/block/{name}/loop/backing_file")).into();
        let images = system.list_directory("/sys/block").into_iter().map(image);
        let directory = |path: PathBuf| {
            let mut all = path.ancestors();
            all.find(|path| id_of(path).is_some()).map(Path::to_path_buf)
        };
        let all: BTreeSet<PathBuf> = mounts.chain(images).filter_map(directory).collect();
        all.into_iter().filter_map(|path| LeftoverDirectory::at(path).ok()?).collect()
    }

    /// Returns `None` if the path is not a work directory or its test is still running.
    fn at(path: PathBuf) -> io::Result<Option<LeftoverDirectory>> {
        let Some(id) = id_of(&path).map(str::to_string) else { return Ok(None) };
        let metadata = fs::symlink_metadata(&path)?;
        // A directory that belongs to another user must not be removed, whatever its name.
        let own = metadata.is_dir() && metadata.uid() == rustix::process::geteuid().as_raw();
        Ok(if own && !is_locked(&path)? { Some(LeftoverDirectory { path, id }) } else { None })
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn names(&self) -> String {
        format!("jetcell-{}-", self.id)
    }

    /// Unmounts and detaches everything below the directory. Images are kept.
    ///
    /// # Errors
    /// Returns an error if something is still in use.
    pub(super) fn release(&self, system: &dyn System) -> Result<(), SystemError> {
        for mount in self.mounts(system) {
            retry(|| run_program(system, "umount", &[&mount]))?;
        }
        for pool in self.pools(system) {
            retry(|| run_program(system, "zpool", &[&"export", &pool]))?;
        }
        for mapped in self.mapped(system) {
            retry(|| run_program(system, "cryptsetup", &[&"close", &mapped]))?;
        }
        for device in self.loops(system) {
            retry(|| run_program(system, "losetup", &[&"-d", &format!("/dev/{device}")]))?;
        }
        match self.mounts(system).first() {
            None => Ok(()),
            Some(left) => Err(SystemError {
                command: format!("umount {}", left.display()),
                failure: SystemFailure::StillMounted,
            }),
        }
    }

    /// Unmounts and detaches everything, then removes the directory with all images.
    ///
    /// # Errors
    /// Returns an error if something is still in use. In this case, the directory is kept.
    pub fn remove(&self, system: &dyn System) -> Result<(), SystemError> {
        self.release(system)?;
        fs::remove_dir_all(&self.path).or_else(|error| match error.kind() {
            io::ErrorKind::NotFound => Ok(()),
            _ => Err(SystemError {
                command: format!("removal of {}", self.path.display()),
                failure: error.into(),
            }),
        })
    }

    /// Returns the mount points below the directory, most recently mounted first.
    fn mounts(&self, system: &dyn System) -> Vec<PathBuf> {
        let all = Mount::table(&system.read("/proc/self/mountinfo"));
        all.into_iter().rev().map(|mount| mount.point).filter(|point| point.starts_with(&self.path)).collect()
    }

    fn loops(&self, system: &dyn System) -> Vec<String> {
        let file = |name: &String| system.read(&format!("/sys/block/{name}/loop/backing_file"));
        let ours = |name: &String| Path::new(file(name).trim_end()).starts_with(&self.path);
        system.list_directory("/sys/block").into_iter().filter(ours).collect()
    }

    fn mapped(&self, system: &dyn System) -> Vec<String> {
        let name = |device: String| system.read(&format!("/sys/block/{device}/dm/name")).trim().to_string();
        let all = system.list_directory("/sys/block").into_iter().map(name);
        all.filter(|name| name.starts_with(&self.names())).collect()
    }

    fn pools(&self, system: &dyn System) -> Vec<String> {
        if !system.read("/proc/filesystems").split_whitespace().any(|name| name == "zfs") {
            return Vec::new();
        }
        let all = run_program(system, "zpool", &[&"list", &"-H", &"-o", &"name"]).unwrap_or_default();
        all.lines().filter(|name| name.starts_with(&self.names())).map(str::to_string).collect()
    }
}

/// Returns the part of a work directory's name that follows the prefix.
fn id_of(path: &Path) -> Option<&str> {
    let id = path.file_name()?.to_str()?.strip_prefix(DIRECTORY_PREFIX)?;
    let named = !id.is_empty() && id.chars().all(|letter| letter.is_ascii_hexdigit() || letter == '-');
    named.then_some(id)
}

/// Runs a program with these arguments and no input.
pub(super) fn run_program(
    system: &dyn System,
    program: &str,
    arguments: &[&dyn AsRef<OsStr>],
) -> Result<String, SystemError> {
    let mut command = Command::new(program);
    command.args(arguments.iter().map(|argument| AsRef::<OsStr>::as_ref(*argument)));
    system.run(command, &[])
}

fn retry(mut run: impl FnMut() -> Result<String, SystemError>) -> Result<(), SystemError> {
    for _ in 1..MAX_UNMOUNT_ATTEMPTS {
        if run().is_ok() {
            return Ok(());
        }
        thread::sleep(UNMOUNT_RETRY_INTERVAL);
    }
    run().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::fake::FakeSystem;

    const MOUNTS: &str = "/proc/self/mountinfo";

    #[test]
    fn directories_of_running_tests_are_not_leftovers() {
        let parent = tempfile::tempdir().unwrap();
        let found = || LeftoverDirectory::in_directory(parent.path()).unwrap();
        let work = WorkDirectory::create(parent.path()).unwrap();
        assert_eq!(found(), []);
        let leftover = work.leftover.clone();
        drop(work);
        assert_eq!(found(), std::slice::from_ref(&leftover));
        for name in ["file", "..", "a b"] {
            fs::write(parent.path().join(format!("{DIRECTORY_PREFIX}{name}")), "").unwrap();
        }
        std::os::unix::fs::symlink("/", parent.path().join(format!("{DIRECTORY_PREFIX}1-1"))).unwrap();
        assert_eq!(found(), std::slice::from_ref(&leftover));
        fs::create_dir(leftover.path().join("mount")).unwrap();
        leftover.remove(&FakeSystem::default()).unwrap();
        assert_eq!(found(), []);
    }

    #[test]
    fn mounts_and_attached_devices_are_found_anywhere() {
        let places = [0; 3].map(|_| tempfile::tempdir().unwrap());
        let killed = places.each_ref().map(|place| {
            let work = WorkDirectory::create(place.path()).unwrap();
            work.leftover.clone()
        });
        let running = WorkDirectory::create(places[0].path()).unwrap();
        let line = |path: &Path| format!("36 35 98:0 / {}/0 rw - ext4 /dev/x rw\n", path.display());
        let mounts = [&killed[0].path, running.path(), Path::new("/space/.jetcell-filesystems-7-a")];
        let image = format!("{}/1.img (deleted)\n", killed[1].path.display());
        let system = FakeSystem::default()
            .with_file(MOUNTS, &mounts.map(line).concat())
            .with_file("/sys/block/loop3/loop/backing_file", &image)
            .with_file("/sys/block/sda/size", "7");
        let mut expected = killed[..2].to_vec();
        expected.sort_by(|one, other| one.path.cmp(&other.path));
        assert_eq!(LeftoverDirectory::in_use(&system), expected);
    }

    #[test]
    fn cleanup_is_limited_to_the_directory_and_runs_top_down() {
        let leftover = LeftoverDirectory { path: "/space/.jetcell-filesystems-7-a".into(), id: "7-a".into() };
        let line = |point: &str| format!("36 35 98:0 / {point} rw - ext4 /dev/x rw\n");
        let mounts = [
            "/space",
            "/space/.jetcell-filesystems-7-a/0",
            "/space/.jetcell-filesystems-7-a/0-plain",
            "/space/.jetcell-filesystems-7-ab/0",
        ]
        .map(line)
        .concat();
        let system = FakeSystem::default()
            .with_file(MOUNTS, &mounts)
            .with_file("/proc/filesystems", "zfs")
            .with_file(
                "/sys/block/loop0/loop/backing_file",
                "/space/.jetcell-filesystems-7-a/0.img (deleted)\n",
            )
            .with_file("/sys/block/loop1/loop/backing_file", "/space/.jetcell-filesystems-7-ab/0.img\n")
            .with_file("/sys/block/dm-0/dm/name", "jetcell-7-a-0\n")
            .with_file("/sys/block/dm-1/dm/name", "home\n")
            .printing("zpool list", "jetcell-7-a-1\ntank\njetcell-7-ab-1\n")
            .changing("umount /space/.jetcell-filesystems-7-a/0-plain", MOUNTS, &line("/space"));
        leftover.release(&system).unwrap();
        assert_eq!(
            system.commands(),
            [
                "umount /space/.jetcell-filesystems-7-a/0-plain",
                "umount /space/.jetcell-filesystems-7-a/0",
                "zpool list -H -o name",
                "zpool export jetcell-7-a-1",
                "cryptsetup close jetcell-7-a-0",
                "losetup -d /dev/loop0",
            ]
        );
    }

    #[test]
    fn a_failed_unmount_is_an_error_and_keeps_the_directory() {
        let parent = tempfile::tempdir().unwrap();
        let work = WorkDirectory::create(parent.path()).unwrap();
        let line = format!("36 35 98:0 / {} rw - ext4 /dev/x rw\n", work.path().join("0").display());
        let system = FakeSystem::default().with_file(MOUNTS, &line);
        let error = work.leftover.remove(&system).unwrap_err().to_string();
        assert!(
            error.starts_with("umount /") && error.ends_with("/0: still mounted after umount"),
            "{error}"
        );
        assert!(work.path().exists());
    }
}
