//! Tests of `jetcell replicate` under load: its scan, its metrics, and repairs that sessions wait for.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ese_engine::{
    CacheSource, Database, Event, EventKind, EventSink, Instance, InstanceOptions, PageSize, Result,
    Value as Field,
};
use ese_format::page::Page;
use serde_json::Value;

use crate::cell::CellDirectory;
use crate::copies::{grow, insert, json, run, store};
use crate::watching::{check_open_metrics, fetch, value};

/// A process that follows an instance, and the address of its metrics. Dropping this ends the process.
struct ReplicateProcess {
    child: Child,
    metrics: String,
}

impl ReplicateProcess {
    fn start(cell: &CellDirectory, more: &[&str]) -> ReplicateProcess {
        let words = [&["replicate", "--from", "app", "--to", "copy", "--metrics", "0"], more].concat();
        let mut child = cell.program(&words).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        stderr.read_line(&mut line).unwrap();
        let address =
            line.trim().strip_prefix("Metrics: http://").and_then(|url| url.strip_suffix("/metrics"));
        let metrics = address.unwrap_or_else(|| panic!("{line}")).to_string();
        // Drain the pipe, because a full pipe would block the process.
        std::thread::spawn(move || while stderr.read_line(&mut String::new()).is_ok_and(|len| len > 0) {});
        ReplicateProcess { child, metrics }
    }

    /// Returns a metric of the copy, or `None` if the copy is not open yet.
    fn metric(&self, name: &str) -> Option<f64> {
        value(&fetch(&self.metrics)?, &format!("jetcell_copy_{name}{{copy=\"copy\"}}"))
    }
}

impl Drop for ReplicateProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until a condition is true. The timeout is long enough for a busy machine.
#[track_caller]
fn wait(what: &str, is: impl Fn() -> bool) {
    let began = Instant::now();
    while !is() {
        assert!(began.elapsed() < Duration::from_secs(120), "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn queues_and_lag_are_metrics_and_replay_runs_during_scans() {
    let cell = CellDirectory::new();
    grow(&cell.path("app"), 0..100);
    run(&cell, 0, &["replicate", "--from", "app", "--to", "copy", "--once"]);
    let (instance, database) = store(&cell.path("app"));
    let replicate = ReplicateProcess::start(&cell, &["--mode", "block", "--scan", "--scan-pause", "1ms"]);
    insert(&instance, &database, 100..250);
    instance.core().log().roll_over().unwrap();
    insert(&instance, &database, 250..255);
    let closed = f64::from(instance.core().log().tail().generation.0 - 1);
    wait("the copy does not follow", || replicate.metric("replayed_generation") == Some(closed));
    wait("the copy is not in block mode", || replicate.metric("block_mode") == Some(1.0));
    let text = fetch(&replicate.metrics).unwrap();
    check_open_metrics(&text);
    for name in ["queue_generations", "replay_queue_generations", "lag_generations", "lag_bytes", "waiting"] {
        assert_eq!(replicate.metric(name), Some(0.0), "{name}: {text}");
    }
    assert_eq!(replicate.metric("copied_generation"), Some(closed));
    // The scan covers only the copy, and does not start again immediately.
    let scan = || json(&cell, 0, &["copies", "copy"])["scan"].clone();
    wait("the scan does not end", || scan()[0]["passes"] == 1);
    assert_eq!((&scan()[0]["bad"], &scan()[0]["next_page"]), (&0.into(), &Value::Null));
    let shown = run(&cell, 0, &["copies", "copy"]);
    assert!(shown.contains("  scan: data.edb;") && shown.contains("0 bad"), "{shown}");
    let events = run(&cell, 0, &["events", "copy"]);
    assert!(events.contains("is in block mode") && events.contains("has completed a pass"), "{events}");
    drop(replicate);
    drop(database);
    instance.shutdown().unwrap();
    // With --once, a pass starts immediately, and its result is part of the state.
    let once = ["replicate", "--from", "app", "--to", "copy", "--once", "--scan", "--scan-pause", "0ms"];
    let state = json(&cell, 0, &once);
    assert!(state["scan"][0]["passes"].as_u64() >= Some(2) && state["health"] == "healthy", "{state}");
}

#[derive(Default)]
struct EventKindRecorder(Mutex<Vec<EventKind>>);

impl EventSink for EventKindRecorder {
    fn event(&self, event: &Event) {
        self.0.lock().unwrap().push(event.kind.clone());
    }
}

/// Damages leaves of the database at different positions. Returns the number of damaged leaves.
fn damage_leaves(path: &Path) -> usize {
    let (content, size) = (fs::read(path).unwrap(), PageSize::KIB_4);
    let file = File::options().write(true).open(path).unwrap();
    let is_full_leaf = |at: usize| {
        let bytes = &content[at * size.bytes()..][..size.bytes()];
        Page::new(bytes, size).is_leaf() && bytes.iter().filter(|byte| **byte != 0).count() > 1000
    };
    let leaves: Vec<usize> = (80..content.len() / size.bytes()).filter(|at| is_full_leaf(*at)).collect();
    let damaged: Vec<usize> = leaves.iter().copied().step_by(leaves.len() / 3).collect();
    for at in &damaged {
        file.write_all_at(&[0x5A; 700], (at * size.bytes() + 900) as u64).unwrap();
    }
    file.sync_all().unwrap();
    damaged.len()
}

/// Opens the store with a time limit for repairs.
fn open(directory: &Path, wait: Duration, heard: &Arc<EventKindRecorder>) -> (Arc<Instance>, Arc<Database>) {
    let mut options = InstanceOptions::new(directory).unwrap();
    (options.page_size, options.cache, options.copies.page_repair_wait) =
        (PageSize::KIB_4, CacheSource::Own { bytes: 1 << 20 }, wait);
    options.events.sink = Some(heard.clone());
    let instance = Instance::open(options).unwrap();
    let database = instance.attach(&directory.join("data.edb"), 64).unwrap();
    (instance, database)
}

/// Reads all rows, and returns their ids.
fn read(instance: &Arc<Instance>, database: &Arc<Database>) -> Result<Vec<i32>> {
    let mut session = instance.session();
    let mut table = session.open_table(database, "t")?;
    let [id, body] = ["Id", "Body"].map(|name| table.column(name).unwrap());
    let (mut numbers, mut more) = (Vec::new(), table.first(&mut session)?);
    while more {
        let Field::Long(number) = table.get(&mut session, id)? else { panic!("no number") };
        let Field::Binary(found) = table.get(&mut session, body)? else { panic!("no body") };
        assert!(found.len() == 2000 && found.iter().all(|byte| *byte == number as u8));
        numbers.push(number);
        more = table.next(&mut session)?;
    }
    Ok(numbers)
}

#[test]
fn sessions_wait_until_copies_have_repaired_damaged_pages() {
    let cell = CellDirectory::new();
    let app = cell.path("app");
    grow(&app, 0..600);
    run(&cell, 0, &["replicate", "--from", "app", "--to", "copy", "--once"]);
    let damaged = damage_leaves(&app.join("data.edb"));
    assert!(damaged >= 3);
    let heard = Arc::new(EventKindRecorder::default());
    // As in ESE, sessions do not wait. The pages are not repaired, because no copy is running.
    let (instance, database) = open(&app, Duration::ZERO, &heard);
    assert_eq!(read(&instance, &database).unwrap_err().jet_code(), -1018);
    drop(database);
    instance.shutdown().unwrap();
    drop(instance);
    let (instance, database) = open(&app, Duration::from_secs(120), &heard);
    let replicate = ReplicateProcess::start(&cell, &[]);
    wait("the copy does not follow", || replicate.metric("queue_generations").is_some());
    instance.exchange_pages().unwrap();
    let over = AtomicBool::new(false);
    let inserted = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..3).map(|_| scope.spawn(|| read(&instance, &database))).collect();
        let writer = scope.spawn(|| {
            let mut next = 600;
            while !over.load(Relaxed) {
                insert(&instance, &database, next..next + 1);
                next += 1;
                std::thread::sleep(Duration::from_millis(10));
            }
            next
        });
        for reader in readers {
            let numbers = reader.join().unwrap().expect("a session gets no error");
            assert_eq!(numbers[..600], (0..600).collect::<Vec<_>>());
        }
        over.store(true, Relaxed);
        writer.join().unwrap()
    });
    let repaired = |kind: &EventKind| matches!(kind, EventKind::PageRepaired { on_copy: false, .. });
    assert_eq!(heard.0.lock().unwrap().iter().filter(|kind| repaired(kind)).count(), damaged);
    assert_eq!(read(&instance, &database).unwrap(), (0..inserted).collect::<Vec<_>>());
    drop((replicate, database));
    instance.shutdown().unwrap();
    drop(instance);
    run(&cell, 0, &["check", "--structure", "app"]);
}
