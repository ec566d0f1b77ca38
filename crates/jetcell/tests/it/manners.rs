//! Tests that every input of a command is processed, or named as ignored with an exit code other than 0.

use std::fs;

use crate::cell::CellDirectory;
use crate::copies::{grow, json, rows, run};

/// Creates two instances, each with its own log stream, in the directories `a` and `b`.
fn two_streams() -> CellDirectory {
    let cell = CellDirectory::new();
    grow(&cell.path("a"), 0..20);
    grow(&cell.path("b"), 0..30);
    cell
}

const BOTH: [&str; 5] = ["backup", "--from", "a", "--from", "b"];

#[test]
fn a_backup_has_all_streams() {
    let cell = two_streams();
    let set = json(&cell, 0, &[&BOTH[..], &["--to", "full"]].concat());
    let paths: Vec<&str> =
        set["backups"].as_array().unwrap().iter().map(|one| one["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["full/a", "full/b"], "{set}");
    let text = run(&cell, 0, &[&BOTH[..], &["--to", "full"]].concat());
    assert_eq!(text.matches("already completed at").count(), 2, "{text}");
    run(&cell, 0, &["check", "--structure", "full"]);
    // A set of backups is continued stream by stream.
    grow(&cell.path("a"), 20..40);
    grow(&cell.path("b"), 30..60);
    for (to, base) in [("next", &["--incremental"][..]), ("named", &["--differential", "--base", "full"])] {
        run(&cell, 0, &[&BOTH[..], &["--to", to], base].concat());
        for (stream, count) in [("a", 40), ("b", 60)] {
            let restored = format!("{to}-{stream}");
            let backups = [format!("full/{stream}"), format!("{to}/{stream}")];
            run(&cell, 0, &["restore", &backups[0], &backups[1], "--to", &restored]);
            assert_eq!(rows(&cell.path(&restored)), (0..count).collect::<Vec<i32>>());
        }
    }
    let text = cell.program_refused(&["restore", "full", "--to", "restored"]);
    assert!(text.contains("full/a, full/b"), "{text}");
}

#[test]
fn a_set_is_good_only_with_all_its_backups() {
    let cell = two_streams();
    run(&cell, 0, &[&BOTH[..], &["--to", "backups/full"]].concat());
    let age = ["backup", "--age", "backups", "--max-age", "1h"];
    assert_eq!(json(&cell, 0, &age)["paths"].as_array().unwrap().len(), 2);
    let text = run(&cell, 0, &["backup", "prove", "backups"]);
    assert_eq!(text.matches(": proved: 1 databases").count(), 2, "{text}");
    fs::remove_dir_all(cell.path("backups/full/b")).unwrap();
    let text = run(&cell, 1, &age);
    assert!(
        text.contains("full/b: the set does not contain this backup") && text.contains("no good"),
        "{text}"
    );
    // The same command completes the set.
    run(&cell, 0, &[&BOTH[..], &["--to", "backups/full"]].concat());
    run(&cell, 0, &age);
    // A set of other streams is not mixed with this one.
    grow(&cell.path("c"), 0..10);
    let others = ["backup", "--from", "a", "--from", "c", "--to", "backups/full"];
    assert!(cell.program_refused(&others).contains("-504"));
}

#[test]
fn logs_in_the_usual_directories_are_found() {
    let cell = two_streams();
    cell.make_dir("run");
    for (from, number) in [("a", "001"), ("b", "002")] {
        fs::rename(cell.path(from), cell.path(&format!("run/log{number}"))).unwrap();
        let (database, named) = (format!("run/log{number}/data.edb"), format!("run/Test{number}001.edb"));
        fs::rename(cell.path(&database), cell.path(&named)).unwrap();
    }
    let set = json(&cell, 0, &["backup", "--from", "run", "--to", "full"]);
    let files = |index: usize| set["backups"][index]["databases"][0]["file"].clone();
    assert_eq!((files(0), files(1)), ("Test001001.edb".into(), "Test002001.edb".into()), "{set}");
}

#[test]
fn maintenance_works_on_all_streams() {
    let cell = two_streams();
    let report = json(&cell, 0, &["maintain", "a", "b"]);
    assert!(report["complete"] == true && report["databases"].as_array().unwrap().len() == 2, "{report}");
}

#[test]
fn databases_that_would_be_left_out_are_named() {
    let cell = two_streams();
    let text = cell.program_refused(&["replicate", "--from", "a", "--from", "b", "--to", "copy", "--once"]);
    assert!(text.contains("b/data.edb") && text.contains("would be left out"), "{text}");
    // A recovery works on one stream, and names the files of the other one.
    let text = run(&cell, 1, &["recover", "--dry-run", "a", "b"]);
    assert!(text.contains("ignored: b/data.edb: it belongs to another log stream"), "{text}");
    run(&cell, 0, &["backup", "--from", "a", "--to", "backup"]);
    fs::copy(cell.path("b/E00.log"), cell.path("a/E01.log")).unwrap();
    let text = cell.program_refused(&["restore", "backup", "--logs", "a", "--to", "restored"]);
    assert!(text.contains("a/E01.log would be left out"), "{text}");
    fs::remove_file(cell.path("a/E01.log")).unwrap();
    // Neither copy of the header of this database is readable.
    let mut bytes = fs::read(cell.path("a/data.edb")).unwrap();
    bytes[100..200].fill(0xA5);
    bytes[4096 + 100..4096 + 200].fill(0xA5);
    cell.write("a/damaged.edb", bytes);
    for words in [
        &["backup", "--from", "a", "--to", "other"][..],
        &["maintain", "a"],
        &["replicate", "--from", "a", "--to", "copy", "--once"],
    ] {
        let text = cell.program_refused(words);
        assert!(text.contains("a/damaged.edb would be left out"), "{words:?}: {text}");
    }
    let text = run(&cell, 1, &["recover", "--dry-run", "a"]);
    assert!(text.contains("ignored: a/damaged.edb"), "{text}");
}

#[test]
fn an_input_that_does_not_exist_fails_each_command_with_several_inputs() {
    let cell = two_streams();
    run(&cell, 0, &["backup", "--from", "a", "--to", "backup"]);
    run(&cell, 0, &["replicate", "--from", "b", "--to", "copy", "--once"]);
    for words in [
        &["check", "a/data.edb", "nowhere"][..],
        &["recover", "--dry-run", "a", "nowhere"],
        &["backup", "--from", "a", "--from", "nowhere", "--to", "x"],
        &["replicate", "--from", "a", "--from", "nowhere", "--to", "x", "--once"],
        &["restore", "backup", "nowhere", "--to", "x"],
        &["maintain", "a", "nowhere"],
        &["copies", "copy", "nowhere"],
        &["activate", "copy", "nowhere"],
        &["report", "a", "nowhere"],
        &["compare", "a", "nowhere"],
    ] {
        let output = cell.program(words).output().unwrap();
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}: {text}");
        assert!(text.contains("nowhere") || text.contains("a/result.json"), "{words:?}: {text}");
    }
}
