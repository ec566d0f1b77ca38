//! Tests of `jetcell replicate` and `jetcell copies` on a small store.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use ese_engine::{
    CacheSource, ColumnDefinition, ColumnType, CommitMode, Database, DatabaseOptions, IndexDefinition,
    Instance, InstanceOptions, PageSize, TableDefinition, Value as Field,
};
use ese_format::header::{DatabaseHeader, DatabaseState};
use serde_json::Value;

use crate::cell::CellDirectory;

/// Returns the definition of the table `t`.
pub fn table() -> TableDefinition {
    TableDefinition {
        name: "t".to_string(),
        columns: vec![
            ColumnDefinition::new("Id", ColumnType::Long),
            ColumnDefinition::new("Body", ColumnType::LongBinary),
        ],
        indexes: vec![IndexDefinition::new("ById", &["Id"]).primary()],
        ..TableDefinition::default()
    }
}

/// Opens the instance in a directory. Creates its database if it does not exist.
pub fn store(directory: &Path) -> (Arc<Instance>, Arc<Database>) {
    fs::create_dir_all(directory).unwrap();
    let mut options = InstanceOptions::new(directory).unwrap();
    (options.page_size, options.log.file_size, options.cache) =
        (PageSize::KIB_4, 64 << 10, CacheSource::Own { bytes: 1 << 20 });
    let instance = Instance::open(options).unwrap();
    let path = directory.join("data.edb");
    if path.exists() {
        let database = instance.attach(&path, 64).unwrap();
        return (instance, database);
    }
    let database = instance.create_database(&path, &DatabaseOptions::default()).unwrap();
    let mut session = instance.session();
    session.begin().unwrap();
    session.create_table(&database, &table()).unwrap();
    session.commit(CommitMode::Durable).unwrap();
    (instance, database)
}

/// Inserts rows with these ids, each in a durable transaction.
pub fn insert(instance: &Arc<Instance>, database: &Arc<Database>, ids: std::ops::Range<i32>) {
    let mut session = instance.session();
    let mut table = session.open_table(database, "t").unwrap();
    let [id, body] = ["Id", "Body"].map(|name| table.column(name).unwrap());
    for number in ids {
        session.begin().unwrap();
        let row = [(id, Field::Long(number)), (body, Field::Binary(vec![number as u8; 2000]))];
        table.insert(&mut session, &row).unwrap();
        session.commit(CommitMode::Durable).unwrap();
    }
}

/// Opens the store, inserts rows, closes the generation, and shuts down.
pub fn grow(directory: &Path, ids: std::ops::Range<i32>) {
    let (instance, database) = store(directory);
    insert(&instance, &database, ids);
    instance.core().log().roll_over().unwrap();
    drop(database);
    instance.shutdown().unwrap();
}

/// Runs the command, checks its exit code, and returns its output.
#[track_caller]
pub fn run(cell: &CellDirectory, code: i32, words: &[&str]) -> String {
    let output = cell.program(words).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{words:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
pub fn json(cell: &CellDirectory, code: i32, words: &[&str]) -> Value {
    serde_json::from_str(&run(cell, code, &[words, &["--json"]].concat())).unwrap()
}

pub const ONCE: [&str; 6] = ["replicate", "--from", "app", "--to", "copy", "--once"];

#[test]
fn a_copy_is_seeded_follows_and_reports_lag() {
    let cell = CellDirectory::new();
    grow(&cell.path("app"), 0..100);
    let first = json(&cell, 0, &ONCE);
    assert_eq!((&first["health"], &first["copy_queue"]), (&"healthy".into(), &0.into()), "{first}");
    // The instance runs while its copy follows it.
    let (instance, database) = store(&cell.path("app"));
    insert(&instance, &database, 100..300);
    let second = json(&cell, 0, &[&ONCE[..], &["--keep-instance=false"]].concat());
    let copied = |state: &Value| state["copied_generation"].as_u64().unwrap();
    assert!(copied(&second) > copied(&first) + 5 && second["lag"]["bytes"] == 0, "{second}");
    let all = json(&cell, 0, &["copies", "app"]);
    assert_eq!(all["copies"][0]["state"]["id"], second["id"], "{all}");
    assert_eq!(all["copies"][0]["needs_generation"], copied(&second) + 1, "{all}");
    let text = run(&cell, 0, &["copies", "copy"]);
    assert!(text.contains("copy: healthy") && text.contains("queues: copy 0, replay 0"), "{text}");
    let events = run(&cell, 0, &["events", "copy", "--id", "301"]);
    assert!(events.lines().count() > 5, "{events}");
    drop(database);
    instance.shutdown().unwrap();
    // Another instance cannot be opened on the copy.
    assert!(Instance::open(InstanceOptions::new(cell.path("copy")).unwrap()).is_err());
}

/// A clean database needs no closed log. The copy therefore has no log until the instance closes its first one.
#[test]
fn a_newly_seeded_copy_can_be_backed_up_and_compared() {
    let cell = CellDirectory::new();
    grow(&cell.path("app"), 0..100);
    run(&cell, 0, &ONCE);
    let logs = fs::read_dir(cell.path("copy")).unwrap().filter(|entry| {
        let path = entry.as_ref().unwrap().path();
        path.extension().is_some_and(|ending| ending == "log")
    });
    assert_eq!(logs.count(), 0);
    for words in [["copies", "copy", "--with", "app"], ["copies", "app", "--with", "copy"]] {
        assert_eq!(json(&cell, 0, &words)["relation"], "equal", "{words:?}");
    }
    for (to, kind) in [("full", "--copy"), ("full-2", "--json")] {
        run(&cell, 0, &["backup", "--from", "copy", "--to", to, kind]);
        run(&cell, 0, &["check", "--structure", to]);
        let restored = format!("{to}-restored");
        run(&cell, 0, &["restore", to, "--to", &restored]);
        assert_eq!(rows(&cell.path(&restored)), (0..100).collect::<Vec<i32>>());
    }
    // The chain of backups continues when the copy has logs.
    grow(&cell.path("app"), 100..200);
    run(&cell, 0, &ONCE);
    run(&cell, 0, &["backup", "--from", "copy", "--to", "later", "--incremental", "--base", "full-2"]);
    run(&cell, 0, &["restore", "full-2", "later", "--to", "both"]);
    assert_eq!(rows(&cell.path("both")), (0..200).collect::<Vec<i32>>());
}

#[test]
fn a_new_copy_without_seed_logs_reports_the_missing_log() {
    let cell = CellDirectory::new();
    grow(&cell.path("app"), 0..10);
    run(&cell, 0, &ONCE);
    fs::remove_file(cell.path("copy/incoming/part.log")).unwrap();
    for words in [&["backup", "--from", "copy", "--to", "full"][..], &["copies", "copy", "--with", "app"]] {
        let output = cell.program(words).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(
            said.contains("the copy does not have a log yet") && said.contains("jetcell replicate"),
            "{said}"
        );
    }
}

#[test]
fn a_seed_from_two_directories_is_repeated_by_the_same_command() {
    let cell = CellDirectory::new();
    grow(&cell.path("app"), 0..100);
    fs::create_dir(cell.path("data")).unwrap();
    fs::rename(cell.path("app/data.edb"), cell.path("data/data.edb")).unwrap();
    let words = ["replicate", "--from", "data", "--from", "app", "--to", "copy", "--once"];
    let first = json(&cell, 0, &words);
    let again = json(&cell, 0, &words);
    assert_eq!(again["id"], first["id"]);
    fs::create_dir(cell.path("empty")).unwrap();
    let none = ["replicate", "--from", "data", "--from", "empty", "--to", "copy", "--once"];
    let said = cell.program(&none).output().unwrap();
    assert_eq!(said.status.code(), Some(2));
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.contains("no directory in --from contains the logs"), "{said}");
}

/// A failover may lose the log that records which pages were returned to the file system.
#[test]
fn space_is_not_released_while_copies_follow() {
    let cell = CellDirectory::new();
    grow(&cell.path("app"), 0..100);
    run(&cell, 0, &["maintain", "app", "--tasks", "shrink,trim"]);
    run(&cell, 0, &ONCE);
    for task in ["shrink", "trim"] {
        let output = cell.program(&["maintain", "app", "--tasks", task]).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && said.contains("while copies follow the log"), "{said}");
    }
    // Other tasks can still run.
    run(&cell, 0, &["maintain", "app", "--tasks", "scan,zero,defrag,layout"]);
}

#[test]
fn bad_input_is_refused_and_nothing_changes() {
    let cell = CellDirectory::new();
    grow(&cell.path("app"), 0..20);
    grow(&cell.path("other"), 0..20);
    run(&cell, 0, &ONCE);
    cell.make_dir("letters");
    cell.write("letters/dear.txt", "x");
    cell.make_dir("empty");
    for (words, expected) in [
        (&["replicate", "--from", "app", "--to", "app"][..], "inside"),
        (&["replicate", "--from", "app", "--to", "app/copy"], "inside"),
        (&["replicate", "--from", "nowhere", "--to", "x"], "nowhere"),
        (&["replicate", "--from", "app", "--to", "letters"], "dear.txt"),
        (&["replicate", "--from", "letters", "--to", "x"], "nothing found"),
        (&["replicate", "--from", "app", "--to", "x", "--delay", "soon"], "soon"),
        (&["copies", "letters"], "neither a copy"),
        (&["copies", "nowhere"], "nowhere"),
    ] {
        let text = cell.program_refused(words);
        assert!(text.contains(expected), "{words:?}: {text}");
    }
    // Logs of another history.
    let words = ["replicate", "--from", "other", "--to", "copy", "--once"];
    grow(&cell.path("other"), 20..90);
    let output = cell.program(&words).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && text.lines().count() == 1 && text.contains("-530"), "{text}");
    let state = json(&cell, 1, &["copies", "copy"]);
    assert_eq!((&state["health"], &state["unfit"]["reason"]), (&"unfit".into(), &"diverged".into()));
    // The instance is in use, so its copy cannot be seeded.
    let (instance, database) = store(&cell.path("app"));
    let output = cell.program(&["replicate", "--from", "app", "--to", "third"]).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && text.contains("in use"), "{text}");
    assert!(!cell.path("third").exists());
    drop(database);
    instance.shutdown().unwrap();
}

#[test]
fn a_copy_with_missing_intermediate_logs_needs_a_reseed() {
    let cell = CellDirectory::new();
    grow(&cell.path("app"), 0..20);
    run(&cell, 0, &ONCE);
    grow(&cell.path("app"), 20..120);
    let next = json(&cell, 0, &["copies", "copy"])["copied_generation"].as_u64().unwrap() + 1;
    fs::remove_file(cell.path(&format!("app/E00{next:08X}.log"))).unwrap();
    let output = cell.program(&ONCE).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.code() == Some(2) && text.contains("no longer exists") && text.contains("reseed"),
        "{text}"
    );
    assert_eq!(json(&cell, 1, &["copies", "copy"])["unfit"]["reason"], "logs_gone");
}

#[test]
fn a_switch_over_and_back_loses_nothing() {
    let cell = CellDirectory::new();
    grow(&cell.path("app"), 0..50);
    run(&cell, 0, &ONCE);
    let (instance, database) = store(&cell.path("app"));
    insert(&instance, &database, 50..120);
    let text = cell.program(&["activate", "copy"]).output().unwrap();
    assert!(text.status.code() == Some(2) && String::from_utf8_lossy(&text.stderr).contains("running"));
    drop(database);
    instance.shutdown().unwrap();
    drop(instance);
    let done = json(&cell, 0, &["activate", "copy"]);
    assert_eq!((&done["lost"], &done["stepped_down"]), (&Value::Null, &true.into()), "{done}");
    assert!(Instance::open(InstanceOptions::new(cell.path("app")).unwrap()).is_err());
    grow(&cell.path("copy"), 120..200);
    run(&cell, 0, &["replicate", "--from", "copy", "--to", "app", "--once"]);
    let behind = json(&cell, 0, &["copies", "app", "--with", "copy"]);
    assert_eq!(behind["relation"], "behind", "{behind}");
    run(&cell, 0, &["activate", "app"]);
    assert_eq!(rows(&cell.path("app")).len(), 200);
    run(&cell, 0, &["check", "--structure", "app"]);
}

#[test]
fn after_a_lossy_failover_the_old_active_side_can_rejoin() {
    let cell = CellDirectory::new();
    grow(&cell.path("app"), 0..50);
    run(&cell, 0, &ONCE);
    grow(&cell.path("app"), 50..100);
    run(&cell, 0, &ONCE);
    grow(&cell.path("app"), 100..150);
    // The volume of the instance is temporarily unavailable.
    fs::rename(cell.path("app"), cell.path("away")).unwrap();
    let text = cell.program_refused(&["activate", "copy", "--lossy", "six"]);
    assert!(text.contains("six"), "{text}");
    let output = cell.program(&["activate", "copy"]).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.code() == Some(2) && text.lines().count() == 1 && text.contains("--lossy"),
        "{text}"
    );
    let done = json(&cell, 1, &["activate", "copy", "--lossy", "any"]);
    assert!(done["lost"]["first"].as_u64() > Some(0) && done["lost"]["commits"].is_null(), "{done}");
    assert_eq!(rows(&cell.path("copy")).len(), 100);
    grow(&cell.path("copy"), 1000..1100);
    fs::rename(cell.path("away"), cell.path("app")).unwrap();
    let told = json(&cell, 1, &["copies", "app", "--with", "copy"]);
    assert_eq!(told["relation"], "other_content", "{told}");
    assert!(told["commits_only_here"].as_u64() >= Some(50), "{told}");
    let text = run(&cell, 1, &["copies", "app", "--with", "copy"]);
    assert!(text.contains("jetcell reseed"), "{text}");
    let before = cell.listing();
    let reseed = ["reseed", "--from", "copy", "--to", "app", "--incremental"];
    let planned = json(&cell, 0, &[&reseed[..], &["--dry-run"]].concat());
    assert!(cell.listing() == before, "a plan changes nothing");
    assert!(
        planned["pages"].as_u64() > Some(20) && planned["commits_given_up"].as_u64() >= Some(50),
        "{planned}"
    );
    assert_eq!(json(&cell, 0, &reseed)["pages"], planned["pages"]);
    assert!(fs::read_dir(cell.path("app/diverged")).unwrap().count() > 2);
    run(&cell, 0, &["replicate", "--from", "copy", "--to", "app", "--once"]);
    // A full reseed has the same result.
    run(&cell, 0, &["reseed", "--from", "copy", "--to", "app"]);
    run(&cell, 0, &["replicate", "--from", "copy", "--to", "app", "--once"]);
    run(&cell, 0, &["activate", "app"]);
    assert_eq!(rows(&cell.path("app")).len(), 200);
    run(&cell, 0, &["check", "--structure", "app"]);
}

#[test]
fn a_directory_without_a_copy_is_not_activated_or_reseeded() {
    let cell = CellDirectory::new();
    grow(&cell.path("app"), 0..20);
    grow(&cell.path("other"), 0..20);
    cell.make_dir("empty");
    for (words, expected) in [
        (&["activate", "app"][..], "is not a copy"),
        (&["activate", "nowhere"], "is not a copy"),
        (&["reseed", "--from", "app", "--to", "app"], "inside"),
        (&["reseed", "--from", "app", "--to", "nowhere"], "with jetcell replicate"),
        (&["reseed", "--from", "app", "--to", "other"], "a different log stream"),
        (&["reseed", "--from", "app", "--to", "other", "--incremental"], "a different log stream"),
        (&["reseed", "--from", "app", "--to", "empty", "--incremental"], "no ESE logs"),
        (&["reseed", "--from", "app", "--to", "other", "--dry-run"], "--incremental"),
    ] {
        let text = cell.program_refused(words);
        assert!(text.contains(expected), "{words:?}: {text}");
    }
}

/// Returns the ids of the rows of a store, and checks the body of each row.
pub fn rows(directory: &Path) -> Vec<i32> {
    let (instance, database) = store(directory);
    let mut session = instance.session();
    let mut table = session.open_table(&database, "t").unwrap();
    let [id, body] = ["Id", "Body"].map(|name| table.column(name).unwrap());
    let (mut numbers, mut more) = (Vec::new(), table.first(&mut session).unwrap());
    while more {
        let Field::Long(number) = table.get(&mut session, id).unwrap() else { panic!("no number") };
        assert_eq!(table.get(&mut session, body).unwrap(), Field::Binary(vec![number as u8; 2000]));
        numbers.push(number);
        more = table.next(&mut session).unwrap();
    }
    drop((table, session, database));
    instance.shutdown().unwrap();
    numbers
}

#[test]
fn a_copy_is_backed_up_and_scanned_while_it_follows_a_running_instance() {
    let cell = CellDirectory::new();
    grow(&cell.path("app"), 0..100);
    run(&cell, 0, &ONCE);
    let (instance, database) = store(&cell.path("app"));
    let mut replicate = cell.program(&ONCE[..5]).stderr(std::process::Stdio::null()).spawn().unwrap();
    insert(&instance, &database, 100..200);
    instance.core().log().roll_over().unwrap();
    let replayed = || json(&cell, 0, &["copies", "copy"])["replayed_generation"].as_u64().unwrap();
    let wanted = u64::from(instance.core().log().tail().generation.0) - 1;
    let began = std::time::Instant::now();
    while replayed() < wanted {
        assert!(began.elapsed().as_secs() < 120 && replicate.try_wait().unwrap().is_none());
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    let made = json(&cell, 0, &["backup", "--from", "copy", "--to", "backup"]);
    assert_eq!((&made["kind"], &made["databases"][0]["usable"]), (&"full".into(), &true.into()), "{made}");
    let scanned = json(&cell, 0, &["maintain", "copy"]);
    assert_eq!(
        (&scanned["complete"], &scanned["databases"][0]["bad"]),
        (&true.into(), &0.into()),
        "{scanned}"
    );
    insert(&instance, &database, 200..300);
    instance.core().log().roll_over().unwrap();
    let wanted = u64::from(instance.core().log().tail().generation.0) - 1;
    while replayed() < wanted {
        assert!(began.elapsed().as_secs() < 240 && replicate.try_wait().unwrap().is_none());
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    replicate.kill().unwrap();
    replicate.wait().unwrap();
    drop(database);
    instance.shutdown().unwrap();
    run(&cell, 0, &["restore", "backup", "--to", "restored"]);
    assert_eq!(rows(&cell.path("restored")), (0..200).collect::<Vec<_>>());
    let events = run(&cell, 0, &["events", "copy"]);
    assert!(events.contains("has completed") || events.contains("completed"), "{events}");
    for (words, expected) in [
        (&["maintain", "copy", "--tasks", "scan,zero"][..], "only --tasks scan"),
        (&["maintain", "copy", "app"], "specify only its directory"),
        (&["backup", "--from", "copy", "--to", "x", "--remove-logs"], "omit --remove-logs"),
        (&["backup", "--from", "copy", "--from", "app", "--to", "x"], "specify only its directory"),
    ] {
        let text = cell.program_refused(words);
        assert!(text.contains(expected), "{words:?}: {text}");
    }
}

#[test]
fn the_best_of_several_copies_is_activated_by_policy() {
    let cell = CellDirectory::new();
    grow(&cell.path("app"), 0..20);
    for to in ["one", "two"] {
        run(&cell, 0, &["replicate", "--from", "app", "--to", to, "--once"]);
    }
    grow(&cell.path("app"), 20..100);
    run(&cell, 0, &["replicate", "--from", "app", "--to", "two", "--once"]);
    grow(&cell.path("app"), 100..110);
    run(&cell, 0, &["copies", "two"]);
    fs::rename(cell.path("app"), cell.path("away")).unwrap();
    let words = ["activate", "one", "two", "--policy"];
    let text = cell.program_refused(&["activate", "one", "--policy", "most"]);
    assert!(text.contains("good-availability"), "{text}");
    let refused = cell.program(&[&words[..], &["lossless"]].concat()).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let activated = json(&cell, 1, &[&words[..], &["good-availability"]].concat());
    assert!(activated["path"].as_str().unwrap().ends_with("two"), "{activated}");
    assert_eq!(rows(&cell.path("two")), (0..100).collect::<Vec<_>>());
    // After its logs are damaged, the old side requires a full reseed.
    fs::rename(cell.path("away"), cell.path("app")).unwrap();
    for file in fs::read_dir(cell.path("app")).unwrap().map(|file| file.unwrap().path()) {
        // Damage the closed logs.
        if file.file_name().unwrap().to_string_lossy().starts_with("E000") {
            let mut bytes = fs::read(&file).unwrap();
            bytes[9000..9300].iter_mut().for_each(|byte| *byte ^= 0x5A);
            fs::write(&file, bytes).unwrap();
        }
    }
    let reseed = ["reseed", "--from", "two", "--to", "app", "--incremental"];
    let refused = cell.program(&reseed).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let would = json(&cell, 0, &[&reseed[..], &["--or-full", "--dry-run"]].concat());
    assert_eq!((&would["incremental"], &would["dry_run"]), (&false.into(), &true.into()), "{would}");
    let full = json(&cell, 0, &[&reseed[..], &["--or-full"]].concat());
    assert_eq!(full["incremental"], false, "{full}");
    assert_eq!(json(&cell, 0, &["copies", "app"])["health"], "healthy");
}

/// Another copy is tried only if it may have the logs that the first copy lacks. Every other error ends the command.
#[test]
fn another_copy_is_activated_only_if_it_may_have_more_logs() {
    let cell = CellDirectory::new();
    two_copies(&cell);
    fs::rename(cell.path("app"), cell.path("away")).unwrap();
    let refused = |expected: &str| {
        let text = cell.program_refused(&["activate", "one", "two", "--lossy", "any"]);
        assert!(text.contains(expected), "{text}");
        assert!(cell.path("two/copy.json").exists(), "a copy with fewer logs was activated: {text}");
    };
    let pause = fs::File::create(cell.path("one/copy.pause")).unwrap();
    pause.lock().unwrap();
    refused("backup of the copy is running");
    drop(pause);
    let _ = fs::remove_file(cell.path("one/events.jsonl"));
    fs::create_dir(cell.path("one/events.jsonl")).unwrap();
    refused("events.jsonl");
    fs::remove_dir(cell.path("one/events.jsonl")).unwrap();
    let activated = json(&cell, 1, &["activate", "one", "two", "--lossy", "any"]);
    assert!(activated["path"].as_str().unwrap().ends_with("one"), "{activated}");
}

/// Two copies of an instance. Copy `one` has more logs than copy `two`.
fn two_copies(cell: &CellDirectory) {
    grow(&cell.path("app"), 0..40);
    for to in ["one", "two"] {
        run(cell, 0, &["replicate", "--from", "app", "--to", to, "--once"]);
    }
    grow(&cell.path("app"), 40..80);
    run(cell, 0, &["replicate", "--from", "app", "--to", "one", "--once"]);
}

/// Runs an activation without `--lossy` that skips copy `one` and activates copy `two`.
fn second_is_activated(cell: &CellDirectory, reason: &str) {
    let output = cell.program(&["activate", "one", "two", "--json"]).output().unwrap();
    let note = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && note.starts_with("not activated: "), "{note}");
    assert!(note.contains(reason), "{note}");
    let activated: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(activated["path"].as_str().unwrap().ends_with("two"), "{activated}");
    assert!(activated["lost"].is_null(), "{activated}");
}

#[test]
fn without_loss_a_busy_copy_is_skipped() {
    let cell = CellDirectory::new();
    two_copies(&cell);
    let pause = fs::File::create(cell.path("one/copy.pause")).unwrap();
    pause.lock().unwrap();
    second_is_activated(&cell, "backup of the copy is running");
}

#[test]
fn without_loss_a_copy_with_unwritable_events_is_skipped() {
    let cell = CellDirectory::new();
    two_copies(&cell);
    let _ = fs::remove_file(cell.path("one/events.jsonl"));
    fs::create_dir(cell.path("one/events.jsonl")).unwrap();
    second_is_activated(&cell, "one/events.jsonl: ");
}

#[test]
fn a_copy_with_a_damaged_state_is_skipped() {
    let cell = CellDirectory::new();
    two_copies(&cell);
    cell.write("one/copy.json", "damaged");
    let text = cell.program_refused(&["activate", "one"]);
    assert!(text.contains("; reseed the copy"), "{text}");
    second_is_activated(&cell, "one");
}

/// A copy whose database needs logs that did not arrive is not activated, but the next copy is.
#[test]
fn a_copy_that_lacks_required_logs_is_passed_over() {
    let cell = CellDirectory::new();
    let replicate = || {
        for to in ["one", "two"] {
            run(&cell, 0, &["replicate", "--from", "app", "--to", to, "--once"]);
        }
    };
    grow(&cell.path("app"), 0..40);
    replicate();
    // The instance crashes, so the databases of the copies are dirty.
    let (instance, database) = store(&cell.path("app"));
    insert(&instance, &database, 40..80);
    instance.core().log().roll_over().unwrap();
    replicate();
    drop((instance, database));
    fs::rename(cell.path("app"), cell.path("away")).unwrap();
    let database = cell.path("one/data.edb");
    let mut bytes = fs::read(&database).unwrap();
    let (mut header, _) = DatabaseHeader::read_from_start(&bytes).unwrap();
    assert_eq!(header.state, DatabaseState::DirtyShutdown);
    header.gen_max_required.0 += 5;
    let page = header.encode();
    for copy in [0, page.len()] {
        bytes[copy..copy + page.len()].copy_from_slice(&page);
    }
    fs::write(&database, &bytes).unwrap();
    let output = cell.program(&["activate", "one", "--lossy", "any"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("one/data.edb: recovery needs log generations"), "{text}");
    assert!(
        text.contains(
            "JET_errRequiredLogFilesMissing -543); restore these logs in the directory of the copy"
        ),
        "{text}"
    );
    let activated = json(&cell, 1, &["activate", "one", "two", "--lossy", "any"]);
    assert!(activated["path"].as_str().unwrap().ends_with("two"), "{activated}");
}
