//! Remarks about a file system, for readers of a comparison: checksums and encryption, to the extent that this
//! machine reports them.

use jetcell_host::machine::DirectoryStorage;

use super::work_directory::run_program;
use crate::system::System;

/// Describes data checksums and encryption for the storage under a directory. Encryption inside a drive cannot be
/// detected.
pub fn remarks(storage: &DirectoryStorage, system: &dyn System) -> Vec<String> {
    let Some(mount) = &storage.mount else { return Vec::new() };
    let has_option = |option: &str| mount.options.split(',').any(|found| found == option);
    let mut all = Vec::new();
    let without = "data checksums: none";
    match mount.file_system.as_str() {
        "btrfs" if has_option("nodatacow") || has_option("nodatasum") => all.push(without),
        "btrfs" => all.push("checksums: data and metadata"),
        "zfs" => all.push(match zfs_checksum(&mount.source, system).as_deref() {
            Some("off") => "data checksums: none; zfs has metadata checksums",
            Some(_) => "checksums: data and metadata",
            None => "checksums: data and metadata, unless they are off; failed to query zfs",
        }),
        "ext2" | "ext3" | "ext4" | "xfs" | "f2fs" | "ntfs3" | "fuseblk" => all.push(without),
        _ => {}
    }
    all.extend(storage.device.as_ref().and_then(|device| mapped_encryption(&device.name, system)));
    all.extend(inline_encryption(storage, system));
    let mut all: Vec<String> = all.into_iter().map(str::to_string).collect();
    if mount.file_system.starts_with("fuse") {
        all.push(
            "user-space process (FUSE): the kernel's cache may be between the test and the file system"
                .into(),
        );
    }
    all
}

/// Returns the output of `zfs get checksum` for a dataset.
fn zfs_checksum(set: &str, system: &dyn System) -> Option<String> {
    let told = run_program(system, "zfs", &[&"get", &"-H", &"-o", &"value", &"checksum", &set]).ok()?;
    Some(told.trim().to_string()).filter(|value| !value.is_empty())
}

/// Describes how a dm-crypt device is encrypted.
fn mapped_encryption(name: &str, system: &dyn System) -> Option<&'static str> {
    let kind = system.read(&format!("/sys/block/{name}/dm/uuid"));
    let software = "encryption: in software, by the kernel (dm-crypt)";
    if !kind.starts_with("CRYPT-LUKS2-") {
        return kind.starts_with("CRYPT-").then_some(software);
    }
    // Only the LUKS header shows whether the drive itself encrypts as well.
    let below = system.list_directory(&format!("/sys/block/{name}/slaves"));
    let header = below
        .first()
        .map(|below| run_program(system, "cryptsetup", &[&"luksDump", &format!("/dev/{below}")]));
    Some(match header {
        Some(Ok(text)) if text.contains("hw-opal-crypt") => {
            "encryption: in software, by the kernel (dm-crypt), and in hardware, by the drive (OPAL)"
        }
        Some(Ok(text)) if text.contains("hw-opal") => {
            "encryption: in hardware, by the drive (LUKS 2 with OPAL)"
        }
        Some(Err(_)) => {
            "encryption: LUKS 2; failed to read from cryptsetup whether the drive encrypts (OPAL)"
        }
        _ => software,
    })
}

/// Describes the hardware that the kernel may use for inline encryption, if the mount options leave fscrypt
/// encryption to the block layer.
pub(super) fn inline_encryption(storage: &DirectoryStorage, system: &dyn System) -> Option<&'static str> {
    let options = &storage.mount.as_ref()?.options;
    options.split(',').find(|option| *option == "inlinecrypt")?;
    let name = storage.device.as_ref().map(|device| device.name.as_str()).unwrap_or_default();
    Some(if system.list_directory(&format!("/sys/block/{name}/queue/crypto")).is_empty() {
        "encrypted files (fscrypt, inlinecrypt): in software, by the block layer, because the device \
             does not have an encryption engine"
    } else {
        "encrypted files (fscrypt, inlinecrypt): in hardware, by the device, for the ciphers that it \
             supports"
    })
}

/// Returns true if the CPU has AES instructions. Remarks about software encryption mention this.
pub(super) fn has_aes(system: &dyn System) -> bool {
    system.read("/proc/cpuinfo").split_whitespace().any(|word| word == "aes")
}

#[cfg(test)]
mod tests {
    use jetcell_host::machine::{BlockDevice, Mount};

    use super::*;
    use crate::system::fake::FakeSystem;

    fn found(file_system: &str, options: &str, system: &FakeSystem) -> String {
        let mount = Mount {
            point: "/mnt".into(),
            file_system: file_system.into(),
            source: "/dev/dm-0".into(),
            options: options.into(),
        };
        let device = BlockDevice {
            name: "dm-0".into(),
            model: None,
            rotational: None,
            scheduler: None,
            queue_requests: None,
            write_cache: None,
        };
        let storage = DirectoryStorage {
            directory: "/mnt".into(),
            mount: Some(mount),
            device: Some(device),
            array: None,
        };
        remarks(&storage, system).join("; ")
    }

    #[test]
    fn drive_encryption_is_reported_from_the_header_or_kernel() {
        let luks = || {
            FakeSystem::default()
                .with_file("/sys/block/dm-0/dm/uuid", "CRYPT-LUKS2-00-name\n")
                .with_file("/sys/block/dm-0/slaves/sdb1", "")
        };
        let segment = |kind: &str| format!("Data segments:\n  0: {kind}\n\toffset: 16777216 [bytes]\n");
        let dump = |kind: &str| luks().printing("cryptsetup luksDump /dev/sdb1", &segment(kind));
        let told = |system: &FakeSystem| found("tmpfs", "rw", system);
        assert_eq!(told(&dump("crypt")), "encryption: in software, by the kernel (dm-crypt)");
        assert!(told(&dump("hw-opal")).starts_with("encryption: in hardware"));
        assert!(told(&dump("hw-opal-crypt")).ends_with("and in hardware, by the drive (OPAL)"));
        assert!(told(&luks().failing("cryptsetup")).contains("failed to read"));
        let engine = FakeSystem::default().with_file("/sys/block/dm-0/queue/crypto/max_dun_bits", "64\n");
        assert!(found("ext4", "rw,inlinecrypt", &engine).contains("inlinecrypt): in hardware"));
        assert!(
            found("ext4", "rw,inlinecrypt", &FakeSystem::default()).contains("inlinecrypt): in software")
        );
        assert!(!found("ext4", "rw", &engine).contains("inlinecrypt"));
    }

    #[test]
    fn zfs_checksum_state_is_queried() {
        let system =
            |value: &str| FakeSystem::default().printing("zfs get -H -o value checksum /dev/dm-0", value);
        assert_eq!(found("zfs", "rw", &system("on\n")), "checksums: data and metadata");
        assert_eq!(found("zfs", "rw", &system("sha256\n")), "checksums: data and metadata");
        assert!(found("zfs", "rw", &system("off\n")).starts_with("data checksums: none"));
        assert!(found("zfs", "rw", &FakeSystem::default().failing("zfs")).ends_with("failed to query zfs"));
    }

    #[test]
    fn checksums_and_encryption_are_reported() {
        let plain = FakeSystem::default();
        assert_eq!(found("btrfs", "rw,relatime", &plain), "checksums: data and metadata");
        assert_eq!(found("btrfs", "rw,nodatasum,nodatacow", &plain), "data checksums: none");
        assert!(found("fuse.gocryptfs", "rw", &plain).starts_with("user-space process"));
        let encrypted = FakeSystem::default().with_file("/sys/block/dm-0/dm/uuid", "CRYPT-LUKS2-00-name\n");
        let both = "data checksums: none; encryption: in software, by the kernel (dm-crypt)";
        assert_eq!(found("ext4", "rw", &encrypted), both);
        let plain_mode = FakeSystem::default().with_file("/sys/block/dm-0/dm/uuid", "CRYPT-PLAIN-name\n");
        assert_eq!(found("ext4", "rw", &plain_mode), both);
        assert!(
            has_aes(&FakeSystem::default().with_file("/proc/cpuinfo", "flags : fpu aes avx\n"))
                && !has_aes(&plain)
        );
    }
}
