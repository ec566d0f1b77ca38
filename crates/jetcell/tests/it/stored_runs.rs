//! Tests of `jetcell report` and `jetcell compare`: output for valid runs, and errors for unreadable ones.

use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::cell::CellDirectory;

/// `result.json` and `samples.csv` of a short run that is made once.
static RUN: LazyLock<(Value, Vec<u8>)> = LazyLock::new(|| {
    let cell = CellDirectory::with_limits();
    let result = cell.run("out", 0, &["--dir", "d", "--duration", "1s", "--sample-interval", "200ms"]);
    (result, std::fs::read(cell.path("out/samples.csv")).unwrap())
});

impl CellDirectory {
    /// Stores a run under a name.
    fn store(&self, name: &str, result: &Value) {
        self.make_dir(name);
        self.write(&format!("{name}/result.json"), format!("{result:#}\n"));
        self.write(&format!("{name}/samples.csv"), &RUN.1);
    }

    #[track_caller]
    fn printed(&self, exit: i32, words: &[&str]) -> String {
        let output = self.program(words).output().unwrap();
        assert_eq!(output.status.code(), Some(exit), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

/// Stores all kinds of unreadable runs. Returns each with the beginning and a part of the error.
fn bad_runs(cell: &CellDirectory) -> [(&'static str, &'static str, &'static str); 6] {
    let whole = format!("{:#}", RUN.0);
    let stored = |name: &str, text: &[u8]| {
        cell.store(name, &RUN.0);
        cell.write(&format!("{name}/result.json"), text);
    };
    let mut other = RUN.0.clone();
    other["schema_version"] = json!(99);
    cell.store("other", &other);
    stored("cut", &whole.as_bytes()[..whole.len() / 2]);
    stored("empty", b"");
    stored("noise", &[0xff; 4096]);
    cell.make_dir("directory");
    cell.store("sampleless", &RUN.0);
    std::fs::remove_file(cell.path("sampleless/samples.csv")).unwrap();
    [
        ("other", "other/result.json: schema version 99", "use the jetcell that wrote it"),
        ("cut", "cut/result.json: truncated or damaged", "restore it from a copy"),
        ("empty", "empty/result.json: truncated or damaged", "restore it from a copy"),
        ("noise", "noise/result.json: truncated or damaged", "restore it from a copy"),
        (
            "directory",
            "directory/result.json: failed to read the stored run",
            "specify the directory that contains result.json",
        ),
        ("sampleless", "sampleless/samples.csv: ", "the samples are part of the run"),
    ]
}

#[test]
fn report_and_compare_refuse_unreadable_runs() {
    let cell = CellDirectory::new();
    cell.store("good", &RUN.0);
    cell.write("comparison.html", "an older one");
    for (bad, beginning, part) in bad_runs(&cell) {
        for words in [
            &["report", bad][..],
            &["report", "good", bad],
            &["report", bad, "--format", "json"],
            &["compare", "good", bad],
            &["compare", bad, "good", "--format", "html", "--output", "comparison.html"],
        ] {
            let text = cell.program_refused(words);
            assert!(text.starts_with(beginning) && text.contains(part), "{words:?}: {text}");
        }
    }
    let text = cell.program_refused(&["report", "nowhere"]);
    assert!(text.starts_with("nowhere/result.json: failed to read the stored run"), "{text}");
    assert_eq!(std::fs::read_to_string(cell.path("comparison.html")).unwrap(), "an older one");
}

#[test]
fn invalid_comparisons_are_refused() {
    let cell = CellDirectory::new();
    cell.store("a", &RUN.0);
    cell.store("b", &RUN.0);
    let refused = |arguments: &[&str]| cell.program_refused(&[&["compare"], arguments].concat());
    assert_eq!(
        refused(&["a"]),
        "a comparison needs two or more runs; add another run, or show one run with jetcell report"
    );
    assert_eq!(refused(&["a", "b", "./a"]), "./a is specified twice: it is already run 1; omit the second");
    assert_eq!(
        refused(&["a", "b/samples.csv"]),
        "b/samples.csv is not a run; specify the directory or the result.json of a run"
    );
    assert!(refused(&["a", "b", "--base", "3"]).starts_with("--base 3: no run has this name"));
    assert!(refused(&["a", "b", "--output", "nowhere/x"]).starts_with("nowhere/x: cannot be written: "));
    assert_eq!(
        cell.program_refused(&["report", "a", "b", "--format", "html"]),
        "--format html can show only one run; specify one directory"
    );
}

/// Returns the value of a run in a comparison, and the difference next to it, as the text shows them.
#[track_caller]
fn row<'a>(text: &'a str, figure: &str) -> Vec<&'a str> {
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix(figure));
    line.unwrap_or_else(|| panic!("{figure} is missing: {text}")).split_whitespace().collect()
}

#[test]
fn a_comparison_shows_the_differences_of_the_results() {
    let cell = CellDirectory::new();
    let before = RUN.0.clone();
    let mut after = before.clone();
    let scaled = |value: &Value, by: f64| json!(value.as_f64().unwrap() * by);
    after["started"] = json!("2030-01-01T00:00:00+00:00");
    after["achieved_transactional_iops"] = scaled(&before["achieved_transactional_iops"], 1.25);
    after["operations"]["per_second"] = scaled(&before["operations"]["per_second"], 0.8);
    let mean = "I/O Database Reads Average Latency (msec)";
    after["instances"][0][mean] = scaled(&before["instances"][0][mean], 0.5);
    let p99 = before["latency"]["database_read"]["p99"].as_u64().unwrap();
    after["latency"]["database_read"]["p99"] = json!(p99 * 3);
    after["latency"]["log_write"]["max"] =
        json!(before["latency"]["log_write"]["max"].as_u64().unwrap() + 1000);
    cell.store("before", &before);
    cell.store("after", &after);
    let listing = cell.listing();

    let text = cell.printed(0, &["compare", "before", "after"]);
    // Differences that are computed from the results. Positive values are improvements.
    let change = |get: &dyn Fn(&Value) -> f64| (get(&after) / get(&before) - 1.0) * 100.0;
    let expected = [
        ("Transactional I/O (1/s) ↑", change(&|run| run["achieved_transactional_iops"].as_f64().unwrap())),
        ("Operations (1/s) ↑", change(&|run| run["operations"]["per_second"].as_f64().unwrap())),
        ("Database read mean (ms) ↓", -change(&|run| run["instances"][0][mean].as_f64().unwrap())),
        (
            "Database read p99 (ms) ↓",
            -change(&|run| run["latency"]["database_read"]["p99"].as_f64().unwrap()),
        ),
        (
            "Database read p50 (ms) ↓",
            -change(&|run| run["latency"]["database_read"]["p50"].as_f64().unwrap()),
        ),
        ("Log write max (ms) ↓", -change(&|run| run["latency"]["log_write"]["max"].as_f64().unwrap())),
    ];
    let json: Value =
        serde_json::from_str(&cell.printed(0, &["compare", "before", "after", "--format", "json"])).unwrap();
    assert_eq!(RUN.0["configuration"]["seed"], 1);
    assert_eq!(json["differing_load"], json!([]), "without --seed it is the same load");
    for (figure, percent) in expected {
        let cells = row(&text, figure);
        assert_eq!(cells.len(), 3, "{figure}: {cells:?}");
        let shown: f64 = cells[2].parse().unwrap();
        assert!((shown - percent).abs() <= 0.05 + 1e-9, "{figure}: {shown} for {percent}");
        let name = figure.split(" (").next().unwrap();
        let metrics = json["metrics"].as_array().unwrap();
        let metric = metrics.iter().find(|metric| metric["name"] == name).unwrap();
        let exact = metric["values"][1]["difference_percent"].as_f64().unwrap();
        assert!((exact - percent).abs() < 1e-9, "{figure}: {exact} for {percent}");
        // The base run has no difference.
        assert_eq!(metric["values"][0]["difference_percent"], Value::Null);
    }
    assert_eq!(row(&text, "Transactional I/O (1/s) ↑")[2], "+25.0");
    assert_eq!(row(&text, "Database read mean (ms) ↓")[2], "+50.0");
    assert_eq!(row(&text, "Database read p99 (ms) ↓")[2], "-200.0");
    assert_eq!(
        row(&cell.printed(0, &["compare", "before", "after", "--base", "after"]), "Operations (1/s) ↑")[1],
        "+25.0"
    );
    assert_eq!(cell.listing(), listing, "reading changed something");

    // The output file is complete, and no temporary file remains.
    assert_eq!(cell.printed(0, &["compare", "before", "after", "--output", "c.txt"]), "");
    assert_eq!(std::fs::read_to_string(cell.path("c.txt")).unwrap(), text);
    assert_eq!(cell.listing().len(), listing.len() + 1);

    let mut failed = after;
    failed["verdict"] = json!("fail");
    cell.store("failed", &failed);
    assert!(cell.printed(1, &["compare", "before", "failed"]).contains("FAIL"));
}

#[test]
fn a_stored_run_is_shown_unchanged() {
    let cell = CellDirectory::new();
    cell.store("run", &RUN.0);
    let listing = cell.listing();
    let shown: Value =
        serde_json::from_str(&cell.printed(0, &["report", "run", "--format", "json"])).unwrap();
    assert_eq!(shown, RUN.0);
    let iops = RUN.0["achieved_transactional_iops"].as_f64().unwrap();
    let csv = cell.printed(0, &["report", "run", "--format", "csv"]);
    let line = csv.lines().find(|line| line.contains("Achieved Transactional I/O per Second")).unwrap();
    let value: f64 = line.rsplit(',').next().unwrap().parse().unwrap();
    assert!((value - iops).abs() <= 0.0005 + 1e-9, "{line}");
    for (format, beginning) in
        [("text", "PASS: "), ("markdown", "# Jetcell performance test: PASS"), ("html", "<!DOCTYPE html>")]
    {
        assert!(cell.printed(0, &["report", "run", "--format", format]).starts_with(beginning), "{format}");
    }
    assert_eq!(cell.listing(), listing, "reading changed something");
}

#[test]
fn control_characters_in_a_stored_run_are_escaped() {
    let cell = CellDirectory::new();
    let mut hostile = RUN.0.clone();
    hostile["reason"] = json!("\u{1b}[2J\u{1b}]0;owned\u{7}\nPASS");
    hostile["rules"][0]["name"] = json!("\u{9b}31m rule");
    hostile["configuration"]["description"] = json!("\u{1b}[31m red");
    hostile["machine"]["host"] = json!("\u{1b}[5m\u{7f}host");
    cell.store("one", &hostile);
    cell.store("two", &RUN.0);
    let exit = if RUN.0["verdict"] == "pass" { 0 } else { 1 };
    for words in [
        &["report", "one"][..],
        &["report", "one", "two"],
        &["report", "one", "--format", "markdown"],
        &["compare", "one", "two"],
        &["compare", "one", "two", "--format", "markdown"],
    ] {
        let text = cell.printed(exit, words);
        let sent: Vec<char> = text.chars().filter(|c| c.is_control() && *c != '\n').collect();
        assert!(sent.is_empty(), "{words:?} sent {sent:?}");
    }
    assert!(cell.printed(exit, &["report", "one"]).contains("\\u{1b}[2J"), "they are shown");
}

#[test]
fn a_parent_directory_lists_the_runs() {
    let cell = CellDirectory::new();
    let mut failed = RUN.0.clone();
    failed["verdict"] = json!("fail");
    failed["started"] = json!("2999-01-01T00:00:00+00:00");
    failed["configuration"]["description"] = json!("the second one");
    cell.store("all/db1/two", &failed);
    cell.store("all/one", &RUN.0);
    cell.store("all/disk", &json!({ "schema": 1, "steps": [] }));
    assert!(cell.program_refused(&["report", "all/disk"]).contains("the result of another command"));
    let text = cell.printed(1, &["report", "all"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert!(
        lines[1].contains(" one ") && lines[2].contains(" db1/two ") && lines[2].contains(" FAIL, "),
        "{text}"
    );
    assert!(lines[2].ends_with("the second one"), "{text}");
    cell.make_dir("none");
    assert!(cell.program_refused(&["report", "none"]).contains("failed to read the stored run"));
}

/// A short text of a histogram can use many KiB of memory.
#[test]
fn a_result_with_too_many_histograms_or_databases_is_refused() {
    let cell = CellDirectory::new();
    let mut many = RUN.0.clone();
    let histograms: serde_json::Map<String, Value> =
        (0..40_000).map(|number| (format!("k{number}"), json!("7000000000:1"))).collect();
    many["histograms"] = Value::Object(histograms);
    cell.store("histograms", &many);
    let mut rows = RUN.0.clone();
    rows["instances"] = Value::Array(vec![rows["instances"][0].clone(); 5000]);
    cell.store("instances", &rows);
    let mut scans = RUN.0.clone();
    scans["scan"] = Value::Array(vec![json!({}); 5000]);
    cell.store("scan", &scans);
    for (name, what) in [("histograms", "more than 64 items"), ("instances", "more than 4096"), ("scan", "")]
    {
        let output = cell.program(&["report", name]).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("damaged") && said.contains(what), "{name}: {said}");
    }
}

/// A quadratic algorithm would need minutes.
#[test]
fn a_page_takes_linear_time_in_the_number_of_rows() {
    let cell = CellDirectory::new();
    let mut rows = RUN.0.clone();
    rows["instances"] = Value::Array(vec![rows["instances"][0].clone(); 4000]);
    let rule = rows["rules"][0].clone();
    rows["rules"] = Value::Array(vec![rule; 20_000]);
    cell.store("rows", &rows);
    let began = std::time::Instant::now();
    let output = cell.program(&["report", "rows", "--format", "html"]).output().unwrap();
    assert!(
        output.stdout.ends_with(b"</html>\n") || output.stdout.ends_with(b"</html>"),
        "the page is whole"
    );
    assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
}
