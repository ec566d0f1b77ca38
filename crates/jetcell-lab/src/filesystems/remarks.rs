//! What a reader of a comparison should know about a file system: checksums and encryption, as far as this machine tells them.

use jetcell_workload::machine::Storage;

use crate::system::System;

/// Checksums of data and encryption of the storage under a directory. Encryption inside of a drive cannot be seen.
pub fn remarks(storage: &Storage, system: &dyn System) -> Vec<String> {
    let Some(mount) = &storage.mount else { return Vec::new() };
    let has = |option: &str| mount.options.split(',').any(|found| found == option);
    let mut all = Vec::new();
    let without = "checksums: none of data";
    match mount.file_system.as_str() {
        "btrfs" if has("nodatacow") || has("nodatasum") => all.push(without),
        "btrfs" => all.push("checksums: of data and metadata"),
        "zfs" => all.push("checksums: of data and metadata, unless they are off"),
        "ext2" | "ext3" | "ext4" | "xfs" | "f2fs" | "ntfs3" | "fuseblk" => all.push(without),
        _ => {}
    }
    let mapped = storage.device.as_ref().is_some_and(|device| {
        system.read(&format!("/sys/block/{}/dm/uuid", device.name)).starts_with("CRYPT-")
    });
    if mapped {
        all.push("encryption: in software, by the kernel (dm-crypt)");
    }
    let mut all: Vec<String> = all.into_iter().map(str::to_string).collect();
    if mount.file_system.starts_with("fuse") {
        all.push("by a process (FUSE): the kernel's cache may be between it and the test".into());
    }
    all
}

/// Whether the processor has instructions for AES, for a remark on encryption in software.
pub(super) fn has_aes(system: &dyn System) -> bool {
    system.read("/proc/cpuinfo").split_whitespace().any(|word| word == "aes")
}

#[cfg(test)]
mod tests {
    use jetcell_workload::machine::{Device, Mount};

    use super::*;
    use crate::system::fake::FakeSystem;

    fn found(file_system: &str, options: &str, system: &FakeSystem) -> String {
        let mount = Mount {
            point: "/mnt".into(),
            file_system: file_system.into(),
            source: "/dev/dm-0".into(),
            options: options.into(),
        };
        let device = Device {
            name: "dm-0".into(),
            model: None,
            rotational: None,
            scheduler: None,
            queue_requests: None,
            write_cache: None,
        };
        let storage = Storage { directory: "/mnt".into(), mount: Some(mount), device: Some(device) };
        remarks(&storage, system).join("; ")
    }

    #[test]
    fn checksums_and_encryption_are_told() {
        let plain = FakeSystem::default();
        assert_eq!(found("btrfs", "rw,relatime", &plain), "checksums: of data and metadata");
        assert_eq!(found("btrfs", "rw,nodatasum,nodatacow", &plain), "checksums: none of data");
        assert!(found("fuse.gocryptfs", "rw", &plain).starts_with("by a process"));
        let encrypted = FakeSystem::default().with_file("/sys/block/dm-0/dm/uuid", "CRYPT-LUKS2-00-name\n");
        let both = "checksums: none of data; encryption: in software, by the kernel (dm-crypt)";
        assert_eq!(found("ext4", "rw", &encrypted), both);
        assert!(
            has_aes(&FakeSystem::default().with_file("/proc/cpuinfo", "flags : fpu aes avx\n"))
                && !has_aes(&plain)
        );
    }
}
