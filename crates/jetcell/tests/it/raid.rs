//! Tests of `jetcell raid create`, `status`, `fail`, `replace`, `rebuild`, `scrub`, `grow` and `destroy` as a user
//! calls them.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

use jetcell_vfs::{RealOptions, RealVfs, Vfs};
use serde_json::Value;

use crate::cell::CellDirectory;

const SIZE: &str = "16MiB";

fn run(cell: &CellDirectory, words: &[&str]) -> Output {
    cell.program(&[&["raid"], words].concat()).output().unwrap()
}

/// Runs a command, checks its exit code, and returns its output.
#[track_caller]
fn ended(cell: &CellDirectory, code: i32, words: &[&str]) -> String {
    let output = run(cell, words);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{words:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
fn json(cell: &CellDirectory, code: i32, words: &[&str]) -> Value {
    serde_json::from_str(&ended(cell, code, &[words, &["--json"]].concat())).unwrap()
}

/// Creates a RAID-DP array of six members.
fn created(cell: &CellDirectory) {
    let words = [
        "create",
        "a",
        "--level",
        "raid-dp",
        "--size",
        SIZE,
        "--members",
        "m0",
        "m1",
        "m2",
        "m3",
        "m4",
        "m5",
    ];
    assert!(ended(cell, 0, &words).starts_with("a: raid-dp, 6 members, "));
}

#[test]
fn an_array_is_degraded_rebuilt_scrubbed_grown_and_destroyed() {
    let cell = CellDirectory::new();
    created(&cell);
    let status = json(&cell, 0, &["status", "a"]);
    assert_eq!(
        (&status["state"], &status["level"], &status["in_use"]),
        (&"optimal".into(), &"raid-dp".into(), &false.into())
    );
    assert_eq!(status["slots"].as_array().unwrap().len(), 6);

    ended(&cell, 0, &["fail", "a", "m1"]);
    ended(&cell, 0, &["fail", "a", "3"]);
    let status = json(&cell, 1, &["status", "a"]);
    assert_eq!((&status["state"], &status["missing"]), (&"degraded".into(), &2.into()));
    assert_eq!(status["slots"][1]["state"], "missing");
    let text = ended(&cell, 1, &["status", "a"]);
    assert!(text.contains("degraded: 2 of 6 slots have no complete member"), "{text}");
    let third = String::from_utf8(run(&cell, &["fail", "a", "0"]).stderr).unwrap();
    assert!(
        third.contains("3 members are missing or failed, which is more than raid-dp tolerates"),
        "{third}"
    );

    let rebuilt = json(&cell, 0, &["replace", "a", "1", "m6", "--size", SIZE]);
    assert_eq!((&rebuilt["complete"], &rebuilt["state"]), (&true.into(), &"degraded".into()));
    ended(&cell, 0, &["spare", "a", "m7", "--size", SIZE]);
    assert_eq!(json(&cell, 1, &["status", "a"])["slots"][3]["state"], "rebuilding");
    assert_eq!(json(&cell, 0, &["rebuild", "a"])["state"], "optimal");
    assert_eq!(json(&cell, 0, &["rebuild", "a"])["bytes"], 0);
    // The data of a working member is copied.
    assert!(ended(&cell, 0, &["replace", "a", "m0", "m8", "--size", SIZE]).contains("optimal"));
    assert_eq!(json(&cell, 0, &["scrub", "a"])["complete"], true);

    let before = json(&cell, 0, &["status", "a"])["bytes"].as_u64().unwrap();
    let after = json(&cell, 0, &["grow", "a", "m9", "--size", SIZE])["bytes"].as_u64().unwrap();
    assert_eq!(after, before / 4 * 5);
    let events = cell.program(&["events", "a"]).output().unwrap();
    let events = String::from_utf8(events.stdout).unwrap();
    for what in
        ["An array was created", "was removed", "The rebuild is complete", "A scrub verified", "has grown"]
    {
        assert!(events.contains(what), "{what}: {events}");
    }
    assert!(cell.program_refused(&["raid", "destroy", "a"]).ends_with("to continue, add --force"));
    assert!(ended(&cell, 0, &["destroy", "a", "--force"]).contains("; 10 files are no longer members"));
    assert!(
        cell.program_refused(&["raid", "status", "a"]).contains("create an array with jetcell raid create")
    );
    // The directory and the files can be used again. The files still have the journal of the destroyed array.
    ended(&cell, 0, &["create", "a", "--level", "raid5", "--force", "--members", "m0", "m1", "m2"]);
}

#[test]
fn an_invalid_member_is_refused_in_one_line_and_unchanged() {
    let cell = CellDirectory::new();
    for name in ["m1", "m2", "m3"] {
        cell.write(name, vec![0; 16 << 20]);
    }
    cell.write("longer", vec![0; 17 << 20]);
    cell.write("short", vec![0; 8192]);
    cell.write("short2", vec![0; 8192]);
    cell.write("short3", vec![0; 8192]);
    let mut data = vec![0; 16 << 20];
    data[100] = 1;
    cell.write("data", &data);
    cell.make_dir("directory");
    std::os::unix::fs::symlink(cell.path("m1"), cell.path("link")).unwrap();
    let refused = |level: &str, members: &[&str]| {
        cell.program_refused(&[&["raid", "create", "a", "--level", level, "--members"], members].concat())
    };
    for (level, members, what) in [
        ("raid5", &["m1", "m2", "longer"][..], "members must have the same size"),
        ("raid5", &["m1", "m2"], "raid5 does not support 2 members; use 3 to"),
        ("raid5", &["m1", "m2", "m1"], "more than once; each member must be a separate file"),
        ("raid5", &["m1", "m2", "link"], "more than once; each member must be a separate file"),
        ("raid5", &["m1", "m2", "data"], "contains data; add --force to overwrite it"),
        ("raid5", &["m1", "m2", "none"], "does not exist; to create files, add --size"),
        ("raid5", &["m1", "m2", "directory"], "is a directory"),
        ("raid5", &["short", "short2", "short3"], "a member must have at least"),
        ("raid5", &["m1", "m2", "/dev/zero"], "/dev/zero"),
        ("raid7", &["m1"], "\"raid7\" is not a level; use one of raid0, mirror"),
    ] {
        let text = refused(level, members);
        assert!(text.contains(what), "{members:?}: {text}");
    }
    let lock = RealVfs::new(RealOptions::default()).unwrap().lock(&cell.path("m2")).unwrap();
    assert!(refused("raid5", &["m1", "m2", "m3"]).contains("m2 is in use by another process"));
    drop(lock);
    // Files that were created for a refused array are removed.
    let words = ["create", "a", "--level", "raid5", "--size", SIZE, "--members", "n1", "n2", "longer"];
    let text = String::from_utf8(run(&cell, &words).stderr).unwrap();
    assert!(text.contains("members must have the same size") && !cell.path("n1").exists(), "{text}");
    let text = cell.program_refused(&["raid", "create", "no/where", "--level", "raid5", "--members", "m1"]);
    assert!(text.starts_with("no does not exist"), "{text}");

    let created = run(&cell, &["create", "a", "--level", "raid5", "--members", "m1", "m2", "m3"]);
    assert_eq!(created.status.code(), Some(0));
    let warning = String::from_utf8(created.stderr).unwrap();
    assert!(warning.starts_with("Warning: 3 members (") && warning.contains("on one device"), "{warning}");
    let again = refused("raid5", &["m1", "m2", "m3"]);
    assert!(again.contains("a is the directory of an array"), "{again}");
    let text =
        cell.program_refused(&["raid", "create", "b", "--level", "raid5", "--members", "m1", "m2", "m3"]);
    assert!(text.contains("m1 contains a member of an array"), "{text}");
    // Files that are already members of this array, or that contain other data, are refused too.
    let text = String::from_utf8(run(&cell, &["replace", "a", "0", "m2"]).stderr).unwrap();
    assert!(text.contains("m2 is in use") || text.contains("more than once; each member must"), "{text}");
    for (file, what) in
        [("data", "contains data"), ("short", "a member must have at least"), ("none", "does not exist")]
    {
        let text = String::from_utf8(run(&cell, &["replace", "a", "0", file]).stderr).unwrap();
        assert!(text.contains(what), "{text}");
    }
    let text = String::from_utf8(run(&cell, &["fail", "a", "9"]).stderr).unwrap();
    assert!(text.contains("9 is neither a member of the array nor a slot number (0 to 2)"), "{text}");
    assert_eq!(std::fs::read(cell.path("data")).unwrap(), data);
    assert_eq!(json(&cell, 0, &["status", "a"])["state"], "optimal");
    assert_eq!(json(&cell, 0, &["scrub", "a"])["complete"], true);
}

#[test]
fn damaged_superblocks_exclude_members_and_too_many_are_refused() {
    let cell = CellDirectory::new();
    created(&cell);
    let wipe = |name: &str, end: u64| {
        let file = std::fs::OpenOptions::new().write(true).open(cell.path(name)).unwrap();
        file.write_all_at(&vec![0xAA; end as usize], 0).unwrap();
    };
    // The second superblock suffices.
    wipe("m0", 4096);
    assert_eq!(json(&cell, 0, &["status", "a"])["state"], "optimal");
    wipe("m1", 8 << 20);
    wipe("m2", 8 << 20);
    let status = json(&cell, 1, &["status", "a"]);
    assert_eq!(
        (&status["missing"], &status["left_out"][0]["why"]),
        (&2.into(), &"it does not have an array superblock, or both superblocks are damaged".into())
    );
    wipe("m3", 8 << 20);
    assert_eq!(json(&cell, 1, &["status", "a"])["state"], "stopped");
    let output = run(&cell, &["scrub", "a"]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(
        text.contains("a: 3 members are missing or failed, which is more than raid-dp tolerates"),
        "{text}"
    );
    assert_eq!(json(&cell, 1, &["status", "a"])["state"], "stopped");
    assert_eq!(json(&cell, 0, &["destroy", "a", "--force"])["members"], 3);
}

/// Starts a slow rebuild of slot 1. Returns its process, and the status of the array during the rebuild.
fn rebuilding(cell: &CellDirectory) -> (Child, Value) {
    created(cell);
    ended(cell, 0, &["fail", "a", "m1"]);
    let slow = ["raid", "replace", "a", "1", "m6", "--size", SIZE, "--rate", "1MB/s"];
    let mut rebuild = cell.program(&slow).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let began = Instant::now();
    loop {
        let output = run(cell, &["status", "a", "--json"]);
        let status: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        if status["in_use"] == true && status["slots"][1]["state"] == "rebuilding" {
            return (rebuild, status);
        }
        assert!(
            began.elapsed() < Duration::from_secs(60) && rebuild.try_wait().unwrap().is_none(),
            "{status}"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn killed_rebuild_resumes_and_an_array_in_use_rejects_changes() {
    let cell = CellDirectory::new();
    let (rebuild, status) = rebuilding(&cell);
    assert_eq!(status["shut_down"], false);
    let text = String::from_utf8(run(&cell, &["scrub", "a"]).stderr).unwrap();
    assert!(text.contains("a: another process is using the array (its member "), "{text}");
    let mut watch = cell.program(&["raid", "status", "a", "--watch", "--interval", "100ms", "--json"]);
    let mut watch = watch.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    for _ in 0..2 {
        let line: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        assert_eq!(line["array"], "a");
    }
    kill(watch);
    kill(rebuild);
    assert_eq!(json(&cell, 1, &["status", "a"])["in_use"], false);
    assert_eq!(json(&cell, 0, &["rebuild", "a"])["state"], "optimal");
    assert_eq!(json(&cell, 0, &["scrub", "a"])["unrecoverable_rows"], Value::Array(vec![]));
}

#[test]
fn a_dirty_degraded_array_starts_only_on_request() {
    let cell = CellDirectory::new();
    kill(rebuilding(&cell).0);
    std::fs::rename(cell.path("m4"), cell.path("away")).unwrap();
    let output = run(&cell, &["rebuild", "a"]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text.contains("m4: skipped: the file does not exist"), "{text}");
    assert!(text.contains("or start the array once with jetcell raid serve --start-degraded"), "{text}");
    // Nothing was changed. When the member is back, the array is complete.
    std::fs::rename(cell.path("away"), cell.path("m4")).unwrap();
    assert_eq!(json(&cell, 0, &["rebuild", "a"])["state"], "optimal");
}

#[test]
fn an_array_is_compared_with_plain_files() {
    let cell = CellDirectory::with_limits();
    ended(&cell, 0, &["create", "a", "--level", "raid5", "--size", "64MiB", "--members", "m0", "m1", "m2"]);
    let words = [
        "bench",
        "a",
        "--size",
        "64MiB",
        "--duration",
        "0.02",
        "--steps",
        "transfer_write,random_read_4k,sync",
    ];
    let measured = json(&cell, 0, &words);
    let names: Vec<&str> = measured["targets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|target| target["name"].as_str().unwrap())
        .collect();
    assert!(names.len() == 2 && names[0].ends_with("/a"), "{names:?}");
    // Every step has figures for both the array and the files.
    for step in measured["steps"].as_array().unwrap() {
        assert!(step["figures"].as_array().unwrap().iter().all(|figure| !figure.is_null()), "{step}");
    }
    // The array is empty again.
    let scrubbed = json(&cell, 0, &["scrub", "a"]);
    assert_eq!(scrubbed["unrecoverable_rows"], Value::Array(vec![]));
    let refused = cell.program_refused(&["raid", "bench", "nowhere"]);
    assert!(refused.contains("nowhere is not the directory of an array"), "{refused}");
}

#[test]
fn a_test_runs_on_luns_and_reverts_to_a_snapshot() {
    let cell = CellDirectory::with_limits();
    let members: Vec<String> = (0..6).map(|member| format!("m{member}")).collect();
    let members: Vec<&str> = members.iter().map(String::as_str).collect();
    let words = ["create", "a", "--level", "raid-dp", "--size", "80MiB", "--members"];
    ended(&cell, 0, &[&words[..], &members].concat());
    // The array is started to examine its content, so a refusal still changes its superblocks.
    let refused = |directory: &str| {
        let output = cell.jetcell(&["--dir", directory]);
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    let text = refused("array:a/mail");
    assert!(text.contains("the array has no LUNs") && !cell.path("a/mail").exists(), "{text}");
    let made = json(&cell, 0, &["lun", "create", "a", "mail", "--size", "128MiB"]);
    assert_eq!((&made["lun"], &made["bytes"]), (&Value::from("mail"), &Value::from(128u64 << 20)));
    ended(&cell, 0, &["lun", "create", "a", "logs", "--size", "96MiB"]);
    let test = |arguments: &[&str]| {
        let common = ["--config", "wide.toml", "--dir", "array:a/mail", "--log-dir", "array:a/logs"];
        let more = ["--size", "32MiB", "--duration", "1s", "--quiet"];
        let output = cell.jetcell(&[&common[..], &more, arguments].concat());
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{stderr}");
    };
    test(&["--output", "first"]);
    let result = std::fs::read_to_string(cell.path("first/result.json")).unwrap();
    assert!(
        result.contains("/a/mail/Jetstress001001.edb") && !cell.path("a/mail/Jetstress001001.edb").exists()
    );
    let ends = || {
        let events = std::fs::read_to_string(cell.path("a/events.jsonl")).unwrap();
        let events = events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        events.filter(|event| event["event"] == "test_ended").collect::<Vec<_>>()
    };
    // Many blocks are written in one command.
    let first = ends().pop().unwrap();
    let ratio = |event: &Value, what: &str| event[what].as_f64().unwrap();
    assert!(ratio(&first, "member_writes_per_host_write") < 1.0, "{first}");
    // Four data members and two parity members: no block is written in place, so each block that leaves memory causes
    // half a block of additional writes.
    assert!(ratio(&first, "data_and_parity_written_per_stored_block") >= 1.5, "{first}");
    let stored = ratio(&first, "stored_blocks");
    let blocks = first["members"]["data_and_parity"]["blocks_written"].as_f64().unwrap();
    assert!(
        stored > 100.0 && blocks >= 1.5 * stored && ratio(&first, "member_blocks_written") >= blocks,
        "{first}"
    );
    let status = json(&cell, 0, &["status", "a"]);
    assert!(status["members"]["data_and_parity"]["blocks_written"].as_f64().unwrap() >= blocks, "{status}");
    assert_eq!(status["defects"], 0);
    assert!(ended(&cell, 0, &["status", "a"]).contains("data and parity"));
    assert!(first["host_writes"].as_u64().unwrap() > 100, "{first}");

    assert_eq!(json(&cell, 0, &["snapshot", "create", "a", "mail", "full"])["snapshot"], "full");
    ended(&cell, 0, &["snapshot", "create", "a", "logs", "full"]);
    ended(&cell, 0, &["fail", "a", "1"]);
    // Every page is verified before and after the load, with two members lost.
    ended(&cell, 0, &["fail", "a", "m3"]);
    test(&["--output", "second", "--open"]);
    for lun in ["mail", "logs"] {
        ended(&cell, 0, &["snapshot", "rollback", "a", lun, "full", "--force"]);
    }
    test(&["--output", "third", "--open"]);
    assert_eq!(ends().len(), 3);
    let text = refused("array:a");
    assert!(text.contains("contains LUNs; specify one of them"), "{text}");
    let text = refused("array:a/other");
    assert!(text.contains("other") && !cell.path("a/other").exists(), "{text}");
}

#[test]
fn a_test_runs_on_an_array_that_fails_and_rebuilds() {
    let cell = CellDirectory::with_limits();
    let members: Vec<String> = (0..6).map(|member| format!("m{member}")).collect();
    let words = ["create", "a", "--level", "raid-dp", "--size", "64MiB", "--members"];
    let members: Vec<&str> = members.iter().map(String::as_str).collect();
    ended(&cell, 0, &[&words[..], &members].concat());
    let test = |arguments: &[&str]| {
        let common =
            ["--config", "wide.toml", "--dir", "array:a", "--size", "32MiB", "--duration", "1s", "--quiet"];
        let output = cell.jetcell(&[&common[..], arguments].concat());
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{stderr}");
        stderr
    };
    test(&["--output", "first"]);
    let result = std::fs::read_to_string(cell.path("first/result.json")).unwrap();
    assert!(result.contains("/a/Jetstress001001.edb") && !cell.path("a/Jetstress001001.edb").exists());
    let result: Value = serde_json::from_str(&result).unwrap();
    let storage = &result["machine"]["storage"][0];
    let array = &storage["array"];
    assert_eq!((&array["level"], &array["lun"]), (&"raid-dp".into(), &Value::Null), "{storage}");
    assert_eq!((array["members"].as_array().unwrap().len(), &storage["mount"]), (6, &Value::Null));
    let report = std::fs::read_to_string(cell.path("first/report.html")).unwrap();
    assert!(report.contains("raid-dp of 6 members") && report.contains("array:/"), "the repeated command");
    assert!(
        result["final_database_bytes"].as_u64().unwrap() >= 32 << 20,
        "{}",
        result["final_database_bytes"]
    );
    ended(&cell, 0, &["fail", "a", "1"]);
    ended(&cell, 0, &["fail", "a", "m3"]);
    // Every page is verified before and after the load.
    assert_eq!(json(&cell, 1, &["status", "a"])["missing"], 2);
    assert_eq!(json(&cell, 0, &["spare", "a", "s1", "--size", "64MiB"])["member"], "s1");
    let notes = test(&["--output", "second", "--open"]);
    assert!(notes.contains("members are rebuilt while the load runs"), "{notes}");
    let events = std::fs::read_to_string(cell.path("a/events.jsonl")).unwrap();
    assert!(events.contains("\"rebuild_started\""), "{events}");
    ended(&cell, 0, &["rebuild", "a"]);
    let scrubbed = json(&cell, 0, &["scrub", "a"]);
    assert_eq!(scrubbed["unrecoverable_rows"], Value::Array(vec![]));

    let text = cell.refused(&["--dir", "array:nowhere"]);
    assert!(text.contains("nowhere is not the directory of an array"), "{text}");
    let text = cell.program_refused(&["test", "recovery", "--dir", "array:a", "--open"]);
    assert!(text.starts_with("databases on an array cannot be copied"), "{text}");
}

#[test]
fn array_risk_is_calculated_from_measured_rebuilds_and_scrubs() {
    let cell = CellDirectory::new();
    let make = |name: &str, level: &str, members: [&str; 4]| {
        let words = [&["create", name, "--level", level, "--size", SIZE, "--members"][..], &members].concat();
        ended(&cell, 0, &words);
    };
    make("a", "raid5", ["a0", "a1", "a2", "a3"]);
    let defaults = |value: &Value| value["inputs"]["defaults"].to_string();
    let before = json(&cell, 0, &["reliability", "--array", "a"]);
    assert!(
        ["restore", "scrub", "latent-rate"].iter().all(|name| defaults(&before).contains(name)),
        "{before}"
    );

    ended(&cell, 0, &["fail", "a", "a1"]);
    ended(&cell, 0, &["replace", "a", "1", "a4", "--size", SIZE]);
    (0..2).for_each(|_| drop(ended(&cell, 0, &["scrub", "a"])));
    let words = ["reliability", "--array", "a", "--latent-rate", "1e-4/h", "--afr", "2%"];
    let after = json(&cell, 0, &words);
    assert_eq!(defaults(&after), "[\"groups\",\"years\"]", "{after}");
    // The array was rebuilt and scrubbed within seconds, so the risk is lower than with the published times.
    let loss = |value: &Value| value["probability_of_loss"].as_f64().unwrap();
    assert!(loss(&after) > 0.0 && loss(&after) < loss(&before), "{after}");
    let given = json(&cell, 0, &[&words[..], &["--restore", "12h", "--scrub", "168h"]].concat());
    let same =
        [&words[3..], &["--type", "raid5", "--data-disks", "3", "--restore", "12h", "--scrub", "168h"]];
    assert_eq!(loss(&given), loss(&json(&cell, 0, &[&["reliability"][..], &same.concat()].concat())));

    make("b", "raid0", ["b0", "b1", "b2", "b3"]);
    let refused = run(&cell, &["reliability", "--array", "b"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8(refused.stderr).unwrap().contains("loses data if any drive fails"));
    assert_eq!(run(&cell, &["reliability", "--array", "nowhere"]).status.code(), Some(2));
}

fn mode(cell: &CellDirectory, name: &str) -> u32 {
    std::fs::metadata(cell.path(name)).unwrap().permissions().mode() & 0o777
}

#[test]
fn array_files_are_private() {
    let cell = CellDirectory::new();
    created(&cell);
    ended(&cell, 0, &["spare", "a", "s0", "--size", SIZE]);
    ended(&cell, 0, &["lun", "create", "a", "l", "--size", "1MiB"]);
    assert_eq!(mode(&cell, "a"), 0o700);
    for name in ["m0", "m5", "s0", "a/array.toml", "a/events.jsonl", "a/write-log"] {
        assert_eq!(mode(&cell, name), 0o600, "{name}");
    }
    let sparse = ["create", "b", "--level", "mirror", "--size", SIZE, "--simulate-drive", "ssd", "--members"];
    ended(&cell, 0, &[&sparse[..], &["n0", "n1"]].concat());
    assert_eq!((mode(&cell, "n0"), mode(&cell, "b")), (0o600, 0o700));
}

#[test]
fn an_array_does_not_follow_links() {
    let cell = CellDirectory::new();
    let mirror = |array, members: &[&str], more: &[&str]| {
        let words = ["create", array, "--level", "mirror", "--size", SIZE];
        run(&cell, &[&words[..], more, &["--members"], members].concat())
    };
    for more in [&[][..], &["--simulate-drive", "ssd"]] {
        symlink(cell.path("planted"), cell.path("m0")).unwrap();
        assert_eq!(mirror("a", &["m0", "m1"], more).status.code(), Some(2));
        assert!(!cell.path("planted").exists() && !cell.path("m1").exists() && !cell.path("a").exists());
        std::fs::remove_file(cell.path("m0")).unwrap();
    }
    assert!(mirror("a", &["m0", "m1"], &[]).status.success());

    // The write log is not created in a file that a link refers to.
    let zeros = vec![0; 2 << 20];
    std::fs::write(cell.path("zeros"), &zeros).unwrap();
    symlink(cell.path("zeros"), cell.path("a/write-log")).unwrap();
    let refused = run(&cell, &["lun", "create", "a", "l", "--size", "1MiB"]);
    let stderr = String::from_utf8(refused.stderr).unwrap();
    assert!(refused.status.code() == Some(2) && stderr.contains("write-log is a link"), "{stderr}");
    assert!(std::fs::read(cell.path("zeros")).unwrap() == zeros);

    // A backup of a member, to which the path of the member is a link, is not erased with the array.
    std::fs::rename(cell.path("m0"), cell.path("backup")).unwrap();
    symlink(cell.path("backup"), cell.path("m0")).unwrap();
    let backup = std::fs::read(cell.path("backup")).unwrap();
    let destroyed = run(&cell, &["destroy", "a", "--force"]);
    let stderr = String::from_utf8(destroyed.stderr).unwrap();
    assert!(destroyed.status.success() && stderr.contains("not changed, because it is a link"), "{stderr}");
    assert!(std::fs::read(cell.path("backup")).unwrap() == backup);
    assert!(std::fs::read(cell.path("m1")).unwrap() != backup);
}

#[test]
fn a_member_overwritten_with_another_members_copy_is_named() {
    let cell = CellDirectory::new();
    created(&cell);
    std::fs::copy(cell.path("m0"), cell.path("m1")).unwrap();
    let refused = run(&cell, &["scrub", "a"]);
    let stderr = String::from_utf8(refused.stderr).unwrap();
    assert_eq!((refused.status.code(), stderr.lines().count()), (Some(2), 1), "{stderr}");
    assert!(stderr.contains("m1 is a copy of ") && stderr.contains("move the copy away"), "{stderr}");
    std::fs::remove_file(cell.path("m1")).unwrap();
    ended(&cell, 0, &["replace", "a", "1", "m6", "--size", SIZE]);
    assert!(ended(&cell, 0, &["scrub", "a"]).contains("a: "));
}
