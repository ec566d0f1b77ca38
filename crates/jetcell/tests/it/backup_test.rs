//! Tests of `jetcell test backup` with the real engine.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::process::Output;

use serde_json::Value;

use crate::cell::CellDirectory;

fn backup(cell: &CellDirectory, exit: i32, output: &str, arguments: &[&str]) -> Value {
    let words = ["test", "backup", "--config", "wide.toml", "--output", output, "--json", "--quiet"];
    let finished = cell.program(&[&words, arguments].concat()).output().unwrap();
    let stderr = String::from_utf8_lossy(&finished.stderr);
    assert_eq!((finished.status.code(), &*stderr), (Some(exit), ""));
    serde_json::from_slice(&finished.stdout).unwrap()
}

fn said(cell: &CellDirectory, words: &[&str]) -> Output {
    cell.program(words).output().unwrap()
}

fn pages(result: &Value) -> u64 {
    let databases = result["backup"]["databases"].as_array().unwrap();
    databases.iter().map(|database| database["pages"].as_u64().unwrap()).sum()
}

#[test]
fn all_pages_are_read_and_a_written_backup_restores() {
    let cell = CellDirectory::with_limits();
    let created = backup(&cell, 0, "read", &["--dir", "d", "--databases", "2"]);
    assert_eq!((&created["test"], &created["verdict"]), (&"backup".into(), &"pass".into()));
    let length: u64 = ["d/Jetstress001001.edb", "d/Jetstress002001.edb"]
        .map(|name| fs::metadata(cell.path(name)).unwrap().len())
        .iter()
        .sum();
    // The header and its shadow do not count as pages.
    assert_eq!((pages(&created) + 4) * 32768, length);
    let row = &created["backup"]["databases"][0]["io"];
    let bytes = row["I/O Database Reads Average Bytes"].as_f64().unwrap();
    assert!((250_000.0..=262_144.0).contains(&bytes) && row["I/O Database Writes/sec"] == 0.0, "{row}");
    assert!(
        created["rules"]
            .as_array()
            .unwrap()
            .iter()
            .all(|rule| !rule["name"].as_str().unwrap().contains("latency"))
    );
    let page = fs::read_to_string(cell.path("read/report.html")).unwrap();
    for text in
        ["Jetcell backup test", "Database Backup Statistics - All", "MBytes Transferred/sec", "Backup rate"]
    {
        assert!(page.contains(text), "{text}");
    }
    assert!(!page.contains("Operation Latency"), "there was no load");

    backup(&cell, 0, "written", &["--dir", "d", "--open", "--to", "kept/monday"]);
    let checked = said(&cell, &["check", "kept/monday"]);
    let text = String::from_utf8(checked.stdout).unwrap();
    assert_eq!((checked.status.code(), text.matches("verified: good").count()), (Some(0), 2), "{text}");
    let text = cell.program_refused(&["restore", "kept/monday", "--to", "again"]);
    assert!(
        text.contains("the directory contains 2 backups; specify one of them: kept/monday/Jetstress001001"),
        "{text}"
    );
    let restored = said(&cell, &["restore", "kept/monday/Jetstress002001", "--to", "again"]);
    assert_eq!(restored.status.code(), Some(0), "{}", String::from_utf8_lossy(&restored.stderr));
    let checked = said(&cell, &["check", "--structure", "again/Jetstress002001.edb"]);
    assert_eq!(checked.status.code(), Some(0), "{}", String::from_utf8_lossy(&checked.stdout));
    // The databases can still be used after the test.
    cell.run("performance", 0, &["--dir", "d", "--open", "--duration", "1s"]);
    let listed = String::from_utf8(said(&cell, &["report", "."]).stdout).unwrap();
    assert_eq!((listed.matches("  backup  ").count(), listed.matches(" MiB/s").count()), (2, 2), "{listed}");
    let compared = String::from_utf8(said(&cell, &["compare", "read", "written"]).stdout).unwrap();
    assert!(
        compared.contains("Backup, all databases") && !compared.contains("Transactional I/O"),
        "{compared}"
    );

    for (arguments, text) in [
        (&["--to", "kept/monday"][..], "is not empty; specify a new directory"),
        (&["--to", "d/backup"], "which is being backed up; specify a directory elsewhere"),
        (&["--to", "wide.toml/x"], "is not a writable directory"),
        (&["--to", "wide.toml"], "is not a readable directory"),
    ] {
        let words =
            [&["test", "backup", "--config", "wide.toml", "--dir", "d", "--open"], arguments].concat();
        let refused = cell.program_refused(&words);
        assert!(refused.contains(text), "{refused}");
    }
}

#[test]
fn a_bad_page_fails_the_backup_and_is_named() {
    let cell = CellDirectory::with_limits();
    backup(&cell, 0, "good", &["--dir", "d"]);
    let database = File::options().read(true).write(true).open(cell.path("d/Jetstress001001.edb")).unwrap();
    // Overwrite the beginning of page 700 including its checksum. Equal bytes in a run of zeros might not change the
    // checksum.
    database.write_all_at(&[0xA5; 512], 701 * 32768).unwrap();
    drop(database);
    let written = backup(&cell, 1, "unusable", &["--dir", "d", "--open", "--to", "kept"]);
    assert_eq!((&written["verdict"], &written["backup"]["databases"][0]["bad"]), (&"fail".into(), &1.into()));
    assert_eq!(fs::read_dir(cell.path("kept")).unwrap().count(), 0, "half a backup is left");
    let result = backup(&cell, 1, "bad", &["--dir", "d", "--open"]);
    assert_eq!((&result["verdict"], &result["backup"]["databases"][0]["bad"]), (&"fail".into(), &1.into()));
    let reason = result["reason"].as_str().unwrap();
    assert!(reason.starts_with("Bad pages read by the backup: 1") && reason.contains("page 700"), "{reason}");
}

#[test]
fn backup_and_load_are_measured_alone_and_together() {
    let cell = CellDirectory::with_limits();
    let words = ["--dir", "d", "--under-load", "--duration", "2s", "--to", "kept"];
    let result = backup(&cell, 0, "out", &words);
    let checked = said(&cell, &["check", "kept"]);
    assert_eq!(checked.status.code(), Some(0), "{}", String::from_utf8_lossy(&checked.stdout));
    let restored = said(&cell, &["restore", "kept", "--to", "restored"]);
    assert_eq!(restored.status.code(), Some(0), "{}", String::from_utf8_lossy(&restored.stderr));
    let checked = said(&cell, &["check", "--structure", "restored/Jetstress001001.edb"]);
    assert_eq!(checked.status.code(), Some(0), "{}", String::from_utf8_lossy(&checked.stdout));
    let cost = &result["backup"]["cost"];
    for figure in ["backup_alone", "backup_together"] {
        assert!(cost[figure].as_f64().unwrap() > 0.0, "{cost}");
    }
    for load in ["load_alone", "load_together"] {
        assert!(cost[load]["transactional_iops"].as_f64().unwrap() > 0.0, "{cost}");
        assert!(cost[load]["seconds"].as_f64().unwrap() > 0.0, "{cost}");
    }
    assert!(cost["load_alone"]["seconds"].as_f64().unwrap() >= 2.0);
    assert!(!result["verification"].is_null());
    let page = fs::read_to_string(cell.path("out/report.html")).unwrap();
    assert!(page.contains("Cost of the Backup") && page.contains("Load over time"));
}
