//! Makes file systems, mounts them one at a time, and removes everything at the end.

use std::cell::Cell;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::Command;

use jetcell_host::Cancellation;
use jetcell_input::hex::hex;
use rustix::fs::{CWD, FallocateFlags, Mode, OFlags, fallocate};
use thiserror::Error;

use super::aging;
use super::kind::{FilesystemKind, has_ntfs3};
use super::specification::FilesystemSpecification;
use super::work_directory::{WorkDirectory, run_program};
use crate::system::{System, SystemError};

/// Minimum image size in bytes. Smaller images have no room for some file systems, or for any database.
pub const MIN_IMAGE_BYTES: u64 = 512 << 20;
/// Key length for encrypted file systems, in bytes. The key exists only in memory.
const KEY_BYTES: usize = 64;

/// Location of the file systems under test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilesystemMedium {
    /// An image file of this many bytes per file system, attached as a loop device. The images remain until the
    /// end of the test.
    Images(u64),
    /// A single device that all file systems share. Each file system is made anew in each turn, at the same location.
    Device(PathBuf),
}

/// Reason why a file system could not be made.
#[derive(Debug, Error)]
pub enum MakeError {
    /// A program failed.
    #[error("{name}: {error}")]
    Program {
        /// Name of the file system for which the program was run.
        name: String,
        /// Error reported by the program.
        #[source]
        error: SystemError,
    },
    /// A file or directory could not be created.
    #[error("{}: {error}", .path.display())]
    Io {
        /// Path of the file or directory.
        path: PathBuf,
        /// Error that the system returned.
        #[source]
        error: io::Error,
    },
    /// The test was cancelled.
    #[error("stopped")]
    Stopped,
}

/// Makes file systems in its own work directory. Dropping the value removes everything, but only
/// [`FilesystemMaker::close`] reports errors.
pub struct FilesystemMaker<'s> {
    system: &'s dyn System,
    medium: FilesystemMedium,
    work: WorkDirectory,
    key: [u8; KEY_BYTES],
    /// True once [`FilesystemMaker::close`] has been called.
    closed: Cell<bool>,
}

/// Parameters for making one file system.
struct FilesystemParameters<'a> {
    number: usize,
    specification: &'a FilesystemSpecification,
    /// True if the file system must be made rather than reused.
    fresh: bool,
}

impl<'s> FilesystemMaker<'s> {
    /// Creates a work directory in `parent`. The images are stored there, too.
    ///
    /// # Errors
    /// Returns an error if the directory cannot be created.
    pub fn new(
        system: &'s dyn System,
        medium: FilesystemMedium,
        parent: &Path,
    ) -> Result<FilesystemMaker<'s>, MakeError> {
        let work = WorkDirectory::create(parent).map_err(io_error(parent))?;
        let mut key = [0; KEY_BYTES];
        let random = Path::new("/dev/urandom");
        File::open(random).and_then(|mut file| file.read_exact(&mut key)).map_err(io_error(random))?;
        Ok(FilesystemMaker { system, medium, work, key, closed: Cell::new(false) })
    }

    /// Mounts file system `number`. Makes it first if this is its first turn, or if the medium is a device. Returns
    /// the database directory, which already exists in later turns. `cancellation` ends the test.
    ///
    /// # Errors
    /// Returns an error if a program fails or there is not enough space. The next call to [`FilesystemMaker::detach`]
    /// removes a partially made file system.
    pub fn attach(
        &self,
        number: usize,
        specification: &FilesystemSpecification,
        first: bool,
        cancellation: &Cancellation,
    ) -> Result<PathBuf, MakeError> {
        let one = FilesystemParameters { number, specification, fresh: first || self.remakes() };
        let program = |error| MakeError::Program { name: specification.name.clone(), error };
        let device = match &self.medium {
            FilesystemMedium::Device(device) => device.clone(),
            FilesystemMedium::Images(bytes) => self.image(&one, *bytes)?,
        };
        let top = self.mount(&one, &device).map_err(program)?;
        let directory = self.encrypted(&one, &top).map_err(program)?;
        if one.fresh {
            let filler = directory.join("filler");
            let aged =
                aging::age(&filler, specification.fill_percent, specification.aging_rounds, cancellation);
            aged.map_err(io_error(&filler))?;
        }
        if cancellation.is_cancelled() { Err(MakeError::Stopped) } else { Ok(directory.join("databases")) }
    }

    /// Returns true if file systems are made anew in each turn.
    pub fn remakes(&self) -> bool {
        matches!(self.medium, FilesystemMedium::Device(_))
    }

    /// Syncs the mounted file system `number` and returns the number of bytes in use on it, including its metadata.
    /// Unlike the block counts of files, this value reflects compression and additional copies.
    ///
    /// # Errors
    /// Returns an error if the file system is not mounted or cannot be synced.
    pub fn used_bytes(&self, number: usize) -> io::Result<u64> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let top = rustix::fs::openat(CWD, self.mount_point(number), flags, Mode::empty())?;
        rustix::fs::syncfs(&top)?;
        let found = rustix::fs::fstatvfs(&top)?;
        Ok(found.f_blocks.saturating_sub(found.f_bfree).saturating_mul(found.f_frsize))
    }

    /// Returns a file system's mount point.
    fn mount_point(&self, number: usize) -> PathBuf {
        self.work.path().join(number.to_string())
    }

    /// Unmounts and detaches everything that is attached.
    ///
    /// # Errors
    /// Returns an error if something is still in use.
    pub fn detach(&self) -> Result<(), SystemError> {
        self.work.leftover.release(self.system)
    }

    /// Unmounts and detaches everything and removes the images.
    ///
    /// # Errors
    /// Returns an error if something is still in use. A later test can find the remains as a
    /// [`super::LeftoverDirectory`].
    pub fn close(&self) -> Result<(), SystemError> {
        self.closed.set(true);
        self.work.leftover.remove(self.system)
    }

    /// Attaches an image as a loop device. A new image is fully allocated, which keeps the cost of allocation out of
    /// every turn.
    fn image(&self, one: &FilesystemParameters<'_>, bytes: u64) -> Result<PathBuf, MakeError> {
        let path = self.work.path().join(format!("{}.img", one.number));
        if one.fresh {
            let file = File::create_new(&path).map_err(io_error(&path))?;
            fallocate(&file, FallocateFlags::empty(), 0, bytes)
                .map_err(|error| io_error(&path)(error.into()))?;
        }
        // Direct I/O bypasses the underlying file system's cache, which the test would otherwise measure.
        let found = run_program(self.system, "losetup", &[&"--direct-io=on", &"--show", &"-f", &path]);
        let found =
            found.map_err(|error| MakeError::Program { name: one.specification.name.clone(), error })?;
        Ok(found.trim().into())
    }

    /// Makes the file system if necessary, and mounts it.
    fn mount(&self, one: &FilesystemParameters<'_>, device: &Path) -> Result<PathBuf, SystemError> {
        let (kind, top) = (one.specification.kind, self.mount_point(one.number));
        make_directory(&top)?;
        if kind == FilesystemKind::Zfs {
            return self.import_pool(one, device, &top).map(|()| top);
        }
        let mapped = (kind == FilesystemKind::Luks).then(|| self.unlock(one, device)).transpose()?;
        let device = mapped.as_deref().unwrap_or(device);
        if one.fresh {
            self.system.run(mkfs_command(one.specification, device), &[])?;
        }
        let file_system = match kind.mount_type() {
            Some(name) => name,
            None if has_ntfs3(self.system) => "ntfs3",
            None => "ntfs-3g",
        };
        let own: &[&str] = if kind == FilesystemKind::BtrfsNodatacow { &["nodatacow"] } else { &[] };
        let options: Vec<&str> =
            own.iter().copied().chain(one.specification.mount_options.iter().map(String::as_str)).collect();
        let mut mount = Command::new("mount");
        mount.args(["-t", file_system]);
        if !options.is_empty() {
            mount.arg("-o").arg(options.join(","));
        }
        mount.arg(device).arg(&top);
        self.system.run(mount, &[])?;
        Ok(top)
    }

    /// Opens the encrypted device, formatting it first if necessary.
    fn unlock(&self, one: &FilesystemParameters<'_>, device: &Path) -> Result<PathBuf, SystemError> {
        let with_key = |words: &[&str], more: &[&Path]| {
            let mut command = Command::new("cryptsetup");
            command.args(words).args(["--batch-mode", "--key-file", "-"]).arg(device).args(more);
            self.system.run(command, &self.key)
        };
        if one.fresh {
            with_key(&["luksFormat", "--type", "luks2"], &[])?;
        }
        let name = self.work.name(one.number);
        with_key(&["open", "--type", "luks2"], &[Path::new(&name)])?;
        Ok(Path::new("/dev/mapper").join(name))
    }

    fn import_pool(
        &self,
        one: &FilesystemParameters<'_>,
        device: &Path,
        top: &Path,
    ) -> Result<(), SystemError> {
        let (name, mut command) = (self.work.name(one.number), Command::new("zpool"));
        if one.fresh {
            command.args(["create", "-f", "-m"]).arg(top);
            command.args(&one.specification.mkfs_options).arg(name).arg(device);
        } else {
            command.args(["import", "-d"]).arg(device).arg(name);
        }
        self.system.run(command, &[]).map(drop)
    }

    /// Returns the encrypted directory, for kinds that encrypt a directory instead of the whole file system.
    fn encrypted(&self, one: &FilesystemParameters<'_>, top: &Path) -> Result<PathBuf, SystemError> {
        match one.specification.kind {
            FilesystemKind::Gocryptfs => {
                let (cipher, plain) =
                    (top.join("cipher"), self.work.path().join(format!("{}-plain", one.number)));
                make_directory(&cipher)?;
                make_directory(&plain)?;
                let password = hex(&self.key);
                let run = |words: &[&Path]| {
                    let mut command = Command::new("gocryptfs");
                    command.arg("-q").args(words);
                    self.system.run(command, format!("{password}\n").as_bytes())
                };
                if one.fresh {
                    run(&[Path::new("-init"), &cipher])?;
                }
                run(&[&cipher, &plain])?;
                Ok(plain)
            }
            FilesystemKind::Ext4Fscrypt => {
                let run = |what: &str, directory: &Path, input: &[u8]| {
                    let mut command = Command::new("xfs_io");
                    command.args(["-c", what]).arg(directory);
                    self.system.run(command, input)
                };
                // The output has the form: "Added encryption key with identifier …"
                let told = run("add_enckey", top, &self.key)?;
                let encrypted = top.join("encrypted");
                if one.fresh {
                    make_directory(&encrypted)?;
                    let id = told.split_whitespace().last().unwrap_or_default();
                    run(&format!("set_encpolicy -v 2 {id}"), &encrypted, &[])?;
                }
                Ok(encrypted)
            }
            _ => Ok(top.into()),
        }
    }
}

impl Drop for FilesystemMaker<'_> {
    fn drop(&mut self) {
        if !self.closed.get() {
            // After a panic, no caller can handle an error. The next test finds what remains.
            let _ = self.close();
        }
    }
}

/// Returns the command that makes a file system on a device.
fn mkfs_command(specification: &FilesystemSpecification, device: &Path) -> Command {
    use FilesystemKind::{Btrfs, BtrfsNodatacow, Ext4, Ext4Fscrypt, F2fs, Gocryptfs, Luks, Ntfs, Xfs, Zfs};
    // Without these options, the kernel would initialize the tables later, while the load is being measured.
    let ext4: &[&str] = &["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"];
    let (program, own): (&str, &[&str]) = match specification.kind {
        Ext4 | Ext4Fscrypt | Gocryptfs | Luks => ("mkfs.ext4", ext4),
        Xfs => ("mkfs.xfs", &["-q", "-f"]),
        Btrfs | BtrfsNodatacow => ("mkfs.btrfs", &["-q", "-f"]),
        F2fs => ("mkfs.f2fs", &["-q", "-f"]),
        Ntfs => ("mkntfs", &["-q", "-Q", "-F"]),
        Zfs => ("zpool", &["create"]),
    };
    let mut command = Command::new(program);
    command.args(own);
    if specification.kind == Ext4Fscrypt {
        command.args(["-O", "encrypt"]);
    }
    command.args(&specification.mkfs_options).arg(device);
    command
}

fn make_directory(path: &Path) -> Result<(), SystemError> {
    fs::create_dir(path).or_else(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Ok(()),
        _ => Err(SystemError { command: format!("mkdir {}", path.display()), failure: error.into() }),
    })
}

fn io_error(path: &Path) -> impl FnOnce(io::Error) -> MakeError {
    let path = path.to_path_buf();
    move |error| MakeError::Io { path, error }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{FileExt, MetadataExt};
    use testkit::{TestRequirement, skip};

    use rand::{RngCore, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::system::LocalSystem;
    use crate::system::fake::FakeSystem;

    /// Returns the commands run in two turns, without the work directory's path.
    fn commands(specification: &FilesystemSpecification, medium: FilesystemMedium) -> Vec<String> {
        let parent = tempfile::tempdir().unwrap();
        let system = FakeSystem::default()
            .printing("losetup --direct-io", "/dev/loop7\n")
            .printing("xfs_io -c add_enckey", "Added encryption key with identifier 00ff\n");
        let maker = FilesystemMaker::new(&system, medium, parent.path()).unwrap();
        let (work, name) = (maker.work.path().display().to_string(), maker.work.name(0));
        for first in [true, false] {
            maker.attach(0, specification, first, &Cancellation::default()).unwrap();
        }
        drop(maker);
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0, "nothing is left");
        system.commands().iter().map(|line| line.replace(&work, "W").replace(&name, "NAME")).collect()
    }

    fn on_device(kind: FilesystemKind) -> Vec<String> {
        let all =
            commands(&FilesystemSpecification::for_kind(kind), FilesystemMedium::Device("/dev/sdz1".into()));
        let (first, second) = all.split_at(all.len() / 2);
        assert_eq!(first, second, "it is made again in each turn");
        first.to_vec()
    }

    #[test]
    fn an_image_is_created_once_and_mounted_in_each_turn() {
        let options = FilesystemSpecification {
            mkfs_options: vec!["-b".into(), "1024".into()],
            mount_options: vec!["noatime".into(), "nobarrier".into()],
            ..FilesystemSpecification::for_kind(FilesystemKind::Ext4)
        };
        assert_eq!(
            commands(&options, FilesystemMedium::Images(1 << 20)),
            [
                "losetup --direct-io=on --show -f W/0.img",
                "mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0 -b 1024 /dev/loop7",
                "mount -t ext4 -o noatime,nobarrier /dev/loop7 W/0",
                "losetup --direct-io=on --show -f W/0.img",
                "mount -t ext4 -o noatime,nobarrier /dev/loop7 W/0",
            ]
        );
        let nodatacow = commands(
            &FilesystemSpecification::for_kind(FilesystemKind::BtrfsNodatacow),
            FilesystemMedium::Images(1 << 20),
        );
        assert_eq!(
            nodatacow[1..3],
            ["mkfs.btrfs -q -f /dev/loop7", "mount -t btrfs -o nodatacow /dev/loop7 W/0"]
        );
    }

    #[test]
    fn every_file_system_is_created_as_documented() {
        assert_eq!(
            on_device(FilesystemKind::Xfs),
            ["mkfs.xfs -q -f /dev/sdz1", "mount -t xfs /dev/sdz1 W/0"]
        );
        assert_eq!(
            on_device(FilesystemKind::F2fs),
            ["mkfs.f2fs -q -f /dev/sdz1", "mount -t f2fs /dev/sdz1 W/0"]
        );
        assert_eq!(
            on_device(FilesystemKind::Ntfs),
            ["mkntfs -q -Q -F /dev/sdz1", "modprobe -q ntfs3", "mount -t ntfs-3g /dev/sdz1 W/0"]
        );
        assert_eq!(
            on_device(FilesystemKind::Luks),
            [
                "cryptsetup luksFormat --type luks2 --batch-mode --key-file - /dev/sdz1 < 64 bytes",
                "cryptsetup open --type luks2 --batch-mode --key-file - /dev/sdz1 NAME < 64 bytes",
                "mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0 /dev/mapper/NAME",
                "mount -t ext4 /dev/mapper/NAME W/0",
            ]
        );
        assert_eq!(
            on_device(FilesystemKind::Gocryptfs)[2..],
            ["gocryptfs -q -init W/0/cipher < 129 bytes", "gocryptfs -q W/0/cipher W/0-plain < 129 bytes"]
        );
        assert_eq!(
            on_device(FilesystemKind::Ext4Fscrypt),
            [
                "mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0 -O encrypt /dev/sdz1",
                "mount -t ext4 /dev/sdz1 W/0",
                "xfs_io -c add_enckey W/0 < 64 bytes",
                "xfs_io -c set_encpolicy -v 2 00ff W/0/encrypted",
            ]
        );
        assert_eq!(on_device(FilesystemKind::Zfs), ["zpool create -f -m W/0 NAME /dev/sdz1"]);
        let pool = commands(
            &FilesystemSpecification::for_kind(FilesystemKind::Zfs),
            FilesystemMedium::Images(1 << 20),
        );
        assert_eq!(pool[3], "zpool import -d /dev/loop7 NAME");
    }

    #[test]
    fn used_space_reflects_compression_and_copies() {
        if !rustix::process::geteuid().is_root()
            || FilesystemKind::Btrfs.missing_requirement(&LocalSystem).is_some()
        {
            skip(TestRequirement::Root, "no root, or no btrfs");
            return;
        }
        let parent = tempfile::tempdir().unwrap();
        let maker =
            FilesystemMaker::new(&LocalSystem, FilesystemMedium::Images(MIN_IMAGE_BYTES), parent.path())
                .unwrap();
        let specification = FilesystemSpecification {
            mount_options: vec!["compress-force=zstd".into()],
            ..FilesystemSpecification::for_kind(FilesystemKind::Btrfs)
        };
        let directory = maker.attach(0, &specification, true, &Cancellation::default()).unwrap();
        fs::create_dir(&directory).unwrap();
        let mebibytes = || maker.used_bytes(0).unwrap() >> 20;
        let blocks = |path: &Path| fs::metadata(path).unwrap().blocks() >> 11;
        let (equal, random) = (directory.join("equal"), directory.join("random"));
        let before = mebibytes();
        fs::write(&equal, vec![7; 32 << 20]).unwrap();
        let compressed = mebibytes() - before;
        assert!(compressed < 8 && blocks(&equal) == 32, "{compressed} MiB");
        let mut bytes = vec![0; 16 << 20];
        ChaCha8Rng::seed_from_u64(1).fill_bytes(&mut bytes);
        fs::write(&random, &bytes).unwrap();
        let before = mebibytes();
        let file = File::options().write(true).open(&random).unwrap();
        for at in (0..bytes.len()).step_by(8192) {
            file.write_all_at(&bytes[at..at + 4096], at as u64).unwrap();
        }
        drop(file);
        let copied = mebibytes() - before;
        assert!(copied >= 4 && blocks(&random) == 16, "{copied} MiB");
        maker.close().unwrap();
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_failure_names_the_file_system_and_cleans_up() {
        let parent = tempfile::tempdir().unwrap();
        let system =
            FakeSystem::default().printing("losetup --direct-io", "/dev/loop7\n").failing("mkfs.xfs");
        let maker = FilesystemMaker::new(&system, FilesystemMedium::Images(1 << 20), parent.path()).unwrap();
        let error = maker
            .attach(
                3,
                &FilesystemSpecification::for_kind(FilesystemKind::Xfs),
                true,
                &Cancellation::default(),
            )
            .unwrap_err();
        assert_eq!(error.to_string(), "xfs: mkfs.xfs -q -f /dev/loop7: failed");
        drop(maker);
        let maker = FilesystemMaker::new(&system, FilesystemMedium::Images(1 << 62), parent.path()).unwrap();
        let error = maker
            .attach(
                0,
                &FilesystemSpecification::for_kind(FilesystemKind::Ext4),
                true,
                &Cancellation::default(),
            )
            .unwrap_err();
        assert!(matches!(error, MakeError::Io { .. }), "{error}");
        drop(maker);
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }
}
