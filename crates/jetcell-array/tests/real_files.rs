//! Tests an array on real files, which are opened without the page cache if the file system supports it.

use std::path::PathBuf;
use std::sync::Arc;

use jetcell_array::{Array, ArrayState, AssembleOptions, BLOCK, CreateArrayOptions, RaidLevel, ZONE_ROWS};
use jetcell_vfs::{IoReason, OpenMode, RealOptions, RealVfs, Vfs};

fn file(vfs: &dyn Vfs, directory: &tempfile::TempDir, name: &str) -> PathBuf {
    let path = directory.path().join(name);
    let file = vfs.open(&path, OpenMode::CreateNew).unwrap();
    file.grow(4 << 20).unwrap();
    file.sync(IoReason::Other).unwrap();
    path
}

fn content(block: u64) -> Vec<u8> {
    (0..BLOCK as u64).map(|at| (at * 7 + block * 13) as u8).collect()
}

#[test]
fn an_array_on_real_files_survives_losing_two_members() {
    let directory = tempfile::tempdir().unwrap();
    let vfs: Arc<dyn Vfs> = Arc::new(RealVfs::new(RealOptions::default()).unwrap());
    let mut members: Vec<PathBuf> =
        (0..6).map(|member| file(&*vfs, &directory, &format!("m{member}"))).collect();
    let options = CreateArrayOptions {
        journal_images: 64,
        ..CreateArrayOptions::new(RaidLevel::RaidDp { prime: 17 }, 5)
    };
    Array::create(&*vfs, &members, &options).unwrap();

    let mut array = Array::assemble(vfs.clone(), &members, AssembleOptions::default()).unwrap();
    assert!(
        Array::assemble(vfs.clone(), &members, AssembleOptions::default()).is_err(),
        "the members are in use"
    );
    let blocks = 500;
    for block in 0..blocks {
        array.write(block, &content(block)).unwrap();
    }
    array.close().unwrap();

    members.drain(1..3);
    let mut array = Array::assemble(vfs.clone(), &members, AssembleOptions::default()).unwrap();
    assert_eq!(array.status().state, ArrayState::Degraded(2));
    let mut buffer = vec![0; BLOCK];
    let mut check = |array: &mut Array| {
        for block in 0..blocks {
            array.read(block, &mut buffer).unwrap();
            assert!(buffer == content(block), "block {block}");
        }
    };
    check(&mut array);
    for slot in [1, 2] {
        let path = file(&*vfs, &directory, &format!("new{slot}"));
        array.replace(slot, &path, false).unwrap();
        members.push(path);
    }
    while !array.rebuild_rows(ZONE_ROWS).unwrap().is_complete() {}
    assert_eq!(array.status().state, ArrayState::Optimal);
    assert!(array.scrub().unwrap().is_clean());
    array.close().unwrap();

    members.drain(0..2);
    let mut array = Array::assemble(vfs, &members, AssembleOptions::default()).unwrap();
    check(&mut array);
}
