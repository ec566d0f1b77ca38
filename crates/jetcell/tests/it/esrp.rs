//! Tests of `jetcell report --esrp`: the document of real runs, and runs that are refused.

use std::fs;
use std::process::Output;
use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::cell::CellDirectory;

/// `result.json` and `samples.csv` of a short run that is made once.
static RUN: LazyLock<(Value, Vec<u8>)> = LazyLock::new(|| {
    let cell = CellDirectory::with_limits();
    let result = cell.run("out", 0, &["--dir", "d", "--duration", "1s", "--sample-interval", "200ms"]);
    (result, fs::read(cell.path("out/samples.csv")).unwrap())
});

/// Stores the run in a separate directory, as the run of another server.
fn store(cell: &CellDirectory, name: &str, change: impl Fn(&mut Value)) {
    let mut result = RUN.0.clone();
    result["machine"]["host"] = json!(name);
    change(&mut result);
    cell.make_dir(name);
    cell.write(&format!("{name}/result.json"), format!("{result:#}\n"));
    cell.write(&format!("{name}/samples.csv"), &RUN.1);
}

fn text(of: &[u8]) -> &str {
    str::from_utf8(of).unwrap()
}

#[track_caller]
fn ended(output: &Output, exit: i32) {
    assert_eq!(output.status.code(), Some(exit), "{}", text(&output.stderr));
}

#[test]
fn runs_from_two_servers_form_one_document() {
    let cell = CellDirectory::new();
    cell.write(
        "solution.toml",
        "title = 'Two servers'\n[exchange]\nmailboxes = 10\nmailboxes_per_database = 7",
    );
    store(&cell, "one", |_| {});
    store(&cell, "two", |result| result["verdict"] = json!("fail"));

    let output = cell
        .program(&["report", "--esrp", "solution.toml", "two", "one", "--output", "paper.md"])
        .output()
        .unwrap();
    ended(&output, 1);
    assert!(output.stderr.is_empty());
    let findings = text(&output.stdout);
    for line in [
        "contradicted: Table 1, Number of mailboxes/database: 7; found 5: 10 mailboxes in 2 databases",
        "contradicted: performance test of two: the test passes; found Fail: ",
        "missing: stress test of one: ",
    ] {
        assert!(findings.lines().any(|found| found.starts_with(line)), "{line}: {findings}");
    }
    assert!(!findings.contains("windows"), "{findings}");
    let paper = fs::read_to_string(cell.path("paper.md")).unwrap();
    assert!(paper.starts_with("# Two servers\n"), "{paper}");
    let achieved = |result: &Value| result["achieved_transactional_iops"].as_f64().unwrap();
    let both = jetcell_input::number::decimal(2.0 * achieved(&RUN.0), 3);
    let row = format!("| Achieved Transactional I/O per Second | {both} |");
    assert!(paper.contains(&row), "{row}: {paper}");

    // Without --output, the document is written to standard output, and the findings to standard error.
    let output =
        cell.program(&["report", "--esrp", "solution.toml", "one", "two/result.json"]).output().unwrap();
    ended(&output, 1);
    assert!(text(&output.stdout).starts_with("<!DOCTYPE html>"));
    assert_eq!(text(&output.stderr), findings);
}

#[test]
fn the_example_configuration_is_accepted() {
    let cell = CellDirectory::new();
    let output = cell.program(&["report", "--example-esrp"]).output().unwrap();
    ended(&output, 0);
    cell.write("solution.toml", &output.stdout);
    store(&cell, "server1", |_| {});
    let output =
        cell.program(&["report", "--esrp", "solution.toml", "server1", "--format", "md"]).output().unwrap();
    ended(&output, 1);
    assert!(text(&output.stdout).starts_with("# Example Array 100"));
}

#[test]
fn invalid_document_input_is_refused() {
    let cell = CellDirectory::new();
    cell.write("good.toml", "title = 'T'");
    cell.write("typo.toml", "title = 'T'\nvendro = 'V'");
    cell.write("noise.toml", [0xff; 4096]);
    cell.write("paper.html", "an older one");
    store(&cell, "run", |_| {});
    store(&cell, "again", |result| result["machine"]["host"] = json!("run"));
    store(&cell, "other", |result| result["test"] = json!("fill"));
    cell.make_dir("empty");
    for (words, beginning, part) in [
        (
            &["good.toml", "run", "nowhere"][..],
            "nowhere: failed to read the stored run",
            "specify the directory",
        ),
        (
            &["good.toml", "empty"],
            "empty/result.json: failed to read the stored run",
            "specify the directory",
        ),
        (
            &["good.toml", "run", "again"],
            "run and again are both the performance test of run",
            "specify only one",
        ),
        (&["good.toml", "run", "run"], "run and run are both", "specify only one"),
        (
            &["good.toml", "other"],
            "other/result.json is a run of the test \"fill\"",
            "use runs of performance",
        ),
        (&["good.toml", "good.toml"], "good.toml: truncated or damaged", ""),
        (
            &["typo.toml", "run"],
            "--esrp typo.toml, line 2: unknown key 'vendro'",
            "the nearest known key is 'vendor'",
        ),
        (&["noise.toml", "run"], "--esrp noise.toml: cannot be read", "prints an example"),
        (&["run", "run"], "--esrp run: cannot be read: Is a directory", "prints an example"),
        (
            &["good.toml", "run", "--format", "csv"],
            "an ESRP document can only be HTML or Markdown",
            "--format html",
        ),
        (
            &["good.toml", "run", "--output", "nowhere/x.html"],
            "nowhere/x.html: cannot be written",
            "a different --output",
        ),
        (&["typo.toml", "run", "--output", "paper.html"], "--esrp typo.toml", ""),
    ] {
        let line = cell.program_refused(&[&["report", "--esrp"], words].concat());
        assert!(line.starts_with(beginning) && line.contains(part), "{words:?}: {line}");
    }
    assert_eq!(fs::read_to_string(cell.path("paper.html")).unwrap(), "an older one");
    for words in [&["report"][..], &["report", "--esrp", "good.toml"], &["report", "run", "--output", "x"]] {
        cell.program_refused(words);
    }
}
