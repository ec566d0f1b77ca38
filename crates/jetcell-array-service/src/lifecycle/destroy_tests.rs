use super::*;
use crate::running::ArrayStartOptions;
use crate::test_arrays::{create, environment, environment_with_notes};

#[test]
fn a_file_of_another_array_at_a_former_path_is_not_erased() {
    let parent = tempfile::tempdir().unwrap();
    let mut first = ArrayDirectory::open(&create(parent.path(), "a")).unwrap();
    // Two members failed. One of them was then used for another array, and the other one was not.
    let former = first.members.clone();
    first.members.truncate(1);
    first.former = former[1..].to_vec();
    first.save().unwrap();
    let other = create(parent.path(), "b");
    let members = ArrayDirectory::open(&other).unwrap().members;
    std::fs::rename(&members[0], &former[1]).unwrap();
    let mut second = ArrayDirectory::open(&other).unwrap();
    second.members[0] = former[1].clone();
    second.save().unwrap();
    let running = ArrayStartOptions::for_array(&other).start(&environment()).unwrap();

    let (environment, notes) = environment_with_notes();
    let destroyed = DestroyedArray { erased: 2, unreadable: Vec::new() };
    assert_eq!(first.destroy(&environment).unwrap(), destroyed);
    let notes = notes.lock();
    let id = format!("{:032x}", second.id);
    assert!(notes.len() == 1 && notes[0].contains("not changed") && notes[0].contains(&id), "{notes:?}");
    running.close().unwrap();
    let label = |path| MemberLabel::read(&*environment.vfs, path).unwrap();
    let is_of_second = |label| matches!(label, Some(MemberLabel::Known { array, .. }) if array == second.id);
    assert!(is_of_second(label(&former[1])));
    assert_eq!([label(&former[0]), label(&former[2])], [None; 2]);
}

#[test]
fn an_unreadable_former_member_is_returned() {
    let parent = tempfile::tempdir().unwrap();
    let mut array = ArrayDirectory::open(&create(parent.path(), "a")).unwrap();
    let members = array.members.clone();
    array.members.truncate(1);
    array.former = members[1..].to_vec();
    // One path cannot be reached, because a part of it is too long. Another one cannot be read as a file.
    array.former.push(parent.path().join("x".repeat(1000)).join("member"));
    std::fs::remove_file(&members[1]).unwrap();
    std::fs::create_dir(&members[1]).unwrap();
    array.save().unwrap();

    let (environment, notes) = environment_with_notes();
    let unreadable = vec![members[1].clone(), array.former[2].clone()];
    assert_eq!(array.destroy(&environment).unwrap(), DestroyedArray { erased: 2, unreadable });
    let notes = notes.lock();
    assert!(notes.len() == 2 && notes.iter().all(|note| note.contains("cannot be read")), "{notes:?}");
}
