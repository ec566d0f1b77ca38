//! Tests of `jetcell doctor`: its observations, and that it leaves no files.

use serde_json::Value;

use crate::cell::CellDirectory;

#[test]
fn examining_the_machine_and_directories_leaves_no_files() {
    let cell = CellDirectory::new();
    let (databases, logs) = (cell.make_dir("databases"), cell.make_dir("logs"));
    let output = cell.program(&["doctor", "--json", "databases", "logs"]).output().unwrap();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let all = found["observations"].as_array().unwrap();
    let about = |name: &str| all.iter().filter(|each| each["about"] == name).collect::<Vec<_>>();
    assert!(about("Machine").iter().any(|each| each["subject"] == "transfers"));
    for name in ["databases", "logs"] {
        let subjects: Vec<_> = about(name).iter().filter_map(|each| each["subject"].as_str()).collect();
        for subject in ["space", "file system", "direct I/O", "sync"] {
            assert!(subjects.contains(&subject), "{name}: {subjects:?}");
        }
    }
    let changes = all.iter().filter(|each| each["weight"] == "change").count();
    assert_eq!(found["changes"], changes);
    assert_eq!(output.status.code(), Some(i32::from(changes > 0)));
    for directory in [databases, logs] {
        assert_eq!(std::fs::read_dir(directory).unwrap().count(), 0);
    }
}

#[test]
fn the_text_ends_with_the_number_of_changes() {
    let output = CellDirectory::new().program(&["doctor"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("Machine\n"), "{text}");
    assert!(text.lines().last().unwrap().ends_with("to change before a measurement"), "{text}");
}

#[test]
fn a_path_that_is_not_a_directory_is_refused() {
    let cell = CellDirectory::new();
    cell.write("file", "");
    assert!(cell.program_refused(&["doctor", "file"]).contains("is not a directory"));
    assert!(cell.program_refused(&["doctor", "missing"]).contains("specify an existing directory"));
}
