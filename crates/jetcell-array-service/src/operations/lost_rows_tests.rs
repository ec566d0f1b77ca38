//! Tests of operations on arrays that have lost rows.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::*;
use crate::description::ArrayHealth;
use crate::directory::ArrayDirectory;
use crate::perform::perform;
use crate::test_arrays::{MEMBER_SIZE, create, environment, environment_with_notes};
use jetcell_array::{ArrayError, BLOCK};

const CONTENT: [u8; BLOCK] = [0xC7; BLOCK];

/// Damages all copies of [`CONTENT`] in a member.
fn damage(member: &Path) {
    let bytes = std::fs::read(member).unwrap();
    let file = OpenOptions::new().write(true).open(member).unwrap();
    for (place, block) in bytes.chunks_exact(BLOCK).enumerate() {
        if block == CONTENT {
            file.write_all_at(&[0xFF; 9], (place * BLOCK + 7) as u64).unwrap();
        }
    }
}

#[test]
fn lost_first_blocks_do_not_prevent_a_rebuild_or_a_scrub() {
    let parent = tempfile::tempdir().unwrap();
    let array = create(parent.path(), "a");
    let start = ArrayStartOptions::for_array(&array);
    let mut running = start.start(&environment()).unwrap();
    running.array.write(0, &CONTENT.repeat(8)).unwrap();
    running.close().unwrap();
    // Damages the data and the parity. They are equal, because all other data is zeros.
    ["a0", "a2"].iter().for_each(|member| damage(&parent.path().join(member)));

    let (environment, notes) = environment_with_notes();
    let run =
        |operation| perform(&start, operation, &environment, OperationControl::default()).unwrap().result;
    let OperationResult::Scrubbed(scrubbed) = run(ArrayOperation::Scrub { rate: None }) else { panic!() };
    assert!(scrubbed.is_complete && !scrubbed.unrecoverable_rows.is_empty());
    assert_eq!(notes.lock().len(), 1);
    assert!(notes.lock()[0].contains("row 0: 2 blocks are lost or damaged"), "{:?}", notes.lock());

    run(ArrayOperation::Fail { member: "0".into() });
    let new = NewMembers { files: vec![parent.path().join("a3")], size: Some(MEMBER_SIZE), force: false };
    let replace = ArrayOperation::Replace { member: "0".into(), new, rate: None };
    let OperationResult::Rebuilt(rebuilt) = run(replace) else { panic!() };
    assert!(rebuilt.is_complete && rebuilt.rows_lost > 0);
    assert_eq!(rebuilt.health, ArrayHealth::DataLost);
    let events = std::fs::read_to_string(array.join("events.jsonl")).unwrap();
    assert_eq!(events.matches("\"rows_not_cleared\"").count(), 3, "{events}");
    let directory = ArrayDirectory::open(&array).unwrap();
    let examined = directory.examine(&*environment.vfs).unwrap();
    assert!(examined.lost_rows > 0 && examined.lost_rows_not_listed == 0);
    let files = directory.lost_files(&environment.vfs, &examined);
    assert!(matches!(files, Err(ArrayError::Unrecoverable { .. })), "the table of files is lost: {files:?}");
}
