//! Tests of `jetcell maintain` on the databases of a test.

use std::fs;
use std::os::unix::fs::FileExt;
use std::process::Command;
use testkit::{TestRequirement, skip};

use ese_engine::{
    CacheSource, CommitMode, DatabaseOptions, Instance, InstanceOptions, PageSize, Value as Field,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::cell::CellDirectory;
use crate::copies::{grow, table};

const JETCELL: &str = env!("CARGO_BIN_EXE_jetcell");
const STORE: [&str; 2] = ["d/log001", "d/Jetstress001001.edb"];

fn store() -> CellDirectory {
    let cell = CellDirectory::with_limits();
    cell.run("out", 0, &["--dir", "d", "--size", "32MiB", "--duration", "1s"]);
    cell
}

/// Runs a pass. Returns its result.
#[track_caller]
fn maintained(cell: &CellDirectory, exit: i32, options: &[&str]) -> Value {
    let output = cell.program(&[&["maintain"], &STORE[..], &["--json"], options].concat()).output().unwrap();
    assert_eq!(output.status.code(), Some(exit), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_stopped_store_is_scanned_zeroed_and_damaged_pages_named() {
    let cell = store();
    let first = maintained(&cell, 0, &["--tasks", "scan,zero"]);
    let count = |result: &Value, name: &str| result["databases"][0][name].as_u64().unwrap();
    assert!(first["complete"] == true && count(&first, "used") > 100, "{first}");
    assert_eq!((count(&first, "bad"), count(&first, "remainder")), (0, 0), "{first}");
    // Pages that have not changed since the first pass are not written again.
    let second = maintained(&cell, 0, &["--tasks", "scan,zero", "--batch", "320KiB"]);
    assert!(count(&second, "unchanged") > 100 && count(&second, "used") < count(&first, "used"), "{second}");
    let checked = cell.program(&["check", "--structure", STORE[1]]).output().unwrap();
    assert_eq!(checked.status.code(), Some(0), "{}", String::from_utf8_lossy(&checked.stdout));
    let events = cell.program(&["events", STORE[0], "--id", "722"]).output().unwrap();
    let events = String::from_utf8(events.stdout).unwrap();
    assert!(events.lines().count() == 2 && events.contains("pages unchanged since last zero"), "{events}");

    let page_bytes = 32 << 10;
    let file = fs::File::options().read(true).write(true).open(cell.path(STORE[1])).unwrap();
    let (place, mut bytes) = ((60 + 1) * page_bytes + 2000, [0; 300]);
    file.read_exact_at(&mut bytes, place).unwrap();
    // Write bytes that differ from the existing ones. Zeroing fills unused bytes with a letter.
    bytes.iter_mut().enumerate().for_each(|(at, byte)| *byte ^= 1 + (at % 251) as u8);
    file.write_all_at(&bytes, place).unwrap();
    drop(file);
    let found = maintained(&cell, 1, &[]);
    let findings = found["databases"][0]["findings"].as_array().unwrap();
    assert_eq!(findings.len(), 1, "{found}");
    assert_eq!(findings[0]["page"], 60, "{found}");
    let events = cell.program(&["events", STORE[0], "--id", "727"]).output().unwrap();
    assert_eq!(String::from_utf8(events.stdout).unwrap().lines().count(), 1);
}

#[test]
fn a_stopped_store_is_defragmented() {
    let cell = store();
    let result = maintained(&cell, 0, &["--tasks", "scan,zero,defrag", "--partial-merges"]);
    let database = &result["databases"][0];
    let defragmentation = &database["defragmentation"];
    assert!(result["complete"] == true && defragmentation["complete"] == true, "{result}");
    assert!(defragmentation["pages_visited"].as_u64().unwrap() > 100, "{result}");
    assert_eq!(
        (defragmentation["passes_since_creation"].as_u64(), &database["bad"]),
        (Some(1), &Value::from(0))
    );
    // Without the scan, the result contains no scan figures.
    let again = maintained(&cell, 0, &["--tasks", "defrag", "--latency-target", "50ms"]);
    let database = &again["databases"][0];
    assert_eq!(database["defragmentation"]["passes_since_creation"], 2, "{again}");
    assert!(database["pages"].is_null(), "{again}");
    let checked = cell.program(&["check", "--structure", STORE[1]]).output().unwrap();
    assert_eq!(checked.status.code(), Some(0), "{}", String::from_utf8_lossy(&checked.stdout));
    let events = cell.program(&["events", STORE[0], "--id", "701"]).output().unwrap();
    assert_eq!(String::from_utf8(events.stdout).unwrap().lines().count(), 2);
    let text = cell.program(&[&["maintain"], &STORE[..], &["--tasks", "defrag"]].concat()).output().unwrap();
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("pages freed") && text.contains("the window"), "{text}");
}

#[test]
fn the_trees_of_a_stopped_store_are_laid_out() {
    let cell = store();
    let result = maintained(&cell, 0, &["--tasks", "layout"]);
    let layout = &result["databases"][0]["layout"];
    assert!(result["complete"] == true && layout["complete"] == true, "{result}");
    assert_eq!((&layout["trees_queued"], &layout["skipped"]), (&Value::from(0), &Value::from(0)), "{result}");
    assert!(result["databases"][0]["defragmentation"].is_null(), "{result}");
    let both = maintained(&cell, 0, &["--tasks", "defrag,layout"]);
    let database = &both["databases"][0];
    assert!(
        database["layout"]["complete"] == true && database["defragmentation"]["complete"] == true,
        "{both}"
    );
    let checked = cell.program(&["check", "--structure", STORE[1]]).output().unwrap();
    assert_eq!(checked.status.code(), Some(0), "{}", String::from_utf8_lossy(&checked.stdout));
    let text = cell.program(&[&["maintain"], &STORE[..], &["--tasks", "layout"]].concat()).output().unwrap();
    assert!(String::from_utf8(text.stdout).unwrap().contains("pages moved"));
    let refused =
        cell.program(&[&["maintain"], &STORE[..], &["--tasks", "order"]].concat()).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn free_space_in_a_stopped_store_is_released() {
    use std::os::unix::fs::MetadataExt;
    let cell = store();
    let (len, blocks) = {
        let file = fs::metadata(cell.path(STORE[1])).unwrap();
        (file.len(), file.blocks())
    };
    let result = maintained(&cell, 0, &["--tasks", "defrag,shrink,trim"]);
    let database = &result["databases"][0];
    let of = |task: &str, name: &str| database[task][name].as_u64().unwrap();
    assert!(result["complete"] == true, "{result}");
    let file = fs::metadata(cell.path(STORE[1])).unwrap();
    assert_eq!(len - file.len(), of("shrink", "bytes_returned"), "{result}");
    assert_eq!(of("shrink", "pages_after"), file.len() / (32 << 10) - 2, "{result}");
    assert!(file.blocks() <= blocks, "{result}");
    // The scan stores its progress in the database, which may grow as a result.
    let scanned = maintained(&cell, 0, &["--tasks", "scan"]);
    assert_eq!(scanned["databases"][0]["bad"], 0, "{scanned}");
    let again = maintained(&cell, 0, &["--tasks", "shrink"]);
    let shrink = &again["databases"][0]["shrink"];
    assert!(again["databases"][0]["trim"].is_null(), "{again}");
    assert!(shrink["pages_after"].as_u64().unwrap() <= of("shrink", "pages_after") + 256, "{again}");
    let checked = cell.program(&["check", "--structure", STORE[1]]).output().unwrap();
    assert_eq!(checked.status.code(), Some(0), "{}", String::from_utf8_lossy(&checked.stdout));
    let events = cell.program(&["events", STORE[0], "--id", "748"]).output().unwrap();
    assert_eq!(String::from_utf8(events.stdout).unwrap().lines().count(), 2);
    let text =
        cell.program(&[&["maintain"], &STORE[..], &["--tasks", "shrink,trim"]].concat()).output().unwrap();
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("pages after") && text.contains("holes"), "{text}");
}

#[test]
fn a_killed_maintenance_pass_resumes() {
    let cell = store();
    let mut slow =
        cell.program(&[&["maintain"], &STORE[..], &["--pause", "40ms", "--batch", "64KiB"]].concat());
    let mut child = slow.spawn().unwrap();
    let began = std::time::Instant::now();
    let has_begun = || {
        fs::read_to_string(cell.path("d/log001/events.jsonl")).is_ok_and(|text| text.contains("\"id\":717"))
    };
    while !has_begun() {
        assert!(began.elapsed().as_secs() < 30);
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    // The progress is stored every second, which is the only work that writes to the log.
    let logged = || fs::metadata(cell.path("d/log001/E00.log")).and_then(|file| file.modified()).unwrap();
    let before = logged();
    while logged() == before {
        assert!(began.elapsed().as_secs() < 30);
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let resumed = maintained(&cell, 0, &[]);
    let database = &resumed["databases"][0];
    assert_eq!(database["invocations"], 2, "{resumed}");
    let bytes = fs::metadata(cell.path(STORE[1])).unwrap().len();
    assert!(database["pages"].as_u64().unwrap() <= bytes / (32 << 10), "{resumed}");
}

/// Returns a maintenance window of one hour in UTC. It started half an hour ago if `open`, otherwise it starts in
/// three hours.
pub fn window(open: bool) -> String {
    let from = chrono::Utc::now() + chrono::Duration::minutes(if open { -30 } else { 180 });
    from.format("daily %H:%M 1h +00:00").to_string()
}

#[test]
fn a_pass_runs_only_within_the_maintenance_window() {
    let cell = store();
    let done = maintained(&cell, 0, &["--maintenance-window", &window(true)]);
    assert!(done["complete"] == true && done["databases"][0]["pages"].as_u64() > Some(100), "{done}");
    let later = window(false);
    let closed = [&["maintain"], &STORE[..], &["--json", "--maintenance-window", &later]].concat();
    let events = cell.path("d/log001/events.jsonl");
    fs::remove_file(&events).unwrap();
    let mut waiting = cell.program(&closed);
    let child = waiting.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let began = std::time::Instant::now();
    while !events.exists() {
        assert!(began.elapsed().as_secs() < 60);
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    std::thread::sleep(std::time::Duration::from_secs(1));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let interrupted: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(interrupted["complete"] == false && interrupted["databases"][0]["pages"] == 0, "{interrupted}");
}

#[test]
fn each_instance_that_cannot_be_opened_has_its_reason() {
    for options in [&["--json"][..], &[]] {
        let cell = CellDirectory::new();
        ["app1", "app2", "app3"].iter().for_each(|name| grow(&cell.path(name), 0..20));
        // The events of these instances cannot be written.
        ["app1", "app3"].iter().for_each(|name| drop(cell.make_dir(&format!("{name}/events.jsonl"))));
        let output =
            cell.program(&[&["maintain", "app1", "app2", "app3"], options].concat()).output().unwrap();
        let [text, errors] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        assert_eq!((output.status.code(), errors.lines().count()), (Some(2), 2), "{errors}");
        for name in ["app1", "app3"] {
            assert!(errors.contains(&format!("{name}/events.jsonl: ")), "{errors}");
        }
        if options.is_empty() {
            for name in ["app1", "app3"] {
                let line = format!("{name}/data.edb: not opened: {name}/events.jsonl: ");
                assert!(text.contains(&line), "{text}");
            }
            assert!(!text.contains("the same command maintains it"), "{text}");
            continue;
        }
        let report: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(report["complete"], false, "{report}");
        for (index, name) in ["app1", "app2", "app3"].into_iter().enumerate() {
            let database = &report["databases"][index];
            // The path of an opened database is absolute.
            let path = database["path"].as_str().unwrap();
            assert!(path.ends_with(&format!("{name}/data.edb")), "{report}");
            let failure = database["failure"].as_str().unwrap_or_default();
            assert_eq!(failure.contains(&format!("{name}/events.jsonl")), name != "app2", "{report}");
        }
    }
}

#[test]
fn a_stopped_run_lists_the_instances_that_it_did_not_open() {
    for options in [&["--json"][..], &[]] {
        let cell = CellDirectory::new();
        ["app1", "app2"].iter().for_each(|name| grow(&cell.path(name), 0..20));
        let later = window(false);
        let words = ["maintain", "app1", "app2", "--maintenance-window", &later];
        let mut waiting = cell.program(&[&words[..], options].concat());
        let child = waiting.stdout(std::process::Stdio::piped()).spawn().unwrap();
        let began = std::time::Instant::now();
        while !cell.path("app1/events.jsonl").exists() {
            assert!(began.elapsed().as_secs() < 60);
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        std::thread::sleep(std::time::Duration::from_secs(1));
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(!cell.path("app2/events.jsonl").exists());
        if options.is_empty() {
            assert!(text.contains("app2/data.edb: not opened; the same command maintains it"), "{text}");
            assert!(!text.contains("app1/data.edb: not opened"), "{text}");
        } else {
            let report: Value = serde_json::from_str(&text).unwrap();
            let databases = report["databases"].as_array().unwrap();
            assert_eq!(databases.len(), 2, "{report}");
            assert!(databases[0]["opened"].is_null() && databases[1]["opened"] == false, "{report}");
            assert_eq!(databases[1]["path"], "app2/data.edb");
        }
    }
}

/// The first pass is faster on a database that was zeroed when it was created.
#[test]
fn the_first_pass_after_zeroing_at_creation_is_short() {
    let used = [false, true].map(|at_creation| {
        let cell = CellDirectory::with_limits();
        let option = format!("--zero-at-creation={at_creation}");
        cell.run(
            "out",
            0,
            &["--dir", "d", "--size", "32MiB", "--duration", "1s", "--mix", "0/0/0/100", &option],
        );
        let first = maintained(&cell, 0, &["--tasks", "scan,zero"]);
        let checked = cell.program(&["check", "--structure", STORE[1]]).output().unwrap();
        assert_eq!(checked.status.code(), Some(0), "{}", String::from_utf8_lossy(&checked.stdout));
        first["databases"][0]["used"].as_u64().unwrap()
    });
    assert!(used[0] > 400 && used[1] * 4 < used[0], "{used:?}");
}

#[test]
fn maintenance_under_load_stays_within_the_window() {
    let cell = CellDirectory::with_limits();
    let load = ["--dir", "d", "--size", "32MiB", "--duration", "2s", "--maintenance", "scan,zero,defrag"];
    let load = [&load[..], &["--scan-pause", "0ms", "--maintenance-window"]].concat();
    let closed = cell.run("closed", 0, &[&load[..], &[&window(false)]].concat());
    assert_eq!(closed["scan"][0]["pages"], 0, "{}", closed["scan"]);
    assert_eq!(closed["defragmentation"][0]["pages_read"], 0, "{}", closed["defragmentation"]);
    assert!(closed["configuration"]["maintenance_window"].as_str().unwrap().ends_with(" 1h"));
    assert_eq!(closed["configuration"]["event_profile"], "sp1");
    // The scan is assigned the first half of the window.
    let in_first_half = chrono::Utc::now() - chrono::Duration::minutes(15);
    let first = in_first_half.format("daily %H:%M 2h").to_string();
    let open = cell.run("open", 0, &[&load[..], &[&first, "--force", "--event-profile", "modern"]].concat());
    let started = cell.program(&["events", "open", "--id", "736"]).output().unwrap();
    assert!(!started.stdout.is_empty(), "{}", String::from_utf8_lossy(&started.stderr));
    assert!(open["scan"][0]["pages"].as_u64() > Some(100), "{}", open["scan"]);
    assert_eq!(open["defragmentation"][0]["pages_read"], 0, "{}", open["defragmentation"]);

    for (options, said) in [
        (&["--event-profile", "2016"][..], "sp1, article or modern"),
        (&["--maintenance-window", "daily 02:00 25h"], "24 hours"),
        (&["--maintenance-window", "mon 2h"], "days, start and length"),
        (&["--maintenance", "none", "--maintenance-window", "daily 02:00 4h"], "requires maintenance"),
        (&["--maintenance", "scan,defrag", "--maintenance-window", "daily 02:00 1m"], "too short"),
    ] {
        let refused = cell.refused(&[&["--dir", "new", "--output", "new"], options].concat());
        assert!(refused.contains(said), "{options:?}: {refused}");
    }
}

#[test]
fn impossible_requests_change_nothing() {
    let cell = CellDirectory::new();
    cell.make_dir("empty");
    for (options, said) in [
        (&["empty", "--tasks", "zero"][..], "requires scan"),
        (&["empty", "--tasks", "zero,defrag"], "requires scan"),
        (&["empty", "--partial-merges"], "--tasks defrag"),
        (&["empty", "--latency-target", "0ms"], "latency"),
        (&["empty", "--pause", "61s"], "between 0 and 60 s"),
        (&["empty", "--batch", "4KiB"], "64 KiB"),
        (&["empty", "--rate", "0"], "rate"),
        (&["empty", "--maintenance-window", "daily 02:00 25h"], "24 hours"),
        (&["empty", "--maintenance-window", "never 02:00 2h"], "days, start and length"),
        (&["empty"], "log"),
        (&["nowhere"], "nowhere"),
    ] {
        let refused = cell.program_refused(&[&["maintain"], options].concat());
        assert!(refused.contains(said), "{options:?}: {refused}");
    }
}

/// Creates an instance with two databases, each with rows that were inserted in an order other than key order.
fn two_databases(cell: &CellDirectory) {
    let mut options = InstanceOptions::new(cell.make_dir("two")).unwrap();
    (options.page_size, options.log.file_size, options.cache) =
        (PageSize::KIB_4, 256 << 10, CacheSource::Own { bytes: 4 << 20 });
    let instance = Instance::open(options).unwrap();
    for name in DATABASES {
        let database = instance.create_database(&cell.path(name), &DatabaseOptions::default()).unwrap();
        let mut session = instance.session();
        session.begin().unwrap();
        session.create_table(&database, &table()).unwrap();
        let mut table = session.open_table(&database, "t").unwrap();
        let [id, body] = ["Id", "Body"].map(|name| table.column(name).unwrap());
        for number in 0..3000_i32 {
            let key = number.wrapping_mul(0x9e37) & 0xffff;
            let row = [(id, Field::Long(key)), (body, Field::Binary(vec![number as u8; 300]))];
            table.insert(&mut session, &row).unwrap();
        }
        session.commit(CommitMode::Durable).unwrap();
    }
    instance.shutdown().unwrap();
}

const DATABASES: [&str; 2] = ["two/a.edb", "two/b.edb"];

/// Returns the percentage of leaves of a table that are not followed by the next page, as reported by `dump space`.
fn fragmentation(cell: &CellDirectory, database: &str) -> f64 {
    let output = cell.program(&["dump", "space", "--json", database]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    let items = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    items.filter(|item| item["name"] == "t").find_map(|item| item["fragmentation"].as_f64()).unwrap()
}

#[test]
fn dump_space_shows_the_layout() {
    let cell = CellDirectory::new();
    two_databases(&cell);
    let before = fragmentation(&cell, DATABASES[0]);
    let output = cell.program(&["maintain", "two", "--tasks", "layout"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let after = DATABASES.map(|name| fragmentation(&cell, name));
    assert!(before > 40.0 && after.iter().all(|share| *share < 5.0), "{before} {after:?}");
}

#[test]
fn maintenance_skips_an_unusable_database_and_continues_with_others() {
    let cell = CellDirectory::new();
    two_databases(&cell);
    let first = fs::File::options().write(true).open(cell.path(DATABASES[0])).unwrap();
    first.set_len(12 << 10).unwrap();
    let maintain = |options: &[&str]| {
        let output = cell.program(&[&["maintain", "two", "--json"], options].concat()).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.lines().count() == 1 && said.contains("a.edb"), "{said}");
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    for options in [&["--tasks", "scan,zero,defrag,layout,shrink,trim"][..], &["--parallel"]] {
        let done = maintain(options);
        let of = |name: &str| {
            let all = done["databases"].as_array().unwrap();
            all.iter().find(|one| one["path"].as_str().unwrap().ends_with(name)).unwrap()
        };
        assert!(done["complete"] == false && of("a.edb")["failure"].is_string(), "{done}");
        assert!(of("b.edb")["complete"] == true && of("b.edb")["failure"].is_null(), "{done}");
        assert_eq!(of("b.edb")["bad"], 0, "{done}");
    }
}

/// Skipped if this user cannot create a mount namespace.
#[test]
fn a_read_only_file_system_is_refused_in_one_line() {
    let cell = CellDirectory::new();
    two_databases(&cell);
    let before = cell.listing();
    let read_only = "mount --bind two two && mount -o remount,ro,bind two two || exit 99; exec \"$0\" maintain two --tasks \"$1\"";
    for tasks in ["scan", "scan,zero,defrag,layout,shrink,trim"] {
        let shell = ["--user", "--map-root-user", "--mount", "sh", "-c", read_only, JETCELL, tasks];
        let output = Command::new("unshare").args(shell).current_dir(cell.path("")).output();
        let output = match output {
            Ok(output) if !matches!(output.status.code(), Some(1 | 99)) => output,
            skipped => return skip(TestRequirement::Root, format!("no mount namespace: {skipped:?}")),
        };
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.lines().count() == 1 && said.contains("Read-only file system"), "{said}");
        assert_eq!(cell.listing(), before);
    }
}

/// Uses ramfs, which cannot punch holes. Skipped without a mount namespace.
#[test]
fn a_failed_task_stops_for_one_database_only() {
    let cell = CellDirectory::new();
    two_databases(&cell);
    cell.make_dir("small");
    let on_ramfs = "mount -t ramfs none small && mv two/a.edb small || exit 99; \
                    exec \"$0\" maintain two small --json --tasks scan,trim";
    let shell = ["--user", "--map-root-user", "--mount", "sh", "-c", on_ramfs, JETCELL];
    let output = Command::new("unshare").args(shell).current_dir(cell.path("")).output();
    let output = match output {
        Ok(output) if !matches!(output.status.code(), Some(1 | 99)) => output,
        skipped => return skip(TestRequirement::Root, format!("no mount namespace: {skipped:?}")),
    };
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.lines().count() == 1 && said.contains("small/a.edb"), "{said}");
    let done: Value = serde_json::from_slice(&output.stdout).unwrap();
    let one = |name: &str| {
        let all = done["databases"].as_array().unwrap();
        all.iter().find(|one| one["path"].as_str().unwrap().ends_with(name)).unwrap()
    };
    assert!(one("small/a.edb")["failure"].as_str().unwrap().contains("the same command resumes"), "{done}");
    assert!(one("two/b.edb")["complete"] == true && one("two/b.edb")["failure"].is_null(), "{done}");
}

/// A database that a program left without its logs. Maintenance needs none, and leaves its own logs next to it.
#[test]
fn a_clean_database_needs_no_logs() {
    let cell = CellDirectory::new();
    cell.make_dir("d");
    cell.write("d/engine-4k.edb", testkit::samples::read("engine-4k.edb"));
    for paths in [&["d/engine-4k.edb"][..], &["d"], &["d/engine-4k.edb"]] {
        let output = cell.program(&[&["maintain", "--json"], paths].concat()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let result: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(result["complete"] == true && result["databases"][0]["pages"] == 256, "{result}");
    }
    let checked = cell.program(&["check", "--structure", "d"]).output().unwrap();
    assert_eq!(checked.status.code(), Some(0), "{}", String::from_utf8_lossy(&checked.stdout));
}

#[test]
fn a_database_that_cannot_be_written_is_refused_unchanged() {
    let cell = CellDirectory::new();
    cell.make_dir("d");
    let mut bytes = testkit::samples::read("engine-4k.edb");
    let header = ese_format::header::DatabaseHeader::decode(&bytes).unwrap();
    let newer = ese_format::header::DatabaseHeader { update: 0xb4, update_minor: 0x190, ..header }.encode();
    bytes[..newer.len()].copy_from_slice(&newer);
    bytes[newer.len()..2 * newer.len()].copy_from_slice(&newer);
    cell.write("d/newer.edb", bytes);
    for path in ["d/newer.edb", "d"] {
        let line = cell.program_refused(&["maintain", path]);
        assert!(line.contains("update 0xb4.0x190 cannot be written"), "{line}");
        assert!(!line.contains("logs") && !line.contains("resumes"), "{line}");
    }
}
