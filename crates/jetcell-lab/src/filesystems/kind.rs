//! The file system kinds that a test can make, and what each of them requires.

use std::borrow::Cow;
use std::fmt;
use std::process::Command;
use std::str::FromStr;

use jetcell_host::machine::DirectoryStorage;
use serde::{Deserialize, Serialize};

use super::remarks::{has_aes, inline_encryption};
use crate::system::System;

/// A kind of file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FilesystemKind {
    /// ext4.
    Ext4,
    /// ext4 with a directory that the kernel encrypts (fscrypt).
    Ext4Fscrypt,
    /// XFS.
    Xfs,
    /// Btrfs with copy-on-write and data checksums.
    Btrfs,
    /// Btrfs without copy-on-write and data checksums.
    BtrfsNodatacow,
    /// F2FS.
    F2fs,
    /// ext4 with gocryptfs, a user-space process that encrypts the files.
    Gocryptfs,
    /// ext4 on a device that the kernel encrypts (LUKS 2, dm-crypt).
    Luks,
    /// NTFS with the kernel driver (ntfs3) or a user-space driver (ntfs-3g).
    Ntfs,
    /// ZFS, as a pool on one device.
    Zfs,
}

use FilesystemKind::{Btrfs, BtrfsNodatacow, Ext4, Ext4Fscrypt, F2fs, Gocryptfs, Luks, Ntfs, Xfs, Zfs};

impl FilesystemKind {
    /// All kinds, in the order used in the documentation.
    pub const ALL: [FilesystemKind; 10] =
        [Ext4, Ext4Fscrypt, Xfs, Btrfs, BtrfsNodatacow, F2fs, Gocryptfs, Luks, Ntfs, Zfs];

    /// Returns the name used in options and results.
    pub fn name(self) -> &'static str {
        match self {
            Ext4 => "ext4",
            Ext4Fscrypt => "ext4-fscrypt",
            Xfs => "xfs",
            Btrfs => "btrfs",
            BtrfsNodatacow => "btrfs-nodatacow",
            F2fs => "f2fs",
            Gocryptfs => "gocryptfs",
            Luks => "luks",
            Ntfs => "ntfs",
            Zfs => "zfs",
        }
    }

    /// Returns the type under which the kernel mounts the file system, or `None` for NTFS, which has two drivers.
    pub(super) fn mount_type(self) -> Option<&'static str> {
        match self {
            Ext4 | Ext4Fscrypt | Gocryptfs | Luks => Some("ext4"),
            Xfs => Some("xfs"),
            Btrfs | BtrfsNodatacow => Some("btrfs"),
            F2fs => Some("f2fs"),
            Zfs => Some("zfs"),
            Ntfs => None,
        }
    }

    fn programs(self) -> &'static [&'static str] {
        match self {
            Ext4 => &["mkfs.ext4"],
            // `xfs_io` can add keys on every file system that supports fscrypt, and needs no configuration.
            Ext4Fscrypt => &["mkfs.ext4", "xfs_io"],
            Xfs => &["mkfs.xfs"],
            Btrfs | BtrfsNodatacow => &["mkfs.btrfs"],
            F2fs => &["mkfs.f2fs"],
            Gocryptfs => &["mkfs.ext4", "gocryptfs"],
            Luks => &["mkfs.ext4", "cryptsetup"],
            Ntfs => &["mkntfs"],
            Zfs => &["zpool"],
        }
    }

    /// Returns a description of the missing requirement, or `None` if this machine can make the file system.
    pub fn missing_requirement(self, system: &dyn System) -> Option<String> {
        if let Some(program) = self.programs().iter().find(|program| !system.has_program(program)) {
            return Some(format!("{program} is not installed"));
        }
        let without = |name: &str| format!("the kernel does not support {name}");
        if let Some(name) = self.mount_type()
            && !has(system, "/proc/filesystems", name, name)
        {
            return Some(without(name));
        }
        match self {
            Luks if !has(system, "/proc/devices", "device-mapper", "dm-crypt") => {
                Some(without("device mapper"))
            }
            Gocryptfs if !has(system, "/proc/filesystems", "fuse", "fuse") => Some(without("fuse")),
            Ext4Fscrypt
                if system.list_directory("/sys/fs/ext4/features").iter().all(|name| name != "encryption") =>
            {
                Some(without("encryption in ext4"))
            }
            Ntfs if !has_ntfs3(system) && !system.has_program("ntfs-3g") => {
                Some("the kernel does not support ntfs3, and ntfs-3g is not installed".into())
            }
            _ => None,
        }
    }

    /// Returns remarks about the kind of file system for readers of the results.
    pub fn remarks(self, storage: &DirectoryStorage, system: &dyn System) -> Vec<String> {
        let aes = if has_aes(system) { "with" } else { "without" };
        let aes = format!("{aes} the processor's AES instructions");
        match self {
            // With inline encryption, the remarks about the storage already describe it.
            Ext4Fscrypt if inline_encryption(storage, system).is_some() => Vec::new(),
            Ext4Fscrypt => vec![
                format!("encryption: in software, by the kernel (fscrypt), {aes}"),
                "encrypted files are read and written through the kernel's cache unless the file system is \
                 mounted with inlinecrypt"
                    .into(),
            ],
            Gocryptfs => vec![format!(
                "encryption: in software, by a process (gocryptfs), {aes}; decryption authenticates the data"
            )],
            // The remarks about the storage also describe this encryption.
            Luks => vec![format!("LUKS 2, {aes}")],
            _ => Vec::new(),
        }
    }
}

/// Returns true if the kernel supports ntfs3.
pub(super) fn has_ntfs3(system: &dyn System) -> bool {
    has(system, "/proc/filesystems", "ntfs3", "ntfs3")
}

/// Returns true if a kernel list contains a name, after loading the kernel module if necessary.
fn has(system: &dyn System, list: &str, name: &str, module: &str) -> bool {
    let listed = || system.read(list).split_whitespace().any(|word| word == name);
    if listed() {
        return true;
    }
    let mut load = Command::new("modprobe");
    load.args(["-q", module]);
    system.run(load, &[]).is_ok() && listed()
}

impl fmt::Display for FilesystemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Error for text that is not the name of a kind of file system.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{name}\" is not a supported file system")]
pub struct UnknownFilesystemKind {
    /// The text.
    pub name: String,
}

impl UnknownFilesystemKind {
    /// Returns the supported file systems as advice.
    pub fn advice(&self) -> Option<Cow<'static, str>> {
        Some(format!("use {}", FilesystemKind::ALL.map(FilesystemKind::name).join(", ")).into())
    }
}

impl FromStr for FilesystemKind {
    type Err = UnknownFilesystemKind;

    fn from_str(text: &str) -> Result<FilesystemKind, UnknownFilesystemKind> {
        let found = FilesystemKind::ALL.into_iter().find(|kind| kind.name() == text);
        found.ok_or_else(|| UnknownFilesystemKind { name: text.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::fake::FakeSystem;

    #[test]
    fn kind_names_round_trip_as_words_and_in_toml() {
        for kind in FilesystemKind::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
            assert_eq!(serde_json::to_string(&kind).unwrap(), format!("\"{kind}\""));
        }
        assert!(
            "reiserfs"
                .parse::<FilesystemKind>()
                .unwrap_err()
                .advice()
                .unwrap()
                .contains("use ext4, ext4-fscrypt, xfs")
        );
    }

    #[test]
    fn a_missing_requirement_is_named() {
        let system = FakeSystem::default()
            .with_programs(&[
                "mkfs.ext4",
                "mkfs.f2fs",
                "gocryptfs",
                "cryptsetup",
                "mkntfs",
                "zpool",
                "xfs_io",
            ])
            .with_file("/proc/filesystems", "nodev\tproc\n\text4\n\txfs\n")
            .with_file("/proc/devices", "Block devices:\n  7 loop\n");
        let missing = |kind: FilesystemKind| kind.missing_requirement(&system);
        assert_eq!(missing(Ext4), None);
        assert_eq!(missing(Xfs).unwrap(), "mkfs.xfs is not installed");
        assert_eq!(missing(Btrfs).unwrap(), "mkfs.btrfs is not installed");
        assert_eq!(missing(F2fs).unwrap(), "the kernel does not support f2fs");
        assert_eq!(missing(Gocryptfs).unwrap(), "the kernel does not support fuse");
        assert_eq!(missing(Luks).unwrap(), "the kernel does not support device mapper");
        assert_eq!(missing(Ext4Fscrypt).unwrap(), "the kernel does not support encryption in ext4");
        assert_eq!(missing(Ntfs).unwrap(), "the kernel does not support ntfs3, and ntfs-3g is not installed");
        assert_eq!(missing(Zfs).unwrap(), "the kernel does not support zfs");
        // The check has tried to load the module.
        assert!(system.commands().contains(&"modprobe -q zfs".to_string()));
        let system = system.with_programs(&["ntfs-3g"]);
        assert_eq!(Ntfs.missing_requirement(&system), None);
    }
}
