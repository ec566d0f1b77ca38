//! Tests of `jetcell test durability`: killed writers, storage that loses writes, and input that is refused.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::cell::CellDirectory;

/// Minimum number of journal lines before the writer is killed.
const ENOUGH: usize = 300;

fn lines(path: &Path) -> usize {
    fs::read_to_string(path).map_or(0, |text| text.lines().count())
}

/// Waits until the journal has enough lines, and kills the writer.
fn kill(mut writer: Child, journal: &Path) {
    while lines(journal) < ENOUGH {
        assert!(writer.try_wait().unwrap().is_none(), "the writer ended by itself");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    writer.kill().unwrap();
    writer.wait().unwrap();
}

fn verification(mut verifier: Command) -> (Option<i32>, Value) {
    let output = verifier.output().unwrap();
    let found = serde_json::from_slice(&output.stdout);
    (output.status.code(), found.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr))))
}

#[test]
fn a_killed_writer_passes_and_removed_data_is_detected() {
    let cell = CellDirectory::new();
    let write = [
        "test",
        "durability",
        "tested",
        "--witness",
        "journal",
        "--level",
        "process",
        "--quiet",
        "--seed",
        "3",
    ];
    kill(cell.program(&write).spawn().unwrap(), &cell.path("journal"));
    let verify = || cell.program(&["test", "durability", "tested", "--verify", "journal", "--json"]);
    let before = cell.listing();
    let (code, found) = verification(verify());
    assert_eq!((code, &found["findings"]), (Some(0), &Value::Array(Vec::new())), "{found}");
    assert!(found["last_acknowledged"].as_u64().unwrap() >= ENOUGH as u64 - 1);
    assert_eq!(cell.listing(), before, "a verification changed something");
    let text = cell.program(&["test", "durability", "tested", "--verify", "journal"]).output().unwrap();
    assert!(String::from_utf8(text.stdout).unwrap().starts_with("KEPT: "));
    let stored = ["test", "durability", "tested", "--verify", "journal", "--output", "verdict"];
    assert!(cell.program(&stored).output().unwrap().status.success());
    let verdict = |name: &str| fs::read_to_string(cell.path("verdict").join(name)).unwrap();
    assert!(verdict("report.html").contains("KEPT: ") && verdict("report.md").contains("KEPT: "));
    let again: Value = serde_json::from_str(&verdict("result.json")).unwrap();
    assert_eq!(again["last_acknowledged"], found["last_acknowledged"]);
    assert!(cell.program_refused(&stored).starts_with("verdict is not empty"));

    // Overwrite a sector of the log.
    let log = fs::OpenOptions::new().write(true).open(cell.path("tested/log/current")).unwrap();
    log.write_all_at(&[0xFF; 512], 512).unwrap();
    let (code, found) = verification(verify());
    let finding = &found["findings"][0];
    assert_eq!((code, &finding["path"]), (Some(1), &"log/current".into()), "{found}");
    assert_eq!(found["first_missing"], finding["operation"]);

    // Remove the logs of the engine.
    for entry in fs::read_dir(cell.path("tested/engine")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "log") {
            fs::remove_file(path).unwrap();
        }
    }
    let (code, found) = verification(verify());
    let findings = found["findings"].as_array().unwrap();
    assert!(code == Some(1) && findings.iter().any(|finding| finding["kind"] == "transaction"), "{found}");
}

/// Starts a witness in another process, which stores the journal. Returns the process and its address.
fn listening(cell: &CellDirectory) -> (Child, String) {
    let listen = ["test", "durability", "--listen", "0", "--journal", "journal"];
    let mut witness = cell.program(&listen).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(witness.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    let address = line.strip_prefix("Witness: ").and_then(|rest| rest.split(';').next()).unwrap();
    (witness, format!("tcp:{address}"))
}

#[test]
fn a_killed_array_process_keeps_acknowledged_writes() {
    let cell = CellDirectory::new();
    let create = ["raid", "create", "a", "--level", "mirror", "--size", "192MiB", "--members", "m0", "m1"];
    assert!(cell.program(&create).output().unwrap().status.success());
    let refused = |words: &[&str]| cell.program_refused(&[&["test", "durability"], words].concat());
    assert!(
        refused(&["array:none", "--witness", "tcp:127.0.0.1:1"]).contains("is not the directory of an array")
    );
    let near = refused(&["array:a", "--witness", "journal", "--level", "reset"]);
    assert!(near.contains("the witness is on the storage under test"), "{near}");
    assert!(refused(&["array:a", "--witness", "w", "--level", "process"]).contains("use --level reset"));
    let (mut witness, address) = listening(&cell);
    let write = ["test", "durability", "array:a", "--level", "reset", "--witness", &address, "--quiet"];
    kill(cell.program(&write).spawn().unwrap(), &cell.path("journal"));
    assert!(witness.wait().unwrap().success());
    let verify = ["test", "durability", "array:a", "--verify", "journal", "--same-boot", "--json"];
    let (code, found) = verification(cell.program(&verify));
    assert_eq!((code, &found["findings"]), (Some(0), &Value::Array(Vec::new())), "{found}");
    let links = found["kinds"].as_array().unwrap().iter().find(|kind| kind["kind"] == "link").unwrap();
    assert_eq!(links["acknowledged"], 0, "an array has no links");
    let (mut other, address) = (cell.program(&["test", "durability"]), "tcp:127.0.0.1:1");
    let again = other.args(["array:a", "--level", "reset", "--witness", address]).output().unwrap();
    let said = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(
        again.status.code() == Some(2) && said.contains("contains files; use an empty array or LUN"),
        "{said}"
    );
}

#[test]
fn a_separate_process_can_be_the_witness() {
    let cell = CellDirectory::new();
    let (mut witness, address) = listening(&cell);
    let write = ["test", "durability", "tested", "--witness", &address, "--quiet"];
    kill(cell.program(&write).spawn().unwrap(), &cell.path("journal"));
    assert!(witness.wait().unwrap().success(), "the witness ends with its writer");

    let refused = cell.program_refused(&["test", "durability", "tested", "--verify", "journal"]);
    assert!(refused.starts_with("this machine was not restarted after the writer started"), "{refused}");
    let verify = ["test", "durability", "tested", "--verify", "journal", "--same-boot", "--json"];
    let (code, found) = verification(cell.program(&verify));
    assert_eq!((code, found["findings"].as_array().map(Vec::len)), (Some(0), Some(0)), "{found}");
    assert_eq!(found["level"], "power");
}

#[test]
fn an_untestable_directory_is_refused() {
    let cell = CellDirectory::new();
    cell.make_dir("used");
    cell.write("used/file", "x");
    cell.write("journal", "text");
    let refused = |words: &[&str]| cell.program_refused(&[&["test", "durability"], words].concat());
    let process = ["--level", "process"];
    assert_eq!(
        refused(&[&["used", "--witness", "new"], &process[..]].concat()),
        "used is not empty; use a different directory for the test"
    );
    assert!(
        refused(&["new", "--witness", "other"])
            .starts_with("other: the witness is on the storage under test")
    );
    assert!(
        refused(&[&["new", "--witness", "journal"], &process[..]].concat())
            .starts_with("journal: File exists")
    );
    assert!(refused(&["new", "--witness", "none/journal"]).starts_with("none/journal: No such file"));
    // No program listens on port 1.
    assert!(refused(&["new", "--witness", "tcp:127.0.0.1:1"]).contains("the witness cannot be reached"));
    assert!(refused(&["new", "--witness", "tcp:127.0.0.1"]).contains("the witness cannot be reached"));
    assert!(refused(&["new"]).contains("--witness"));
    assert!(refused(&["used", "--verify", "none"]).starts_with("none: No such file"));
    assert!(refused(&["used", "--verify", "journal"]).starts_with("journal: the file is not a journal"));
    assert!(refused(&["--listen", "0"]).contains("--journal"));
    assert!(refused(&["--listen", "0", "--journal", "journal"]).starts_with("journal: File exists"));
    assert!(refused(&["--listen", "nowhere:", "--journal", "new"]).contains("could not parse 'nowhere:'"));
    // The address belongs to documentation, not to this machine.
    let elsewhere = ["--listen", "192.0.2.1:1", "--journal", "new"];
    assert!(refused(&elsewhere).contains("the witness cannot listen"));
}
