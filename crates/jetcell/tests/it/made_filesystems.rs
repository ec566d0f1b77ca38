//! Tests of the kinds of file systems that the command creates, of stopping it, and of durability on such devices.
//! They need root and are skipped with a message otherwise.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use testkit::{TestRequirement, skip};

use serde_json::Value;

use crate::cell::CellDirectory;
use crate::loop_devices::{LoopDevice, can_create_filesystems, count_attached, run};

/// Options for a short load.
const LOAD: [&str; 6] = ["--size", "32MiB", "--repeat", "1", "--min-repeat", "1"];

/// Returns the types as which a kind of file system is mounted.
fn mounted_as(kind: &str) -> &[&str] {
    match kind {
        "ext4" | "ext4-fscrypt" | "luks" => &["ext4"],
        "btrfs" | "btrfs-nodatacow" => &["btrfs"],
        "gocryptfs" => &["fuse.gocryptfs"],
        "ntfs" => &["ntfs3", "fuseblk"],
        "xfs" => &["xfs"],
        "f2fs" => &["f2fs"],
        "zfs" => &["zfs"],
        other => panic!("{other} is unexpected"),
    }
}

#[test]
fn every_file_system_is_created_on_an_erasable_partition() {
    let cell = CellDirectory::new();
    if !can_create_filesystems(&cell) {
        return;
    }
    let image = cell.path("image");
    let Some(disk) = LoopDevice::attach(&image, 640 << 20) else { return };
    let Some(partition) = disk.partition(1, 1, 600) else { return };
    let refused = |words: &[&str]| {
        let always = ["test", "filesystems", "--make", "xfs,ext4", "--output", "out", "--device"];
        cell.program_refused(&[&always[..], words].concat())
    };
    assert!(refused(&[&partition]).contains("--erase"));
    assert!(run("mkfs.ext4", &["-q", &partition]));
    assert!(refused(&[&partition, "--erase"]).contains("contains ext4; add --force"));
    let kinds = "xfs,btrfs,btrfs-nodatacow,ext4-fscrypt,gocryptfs,ntfs,f2fs,luks,zfs";
    let words = ["test", "filesystems", "--make", kinds, "--device", &partition, "--erase", "--force"];
    let more = ["--duration", "1s", "--output", "out", "--json"];
    let output = cell.program(&[&words[..], &LOAD, &more].concat()).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    if !run("mkfs.xfs", &["-V"]) && stderr.contains("a comparison needs at least two file systems") {
        skip(
            TestRequirement::Tools,
            format!("mkfs.xfs is not installed, and this machine makes fewer than two kinds\n{stderr}"),
        );
        return;
    }
    let found: Value = serde_json::from_slice(&output.stdout).expect(&stderr);
    let (made, skipped) = (found["directories"].as_array().unwrap(), found["skipped"].as_array().unwrap());
    assert_eq!(output.status.code(), Some(i32::from(!skipped.is_empty())), "{stderr}");
    assert_eq!(made.len() + skipped.len(), kinds.split(',').count(), "{found}");
    for one in skipped {
        let line =
            format!("{} is skipped: {}", one["name"].as_str().unwrap(), one["reason"].as_str().unwrap());
        assert!(stderr.contains(&line), "{stderr}");
        eprintln!("{line}");
    }
    for (at, one) in made.iter().enumerate() {
        let kind = one["name"].as_str().unwrap();
        let file_system = one.pointer("/storage/mount/file_system").unwrap().as_str().unwrap();
        assert!(mounted_as(kind).contains(&file_system), "{kind}: {file_system}");
        assert!(found["rows"][0]["means"][at].as_f64().unwrap() > 0.0, "{kind}");
        // Every file system needs space for data that cannot be compressed.
        let used = one["allocated_bytes"].as_u64().unwrap();
        assert!((16 << 20..400 << 20).contains(&used), "{kind} uses {used} bytes");
    }
    let device = Path::new(&partition);
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(&format!(" {} ", device.display())), "{mounts}");
}

/// Starts a test of ext4 on images that runs until it is stopped.
fn started(cell: &CellDirectory, images: &Path) -> Child {
    let two = "[[filesystem]]\nkind = \"ext4\"\n[[filesystem]]\nkind = \"ext4\"\nname = \"other\"\n";
    cell.write("list.toml", two);
    let words =
        ["test", "filesystems", "--make-list", "list.toml", "--images", "images", "--image-size", "512MiB"];
    let mut child = cell
        .program(&[&words[..], &LOAD, &["--duration", "300s", "--output", "out"]].concat())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let began = Instant::now();
    let loaded = || databases(images).is_some();
    while !loaded() && began.elapsed() < Duration::from_secs(120) && child.try_wait().unwrap().is_none() {
        thread::sleep(Duration::from_millis(10));
    }
    assert!(loaded(), "the load does not begin");
    child
}

/// Returns the directory of the databases on the file system that is currently mounted.
fn databases(images: &Path) -> Option<PathBuf> {
    let work = fs::read_dir(images).ok()?.flatten().next()?.path();
    Some(work.join("0/databases")).filter(|path| path.is_dir())
}

/// Sends a signal and waits for the process to exit. Returns its exit code and stderr.
fn stopped(child: Child, signal: &str) -> (Option<i32>, String) {
    assert!(run("kill", &["-s", signal, &child.id().to_string()]));
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_signalled_test_cleans_up() {
    let cell = CellDirectory::new();
    if !can_create_filesystems(&cell) {
        return;
    }
    let images = cell.make_dir("images");
    for signal in ["INT", "TERM"] {
        let (code, stderr) = stopped(started(&cell, &images), signal);
        assert_eq!(code, Some(1), "{signal}: {stderr}");
        assert!(stderr.contains("stopped; an incomplete test has no result"), "{signal}: {stderr}");
        assert_eq!((count_attached(&images), fs::read_dir(&images).unwrap().count()), (0, 0), "{stderr}");
        let _ = fs::remove_dir_all(cell.path("out"));
    }
}

#[test]
fn a_failed_unmount_is_reported_with_the_cleanup_command() {
    let cell = CellDirectory::new();
    if !can_create_filesystems(&cell) {
        return;
    }
    let images = cell.make_dir("images");
    let child = started(&cell, &images);
    let holder = fs::File::open(databases(&images).unwrap()).unwrap();
    let (code, stderr) = stopped(child, "TERM");
    assert_eq!(code, Some(1), "{stderr}");
    let remedy = "remove it with: jetcell test filesystems --images images --clean-up";
    assert!(stderr.contains("umount ") && stderr.contains(remedy), "{stderr}");
    assert!(stderr.contains("stopped; an incomplete test has no result"), "{stderr}");
    drop(holder);
    let output = cell.program(&["test", "filesystems", "--images", "images", "--clean-up"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!((count_attached(&images), fs::read_dir(&images).unwrap().count()), (0, 0));
}

#[test]
fn a_failed_load_ends_the_test_and_cleans_up() {
    let cell = CellDirectory::new();
    if !can_create_filesystems(&cell) {
        return;
    }
    let images = cell.make_dir("images");
    // The second file system is too small for the database.
    cell.write(
        "list.toml",
        "[[filesystem]]\nkind = \"ext4\"\n[[filesystem]]\nkind = \"btrfs\"\nmkfs_options = [\"--mixed\", \"-b\", \"24M\"]\n",
    );
    let words = ["test", "filesystems", "--make-list", "list.toml", "--images", "images"];
    let more = ["--image-size", "512MiB", "--duration", "1s", "--output", "out"];
    let output = cell.program(&[&words[..], &LOAD, &more].concat()).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    if stderr.contains("btrfs is skipped") {
        return;
    }
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(cell.path("out/runs/1-1/result.json").exists(), "the first load has a result: {stderr}");
    assert!(!cell.path("out/result.json").exists());
    assert_eq!((count_attached(&images), fs::read_dir(&images).unwrap().count()), (0, 0), "{stderr}");
}

#[test]
fn durability_refuses_devices_and_a_witness_on_the_same_disk() {
    let cell = CellDirectory::new();
    if !can_create_filesystems(&cell) {
        return;
    }
    let image = cell.path("image");
    let Some(disk) = LoopDevice::attach(&image, 64 << 20) else { return };
    let partitions = [disk.partition(1, 1, 20), disk.partition(2, 30, 20)];
    let [Some(one), Some(other)] = partitions else { return };
    let refused = |words: &[&str]| cell.program_refused(&[&["test", "durability"], words].concat());
    let device = refused(&[&one, "--witness", "tcp:127.0.0.1:1"]);
    assert!(
        device.contains("is a block device") && device.contains("create a file system on the device"),
        "{device}"
    );
    let points = ["one", "other"].map(|name| cell.make_dir(name).display().to_string());
    let mounted = |device: &str, point: &str| {
        run("mkfs.ext4", &["-q", device]) && run("mount", &["-t", "ext4", device, point])
    };
    assert!(mounted(&one, &points[0]) && mounted(&other, &points[1]));
    let tested = format!("{}/run", points[0]);
    let witness = |directory: &str| format!("{directory}/witness");
    let near =
        cell.program(&["test", "durability", &tested, "--witness", &witness(&points[1])]).output().unwrap();
    let same =
        cell.program(&["test", "durability", &tested, "--witness", &witness(&points[0])]).output().unwrap();
    let far = cell
        .program(&["test", "durability", &tested, "--witness", "witness", "--duration", "1s"])
        .output()
        .unwrap();
    for point in &points {
        assert!(run("umount", &[point]));
    }
    let said = |output: &std::process::Output| String::from_utf8_lossy(&output.stderr).into_owned();
    let name = disk.0.trim_start_matches("/dev/");
    assert_eq!(near.status.code(), Some(2), "{}", said(&near));
    assert!(
        said(&near).contains(&format!("the witness is on a disk under test ({name})")),
        "{}",
        said(&near)
    );
    assert!(said(&same).contains("the witness is on the storage under test"), "{}", said(&same));
    // The witness is on another disk and is accepted. The partition is too small for the test.
    assert!(said(&far).contains("but the test may need 128.00 MiB"), "{}", said(&far));
}
