//! Tests of one process with many databases: neither the number of its threads nor its memory limit grows with the
//! databases.

use std::fs;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::cell::CellDirectory;
use crate::runs::wait_until;

/// Maximum number of threads of the process: four for the load, eight for all databases, and those of the I/O backend
/// and of views.
const THREADS: usize = 40;

#[test]
fn many_databases_need_no_extra_threads_and_bounded_memory() {
    let cell = CellDirectory::with_limits();
    let (most, at_work) = (AtomicUsize::new(0), AtomicBool::new(false));
    let arguments =
        ["--dir", "d", "--databases", "24", "--size", "32MiB", "--cache", "96MiB", "--threads", "4"];
    let mut command = cell.command(&[&arguments[..], &["--output", "out", "--quiet"]].concat());
    // By default, the allocator returns freed memory after a second, and the verification begins earlier than that. The
    // peak would then contain the freed cache as well. The value is in milliseconds; 0 would make the test slow.
    command.env("MIMALLOC_PURGE_DELAY", "10").stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let tasks = format!("/proc/{}/task", child.id());
    wait_until("the end of the run", || {
        let tasks = fs::read_dir(&tasks).into_iter().flatten().flatten();
        let names: Vec<String> =
            tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok()).collect();
        // Before it starts its first worker, the process briefly tests how many threads it can start.
        at_work.fetch_or(names.iter().any(|name| name.starts_with("jetcell-work-")), Ordering::Relaxed);
        // The kernel adds worker threads to a process that uses io_uring. Their number depends on the speed of the
        // disk.
        let own = names.iter().filter(|name| !name.starts_with("iou-")).count();
        let own = if at_work.load(Ordering::Relaxed) { own } else { 0 };
        most.fetch_max(own, Ordering::Relaxed);
        cell.path("out/report.html").exists()
    });
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let most = most.into_inner();
    assert!((8..=THREADS).contains(&most), "{most} threads");
    let result = cell.result("out");
    let (cache, peak) = (&result["plan"]["cache_bytes"], &result["peak_resident_bytes"]);
    let (cache, peak) = (cache.as_u64().unwrap(), peak.as_u64().unwrap());
    assert_eq!(cache, 96 << 20);
    assert!(peak <= cache / 4 * 5 + (64 << 20), "{} MiB", peak >> 20);

    let instances = result["instances"].as_array().unwrap();
    assert_eq!(instances.len(), 24);
    let reads: f64 = instances.iter().map(|row| row["I/O Database Reads/sec"].as_f64().unwrap()).sum();
    let verified = result["verification"]["files"].as_array().unwrap();
    let names: Vec<&str> = verified.iter().map(|file| file["path"].as_str().unwrap()).collect();
    assert_eq!(names.len(), 48, "each database with its logs, in order");
    assert!(names.iter().step_by(2).is_sorted() && names[46].ends_with("Jetstress024001.edb"));
    assert!(verified.iter().all(|file| file["bad"] == 0));
    let tables = fs::read_to_string(cell.path("out/report.html")).unwrap();
    assert!(reads > 0.0 && tables.contains("Total"));
}

#[test]
fn memory_stays_bounded_with_many_threads() {
    let cell = CellDirectory::with_limits();
    let arguments =
        ["--dir", "d", "--size", "96MiB", "--cache", "64MiB", "--threads", "64", "--duration", "4s"];
    let output = cell.jetcell(&[&arguments[..], &["--output", "out", "--quiet"]].concat());
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", String::from_utf8_lossy(&output.stderr));
    let peak = cell.result("out")["peak_resident_bytes"].as_u64().unwrap() >> 20;
    // The heap of each thread grows to about 2.5 MiB, and then stays at this size.
    assert!((64..=64 * 5 / 4 + 64 + 3 * (64 - 8)).contains(&peak), "{peak} MiB");
}

#[test]
fn a_cache_too_small_for_the_databases_is_refused() {
    let many = ["--dir", "d", "--databases", "24", "--size", "32MiB"];
    let refused = CellDirectory::new().refused(&[&many[..], &["--cache", "23MiB"]].concat());
    let what = "--cache 23MiB is too small for 24 databases and 4 threads; use at least 26MiB, or fewer databases or threads";
    assert_eq!(refused, what);
}
