//! Tests of arrays on block devices. They use loop devices, need root, and are skipped with a message otherwise.

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use testkit::{TestRequirement, skip};

use jetcell_array::{Array, ArrayError, ArrayRefusal, AssembleOptions, BLOCK};
use jetcell_vfs::{RealOptions, RealVfs, Vfs};
use rustix::fs::OFlags;
use serde_json::Value;

use crate::cell::CellDirectory;
use crate::loop_devices::{LoopDevice, can_create_filesystems, run};
use crate::raid_serve::ended;

const BYTES: u64 = 24 << 20;

fn devices(cell: &CellDirectory, count: usize) -> Option<Vec<LoopDevice>> {
    (0..count).map(|number| LoopDevice::attach(&cell.path(&format!("image{number}")), BYTES)).collect()
}

fn real() -> Arc<RealVfs> {
    Arc::new(RealVfs::new(RealOptions::default()).unwrap())
}

fn assembled(members: &[&str]) -> Array {
    let members: Vec<PathBuf> = members.iter().map(PathBuf::from).collect();
    Array::assemble(real(), &members, AssembleOptions::default()).unwrap()
}

fn state(cell: &CellDirectory) -> (Option<i32>, Value) {
    let output = cell.program(&["raid", "status", "a", "--json"]).output().unwrap();
    (output.status.code(), serde_json::from_slice::<Value>(&output.stdout).unwrap()["state"].clone())
}

/// Checks that a command on arrays is refused with one line. Returns the line.
#[track_caller]
fn refused(cell: &CellDirectory, words: &[&str]) -> String {
    let output = cell.program(&[&["raid"], words].concat()).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), stderr.lines().count()), (Some(2), 1), "{words:?}: {stderr}");
    assert!(output.stdout.is_empty());
    stderr
}

#[test]
fn loop_device_members_fail_and_are_replaced_and_scrubbed() {
    let cell = CellDirectory::new();
    let Some(devices) = devices(&cell, 5) else { return };
    let names: Vec<&str> = devices.iter().map(|device| device.0.as_str()).collect();
    ended(&cell, &[&["create", "a", "--level", "raid5", "--members"], &names[..4]].concat());
    let data: Vec<u8> = (0..600 * BLOCK).map(|byte| (byte / 9 + byte / BLOCK) as u8).collect();
    let mut array = assembled(&names[..4]);
    array.write(0, &data).unwrap();
    array.close().unwrap();
    let holds_data = |members: &[&str]| {
        let mut array = assembled(members);
        let mut found = vec![0; data.len()];
        array.read(0, &mut found).unwrap();
        array.close().unwrap();
        found == data
    };
    assert_eq!(state(&cell), (Some(0), "optimal".into()));

    ended(&cell, &["fail", "a", names[1]]);
    assert_eq!(state(&cell), (Some(1), "degraded".into()));
    assert!(holds_data(&[names[0], names[2], names[3]]));
    ended(&cell, &["replace", "a", "1", names[4]]);
    assert_eq!(state(&cell), (Some(0), "optimal".into()));
    let whole = [names[0], names[4], names[2], names[3]];
    assert!(holds_data(&whole));

    // Another program overwrites a part of a member.
    let device = OpenOptions::new().write(true).open(names[2]).unwrap();
    device.write_all_at(&[0xA5; 256 << 10], BYTES / 2).unwrap();
    device.write_all_at(&[0xA5; 64 << 10], BYTES / 3).unwrap();
    device.sync_all().unwrap();
    drop(device);
    let scrubbed = cell.program(&["raid", "scrub", "a", "--json"]).output().unwrap();
    let report: Value = serde_json::from_slice(&scrubbed.stdout).unwrap();
    assert_eq!((scrubbed.status.code(), &report["complete"]), (Some(1), &true.into()), "{report}");
    assert!(report["repaired"].as_u64().unwrap() >= 64, "{report}");
    assert!(ended(&cell, &["scrub", "a", "--json"]).contains("\"complete\":true"));
    assert!(holds_data(&[names[4], names[2], names[3], names[0]]));
    let used = refused(&cell, &[&["create", "b", "--level", "raid5", "--members"], &names[..3]].concat());
    assert!(used.contains("contains a member of an array"), "{used}");
    assert!(ended(&cell, &["destroy", "a", "--force"]).contains("; 5 files are no longer members"));
}

#[test]
fn devices_that_are_mounted_or_held_are_refused() {
    let cell = CellDirectory::new();
    if !can_create_filesystems(&cell) {
        return;
    }
    let Some(devices) = devices(&cell, 3) else { return };
    let names: Vec<&str> = devices.iter().map(|device| device.0.as_str()).collect();
    let create = [&["create", "a", "--level", "raid5", "--members"], &names[..]].concat();
    ended(&cell, &["create", "files", "--level", "mirror", "--size", "24MiB", "--members", "m0", "m1"]);
    let is_busy = |how: &str| {
        for words in [&create[..], &["replace", "files", "0", names[0]], &["spare", "files", names[0]]] {
            let text = refused(&cell, words);
            let busy = format!("{} is in use: it is mounted, or part of another array", names[0]);
            assert!(text.contains(&busy), "{how}: {text}");
        }
    };
    let point = cell.make_dir("point");
    let point = point.to_str().unwrap();
    assert!(run("mkfs.ext4", &["-q", names[0]]) && run("mount", &["-t", "ext4", names[0], point]));
    is_busy("mounted");
    assert!(run("umount", &[point]));

    let exclusive = OFlags::EXCL.bits() as i32;
    let held = OpenOptions::new().read(true).write(true).custom_flags(exclusive).open(names[0]).unwrap();
    is_busy("held by a process");
    drop(held);

    let sectors = (BYTES / 512).to_string();
    let table = format!("0 {sectors} linear {} 0", names[0]);
    let mapped = format!("jetcell-test-{}", std::process::id());
    if run("dmsetup", &["create", &mapped, "--table", &table]) {
        is_busy("part of a mapped device");
        assert!(run("dmsetup", &["remove", &mapped]));
    } else {
        skip(TestRequirement::Root, "no device mapper for a device that the kernel holds");
    }

    let lock = real().lock(names[0].as_ref()).unwrap();
    let text = refused(&cell, &create);
    assert!(text.contains("is in use by another process"), "{text}");
    drop(lock);
    // The device is free now, but not empty.
    assert!(refused(&cell, &create).contains("contains data"));
    ended(&cell, &[&create[..], &["--force"]].concat());
    // A running array claims its members.
    let array = assembled(&names);
    let text = refused(&cell, &["spare", "files", names[0], "--force"]);
    assert!(text.contains("is in use by another process"), "{text}");
    let claim = || OpenOptions::new().read(true).write(true).custom_flags(exclusive).open(names[0]);
    assert_eq!(claim().map(drop).unwrap_err().kind(), ErrorKind::ResourceBusy);
    assert!(!run("mount", &["-t", "ext4", names[0], point]), "mounted while the array ran");
    drop(array);
    // While another program claims a member, the array cannot start.
    let claimed = claim().unwrap();
    let members: Vec<PathBuf> = names.iter().map(PathBuf::from).collect();
    let refused = Array::assemble(real(), &members, AssembleOptions::default()).map(drop);
    let Err(ArrayError::Refused(ArrayRefusal::InUse(path))) = refused else { panic!("{refused:?}") };
    assert_eq!(path, members[0]);
    // A short claim, such as that of udev, only delays the start.
    thread::scope(|scope| {
        scope.spawn(move || {
            thread::sleep(Duration::from_millis(100));
            drop(claimed);
        });
        assembled(&names).close().unwrap();
    });
}

#[test]
fn members_of_a_stopped_array_are_not_erased_without_force() {
    let cell = CellDirectory::new();
    let Some(devices) = devices(&cell, 3) else { return };
    let names: Vec<&str> = devices.iter().map(|device| device.0.as_str()).collect();
    ended(&cell, &[&["create", "a", "--level", "raid5", "--members"], &names[..]].concat());
    let before = std::fs::read(cell.path("image1")).unwrap();
    let tests: [&[&str]; 2] = [
        &["disk", "test", names[1], "--erase", "--output", "out"],
        &["test", "filesystems", "--make", "ext4,xfs", "--device", names[1], "--erase", "--output", "out"],
    ];
    for words in tests {
        let stderr = cell.program_refused(words);
        assert!(stderr.contains("a member of the Jetcell array"), "{words:?}: {stderr}");
        assert!(stderr.contains("(raid5); add --force to erase it"), "{words:?}: {stderr}");
    }
    assert!(before == std::fs::read(cell.path("image1")).unwrap(), "a refused test writes nothing");
    assert_eq!(state(&cell).0, Some(0));
}
