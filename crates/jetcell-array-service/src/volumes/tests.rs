use jetcell_array::ArrayExamination;
use jetcell_input::quantity::ByteSize;

use super::*;
use crate::operations::{ArrayOperation, NewLun, OperationControl};
use crate::perform::perform;
use crate::running::ArrayStartOptions;
use crate::test_arrays::{create, environment};

#[test]
fn without_arrays_no_environment_is_opened() {
    let none = || -> Result<ServiceEnvironment> { panic!("a test without arrays needs no I/O threads") };
    let volumes = ArrayVolumes::mount(vec![], none).unwrap();
    assert!(volumes.mounts().is_empty() && volumes.watch().is_empty());
    volumes.close().unwrap();
}

#[test]
fn all_arrays_are_shut_down_although_one_is_in_use() {
    let parent = tempfile::tempdir().unwrap();
    let arrays = ["a", "b"].map(|name| create(parent.path(), name));
    for array in &arrays {
        let (size, log_size) = (ByteSize(8 << 20), ByteSize(1 << 20));
        let new = NewLun { name: "lun".into(), size, log: None, log_size };
        let start = ArrayStartOptions::for_array(array);
        let operation = ArrayOperation::CreateLun(new);
        perform(&start, operation, &environment(), OperationControl::default()).unwrap();
    }
    let luns = arrays.iter().map(|array| array.join("lun")).collect();
    let volumes = ArrayVolumes::mount(luns, || Ok::<_, Error>(environment())).unwrap();
    let storage = volumes.storage();
    assert_eq!(storage.len(), 2);
    let (directory, described) = &storage[1];
    assert_eq!((directory, &described.array), (&arrays[1].join("lun"), &arrays[1]));
    assert_eq!((described.level.as_str(), described.lun.as_deref()), ("raid5", Some("lun")));
    assert_eq!(described.members, [0, 1, 2].map(|number| parent.path().join(format!("b{number}"))));
    let in_use = volumes.mounted[0].watch().0.upgrade().unwrap();
    assert!(matches!(volumes.close().unwrap_err(), Error::FilesInUse(array) if array == arrays[0]));
    let events = std::fs::read_to_string(arrays[1].join("events.jsonl")).unwrap();
    assert!(events.contains("test_ended"), "{events}");
    drop(in_use);
}

#[test]
fn an_array_is_shut_down_although_its_member_list_cannot_be_saved() {
    let parent = tempfile::tempdir().unwrap();
    let array = create(parent.path(), "a");
    let environment = environment();
    let mut running = ArrayStartOptions::for_array(&array).start(&environment).unwrap();
    let directory = running.files.directory.clone();
    running.files.directory.path = parent.path().join("none");
    running.files.directory.members.clear();
    assert!(matches!(running.close().unwrap_err(), Error::Write { .. }));
    let found = ArrayExamination::new(&*environment.vfs, directory.id, &directory.members).unwrap();
    assert!(!found.is_open);
}
