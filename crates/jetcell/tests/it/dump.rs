//! Tests of `jetcell dump`: exit codes, both output formats, refusals, and that files are not changed.

use std::fs::File;
use std::process::{Command, Output, Stdio};

use testkit::corpus::Corpus;

use crate::cell::CellDirectory;

/// Creates a cell with one real file of each format, with the names that the help uses.
fn cell_with_files() -> Option<CellDirectory> {
    let corpus = Corpus::locate()?;
    let cell = CellDirectory::new();
    for (name, file) in [
        ("priv1.edb", "db/4k/basic.edb"),
        ("priv1.jfm", "logsets/srum-server2022/a/SRUDB.jfm"),
        ("E00.log", "logsets/srum-server2022/b/SRU.log"),
        ("E0000000042.log", "logsets/srum-server2022/a/SRU00001.log"),
        ("E00.chk", "logsets/srum-server2022/a/SRU.chk"),
    ] {
        cell.write(name, corpus.read(file));
    }
    Some(cell)
}

fn command(cell: &CellDirectory, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_jetcell"));
    command.current_dir(cell.path("")).arg("dump").args(arguments);
    command
}

fn run(cell: &CellDirectory, arguments: &[&str]) -> Output {
    command(cell, arguments).output().unwrap()
}

const KINDS: [&str; 8] = ["header", "pages", "tree", "schema", "space", "log", "checkpoint", "flushmap"];

/// Runs every example of every help text on real files, in both output formats. The files must not change.
#[test]
fn the_help_examples_run() {
    let Some(cell) = cell_with_files() else { return };
    let before = cell.listing();
    let mut ran = 0;
    for kind in KINDS {
        let help = String::from_utf8(run(&cell, &[kind, "--help"]).stdout).unwrap();
        let examples: Vec<&str> =
            help.lines().filter_map(|line| line.strip_prefix("  jetcell dump ")).collect();
        assert!(examples.len() >= 2 && help.contains("Exit code 1:"), "{kind}: {help}");
        for example in examples {
            let words = example.split(" | ").next().unwrap().split("  ").next().unwrap();
            let arguments: Vec<&str> = words.split_whitespace().filter(|word| *word != "--json").collect();
            let text = run(&cell, &arguments);
            assert_eq!(text.status.code(), Some(0), "{example}: {text:?}");
            assert!(!text.stdout.is_empty() && text.stderr.is_empty(), "{example}: {text:?}");
            let json = run(&cell, &[&[arguments[0], "--json"], &arguments[1..]].concat());
            for line in String::from_utf8(json.stdout).unwrap().lines() {
                let item: serde_json::Value = serde_json::from_str(line).unwrap();
                assert!(item["type"].is_string(), "{example}: {line}");
            }
            ran += 1;
        }
    }
    assert!(ran > 18, "{ran}");
    assert_eq!(cell.listing(), before, "a dump changed a file");
}

#[test]
fn damage_gives_exit_code_1_and_a_refusal_exit_code_2() {
    let Some(cell) = cell_with_files() else { return };
    let mut bytes = std::fs::read(cell.path("priv1.edb")).unwrap();
    bytes[15 * 4096 + 2000] ^= 7;
    cell.write("damaged.edb", &bytes);
    let output = run(&cell, &["tree", "--table", "MSysObjects", "damaged.edb"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("! page 14: the page has a bad checksum, although page 4 refers to it"), "{text}");
    cell.write("notes.txt", "nothing of this kind");
    let refused = |arguments: &[&str], message: &str| {
        let output = run(&cell, arguments);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stdout.is_empty() && stderr.contains(message), "{arguments:?}: {stderr}");
    };
    refused(
        &["header", "notes.txt"],
        "jetcell: notes.txt: the file is not an ESE database, log, checkpoint or flush map; ",
    );
    refused(&["header", "missing.edb"], "jetcell: missing.edb: No such file");
    refused(&["header", "."], "jetcell: .: Is a directory");
    refused(&["log", "priv1.edb"], "not an ESE log file; use dump header, pages, tree, schema or space");
    refused(&["tree", "--table", "Nope", "priv1.edb"], "table `Nope` does not exist; to list all tables");
    refused(
        &["tree", "--table", "basic", "--index", "x", "priv1.edb"],
        "table `basic` does not have an index `x`",
    );
    refused(&["tree", "priv1.edb"], "--table");
    refused(&["pages", "--page", "0", "priv1.edb"], "pages are numbered from 1");
    refused(&["pages", "--page", "9-3", "priv1.edb"], "the range 9-3 ends before it starts");
    refused(&["log", "--type", "Inserts", "E00.log"], "'Inserts' is not a record type");
}

#[test]
fn a_closed_pipe_ends_the_dump_and_a_full_disk_is_an_error() {
    let Some(cell) = cell_with_files() else { return };
    let mut child =
        command(&cell, &["log", "E00.log"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.len()), (Some(141), 0), "{output:?}");
    let Ok(full) = File::create("/dev/full") else { return };
    let output = command(&cell, &["log", "E00.log"]).stdout(full).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.starts_with("jetcell: could not write to standard output: No space left"), "{stderr}");
}
