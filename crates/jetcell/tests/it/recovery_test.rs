//! Tests of `jetcell test recovery` with the real engine.

use std::fs;
use std::time::Duration;

use serde_json::Value;

use crate::cell::CellDirectory;
use crate::runs::wait_until;

const SMALL: &str = "size = '32MiB'\ncache = '16MiB'\nthreads = 3\nsample_interval = '200ms'\nlogs = 6\n";

fn small() -> CellDirectory {
    let cell = CellDirectory::with_limits();
    cell.write("small.toml", SMALL);
    cell
}

impl CellDirectory {
    /// Runs a recovery test, which must exit with 0. Returns its result.
    #[track_caller]
    fn recovery(&self, output: &str, arguments: &[&str]) -> Value {
        let words = ["test", "recovery", "--config", "small.toml", "--output", output, "--json", "--quiet"];
        let finished = self.program(&[&words, arguments].concat()).output().unwrap();
        let stderr = String::from_utf8_lossy(&finished.stderr);
        assert_eq!((finished.status.code(), &*stderr), (Some(0), ""));
        serde_json::from_slice(&finished.stdout).unwrap()
    }
}

fn sum(result: &Value, figure: &str) -> u64 {
    let databases = result["recovery"]["databases"].as_array().unwrap();
    databases.iter().map(|database| database[figure].as_u64().unwrap()).sum()
}

#[test]
fn both_modes_replay_all_logs_and_only_one_redoes_the_changes() {
    let cell = small();
    let redone = cell.recovery("true", &["--dir", "d", "--databases", "2"]);
    assert_eq!((&redone["test"], &redone["verdict"]), (&"recovery".into(), &"pass".into()));
    assert!(sum(&redone, "logs") >= 12 && sum(&redone, "changes") > 1000, "{}", redone["recovery"]);
    assert!(redone["verification"]["files"].as_array().unwrap().iter().all(|file| file["bad"] == 0));
    let left: Vec<_> =
        fs::read_dir(cell.path("d")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().ends_with(".before")), "{left:?}");

    // Use the same databases again. Files that a killed test left are removed.
    cell.write("d/Jetstress001001.edb.before", "left behind");
    let compared = cell.recovery("compatible", &["--dir", "d", "--open", "--mode", "compatible"]);
    assert!(sum(&compared, "logs") >= 12 && sum(&compared, "records") > 1000, "{}", compared["recovery"]);
    assert!(sum(&compared, "changes") * 50 < sum(&redone, "changes"), "{}", compared["recovery"]);
    assert!(!cell.path("d/Jetstress001001.edb.before").exists());

    // Other commands accept these runs.
    let said = |words: &[&str]| {
        let output = cell.program(words).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let page = fs::read_to_string(cell.path("true/report.html")).unwrap();
    for text in [
        "Jetcell recovery test",
        "Soft Recovery Statistics - All",
        "Logs replayed",
        "Replay of a Log",
        "2.910",
    ] {
        assert!(page.contains(text), "{text}");
    }
    assert!(said(&["report", "true"]).1.contains(" s per log and database"));
    let list = said(&["report", "."]).1;
    assert_eq!(list.matches("  recovery  ").count(), 2, "{list}");
    let (exit, compared) = said(&["compare", "true", "compatible"]);
    assert!(exit == Some(0) && compared.contains("Seconds per log"), "{compared}");
    cell.run("performance", 0, &["--dir", "d", "--open", "--duration", "1s"]);
    let refused = cell.program_refused(&["compare", "true", "performance"]);
    assert_eq!(
        refused,
        "true is a recovery test and performance a performance test; compare runs of the same test"
    );
}

#[test]
fn a_killed_recovery_test_leaves_usable_databases() {
    let cell = small();
    let words =
        ["test", "recovery", "--config", "small.toml", "--output", "out", "--dir", "d", "--logs", "400"];
    let mut child = cell.program(&words).stderr(std::process::Stdio::null()).spawn().unwrap();
    wait_until("samples of the load", || {
        fs::read_to_string(cell.path("out/samples.csv")).is_ok_and(|text| text.lines().count() > 3)
    });
    assert!(cell.path("d/Jetstress001001.edb.before").is_file());
    child.kill().unwrap();
    child.wait().unwrap();
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(cell.recovery("after", &["--dir", "d", "--open"])["verdict"], "pass");
    assert!(!cell.path("d/Jetstress001001.edb.before").exists());
}

#[test]
fn invalid_options_are_refused_in_one_line() {
    let cell = small();
    let refused = |arguments: &[&str]| {
        cell.program_refused(
            &[&["test", "recovery", "--config", "small.toml", "--dir", "d"], arguments].concat(),
        )
    };
    assert_eq!(refused(&["--logs", "0"]), "--logs 0 is out of range; use a value from 1 to 1000000");
    assert!(refused(&["--mode", "both"]).contains("expected compatible or true"));
    assert!(refused(&["--duration", "1h"]).contains("unexpected argument '--duration'"));
    assert!(refused(&["--open"]).contains("does not exist; to create databases, omit --open"));
    assert!(refused(&["--logs", "1000000", "--databases", "9"]).contains(" is free"));
}
