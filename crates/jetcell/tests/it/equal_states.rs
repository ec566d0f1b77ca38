//! Tests of runs that start from equal states: `--reset` saves prepared databases and restores them.

use std::fs;
use testkit::{TestRequirement, skip};

use serde_json::Value;

use crate::cell::CellDirectory;
use crate::loop_devices::{LoopDevice, MountPoint, can_create_filesystems, run};
use crate::runs::rows;

/// Returns the names of the phases of a run.
fn phases(result: &Value) -> Vec<&str> {
    result["phases"].as_array().unwrap().iter().map(|phase| phase["phase"].as_str().unwrap()).collect()
}

#[test]
fn runs_start_from_the_saved_state() {
    let cell = CellDirectory::with_limits();
    let databases = ["--dir", "d", "--databases", "2", "--size", "32MiB"];
    let run = |output: &str, more: &[&str]| cell.run(output, 0, &[&databases[..], more].concat());
    let database = |dir: &str| fs::read(cell.path(&format!("{dir}/Jetstress002001.edb"))).unwrap();
    let created = run("out1", &["--reset", "copy"]);
    assert_eq!(phases(&created)[..3], ["create", "keep", "attach"]);
    let kept = database("d/prepared");
    assert!(kept != database("d"), "the load has changed the database");

    for output in ["out2", "out3"] {
        let result = run(output, &["--open", "--reset", "copy"]);
        assert_eq!(phases(&result)[..2], ["put_back", "attach"]);
        assert_eq!(result["initial_database_bytes"], created["initial_database_bytes"]);
        assert_eq!(result["plan"]["reset"], "put_back");
        assert!(database("d/prepared") == kept, "the kept state does not change");
    }

    // A crash while databases were restored.
    let state = cell.path("d/jetcell-prepared.json");
    let text =
        fs::read_to_string(&state).unwrap().replace("\"putting_back\": false", "\"putting_back\": true");
    fs::write(&state, text).unwrap();
    fs::write(cell.path("d/Jetstress001001.edb"), b"half").unwrap();
    let refused =
        cell.refused(&[&databases[..], &["--config", "wide.toml", "--open", "--output", "out4"]].concat());
    assert!(refused.contains("was interrupted; add --reset"), "{refused}");
    run("out5", &["--open", "--reset", "copy"]);
    assert!(fs::read_to_string(&state).unwrap().contains("\"putting_back\": false"));

    let other = ["--config", "wide.toml", "--dir", "d", "--databases", "1", "--open", "--reset", "copy"];
    let refused = cell.refused(&[&other[..], &["--output", "out6"]].concat());
    assert!(refused.contains("the preserved state has 2 databases"), "{refused}");
    // A run that creates new databases removes the saved state.
    run("out7", &["--force"]);
    assert!(!state.exists() && !cell.path("d/prepared/Jetstress001001.edb").exists());
}

/// Runs on a file system that can share blocks between files. Root creates it on a loop device.
#[test]
fn blocks_are_shared_with_the_saved_state() {
    let cell = CellDirectory::with_limits();
    if !can_create_filesystems(&cell) {
        return;
    }
    let Some(device) = LoopDevice::attach(&cell.path("image"), 640 << 20) else { return };
    let kinds = [("xfs", "mkfs.xfs", &["-q", "-m", "reflink=1"][..]), ("btrfs", "mkfs.btrfs", &["-q"][..])];
    let point = cell.make_dir("v");
    let mounted = kinds.into_iter().find_map(|(kind, program, options)| {
        run(program, &[options, &[&device.0]].concat())
            .then(|| MountPoint::mount(kind, &device, point.clone(), "noatime"))
    });
    let Some(_mounted) = mounted else {
        return skip(TestRequirement::Tools, "neither mkfs.xfs nor mkfs.btrfs is installed");
    };
    let free = || rustix::fs::statvfs(&point).map(|stat| stat.f_bavail * stat.f_frsize).unwrap();
    let reset = ["--dir", "v", "--size", "64MiB", "--reset", "snapshot", "--duration", "1s"];
    let changing = fs::read_to_string(cell.path("wide.toml")).unwrap();
    let reading = format!("mix = {{ insert = 0, delete = 0, replace = 0, read = 100 }}\n{changing}");
    // A load that changes the database allocates new blocks for its changes, even while it warms the cache. Loads
    // that only read therefore show how many blocks are shared.
    cell.write("wide.toml", &reading);
    let before = free();
    let created = cell.run("out1", 0, &reset);
    assert_eq!(phases(&created)[..3], ["create", "keep", "attach"]);
    let database = created["initial_database_bytes"].as_u64().unwrap();
    let shared = |when: &str| {
        let used = before - free();
        assert!(used < database * 5 / 4, "{used} bytes for a database of {database} {when}");
    };
    shared("that was kept");
    let kept = fs::read(cell.path("v/prepared/Jetstress001001.edb")).unwrap();
    let rows_of = |file: &str| -> Vec<Vec<String>> {
        [1, 5, 8].map(|table| rows(&cell, file, &format!("Messages {table}"))).into()
    };
    let state = rows_of("v/prepared/Jetstress001001.edb");

    cell.write("wide.toml", &changing);
    cell.run("out2", 0, &[&reset[..], &["--open"]].concat());
    assert!(rows_of("v/Jetstress001001.edb") != state, "the load has changed the database");

    cell.write("wide.toml", &reading);
    let result = cell.run("out3", 0, &[&reset[..], &["--open"]].concat());
    assert_eq!(phases(&result)[..2], ["put_back", "attach"]);
    assert_eq!(result["initial_database_bytes"], created["initial_database_bytes"]);
    shared("that was put back");
    assert!(rows_of("v/Jetstress001001.edb") == state);
    assert!(fs::read(cell.path("v/prepared/Jetstress001001.edb")).unwrap() == kept, "the kept state changed");
}
