use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use jetcell_vfs::{OpenMode, RealOptions, RealVfs, SimVfs, Vfs};

use super::ArrayDirectory;
use super::state_file::STATE_FILE;
use crate::members::SimulatedDriveOptions;

/// Returns the directory of an array that uses all the given members.
fn directory(path: &Path, id: u128, members: &[PathBuf]) -> ArrayDirectory {
    ArrayDirectory {
        path: path.into(),
        id,
        members: members.to_vec(),
        former: vec![],
        write_log: None,
        simulated_drive: None,
    }
}

/// Creates the files of four members.
fn four_files(disk: &SimVfs) -> Vec<PathBuf> {
    let file = |number: usize| {
        let path = PathBuf::from(format!("/a/m{number}"));
        disk.open(&path, OpenMode::CreateNew).unwrap().grow(16 << 20).unwrap();
        path
    };
    (0..4).map(file).collect()
}

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
    let mut array = directory(dir.path(), 0xABC, &members);
    let drives = ["15k-146", "10k-300", "ssd"].map(|name| SimulatedDriveOptions::new(name, 20.0).unwrap());
    let drives = std::iter::once(None).chain(drives.map(Some));
    for (write_log, simulated_drive) in [None, Some("/fast/log".into())].into_iter().cycle().zip(drives) {
        (array.write_log, array.simulated_drive) = (write_log, simulated_drive);
        array.former = array.former.iter().cloned().chain(["/disks/d".into()]).collect();
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

#[test]
fn unused_members_become_former_members_and_only_the_last_ones_are_kept() {
    let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
    let mut array = directory(Path::new("a"), 1, &paths(&["m1", "m2", "m3"]));
    array.set_members(paths(&["m1", "m3"]));
    array.set_members(paths(&["m1", "m4"]));
    assert_eq!((&array.members, &array.former), (&paths(&["m1", "m4"]), &paths(&["m2", "m3"])));
    array.set_members(paths(&["m1", "m2", "m4"]));
    assert_eq!(array.former, paths(&["m3"]), "a member that returned");
    for number in 0..100 {
        array.set_members(vec!["m1".into(), format!("n{number}").into()]);
    }
    assert_eq!((array.former.len(), array.former.last()), (32, Some(&"n98".into())));
}

#[test]
fn a_former_member_that_is_current_is_found_when_a_member_is_missing() {
    use jetcell_array::{Array, ArrayState, AssembleOptions, CreateArrayOptions, MemberState, RaidLevel};

    let disk = SimVfs::new();
    let members = four_files(&disk);
    Array::create(&disk, &members, &CreateArrayOptions::new(RaidLevel::Raid5, 7)).unwrap();
    let mut array = directory(Path::new("a"), 7, &members);
    // The array stopped when a second member dropped out, so both were removed from the list, but one of them is still
    // current.
    array.set_members(members[2..].to_vec());
    let found = array.examine(&disk).unwrap();
    assert_eq!(found.state, ArrayState::Optimal);
    assert!(found.members.iter().all(|(_, state)| state.is_used()) && found.members.len() == 4);
    // A crash may leave a path in both lists.
    array.former.push(members[2].clone());
    assert_eq!(array.examine(&disk).unwrap().members.len(), 4);
    // A former member that missed writes is not used, and is not mentioned.
    let shared = std::sync::Arc::new(disk.clone());
    let mut running = Array::assemble(shared, &members, AssembleOptions::default()).unwrap();
    running.fail(0).unwrap();
    running.write(0, &[7; 4096]).unwrap();
    running.close().unwrap();
    let found = array.examine(&disk).unwrap();
    assert_eq!(found.state, ArrayState::Degraded(1));
    assert!(
        found
            .members
            .iter()
            .all(|(path, state)| *path != members[0] && matches!(state, MemberState::Slot(_)))
    );
}

#[test]
fn an_array_that_stopped_in_a_rebuild_starts_again_with_the_member_that_dropped_out() {
    use jetcell_array::{
        Array, ArrayState, AssembleOptions, CreateArrayOptions, MemberState, RaidLevel, ZONE_ROWS,
    };
    use jetcell_host::EventLines;
    use jetcell_vfs::{FaultEffect, FaultTarget, FaultVfs, InjectedFault};

    let disk = SimVfs::new();
    let members = four_files(&disk);
    Array::create(&disk, &members[..3], &CreateArrayOptions::new(RaidLevel::Raid5, 7)).unwrap();
    let parent = tempfile::tempdir().unwrap();
    let mut files = super::ArrayFiles {
        directory: directory(parent.path(), 7, &members[..3]),
        events: EventLines::open(parent.path(), true).unwrap(),
    };
    let faults = std::sync::Arc::new(FaultVfs::new(std::sync::Arc::new(disk.clone())));
    let mut running = Array::assemble(faults.clone(), &members[..3], AssembleOptions::default()).unwrap();
    running.write(0, &[1; 4096]).unwrap();
    running.flush().unwrap();
    running.fail(0).unwrap();
    running.replace(0, &members[3], false).unwrap();
    files.save_members(&running.status()).unwrap();
    running.rebuild_rows(ZONE_ROWS).unwrap();
    faults.inject(InjectedFault::new(FaultTarget::Write, FaultEffect::IoError).on_path("/a/m1"));
    let written: Vec<u8> = [2; 4096].repeat(64);
    assert!(running.write(0, &written).and_then(|()| running.flush()).is_err());
    assert_eq!(running.status().state, ArrayState::Stopped);
    files.save_members(&running.status()).unwrap();
    drop(running);

    let found = ArrayDirectory::open(parent.path()).unwrap();
    assert!(!found.members.contains(&members[1]) && found.former.contains(&members[1]));
    let examined = found.examine(&disk).unwrap();
    assert_eq!(examined.state, ArrayState::Degraded(1));
    let used: Vec<_> = examined.members.into_iter().filter(|(_, state)| state.is_used()).collect();
    assert!(used.contains(&(members[1].clone(), MemberState::Slot(1))), "{used:?}");
    let paths: Vec<_> = used.into_iter().map(|(path, _)| path).collect();
    let vfs = std::sync::Arc::new(disk.clone());
    let mut again = Array::assemble(vfs, &paths, AssembleOptions::default()).unwrap();
    let mut block = [0; 4096];
    again.read(0, &mut block).unwrap();
    assert!(block == [1; 4096] || block == [2; 4096]);
}
