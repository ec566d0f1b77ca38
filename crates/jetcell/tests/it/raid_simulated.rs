//! Tests of `jetcell raid simulate`, of its results in `jetcell raid reliability`, and of arrays of simulated drives.

use std::time::Instant;

use serde_json::Value;

use crate::cell::CellDirectory;

/// Runs a command of `jetcell raid` that must exit with 0. Returns its output.
#[track_caller]
fn ended(cell: &CellDirectory, words: &[&str]) -> String {
    let output = cell.program(&[&["raid"], words].concat()).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{words:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
fn json(cell: &CellDirectory, words: &[&str]) -> Value {
    serde_json::from_str(&ended(cell, &[words, &["--json"]].concat())).unwrap()
}

/// Writes a short experiment with three of the five layouts of the example.
fn short(cell: &CellDirectory) -> String {
    let example = ended(cell, &["simulate", "--example-config"]);
    let layouts: Vec<&str> = example.split("[[layouts]]").collect();
    let chosen = [0, 1, 3, 5].map(|part| layouts[part]).join("[[layouts]]");
    let smaller = [
        ("\nseconds = 60", "\nseconds = 4"),
        ("seconds = 25", "seconds = 2"),
        ("users = 10000", "users = 2000"),
        ("seconds = 10\nlog", "seconds = 1\nlog"),
        ("scale = 64", "scale = 2048"),
    ];
    smaller.iter().fold(chosen, |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replacen(from, to, 1)
    })
}

#[test]
fn a_simulated_experiment_prints_tables_and_charts() {
    let cell = CellDirectory::new();
    let short = short(&cell);
    cell.write("short.toml", &short);
    let words = ["simulate", "--config", "short.toml", "--html", "page.html", "--markdown", "page.md"];
    let text = ended(&cell, &words);
    let markdown = std::fs::read_to_string(cell.path("page.md")).unwrap();
    for what in ["RAID-DP write-anywhere (14+2), rebuilding twice", "RAID 10, after"] {
        assert!(text.contains(what) && markdown.contains(what), "{what}: {text}");
    }
    for what in ["RAID 6 (7+2), degraded", "log write ms"] {
        assert!(text.contains(what), "{what}: {text}");
    }
    let page = std::fs::read_to_string(cell.path("page.html")).unwrap();
    assert_eq!((page.matches("<svg").count(), page.matches("</html>").count()), (5, 1));
    for what in
        ["class=\"readout\"", "the rebuild begins", "Progress of the rebuild", "RAID 6 (7+2), degraded"]
    {
        assert!(page.contains(what), "{what}");
    }
    for (from, to, what) in [
        ("read_share = 0.5", "read_share = 2", "load.read_share must be between 0 and 1"),
        ("drive = \"15k-146\"", "drive = \"floppy\"", "unknown drive \"floppy\""),
        ("level = \"raid6\"", "level = \"raid6\"\nsize = 3", "unknown key 'size'"),
        ("drives = 11", "drives = 3", "log.drives must be between 4 and 64"),
    ] {
        cell.write("wrong.toml", short.replacen(from, to, 1));
        let text = cell.program_refused(&["raid", "simulate", "--config", "wrong.toml"]);
        assert!(text.starts_with("--config wrong.toml") && text.contains(what), "{text}");
    }
    let text = cell.program_refused(&["raid", "simulate", "--config", "none.toml"]);
    assert!(text.starts_with("--config none.toml: No such file"), "{text}");
}

#[test]
fn a_simulated_rebuild_contributes_to_the_layout_risk() {
    let cell = CellDirectory::new();
    cell.write("short.toml", short(&cell));
    let value = json(&cell, &["simulate", "--config", "short.toml"]);
    assert_eq!(value["target_iops"], 1000.0);
    let ratio =
        |layout: usize| value["layouts"][layout]["states"][0]["disk_writes_per_host_write"].as_f64().unwrap();
    assert!(ratio(2) < 1.0 && (ratio(1) - 3.0).abs() < 0.1 && (ratio(0) - 2.0).abs() < 0.1);
    let seconds = |layout: usize| value["layouts"][layout]["timeline"]["seconds"].as_array().unwrap().clone();
    let last = |layout: usize| seconds(layout).last().unwrap()["rebuilt_share"].as_f64().unwrap();
    assert!((0..3).all(|layout| (last(layout) - 1.0).abs() < 1e-9), "each rebuild ends");

    cell.write("result.json", value.to_string());
    let hours = |layout: usize| {
        value["layouts"][layout]["timeline"]["whole_rebuild_seconds"].as_f64().unwrap() / 3600.0
    };
    let words = ["reliability", "--simulated", "result.json", "--explain"];
    let found = json(&cell, &words);
    let restore = 1.0 / found["inputs"]["restore_per_hour"].as_f64().unwrap();
    assert!((restore / hours(2) - 1.0).abs() < 0.01, "{} h: {found}", hours(2));
    let shown = ended(&cell, &words);
    assert!(shown.contains("raid-dp") || shown.contains("RAID-DP"), "{shown}");
    let other = ended(&cell, &["reliability", "--simulated", "result.json", "--layout", "RAID 10"]);
    assert!(other != shown);
    let refused = |words: &[&str]| cell.program_refused(&[&["raid", "reliability"], words].concat());
    let text = refused(&["--simulated", "result.json", "--layout", "RAID 7"]);
    assert!(text.starts_with("--layout RAID 7: unknown layout; available layouts: RAID 10, "), "{text}");
    let text = refused(&["--simulated", "short.toml"]);
    assert!(text.starts_with("--simulated short.toml: not JSON"), "{text}");
    cell.write("other.json", "{\"layouts\": [3]}");
    assert!(refused(&["--simulated", "other.json"]).contains("not a result of jetcell raid simulate"));
}

#[test]
fn drives_are_compared_with_published_specifications() {
    let cell = CellDirectory::new();
    let text = ended(&cell, &["simulate", "--drives"]);
    assert!(text.contains("15k-450") && text.contains("demerit figure") && text.contains("(204)"), "{text}");
    let value = json(&cell, &["simulate", "--drives"]);
    assert_eq!(value["drives"].as_array().unwrap().len(), 8);
    assert!(value["agreements"][0]["demerit"].as_f64().unwrap() < 0.03);
}

#[test]
fn an_array_on_simulated_drives_takes_drive_time() {
    let cell = CellDirectory::new();
    let members: Vec<String> = (0..16).map(|number| format!("m{number}")).collect();
    let members: Vec<&str> = members.iter().map(String::as_str).collect();
    let create = ["create", "a", "--level", "raid-dp", "--size", "16MiB", "--simulate-drive"];
    let made =
        |drive: Vec<&'static str>| [create.to_vec(), drive, vec!["--members"], members.clone()].concat();
    for (drive, what) in [
        (vec!["floppy"], "there is no drive or file with this name; available drives: 10k-300"),
        (vec!["15k-146", "--time-scale", "0"], "the time scale must be between 0.01 and 10000"),
    ] {
        let text = cell.program_refused(&[vec!["raid"], made(drive)].concat());
        assert!(text.contains(what), "{text}");
        assert!(!cell.path("m0").exists() && !cell.path("a").exists());
    }
    ended(&cell, &made(vec!["15k-146", "--time-scale", "50"]));
    let text = ended(&cell, &["status", "a"]);
    assert!(text.contains("simulated drives: 15k, 146 GB, 50 times as fast as real ones"), "{text}");
    let status = json(&cell, &["status", "a"]);
    assert_eq!(status["simulated_drive"]["time_scale"], 50.0);
    // The files are sparse. Fully allocated, 16 files of 16 MiB would use 256 MiB.
    use std::os::unix::fs::MetadataExt;
    let blocks = std::fs::metadata(cell.path("m3")).unwrap().blocks();
    assert!(blocks * 512 < 8 << 20, "{blocks}");

    // A scrub reads all records: each member needs at least as many accesses as there are zones.
    let began = Instant::now();
    let scrubbed = json(&cell, &["scrub", "a"]);
    assert_eq!(scrubbed["unrecoverable_rows"], Value::Array(vec![]));
    // Each start reads the superblocks and journals of all members one after the other: 3 accesses of at least 0.1 ms
    // each.
    assert!(began.elapsed().as_secs_f64() * 50.0 > 16.0 * 3.0 * 1e-4);
    ended(&cell, &["fail", "a", "m2"]);
    ended(&cell, &["replace", "a", "2", "m16", "--size", "16MiB"]);
    assert_eq!(json(&cell, &["status", "a"])["state"], "optimal");

    let damaged = std::fs::read_to_string(cell.path("a/array.toml")).unwrap();
    cell.write("a/array.toml", damaged.replacen("rpm = 15000", "rpm = -1", 1));
    let text = cell.program_refused(&["raid", "status", "a"]);
    assert!(text.contains("is damaged (the rpm is not possible for a drive)"), "{text}");
    ended(&cell, &["simulate", "--drives"]);
}
