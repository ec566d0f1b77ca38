//! Tests that a command fails if its input is missing, empty or incomplete.

use std::fs;
use std::os::unix::fs::symlink;

use testkit::{TestRequirement, skip};

use crate::cell::CellDirectory;
use crate::copies::{grow, run};

/// Runs the command, and returns its exit code and everything that it printed.
fn all_output_of(cell: &CellDirectory, words: &[&str]) -> (Option<i32>, String) {
    let output = cell.program(words).output().unwrap();
    (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
}

/// Runs the command, checks its exit code, and returns everything that it printed.
#[track_caller]
fn all_output(cell: &CellDirectory, code: i32, words: &[&str]) -> String {
    let (found, text) = all_output_of(cell, words);
    assert_eq!(found, Some(code), "{words:?}: {text}");
    text
}

#[test]
fn a_check_of_a_set_names_missing_backups() {
    let cell = CellDirectory::new();
    grow(&cell.path("a"), 0..20);
    grow(&cell.path("b"), 0..20);
    run(&cell, 0, &["backup", "--from", "a", "--from", "b", "--to", "sets/full"]);
    run(&cell, 0, &["check", "sets"]);
    // The list stands for the whole set.
    for words in [&["check", "sets/full/streams.json"][..], &["check", "sets/full/streams.json", "sets"]] {
        let text = run(&cell, 0, words);
        for backup in ["sets/full/a: full backup", "sets/full/b: full backup"] {
            assert_eq!(text.matches(backup).count(), 1, "{words:?}: {text}");
        }
    }
    let manifest = fs::read(cell.path("sets/full/b/manifest.json")).unwrap();
    cell.write("sets/full/b/manifest.json", "{}");
    all_output(&cell, 2, &["check", "sets/full/streams.json"]);
    cell.write("sets/full/b/manifest.json", manifest);
    // The directory exists, but the backup in it does not.
    fs::remove_dir_all(cell.path("sets/full/b")).unwrap();
    cell.make_dir("sets/full/b");
    assert!(run(&cell, 1, &["check", "sets"]).contains("error: sets/full/b: the set does not contain"));
    fs::remove_dir(cell.path("sets/full/b")).unwrap();
    for words in
        [&["check", "sets/full"][..], &["check", "--structure", "sets"], &["check", "--unverified", "sets"]]
    {
        let text = run(&cell, 1, words);
        assert!(text.contains("error: sets/full/b: the set does not contain"), "{words:?}: {text}");
    }
    let lines = run(&cell, 1, &["check", "--json", "sets/full"]);
    let lines: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let set = lines.iter().find(|line| line["type"] == "set").unwrap();
    assert_eq!(set["missing"], serde_json::json!(["sets/full/b"]), "{set}");
    // A set without backups is not a directory of other files.
    fs::rename(cell.path("sets/full/a"), cell.path("a-backup")).unwrap();
    assert_eq!(run(&cell, 1, &["check", "sets"]).matches("the set does not contain").count(), 2);
    // A damaged list is reported. The list of a different program is not.
    fs::rename(cell.path("a-backup"), cell.path("sets/full/a")).unwrap();
    cell.write("sets/full/streams.json", "{}");
    assert!(all_output(&cell, 2, &["check", "sets"]).contains("sets/full/streams.json"));
    fs::rename(cell.path("sets/full/streams.json"), cell.path("a/streams.json")).unwrap();
    run(&cell, 0, &["check", "a"]);
}

/// Returns the words of each command that works on the directories of an instance. One of them is `other`.
fn commands_with(other: &str) -> Vec<Vec<&str>> {
    [
        &["backup", "--from", "a", "--from", other, "--to", "new"][..],
        &["backup", "--from", other, "--to", "new"],
        &["backup", "--from", other, "--to", "new", "--json"],
        &["maintain", other],
        &["maintain", "a", other],
        &["recover", other, "--into", "new"],
        &["recover", "--in-place", "a", other],
        &["recover", "--dry-run", "a", other],
        &["replicate", "--from", other, "--to", "new", "--once"],
        &["replicate", "--from", "a", "--from", other, "--to", "new", "--once"],
        &["reseed", "--from", other, "--to", "copy"],
        &["reseed", "--from", other, "--to", "copy", "--incremental", "--dry-run"],
        &["reseed", "--from", "a", "--from", other, "--to", "copy"],
    ]
    .map(<[&str]>::to_vec)
    .to_vec()
}

#[test]
fn an_instance_without_files_is_refused() {
    let cell = CellDirectory::new();
    grow(&cell.path("a"), 0..20);
    run(&cell, 0, &["replicate", "--from", "a", "--to", "copy", "--once"]);
    cell.make_dir("empty");
    cell.make_dir("notes/below");
    cell.write("notes/readme.txt", "nothing that a command can work on");
    cell.write("notes/nothing", "");
    for other in ["empty", "notes"] {
        for words in commands_with(other) {
            let text = cell.program_refused(&words);
            assert!(text.starts_with("nothing found at ") && text.contains(other), "{words:?}: {text}");
            assert!(text.contains("no file in it has the header of an ESE log"), "{words:?}: {text}");
            assert!(text.contains("; specify the directory of an instance"), "{words:?}: {text}");
        }
    }
    cell.make_dir("foreign");
    cell.write("foreign/w.db", [&b"SQLite format 3\0\x10"[..], &[0; 8192]].concat());
    for words in commands_with("foreign") {
        let text = cell.program_refused(&words);
        assert!(text.contains("foreign/w.db: the file is not an ESE"), "{words:?}: {text}");
    }
}

#[test]
fn an_offset_applies_to_a_single_database() {
    let cell = CellDirectory::new();
    grow(&cell.path("a"), 0..20);
    let files = ["a/data.edb", "a/data.edb"];
    let export = ["export", "--timeline", "--offset", "0", "--format", "csv", "--output", "out.csv"];
    let text = cell.program_refused(&[&export[..], &files].concat());
    assert!(text.contains("--offset names the start of a single database"), "{text}");
    run(&cell, 0, &[&export[..], &files[..1]].concat());
}

#[test]
fn links_that_lead_nowhere_are_reported() {
    let cell = CellDirectory::new();
    grow(&cell.path("a"), 0..20);
    run(&cell, 0, &["replicate", "--from", "a", "--to", "copy", "--once"]);
    run(&cell, 0, &["backup", "--from", "a", "--to", "backup"]);
    let link = |target: &str, name: &str| symlink(target, cell.path(name)).unwrap();
    cell.make_dir("whole");
    fs::copy(cell.path("a/data.edb"), cell.path("whole/data.edb")).unwrap();
    link("data.edb", "whole/same.edb");
    link(".", "whole/loop");
    run(&cell, 0, &["check", "whole"]);
    // A link to a directory outside may form a loop, so it is followed only if it is named.
    link("../a", "whole/elsewhere");
    let text = all_output(&cell, 1, &["check", "whole"]);
    assert!(text.contains("whole/elsewhere: links to directories are not followed"), "{text}");
    run(&cell, 0, &["check", "whole", "a"]);
    run(&cell, 0, &["check", "whole", "whole/elsewhere"]);
    link("nowhere.edb", "a/gone.edb");
    let what = "a/gone.edb: the target of the link does not exist";
    for words in [&["check", "a"][..], &["check", "--json", "a"], &["check", "whole", "a"]] {
        let text = all_output(&cell, 1, words);
        assert!(text.contains(what), "{words:?}: {text}");
    }
    link("nowhere.edb", "backup/gone.edb");
    let text = all_output(&cell, 1, &["check", "backup"]);
    assert!(text.contains("backup/gone.edb: the target of the link does not exist"), "{text}");
    for words in commands_with("a") {
        let output = cell.program(&words).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && text.contains(what), "{words:?}: {text}");
    }
    assert!(!cell.path("new").exists());
    // If the database is named, its directory is not listed before it is changed.
    run(&cell, 0, &["recover", "--in-place", "a/data.edb"]);
    // Links without the name of a database or log are not needed. Emacs makes such a link for each open file.
    fs::remove_file(cell.path("a/gone.edb")).unwrap();
    for name in ["a/.#notes.txt", "a/.#data.edb", "a/old"] {
        link("user@host.123:456", name);
    }
    run(&cell, 0, &["backup", "--from", "a", "--to", "new"]);
    run(&cell, 0, &["replicate", "--from", "a", "--to", "copy", "--once"]);
    run(&cell, 0, &["recover", "a", "--into", "recovered"]);
    run(&cell, 0, &["maintain", "a"]);
    run(&cell, 0, &["recover", "--in-place", "a"]);
    let text = all_output(&cell, 1, &["check", "a"]);
    assert!(text.contains("a/.#notes.txt: the target of the link does not exist"), "{text}");
}

#[test]
fn a_check_of_unrecognised_and_unfinished_files_is_refused() {
    let cell = CellDirectory::new();
    cell.make_dir("notes");
    cell.write("notes/readme.txt", "no file that can be checked");
    for name in ["notes/a.partial", "notes/b.restoring"] {
        cell.write(name, "unfinished");
        for words in [&["check", "notes"][..], &["check", "--json", "notes"]] {
            let text = all_output(&cell, 2, words);
            assert!(text.contains(&format!("{name}: not checked, because")), "{words:?}: {text}");
            assert!(text.contains("the only file is not an ESE database"), "{words:?}: {text}");
        }
    }
}

#[test]
fn an_input_without_entries_is_refused() {
    let cell = CellDirectory::new();
    cell.write("empty.toml", "");
    cell.write("comments.toml", "# [[disk]]\n");
    cell.write("no-disks.toml", "disk = []\n");
    cell.write("site.toml", run(&cell, 0, &["size", "--example"]));
    for (words, expected) in [
        (&["test", "performance", "--dir", "load", "--config", "empty.toml"][..], "the file is empty"),
        (&["raid", "reliability", "--config", "empty.toml"], "the file is empty"),
        (&["raid", "simulate", "--config", "empty.toml"], "missing key 'seed'"),
        (&["size", "--config", "empty.toml"], "missing key 'platform'"),
        (&["size", "--config", "site.toml", "--disks", "empty.toml"], "the file is empty"),
        (&["size", "--config", "site.toml", "--disks", "comments.toml"], "at least one [[disk]] section"),
        (&["size", "--config", "site.toml", "--disks", "no-disks.toml"], "at least one [[disk]] section"),
        (&["fleet", "run", "--config", "empty.toml"], "missing key 'name'"),
        (&["power", "energy", "empty.toml", "--scope", "server"], "does not have a column"),
    ] {
        let text = cell.program_refused(words);
        assert!(text.contains(expected), "{words:?}: {text}");
    }
    cell.write("full.edb", [1; 8192]);
    cell.write("empty.edb", "");
    cell.make_dir("nothing");
    let (code, text) = all_output_of(&cell, &["disk", "fragmentation", "full.edb", "empty.edb"]);
    if code != Some(0) {
        return skip(TestRequirement::Kernel, format_args!("the extents of files cannot be read: {text}"));
    }
    for path in ["empty.edb", "nothing"] {
        let text = cell.program_refused(&["disk", "fragmentation", path]);
        assert!(text.contains(path) && text.contains("; specify "), "{text}");
    }
}

#[test]
fn a_durability_test_that_records_nothing_fails() {
    let cell = CellDirectory::new();
    let words =
        ["test", "durability", "tested", "--witness", "journal", "--level", "process", "--duration", "1ms"];
    let text = all_output(&cell, 2, &words);
    assert!(text.contains("tested: nothing was acknowledged; let the writer run longer"), "{text}");
}
