//! Tests of complete runs with the real engine: verdicts, files, interruption, recovery. Limits are wide, because
//! these tests do not judge the storage of the test machine.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::cell::CellDirectory;

const WIDE_LIMITS: &str = "
size = '64MiB'
cache = '16MiB'
duration = '2s'
threads = 3
[thresholds]
average_database_read_ms = 10000
maximum_database_read_ms = 10000
average_log_write_ms = 10000
maximum_log_write_ms = 10000
page_fault_stalls = 1000000
";

impl CellDirectory {
    pub fn with_limits() -> CellDirectory {
        let cell = CellDirectory::new();
        cell.write("wide.toml", WIDE_LIMITS);
        cell.make_dir("d");
        cell
    }

    /// Runs a test with wide limits and checks its exit code. Returns its result.
    #[track_caller]
    pub fn run(&self, output: &str, exit: i32, arguments: &[&str]) -> Value {
        let arguments =
            [&["--config", "wide.toml", "--output", output, "--json", "--quiet"], arguments].concat();
        let finished = self.jetcell(&arguments);
        let stderr = String::from_utf8_lossy(&finished.stderr);
        assert_eq!(
            finished.status.code(),
            Some(exit),
            "{stderr}\n{}",
            String::from_utf8_lossy(&finished.stdout)
        );
        assert_eq!(stderr, "", "--quiet has no progress");
        let printed: Value = serde_json::from_slice(&finished.stdout).unwrap();
        assert_eq!(self.result(output), printed);
        printed
    }

    pub fn result(&self, output: &str) -> Value {
        serde_json::from_slice(&fs::read(self.path(output).join("result.json")).unwrap()).unwrap()
    }

    pub fn start(&self, arguments: &[&str]) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_jetcell"));
        command
            .current_dir(self.path(""))
            .args(["test", "performance", "--config", "wide.toml"])
            .args(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }
}

pub fn wait_until(what: &str, test: impl Fn() -> bool) {
    let began = Instant::now();
    while !test() {
        assert!(began.elapsed() < Duration::from_secs(120), "{what} did not happen");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn has_samples(path: &Path) -> bool {
    fs::read_to_string(path).is_ok_and(|text| text.lines().count() > 1)
}

#[test]
fn a_short_run_passes_and_writes_all_files() {
    let cell = CellDirectory::with_limits();
    let result = cell.run("out", 0, &["--dir", "d"]);
    assert_eq!(result["verdict"], "pass");
    assert_eq!(result["schema_version"], 2);
    let (limits, enough): (Vec<&Value>, Vec<&Value>) = result["rules"]
        .as_array()
        .unwrap()
        .iter()
        .partition(|rule| rule["name"] != "Measured enough (doubts)");
    assert!(limits.iter().all(|rule| rule["passed"] == true));
    let doubts = result["doubts"].as_array().unwrap();
    assert_eq!(
        (enough[0]["passed"].as_bool(), enough[0]["measured"].as_f64()),
        (Some(false), Some(doubts.len() as f64))
    );
    assert!(
        doubts.iter().any(|doubt| doubt.as_str().unwrap().starts_with("the measured time was 2 s")),
        "{doubts:?}"
    );
    let page = fs::read_to_string(cell.path("out/report.html")).unwrap();
    assert!(page.contains("Measured enough (doubts): the measured time was 2 s"));
    assert!(result["achieved_transactional_iops"].as_f64().unwrap() > 0.0);
    assert!(result["latency"]["database_read"]["p99"].as_u64().unwrap() > 0);
    assert!(result["latency"]["log_write"]["count"].as_u64().unwrap() > 0);
    assert!(result["instances"][0]["I/O Database Reads/sec"].as_f64().unwrap() > 0.0);
    assert_eq!(result["operations"]["wrong_records"], 0);
    let verified: u64 = result["verification"]["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|f| f["blocks"].as_u64().unwrap())
        .sum();
    assert!(verified > 2000, "{verified} pages and segments");
    assert!(cell.path("d/Jetstress001001.edb").is_file() && cell.path("d/log001/E00.log").is_file());
    assert!(has_samples(&cell.path("out/samples.csv")));
    assert!(
        fs::read_to_string(cell.path("out/report.html"))
            .unwrap()
            .contains("Achieved Transactional I/O per Second")
    );

    // The same database is used again, and then replaced.
    let again = cell.run("out2", 0, &["--dir", "d", "--open", "--duration", "1s"]);
    assert_eq!(
        (&again["phases"][0]["phase"], &again["phases"][1]["phase"]),
        (&"examine".into(), &"attach".into())
    );
    assert_eq!(again["initial_database_bytes"], result["final_database_bytes"]);
    assert!(
        cell.refused(&["--dir", "d", "--open", "--page-size", "4KiB"])
            .contains("has a page size of 32KiB, but 4KiB is required")
    );
    let strict = cell.run("out3", 1, &["--dir", "d", "--open", "--duration", "1s", "--strict"]);
    assert!(
        strict["reason"].as_str().unwrap().starts_with("not measured enough (--strict): "),
        "{}",
        strict["reason"]
    );
    let replaced = cell.run("out2", 0, &["--dir", "d", "--force", "--duration", "1s", "--page-size", "8KiB"]);
    assert_eq!(replaced["plan"]["page_bytes"], 8192);
}

#[test]
fn a_missed_target_fails_with_exit_code_1() {
    let cell = CellDirectory::with_limits();
    let result = cell.run("out", 1, &["--dir", "d", "--target-iops", "1000000000", "--duration", "1s"]);
    assert_eq!(result["verdict"], "fail");
    assert!(result["reason"].as_str().unwrap().starts_with("Achieved transactional I/O per second"));
}

#[test]
fn databases_and_logs_spread_over_directories() {
    let cell = CellDirectory::with_limits();
    cell.make_dir("e");
    cell.make_dir("logs");
    let options = [
        "--dir",
        "d",
        "--dir",
        "e",
        "--log-dir",
        "logs",
        "--databases",
        "3",
        "--size",
        "32MiB",
        "--page-size",
        "4KiB",
    ];
    let result = cell.run("out", 0, &options);
    assert_eq!(result["instances"].as_array().unwrap().len(), 3);
    for file in
        ["d/Jetstress001001.edb", "e/Jetstress002001.edb", "d/Jetstress003001.edb", "logs/log003/E00.log"]
    {
        assert!(cell.path(file).is_file(), "{file}");
    }
}

#[test]
fn ctrl_c_stops_cleanly_and_produces_a_report() {
    let cell = CellDirectory::with_limits();
    let child = cell.start(&["--dir", "d", "--output", "out", "--duration", "1h"]);
    wait_until("the first sample", || has_samples(&cell.path("out/samples.csv")));
    let busy = cell.jetcell(&["--dir", "d", "--open"]);
    assert_eq!(busy.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&busy.stderr).contains("in use by another process"));

    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = "jetcell: stopping cleanly; press Ctrl-C again to stop immediately\n";
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains(said), "{stderr}");
    let result = cell.result("out");
    assert_eq!(result["verdict"], "incomplete");
    assert!(result["achieved_transactional_iops"].as_f64().unwrap() > 0.0);
    assert!(cell.path("out/report.html").is_file());
    assert_eq!(cell.run("after", 0, &["--dir", "d", "--open"])["verdict"], "pass");
}

#[test]
fn a_killed_run_recovers_unless_the_logs_are_missing() {
    let cell = CellDirectory::with_limits();
    let mut child =
        cell.start(&["--dir", "d", "--output", "out", "--duration", "1h", "--sample-interval", "1s"]);
    wait_until("a result of the measured time", || {
        // The file is replaced atomically, so it is always complete.
        let stored = fs::read(cell.path("out/result.json")).ok();
        let stored = stored.map(|text| serde_json::from_slice::<Value>(&text).unwrap());
        stored.is_some_and(|stored| stored["measured_seconds"].as_f64().unwrap() > 0.0)
    });
    child.kill().unwrap();
    child.wait().unwrap();

    let report = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_jetcell"));
        let output = command.current_dir(cell.path("")).arg("report").args(arguments).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (exit, text) = report(&["out", "--format", "json"]);
    let killed: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((exit, &killed["verdict"]), (Some(1), &"incomplete".into()));
    assert!(killed["achieved_transactional_iops"].as_f64().unwrap() > 0.0);
    assert_eq!(killed["rules"], Value::Array(Vec::new()));
    let (read, commit) =
        (&killed["latency"]["database_read"], &killed["operation_latency"]["durable_commit"]);
    assert!(read["p99_99"].as_u64().unwrap() > 0 && commit["count"].as_u64().unwrap() > 0, "{killed}");
    let counted: u64 = killed["histograms"]["database_read"]
        .as_str()
        .unwrap()
        .split(' ')
        .map(|bucket| bucket.split_once(':').unwrap().1.parse::<u64>().unwrap())
        .sum();
    assert_eq!(counted, read["count"].as_u64().unwrap());
    assert!(report(&["out"]).1.starts_with("INCOMPLETE: the run has not ended"));
    assert_eq!(report(&["d"]), (Some(2), String::new()));

    fs::rename(cell.path("d/log001"), cell.path("elsewhere")).unwrap();
    let text = cell.refused(&["--dir", "d", "--open"]);
    assert!(text.contains("was not shut down cleanly and needs log"), "{text}");
    fs::rename(cell.path("elsewhere"), cell.path("d/log001")).unwrap();
    let result = cell.run("after", 0, &["--dir", "d", "--open"]);
    assert_eq!((&result["verdict"], &result["operations"]["wrong_records"]), (&"pass".into(), &0.into()));
}

#[test]
fn the_scan_finds_damage_without_adding_load_reads() {
    let cell = CellDirectory::with_limits();
    let child = cell.start(&["--dir", "d", "--output", "out", "--duration", "5s", "--scan-pause", "0ms"]);
    wait_until("the first sample", || has_samples(&cell.path("out/samples.csv")));
    // Flip one bit in each of many pages. Pages that the load does not write again stay damaged. The process is
    // stopped for this time, because syncs would fail if direct writes met dirty pages in the kernel's cache.
    kill_process(Pid::from_child(&child), Signal::STOP).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    let file =
        fs::OpenOptions::new().write(true).read(true).open(cell.path("d/Jetstress001001.edb")).unwrap();
    for page in (100..1900).step_by(20) {
        let at = (page + 1) * 32768 + 1000;
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 4], at).unwrap();
    }
    file.sync_all().unwrap();
    kill_process(Pid::from_child(&child), Signal::CONT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let result = cell.result("out");
    let reason = result["reason"].as_str().unwrap();
    assert!(reason.starts_with("Pages with corrected bits: "), "{reason}");
    assert!(
        reason.contains("Jetstress001001.edb: page ") && reason.contains("flipped bits at byte.bit 1000.2")
    );
    assert!(result["scan"][0]["passes"].as_u64().unwrap() > 0, "{}", result["scan"]);
    let row = &result["instances"][0];
    let rate = row["Database Maintenance IO Reads/sec"].as_f64().unwrap();
    let bytes = row["Database Maintenance IO Reads Average Bytes"].as_f64().unwrap();
    assert!(rate > 10.0 && bytes > 200_000.0 && bytes <= 262_144.0, "{rate} {bytes}");
    // Sessions read single 32 KiB pages or prereads. If the reads of the scan were included, the average would be
    // higher.
    assert!(row["I/O Database Reads Average Bytes"].as_f64().unwrap() < 100_000.0);

    let off = cell.run("off", 0, &["--dir", "d", "--force", "--duration", "1s", "--scan=false"]);
    assert_eq!(off["instances"][0]["Database Maintenance IO Reads/sec"], 0.0);
    assert!(off.get("scan").is_none());
}

#[test]
fn a_damaged_page_is_named_and_the_database_is_not_changed() {
    let cell = CellDirectory::with_limits();
    cell.run("out", 0, &["--dir", "d", "--duration", "1s"]);
    let path = cell.path("d/Jetstress001001.edb");
    let mut bytes = fs::read(&path).unwrap();
    let page = bytes.len() / 2 / 32768 * 32768;
    bytes[page + 1000..page + 1100].fill(0xA5);
    fs::write(&path, &bytes).unwrap();
    let output = cell.jetcell(&["--dir", "d", "--open", "--output", "after"]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    let last = text.lines().last().unwrap();
    assert!(last.contains(&format!("page {},", page / 32768 - 1)) && last.contains("--force"), "{text}");
    assert!(fs::read(&path).unwrap() == bytes && !cell.path("after").exists());
}

/// Returns the exported rows of a table of the load, in key order.
pub fn rows(cell: &CellDirectory, database: &str, table: &str) -> Vec<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_jetcell"));
    command.current_dir(cell.path("")).args(["export", database, "--format", "jsonl", "--output", "-"]);
    let output = command.args(["--table", table]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_string).collect()
}

#[test]
fn a_killed_creation_is_resumed_with_the_same_records() {
    let cell = CellDirectory::with_limits();
    // The load only reads and therefore does not change the created records.
    let text = format!("mix = {{ insert = 0, delete = 0, replace = 0, read = 100 }}\n{WIDE_LIMITS}");
    cell.write("wide.toml", text.replace("64MiB", "96MiB"));
    let arguments = ["--dir", "d", "--databases", "2", "--seed", "7", "--duration", "1s"];
    for minimum in [1, 40 << 20] {
        // The first kill is early. The second one interrupts the resumed creation.
        let again: &[&str] = if minimum == 1 { &[] } else { &["--resume"] };
        let mut child = cell.start(&[&arguments[..], &["--output", "out"], again].concat());
        let length = |name: &str| fs::metadata(cell.path(name)).map_or(0, |file| file.len());
        wait_until("something to kill", || length("d/Jetstress002001.edb") >= minimum);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(length("d/Jetstress002001.edb") < 96 << 20, "the creation was too fast");
    }
    for wrong in [&["--dir", "d"][..], &["--dir", "d", "--open"]] {
        let text = cell.refused(wrong);
        assert!(text.contains("was interrupted at ") && text.contains("continue it with --resume"), "{text}");
    }
    for (option, value) in
        [("--seed", "8"), ("--size", "1GiB"), ("--page-size", "4KiB"), ("--databases", "3")]
    {
        let text = cell.refused(&["--dir", "d", "--resume", option, value]);
        assert!(text.starts_with(&format!("{option} differs from the interrupted creation")), "{text}");
    }
    let resumed = cell.run("out", 0, &[&arguments[..], &["--resume"]].concat());
    assert_eq!((&resumed["phases"][0]["phase"], &resumed["verdict"]), (&"create".into(), &"pass".into()));
    assert!(cell.refused(&["--dir", "d", "--resume"]).contains("use --open"));

    cell.make_dir("e");
    cell.run("whole", 0, &[&["--dir", "e"], &arguments[2..]].concat());
    for (database, table) in [(1, 1), (1, 8), (2, 3)] {
        let of =
            |dir| rows(&cell, &format!("{dir}/Jetstress00{database}001.edb"), &format!("Messages {table}"));
        let (resumed, whole) = (of("d"), of("e"));
        let common = resumed.len().min(whole.len());
        assert!(common > 1000, "{} {} rows", resumed.len(), whole.len());
        assert!(resumed[..common] == whole[..common], "database {database}, table {table}");
    }
}
