use std::os::unix::fs::PermissionsExt;

use jetcell_vfs::{RealOptions, RealVfs};

use super::ArrayDirectory;
use super::state_file::STATE_FILE;
use crate::members::SimulatedDriveOptions;

#[test]
fn array_creation_in_a_directory_is_exclusive() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("array");
    let vfs = RealVfs::new(RealOptions::default()).unwrap();
    let claimed = ArrayDirectory::claim(&vfs, &path).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
    let second = ArrayDirectory::claim(&vfs, &path).err().unwrap().full_text();
    assert!(second.contains("another process is creating an array"), "{second}");
    drop(claimed);
    assert!(!path.exists(), "a new directory without an array is removed");
    let claimed = ArrayDirectory::claim(&vfs, &path).unwrap();
    std::fs::write(path.join(STATE_FILE), "").unwrap();
    claimed.keep();
    let used = ArrayDirectory::claim(&vfs, &path).err().unwrap().full_text();
    assert!(used.contains("is the directory of an array") && path.join(STATE_FILE).exists(), "{used}");
    // An existing directory is not removed.
    let existing = parent.path().join("existing");
    std::fs::create_dir(&existing).unwrap();
    drop(ArrayDirectory::claim(&vfs, &existing).unwrap());
    assert!(existing.exists());
}

#[test]
fn the_array_file_round_trips_and_damage_gives_one_line() {
    let dir = tempfile::tempdir().unwrap();
    assert!(ArrayDirectory::open(dir.path()).unwrap_err().full_text().contains("raid create"));
    let members = vec!["/disks/a \"b\"".into(), "/disks/c".into()];
    let mut array = ArrayDirectory {
        path: dir.path().into(),
        id: 0xABC,
        members,
        write_log: None,
        simulated_drive: None,
    };
    let drives = ["15k-146", "10k-300", "ssd"].map(|name| SimulatedDriveOptions::new(name, 20.0).unwrap());
    let drives = std::iter::once(None).chain(drives.map(Some));
    for (write_log, simulated_drive) in [None, Some("/fast/log".into())].into_iter().cycle().zip(drives) {
        (array.write_log, array.simulated_drive) = (write_log, simulated_drive);
        array.save().unwrap();
        assert_eq!(ArrayDirectory::open(dir.path()).unwrap(), array);
    }
    assert!(ArrayDirectory::refuse_used(dir.path()).is_err());
    for text in [
        "",
        "id = 3",
        "id = \"x\"\nmembers = []",
        "id = \"1\"\nmembers = []\nmore = 1",
        "[[[",
        "id = \"1\"\nmembers = []\n[simulated_drive]\ntime_scale = 0",
    ] {
        std::fs::write(dir.path().join(STATE_FILE), text).unwrap();
        let complaint = ArrayDirectory::open(dir.path()).unwrap_err().full_text();
        assert!(complaint.contains("is damaged") && complaint.lines().count() == 1, "{complaint}");
        assert!(complaint.contains("line 3") || !text.ends_with("more = 1"), "{complaint}");
    }
    array.remove().unwrap();
    ArrayDirectory::refuse_used(dir.path()).unwrap();
}
