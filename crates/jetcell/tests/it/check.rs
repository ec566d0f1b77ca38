//! Tests of `jetcell check` on real files and on damaged copies of them.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use testkit::{TestRequirement, skip};

use serde_json::Value;
use testkit::corpus::Corpus;
use testkit::damage::{EditableDatabase, corrupt_segment, segment};

use crate::cell::CellDirectory;

fn check(cell: &CellDirectory, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_jetcell"));
    command.current_dir(cell.path("")).arg("check").args(arguments).output().unwrap()
}

/// Returns all lines of a check with `--json`, and its exit code.
fn json(cell: &CellDirectory, arguments: &[&str]) -> (Vec<Value>, i32) {
    let output = check(cell, &[&["--json"], arguments].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (lines, output.status.code().unwrap())
}

fn of_type<'a>(lines: &'a [Value], kind: &'a str) -> impl Iterator<Item = &'a Value> {
    lines.iter().filter(move |line| line["type"] == kind)
}

/// Unpacks corpus files with their directories.
fn unpack(cell: &CellDirectory, corpus: &Corpus, wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let names = corpus.files.iter().map(|file| file.name.as_str()).filter(|name| wanted(name));
    names
        .map(|name| {
            cell.make_dir(Path::new(name).parent().unwrap().to_str().unwrap());
            cell.write(name, corpus.read(name))
        })
        .collect()
}

/// Returns the whole manifest, including fields that [`Corpus`] does not contain.
fn manifest(corpus: &Corpus) -> Vec<Value> {
    let text = fs::read_to_string(corpus.root().join("manifest.json")).unwrap();
    serde_json::from_str::<Value>(&text).unwrap()["files"].as_array().unwrap().clone()
}

#[test]
fn every_real_file_matches_the_manifest_and_is_not_changed() {
    let Some(corpus) = Corpus::locate() else { return };
    let cell = CellDirectory::new();
    let files = unpack(&cell, &corpus, |_| true);
    let state = |path: &PathBuf| {
        let data = fs::metadata(path).unwrap();
        (fs::read(path).unwrap(), data.atime_nsec(), data.mtime_nsec(), data.ctime_nsec(), data.atime())
    };
    // The first read for the comparison may itself update the access time.
    files.iter().for_each(|path| drop(state(path)));
    let before: Vec<_> = files.iter().map(state).collect();
    let (lines, code) = json(&cell, &["--structure", "."]);
    let after: Vec<_> = files.iter().map(state).collect();
    assert!(before == after, "a check changed bytes or times");
    // A truncated database, a database repaired by Microsoft's tool, a database without shadow catalog, and dirty
    // databases without their logs.
    assert_eq!(code, 1);
    for known in manifest(&corpus) {
        let name = known["name"].as_str().unwrap();
        let path = format!("./{name}");
        let summary = of_type(&lines, "summary").find(|summary| summary["path"] == path.as_str());
        let summary = summary.unwrap_or_else(|| panic!("no summary of {name}"));
        match known["kind"].as_str().unwrap() {
            "db" => {
                assert_eq!(summary["format"], "database", "{name}");
                assert_eq!(summary["state"], known["state_name"], "{name}");
                assert_eq!(summary["page_size"], known["page_size"], "{name}");
                let (found, number) = (&summary["pages"], |field: &str| known[field].as_u64().unwrap_or(0));
                assert_eq!(found["total"], known["pages"], "{name}");
                assert_eq!(found["owned"], known["last_owned_page"], "{name}");
                assert_eq!(found["zero"], known["zero_pages"], "{name}");
                assert_eq!(
                    found["good"].as_u64(),
                    Some(number("new_ck_pages") + number("old_ck_pages")),
                    "{name}"
                );
                let beyond = number("pages").saturating_sub(number("last_owned_page"));
                assert_eq!(found["beyond_owned"].as_u64(), Some(beyond), "{name}");
                assert_eq!((&found["bad"], &found["repairable"]), (&0.into(), &0.into()), "{name}");
                let tables = summary["structure"]["tables"].as_array().unwrap();
                for table in tables {
                    let facts = &known["tables"][table["name"].as_str().unwrap()];
                    assert_eq!(table["rows"], facts["rows"], "{name}: {}", table["name"]);
                    assert_eq!(table["deleted_nodes"], facts["deleted_nodes"], "{name}: {}", table["name"]);
                }
                assert_eq!(tables.len(), known["tables"].as_object().unwrap().len(), "{name}");
                match known["genRequired"].as_str().and_then(|range| range.split_once('-')) {
                    Some((first, last)) if known["state"] == 2 => {
                        let number = |text| u64::from_str_radix(text, 16).ok();
                        assert_eq!(summary["needs_logs"]["first"].as_u64(), number(first), "{name}");
                        assert_eq!(summary["needs_logs"]["last"].as_u64(), number(last), "{name}");
                    }
                    _ => assert!(summary["needs_logs"].is_null(), "{name}"),
                }
            }
            "log" => {
                assert_eq!(
                    (&summary["format"], &summary["verdict"]),
                    (&"log".into(), &"sound".into()),
                    "{name}"
                );
                assert_eq!(summary["version"], known["ver"], "{name}");
                let generation = u64::from_str_radix(known["gen"].as_str().unwrap(), 16).unwrap();
                assert_eq!(summary["generation"], generation, "{name}");
                for kind in ["good", "shadow", "zero", "bad"] {
                    assert_eq!(summary["segments"][kind], known["segments"][kind], "{name}: {kind}");
                }
                let databases = known["attach"].as_array().map_or(0, Vec::len);
                assert_eq!(summary["databases"].as_array().unwrap().len(), databases, "{name}");
            }
            "chk" => {
                assert_eq!(summary["format"], "checkpoint", "{name}");
                assert_eq!(summary["verdict"], "sound", "{name}");
            }
            "jfm" => {
                assert_eq!(summary["format"], "flush-map", "{name}");
                assert_eq!(
                    (&summary["verdict"], &summary["version"]),
                    (&"sound".into(), &"3.0.0".into()),
                    "{name}"
                );
            }
            _ => assert_eq!(
                (&summary["format"], &summary["verdict"]),
                (&"unknown".into(), &"unreadable".into())
            ),
        }
    }
    let incomplete: Vec<_> = of_type(&lines, "log-set").filter(|set| set["unbroken"] != true).collect();
    assert!(incomplete.is_empty(), "{incomplete:?}");
    let dirty = "./logsets/srum-win11-dirty/SRUDB.dat";
    let dirty = of_type(&lines, "summary").find(|summary| summary["path"] == dirty).unwrap();
    assert_eq!(dirty["needs_logs"]["complete"], true);
    assert_eq!(dirty["verdict"], "sound");
}

#[test]
fn checking_a_directory_prints_one_screen_with_advice() {
    let Some(corpus) = Corpus::locate() else { return };
    let cell = CellDirectory::new();
    unpack(&cell, &corpus, |_| true);
    let output = check(&cell, &["."]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.lines().count() <= 50, "{text}");
    assert!(text.contains("logsets/srum-win11-dirty (4 logs)"), "{text}");
    assert!(
        text.contains(
            "needs log generation 5C (hexadecimal); no log is missing; next: jetcell recover ./logsets/srum-win11-dirty \
             --into recovered"
        ),
        "{text}"
    );
    assert!(
        text.contains("needs log generation E (hexadecimal): provide the logs; then: jetcell recover"),
        "{text}"
    );
    assert!(String::from_utf8(output.stderr).unwrap().is_empty());
}

/// Checks that a damaged copy of a file causes this finding and exit code 1.
#[track_caller]
fn must_find(
    cell: &CellDirectory,
    arguments: &[&str],
    kind: &str,
    page: Option<u32>,
    table: Option<&str>,
) -> Value {
    let (lines, code) = json(cell, arguments);
    let found = of_type(&lines, "finding").find(|finding| {
        finding["kind"] == kind
            && (page.is_none() || finding["page"].as_u64() == page.map(u64::from))
            && (table.is_none() || finding["table"].as_str() == table)
    });
    let found = found.unwrap_or_else(|| panic!("no {kind} on page {page:?} of {table:?} among {lines:#?}"));
    assert_eq!(code, 1);
    found.clone()
}

#[test]
fn damaged_pages_are_named_with_table_and_explanation() {
    let Some(corpus) = Corpus::locate() else { return };
    let cell = CellDirectory::new();
    let whole = EditableDatabase::new(corpus.read("db/8k/ntds-initial.dit"));
    let (left, leaf, right) = whole.inner_leaf();
    let rows = whole.page(leaf).node_count();
    let number = Some(leaf.get());
    let damaged = |damage: &dyn Fn(&mut EditableDatabase)| {
        let mut patient = whole.clone();
        damage(&mut patient);
        cell.write("damaged.dit", patient.bytes);
    };
    for arguments in [&["damaged.dit"][..], &["--structure", "damaged.dit"]] {
        damaged(&|it| it.flip_bit(leaf, 1000, 4));
        let found = must_find(&cell, arguments, "page-repairable", number, Some("datatable"));
        assert!(found["message"].as_str().unwrap().contains("byte 1000 bit 4"), "{found}");
        assert_eq!(found["offset"], whole.size.offset_of(leaf));
        damaged(&|it| corrupt_segment(it.raw(leaf)));
        let found = must_find(&cell, arguments, "page-bad-checksum", number, Some("datatable"));
        let meaning = format!("about {rows} rows of table datatable are unreadable");
        assert_eq!(found["meaning"], meaning.as_str());
        damaged(&|it| it.swap(left, leaf));
        must_find(&cell, arguments, "page-wrong-number", number, Some("datatable"));
        must_find(&cell, arguments, "page-wrong-number", Some(left.get()), Some("datatable"));
    }
    damaged(&|it| it.raw(leaf).fill(0));
    must_find(&cell, &["--structure", "damaged.dit"], "page-zero", number, Some("datatable"));
    damaged(&|it| it.edit(leaf, |mut page| page.set_next(Some(left))));
    must_find(&cell, &["--structure", "damaged.dit"], "sibling-link", number, Some("datatable"));
    assert!(right != left);
    damaged(&|it| it.truncate(1168));
    let shadow = Some("MSysObjectsShadow");
    must_find(&cell, &["--structure", "damaged.dit"], "page-beyond-file", Some(1169), shadow);
    must_find(&cell, &["damaged.dit"], "file-truncated", None, None);
    damaged(&|it| it.bytes[100] ^= 1);
    must_find(&cell, &["damaged.dit"], "header-damaged", None, None);
    damaged(&|it| it.bytes[8192 + 100] ^= 1);
    must_find(&cell, &["damaged.dit"], "shadow-header-damaged", None, None);
}

#[test]
fn damaged_log_sets_are_distinguished_from_dirty_and_torn_ones() {
    let Some(corpus) = Corpus::locate() else { return };
    let cell = CellDirectory::new();
    let set = "logsets/srum-win11-dirty";
    unpack(&cell, &corpus, |name| name.starts_with(set));
    let current = format!("{set}/SRU.log");
    let whole = corpus.read(&current);
    let needs = || {
        let (lines, code) = json(&cell, &[set]);
        let database = of_type(&lines, "summary").find(|summary| summary["format"] == "database").unwrap();
        (database["needs_logs"].clone(), code)
    };
    assert_eq!(needs().1, 0);
    // Damage a segment in the middle of the log.
    let mut log = whole.clone();
    corrupt_segment(segment(&mut log, 4));
    cell.write(&current, &log);
    let found = must_find(&cell, &[set], "log-segment-bad", None, None);
    assert_eq!(found["offset"], 4 * 4096);
    must_find(&cell, &[set], "logs-incomplete", None, None);
    assert_eq!(needs().0["missing"], serde_json::json!([0x5c]));
    // Truncate the file.
    cell.write(&current, &whole[..6 * 4096]);
    must_find(&cell, &[set], "log-length", None, None);
    // Remove the log that is needed.
    fs::remove_file(cell.path(&current)).unwrap();
    assert_eq!(needs().0["complete"], false);
    must_find(&cell, &[set], "checkpoint-mismatch", None, None);
    let found = must_find(&cell, &[set], "logs-incomplete", None, None);
    assert!(!found["message"].as_str().unwrap().contains("no log of its stream"), "{found}");
    // Create a gap in the chain, and a broken chain.
    cell.write(&current, &whole);
    let middle = format!("{set}/SRU0005B.log");
    let log = fs::read(cell.path(&middle)).unwrap();
    fs::remove_file(cell.path(&middle)).unwrap();
    must_find(&cell, &[set], "log-missing", None, None);
    let mut damaged = log.clone();
    corrupt_segment(segment(&mut damaged, 3));
    cell.write(&middle, damaged);
    must_find(&cell, &[set], "log-chain", None, None);
    // Damage a header.
    let mut damaged = log;
    damaged[100] ^= 1;
    cell.write(&middle, damaged);
    must_find(&cell, &[set], "log-header", None, None);
}

#[test]
fn a_dirty_database_without_logs_gets_recovery_advice() {
    let Some(corpus) = Corpus::locate() else { return };
    let cell = CellDirectory::new();
    let set = "logsets/srum-win11-dirty";
    unpack(&cell, &corpus, |name| name == "logsets/srum-win11-dirty/SRUDB.dat");
    let database = format!("{set}/SRUDB.dat");
    for arguments in [[set], [database.as_str()]] {
        let found = must_find(&cell, &arguments, "logs-incomplete", None, None);
        let said = "of the logs that the database needs, generation 5C is missing or damaged; no log of its stream was found";
        assert_eq!((&found["message"], &found["severity"]), (&said.into(), &"warning".into()));
    }
    let (lines, _) = json(&cell, &[set]);
    let dirty = of_type(&lines, "finding").find(|finding| finding["kind"] == "dirty-database").unwrap();
    assert_eq!(dirty["severity"], "info");
    let command = format!("; then: jetcell recover {database} LOGS --into recovered");
    assert!(dirty["message"].as_str().unwrap().ends_with(&command), "{dirty}");
    assert!(
        dirty["meaning"].as_str().unwrap().contains("jetcell recover DATABASE LOGS --into recovered"),
        "{dirty}"
    );
}

#[test]
fn a_foreign_log_next_to_the_database_is_reported() {
    let Some(corpus) = Corpus::locate() else { return };
    let cell = CellDirectory::new();
    let (dirty, other) = ("logsets/srum-win11-dirty", "logsets/srum-server2022");
    unpack(&cell, &corpus, |name| name.starts_with(dirty));
    let foreign = corpus.read(&format!("{other}/a/SRU00001.log"));
    cell.write(&format!("{dirty}/SRU00001.log"), &foreign);
    let database = format!("{dirty}/SRUDB.dat");
    // Check the directory, the database alone, and both a log and the database.
    for arguments in [&[dirty][..], &[&database], &[&format!("{dirty}/SRU00001.log"), &database]] {
        let found = must_find(&cell, arguments, "log-foreign", None, None);
        let said = "the log SRU00001.log next to the database belongs to another log stream";
        assert_eq!((&found["message"], &found["severity"]), (&said.into(), &"warning".into()));
        assert!(found["path"].as_str().unwrap().ends_with("SRUDB.dat"), "{found}");
    }
    // With the database to which the log belongs, the log is no longer a finding.
    cell.write(&format!("{dirty}/other.dat"), corpus.read(&format!("{other}/a/SRUDB.dat")));
    assert_eq!(json(&cell, &[&database]).1, 0);
    // A clean database with several logs of another stream and no logs of its stream.
    cell.make_dir("clean");
    cell.write("clean/SRUDB.dat", corpus.read(&format!("{other}/a/SRUDB.dat")));
    for log in ["SRU00059.log", "SRU0005A.log", "SRU0005B.log", "SRU.log"] {
        cell.write(&format!("clean/{log}"), corpus.read(&format!("{dirty}/{log}")));
    }
    let found = must_find(&cell, &["clean"], "log-foreign", None, None);
    let said =
        "4 logs next to the database belong to other log streams: SRU.log, SRU00059.log, SRU0005A.log, ...";
    assert_eq!(found["message"], said);
}

#[test]
fn an_older_log_format_gets_a_clear_message() {
    let cell = CellDirectory::new();
    let mut log = vec![0; 5 * 512];
    log[4] = 7;
    log[8..10].copy_from_slice(&512u16.to_le_bytes());
    log[10..12].copy_from_slice(&8u16.to_le_bytes());
    log[32..36].copy_from_slice(&7u32.to_le_bytes());
    log[36..40].copy_from_slice(&3704u32.to_le_bytes());
    cell.write("E0000007.log", log);
    let (lines, code) = json(&cell, &["E0000007.log"]);
    let finding = of_type(&lines, "finding").next().unwrap();
    assert_eq!(finding["kind"], "log-version");
    assert!(finding["message"].as_str().unwrap().contains("7.3704"), "{finding}");
    assert_eq!(code, 2);
}

#[test]
fn temporary_databases_are_recognised() {
    let Some(corpus) = Corpus::locate() else { return };
    let cell = CellDirectory::new();
    let mut patient = EditableDatabase::new(corpus.read("db/4k/basic.edb"));
    for page in patient.find(|_| true) {
        patient.raw(page)[..8].fill(0);
    }
    cell.write("tmp.edb", &patient.bytes);
    let (lines, code) = json(&cell, &["tmp.edb"]);
    let summary = of_type(&lines, "summary").next().unwrap();
    assert_eq!((&summary["state"], &summary["pages"]["unchecked"]), (&"Temporary".into(), &23.into()));
    assert_eq!(code, 0);
}

/// Offset of the state in a database header.
const STATE_AT: usize = 52;

#[test]
fn a_database_that_was_never_finished_is_temporary() {
    let Some(corpus) = Corpus::locate() else { return };
    let cell = CellDirectory::new();
    let mut patient = EditableDatabase::new(corpus.read("db/4k/basic.edb"));
    let pages = patient.find(|_| true);
    patient.raw(pages[3])[..8].fill(0);
    patient.swap(pages[5], pages[6]);
    patient.raw(pages[9])[100..200].fill(0x5a);
    for copy in [0, 4096] {
        let header = &mut patient.bytes[copy..copy + 4096];
        header[STATE_AT..STATE_AT + 4].copy_from_slice(&1u32.to_le_bytes());
        let sum = ese_format::checksum::header_checksum(header);
        header[..4].copy_from_slice(&sum.to_le_bytes());
    }
    cell.write("temp.edb", &patient.bytes);
    for arguments in [&["temp.edb"][..], &["--structure", "temp.edb"]] {
        let (lines, code) = json(&cell, arguments);
        let summary = of_type(&lines, "summary").next().unwrap();
        assert_eq!((&summary["state"], code), (&"Temporary".into(), 0), "{summary}");
        assert_eq!(summary["pages"]["unchecked"], 4);
    }
}

#[test]
fn bytes_after_the_last_page_name_the_incomplete_page() {
    let Some(corpus) = Corpus::locate() else { return };
    let cell = CellDirectory::new();
    let mut bytes = corpus.read("db/4k/basic.edb");
    let pages = bytes.len() / 4096 - 2;
    bytes.extend([7; 100]);
    cell.write("a.edb", &bytes);
    let found = must_find(&cell, &["a.edb"], "trailing-bytes", None, None);
    let said = format!("100 bytes follow the last complete page; they are the start of page {}", pages + 1);
    assert_eq!(found["message"].as_str(), Some(said.as_str()));
}

#[test]
fn a_check_can_start_at_a_page_and_be_throttled() {
    let Some(corpus) = Corpus::locate() else { return };
    let cell = CellDirectory::new();
    unpack(&cell, &corpus, |name| name == "db/8k/ntds-initial.dit");
    let name = "db/8k/ntds-initial.dit";
    let (all, _) = json(&cell, &[name]);
    let (rest, _) = json(&cell, &["--start-page", "701", name]);
    let examined = |lines: &[Value]| {
        let pages = &of_type(lines, "summary").next().unwrap()["pages"];
        pages["good"].as_u64().unwrap() + pages["zero"].as_u64().unwrap()
    };
    assert_eq!(examined(&all), 1536);
    assert_eq!(examined(&rest), 836);
    let start = std::time::Instant::now();
    let (slow, code) = json(&cell, &["--rate", "24MB/s", name]);
    assert!(start.elapsed().as_millis() > 300, "12.6 MB at 24 MB/s took {:?}", start.elapsed());
    assert_eq!((examined(&slow), code), (1536, 0));
}

#[test]
fn a_file_that_cannot_be_checked_gives_one_line() {
    let cell = CellDirectory::new();
    cell.write("garbage", [0x5a; 5000]);
    cell.write("empty", []);
    cell.write("short", [1; 100]);
    for (arguments, text) in [
        (&["garbage"][..], "garbage: the file is not an ESE database"),
        (&["empty"], "empty: the file is not an ESE database"),
        (&["short"], "short: the file is not an ESE database"),
        (&["missing"], "missing: No such file"),
        (&["--start-page", "0", "garbage"], "0 is not in"),
        (&["--throttle", "fast", "garbage"], "as a pause or a rate"),
        (&["--start-page", "9", "garbage", "empty"], "specify only its path"),
    ] {
        let output = check(&cell, arguments);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert!(stderr.contains(text), "{arguments:?}: {stderr}");
    }
}

/// The superuser can read every file, so the program runs as another user in that case.
#[test]
fn an_unreadable_file_is_not_skipped() {
    let cell = CellDirectory::new();
    let rights =
        |path: PathBuf, mode: u32| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    rights(cell.path(""), 0o755);
    rights(cell.make_dir("d"), 0o755);
    rights(cell.write("d/closed.edb", [7; 9000]), 0);
    let program = env!("CARGO_BIN_EXE_jetcell");
    let run = |words: &[&str]| {
        let mut command = Command::new(program);
        if rustix::process::geteuid().is_root() {
            command = Command::new("setpriv");
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups", program]);
        }
        command.current_dir(cell.path("")).args(words).output()
    };
    if !run(&["--version"]).is_ok_and(|output| output.status.success()) {
        skip(TestRequirement::Root, format!("another user cannot run {program}, or setpriv is missing"));
        return;
    }
    let output = run(&["check", "d"]).unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(
        text.contains("d/closed.edb: Permission denied") && !text.contains("not in an ESE format"),
        "{text}"
    );
}

#[test]
fn a_directory_without_ese_files_is_an_error() {
    let cell = CellDirectory::new();
    cell.make_dir("others/deeper");
    cell.write("others/a.txt", "text");
    let refused = |words: &[&str]| cell.program_refused(&[&["check"], words].concat());
    let remedy = "specify such files, or directories that contain them at any depth";
    assert_eq!(
        refused(&["others"]),
        format!("the only file is not an ESE database, log, checkpoint or flush map; {remedy}")
    );
    cell.write("others/deeper/b", [7; 9000]);
    let said = refused(&["--structure", "others"]);
    assert!(said.starts_with("none of the 2 files is an ESE database") && said.ends_with(remedy), "{said}");
    let output = check(&cell, &["--json", "others"]);
    assert_eq!(output.status.code(), Some(2));
    // If at least one file was checked, other files are only counted.
    let Some(corpus) = Corpus::locate() else { return };
    cell.write("others/basic.edb", corpus.read("db/4k/basic.edb"));
    let output = check(&cell, &["others"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("2 files are not in an ESE format and not checked"), "{text}");
}

/// A hole of 1 TiB takes about half an hour to read.
#[test]
fn a_hole_after_the_last_page_is_skipped() {
    let cell = CellDirectory::new();
    let path = cell.write("sparse.edb", testkit::samples::read("engine-4k.edb"));
    fs::File::options().write(true).open(path).unwrap().set_len(1 << 40).unwrap();
    let started = std::time::Instant::now();
    let (lines, exit) = json(&cell, &["sparse.edb"]);
    let summary = of_type(&lines, "summary").next().unwrap();
    assert_eq!((exit, &summary["verdict"]), (0, &"sound".into()), "{summary}");
    assert!(summary["pages"]["beyond_owned_zero"].as_u64() > Some(200 << 20), "{summary}");
    assert!(started.elapsed() < std::time::Duration::from_secs(60), "{:?}", started.elapsed());
}

#[test]
fn a_missing_temporary_directory_is_named() {
    let cell = CellDirectory::new();
    cell.write("a.edb.zst", fs::read(testkit::samples::path_of("engine-4k.edb")).unwrap());
    let output = cell.program(&["check", "a.edb.zst"]).env("TMPDIR", "/none/such").output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("/none/such") && stderr.contains("set TMPDIR"), "{stderr}");
}
