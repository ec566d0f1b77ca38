//! Tests of copies that lost contact, lag, or were seeded from a crashed instance.

use std::fs;

use ese_engine::CopyRegistration;
use jetcell_vfs::{FileStem, RealOptions, RealVfs};
use serde_json::Value;

use crate::cell::CellDirectory;
use crate::copies::{ONCE, grow, insert, json, rows, run, store};

/// Changes the state and the registration of a copy as if it last had contact two hours ago.
fn age_contact(cell: &CellDirectory) {
    let path = cell.path("copy/copy.json");
    let mut state: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let contact = state["active"]["at_unix_ms"].as_i64().unwrap();
    state["active"]["at_unix_ms"] = (contact - 7_200_000).into();
    fs::write(&path, state.to_string()).unwrap();
    let vfs = RealVfs::new(RealOptions::default()).unwrap();
    let (app, base) = (cell.path("app"), FileStem::E00);
    for (_, registration) in CopyRegistration::list(&vfs, &app, base).unwrap() {
        let mut registration = registration.unwrap();
        registration.contact_unix_ms -= 7_200_000;
        registration.store(&vfs, &app, base).unwrap();
    }
}

#[test]
fn a_copy_without_contact_is_not_healthy() {
    let cell = CellDirectory::new();
    grow(&cell.path("app"), 0..100);
    run(&cell, 0, &ONCE);
    run(&cell, 0, &["copies", "copy", "--max-lag", "1h"]);
    age_contact(&cell);
    for asked in ["copy", "app"] {
        let text = run(&cell, 1, &["copies", asked]);
        assert!(text.contains("no contact since 20") && !text.contains("healthy"), "{text}");
        run(&cell, 1, &["copies", asked, "--max-lag", "1h"]);
        run(&cell, 0, &["copies", asked, "--max-lag", "3h"]);
    }
    let table = run(&cell, 1, &["copies", "copy", "app"]);
    assert_eq!(table.matches("no contact since").count(), 2, "{table}");
    let state = json(&cell, 1, &["copies", "copy"]);
    assert!(state["health"] == "no_contact" && state["lag"]["seconds"].as_u64() >= Some(7200), "{state}");
    run(&cell, 0, &ONCE);
    run(&cell, 0, &["copies", "copy"]);
}

#[test]
fn the_lag_includes_logs_that_the_copy_has_not_seen() {
    let cell = CellDirectory::new();
    grow(&cell.path("app"), 0..100);
    run(&cell, 0, &ONCE);
    grow(&cell.path("app"), 100..400);
    for asked in ["copy", "app"] {
        let state = json(&cell, 0, &["copies", asked]);
        let state = if asked == "copy" { state } else { state["copies"][0]["state"].clone() };
        assert!(state["copy_queue"].as_u64() > Some(5) && state["health"] == "catching up", "{state}");
        assert!(
            state["lag"]["seconds"].as_u64() > Some(0) && state["lag"]["bytes"].as_u64() > Some(0),
            "{state}"
        );
        run(&cell, 1, &["copies", asked, "--max-lag", "0s"]);
    }
    // The state of the copy cannot be read, but its registration and the logs are here.
    fs::rename(cell.path("copy"), cell.path("moved")).unwrap();
    let all = json(&cell, 0, &["copies", "app"]);
    let status = &all["copies"][0]["status"];
    assert!(status["copy_queue"].as_u64() > Some(5) && status["lag"]["seconds"].as_u64() > Some(0), "{all}");
}

/// The databases of a crashed instance need the log that was being written, of which the seed has a part.
#[test]
fn a_new_copy_of_a_crashed_instance_can_be_backed_up() {
    let cell = CellDirectory::new();
    let (instance, database) = store(&cell.path("app"));
    insert(&instance, &database, 0..200);
    cell.make_dir("crashed");
    // The database is copied first, so the logs contain everything that it needs.
    let mut files: Vec<_> =
        fs::read_dir(cell.path("app")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    files.sort_by_key(|name| !name.to_string_lossy().ends_with(".edb"));
    for name in files {
        fs::copy(cell.path("app").join(&name), cell.path("crashed").join(&name)).unwrap();
    }
    drop(database);
    instance.shutdown().unwrap();
    run(&cell, 0, &["replicate", "--from", "crashed", "--to", "copy", "--once"]);
    let logs = fs::read_dir(cell.path("copy")).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(logs.filter(|name| name.to_string_lossy().ends_with(".log")).count() > 1);
    run(&cell, 0, &["backup", "--from", "copy", "--to", "backup"]);
    run(&cell, 0, &["check", "--structure", "backup"]);
    run(&cell, 0, &["restore", "backup", "--to", "restored"]);
    assert_eq!(rows(&cell.path("restored")), (0..200).collect::<Vec<i32>>());
}

#[test]
fn a_database_file_is_named_if_it_is_not_used_for_an_existing_copy() {
    let cell = CellDirectory::new();
    grow(&cell.path("app"), 0..20);
    cell.make_dir("data");
    fs::rename(cell.path("app/data.edb"), cell.path("data/data.edb")).unwrap();
    let words = ["replicate", "--from", "app", "--from", "data/data.edb", "--to", "copy", "--once"];
    for is_seeded in [false, true] {
        let output = cell.program(&words).output().unwrap();
        let notes = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{notes}");
        assert_eq!(
            notes.contains("data/data.edb: not used, because copy was already seeded"),
            is_seeded,
            "{notes}"
        );
    }
}
