//! Tests of `jetcell raid lun` and `jetcell raid snapshot`, with LUNs that NBD clients write to.

use serde_json::Value;

use crate::cell::CellDirectory;
use crate::raid_serve::{RaidServeProcess, created, ended, has, tool};

fn luns(cell: &CellDirectory) -> Value {
    serde_json::from_str(&ended(cell, &["lun", "list", "a", "--json"])).unwrap()
}

/// Serves a LUN while the nbdsh statements of `script` run on it.
#[track_caller]
fn shell(cell: &CellDirectory, lun: &str, script: &str) {
    let served = RaidServeProcess::start(cell, &["--listen", "127.0.0.1:0"]);
    tool("nbdsh", &["-u", &served.uri_of(lun), "-c", script]);
    served.stop();
}

#[test]
fn luns_are_served_snapshotted_reverted_and_cloned() {
    if !has(&["nbdsh"]) {
        return;
    }
    let cell = CellDirectory::new();
    created(&cell, "raid-dp", 6);
    assert!(ended(&cell, &["lun", "create", "a", "mail", "--size", "1TiB"]).contains("LUN mail"));
    ended(&cell, &["lun", "create", "a", "logs", "--size", "64MiB"]);
    shell(
        &cell,
        "mail",
        "
assert h.can_trim() and h.can_fast_zero() and h.get_size() == 1 << 40
h.pwrite(b'mail' * 65536, (1 << 40) - 262144, nbd.CMD_FLAG_FUA)
h.pwrite(b'x' * 1000, 77)
h.zero(4096, 0)
h.trim(1 << 30, 1 << 20)
assert h.pread(4096, 0) == bytes(4096)
",
    );
    let before = luns(&cell);
    assert!(before["luns"][0]["used_bytes"].as_u64().unwrap() >= 262_144);
    ended(&cell, &["snapshot", "create", "a", "mail", "s1"]);
    assert_eq!(luns(&cell)["free_bytes"], before["free_bytes"], "a snapshot costs nothing");
    shell(&cell, "mail", "h.pwrite(b'new!' * 1024, (1 << 40) - 4096)\nh.flush()");
    ended(&cell, &["snapshot", "clone", "a", "mail", "s1", "trial"]);
    shell(&cell, "trial", "assert h.pread(4, (1 << 40) - 4) == b'mail'");
    shell(&cell, "mail", "assert h.pread(4, (1 << 40) - 4) == b'new!'");
    let refused = cell.program_refused(&["raid", "snapshot", "rollback", "a", "mail", "s1"]);
    assert!(refused.contains("add --force"), "{refused}");
    ended(&cell, &["snapshot", "rollback", "a", "mail", "s1", "--force"]);
    shell(&cell, "mail", "assert h.pread(4, (1 << 40) - 4) == b'mail'");
    assert!(ended(&cell, &["snapshot", "list", "a"]).starts_with("mail s1 20"));
    ended(&cell, &["snapshot", "delete", "a", "mail", "s1"]);
    ended(&cell, &["lun", "delete", "a", "trial", "--force"]);
    assert!(ended(&cell, &["lun", "clean", "a", "--json"]).contains("\"blocks_moved\""));
    let names: Vec<Value> =
        luns(&cell)["luns"].as_array().unwrap().iter().map(|lun| lun["name"].clone()).collect();
    assert_eq!(names, ["mail", "logs"]);
    assert!(ended(&cell, &["scrub", "a"]).contains("rows verified"));
}

#[test]
fn flushed_lun_writes_survive_a_kill_and_need_the_log() {
    if !has(&["nbdsh"]) {
        return;
    }
    let cell = CellDirectory::new();
    created(&cell, "raid6", 5);
    ended(&cell, &["lun", "create", "a", "l", "--size", "1GiB", "--log", "fast.log", "--log-size", "8MiB"]);
    let served = RaidServeProcess::start(&cell, &["--listen", "127.0.0.1:0"]);
    let script = "h.pwrite(b'kept' * 1024, 8192)\nh.pwrite(b'also' * 1024, 1 << 20, nbd.CMD_FLAG_FUA)";
    tool("nbdsh", &["-u", &served.uri, "-c", script]);
    served.kill();
    std::fs::rename(cell.path("fast.log"), cell.path("away")).unwrap();
    let refused = cell.program(&["raid", "serve", "a", "--listen", "127.0.0.1:0"]).output().unwrap();
    let stderr = String::from_utf8(refused.stderr).unwrap();
    assert!(refused.status.code() == Some(2) && stderr.contains("the write log is missing"), "{stderr}");
    std::fs::rename(cell.path("away"), cell.path("fast.log")).unwrap();
    shell(&cell, "l", "assert h.pread(4096, 8192) == b'kept' * 1024\nassert h.pread(4, 1 << 20) == b'also'");

    let served = RaidServeProcess::start(&cell, &["--listen", "127.0.0.1:0"]);
    tool("nbdsh", &["-u", &served.uri, "-c", "h.pwrite(b'lost' * 1024, 8192, nbd.CMD_FLAG_FUA)"]);
    served.kill();
    std::fs::remove_file(cell.path("fast.log")).unwrap();
    let served = RaidServeProcess::start(&cell, &["--listen", "127.0.0.1:0", "--forget-log"]);
    tool("nbdsh", &["-u", &served.uri, "-c", "assert h.pread(4096, 8192) == b'kept' * 1024"]);
    served.stop();
}

#[test]
fn a_path_that_is_not_a_lun_volume_is_refused() {
    let cell = CellDirectory::new();
    created(&cell, "raid5", 3);
    let refused = |words: &[&str]| {
        let output = cell.program(&[&["raid"], words].concat()).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && stderr.lines().count() == 1, "{words:?}: {stderr}");
        stderr
    };
    assert!(refused(&["lun", "list", "a"]).contains("create a LUN with jetcell raid lun create"));
    assert!(refused(&["lun", "create", "a", "x", "--size", "1000"]).contains("multiple of 4096"));
    assert!(refused(&["lun", "create", "a", "x y", "--size", "1MiB"]).contains("letters, digits"));
    ended(&cell, &["lun", "create", "a", "x", "--size", "1MiB"]);
    ended(&cell, &["lun", "delete", "a", "x", "--force"]);
    assert!(refused(&["serve", "a"]).contains("the array has no LUN"));
    ended(&cell, &["lun", "create", "a", "x", "--size", "1MiB"]);
    assert!(refused(&["lun", "create", "a", "x", "--size", "1MiB"]).contains("already"));
    assert!(refused(&["lun", "create", "a", "y", "--size", "1MiB", "--log", "other"]).contains("omit --log"));
    assert!(refused(&["snapshot", "create", "a", "y", "s"]).contains("does not have a LUN y"));
    assert!(
        refused(&["snapshot", "rollback", "a", "x", "s", "--force"])
            .contains("does not have a snapshot named s")
    );
    assert!(refused(&["lun", "delete", "a", "x"]).contains("add --force"));
}
