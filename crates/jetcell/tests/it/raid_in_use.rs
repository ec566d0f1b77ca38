//! Tests of commands on arrays that `jetcell raid serve` or a test uses. The commands run in that process,
//! concurrently with its load.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::cell::CellDirectory;
use crate::raid_serve::{RaidServeProcess, created, ended, has, tool};

/// Waits until a condition is true.
#[track_caller]
fn wait_for(what: &str, mut is_true: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_true() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Runs a command and checks its exit code. Returns standard output and standard error.
#[track_caller]
fn said(cell: &CellDirectory, code: i32, words: &[&str]) -> (String, String) {
    let output = cell.program(&[&["raid"], words].concat()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let (stdout, stderr) = (text(output.stdout), text(output.stderr));
    assert_eq!(output.status.code(), Some(code), "{words:?}: {stdout}{stderr}");
    (stdout, stderr)
}

#[track_caller]
fn json(cell: &CellDirectory, words: &[&str]) -> Value {
    serde_json::from_str(&said(cell, 0, &[words, &["--json"]].concat()).0).unwrap()
}

fn events(cell: &CellDirectory) -> Vec<Value> {
    let text = std::fs::read_to_string(cell.path("a/events.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn count(cell: &CellDirectory, event: &str) -> usize {
    events(cell).iter().filter(|one| one["event"] == event).count()
}

/// Starts clients that write and verify until they are stopped.
fn clients(cell: &CellDirectory, uri: &str) -> Child {
    let stop = cell.path("stop");
    let script = format!(
        "
import os
number = 0
while not os.path.exists('{}'):
    number += 1
    place = number % 97 * 65536
    data = bytes([number % 251]) * 65536
    h.pwrite(data, place)
    if number % 5 == 0:
        h.flush()
    assert h.pread(65536, place) == data, number
assert number > 0
",
        stop.display()
    );
    Command::new("nbdsh").args(["-u", uri, "-c", &script]).env("PATH", "/usr/bin:/bin").spawn().unwrap()
}

fn stopped(cell: &CellDirectory, mut clients: Child) {
    cell.write("stop", "");
    assert!(clients.wait().unwrap().success(), "a client read something else than it wrote");
}

/// Starts a scrub that would take hours, and waits until it runs. The event proves that it has started. A second
/// scrub as a probe could run in its place.
fn slow_scrub(cell: &CellDirectory) -> Child {
    let earlier = count(cell, "scrub_started");
    let mut scrub = cell.program(&["raid", "scrub", "a", "--rate", "1kB/s", "--json"]);
    let scrub = scrub.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    wait_for("the scrub has begun", || count(cell, "scrub_started") > earlier);
    scrub
}

#[test]
fn a_served_array_handles_member_failure_replacement_and_scrub() {
    if !has(&["nbdsh"]) {
        return;
    }
    let cell = CellDirectory::new();
    created(&cell, "raid-dp", 6);
    let served = RaidServeProcess::start(&cell, &["--listen", "127.0.0.1:0"]);
    let socket = cell.path("a/control.sock");
    wait_for("the socket", || socket.exists());
    assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    let clients = clients(&cell, &served.uri);

    let failed = json(&cell, &["fail", "a", "m1"]);
    assert_eq!((&failed["slot"], &failed["state"]), (&1.into(), &"degraded".into()));
    let replaced = json(&cell, &["replace", "a", "1", "m6", "--size", "24MiB"]);
    assert_eq!((&replaced["complete"], &replaced["state"]), (&true.into(), &"optimal".into()));
    assert!(replaced["bytes"].as_u64().unwrap() > 0, "{replaced}");
    let (text, notes) = said(&cell, 0, &["spare", "a", "m7", "--size", "24MiB"]);
    assert!(text == "a: m7 is a spare\n" && notes.contains("members (") && notes.contains("on one device"));
    assert!(
        said(&cell, 0, &["fail", "a", "2"])
            .0
            .contains("m7 takes its place and is rebuilt while the load runs")
    );
    assert_eq!(json(&cell, &["rebuild", "a"])["state"], "optimal");
    assert_eq!(json(&cell, &["grow", "a", "m8", "--size", "24MiB"])["slots"], 7);
    let scrubbed = json(&cell, &["scrub", "a"]);
    assert_eq!((&scrubbed["complete"], &scrubbed["damaged"]), (&true.into(), &Value::Array(vec![])));
    // The command is refused with the same messages as for an array that is not in use.
    for (words, what) in [
        (&["fail", "a", "9"][..], "9 is neither a member of the array nor a slot number (0 to 6)"),
        (&["replace", "a", "0", "none"], "none does not exist; to create files, add --size"),
        (&["replace", "a", "0", "m3"], "m3 is in use"),
        (&["grow", "a", "n1", "n1", "--size", "24MiB"], "is specified more than once"),
        (&["lun", "list", "a"], "the array has no LUNs"),
        (&["lun", "create", "a", "x", "--size", "1MiB"], "the array has no LUNs"),
    ] {
        let stderr = said(&cell, 2, words).1;
        assert!(stderr.contains(what) && stderr.lines().count() == 1, "{words:?}: {stderr}");
    }
    assert!(!cell.path("n1").exists());

    // One client is killed, and one is interrupted.
    let mut killed = slow_scrub(&cell);
    let (stdout, stderr) = said(&cell, 2, &["scrub", "a"]);
    assert!(stderr.contains("is already running"), "{stdout}{stderr}");
    killed.kill().unwrap();
    killed.wait().unwrap();
    let ended_early = |event: &Value| event["event"] == "scrub_ended" && event["complete"] == false;
    wait_for("its event", || events(&cell).iter().any(ended_early));
    let mut interrupted = slow_scrub(&cell);
    kill_process(Pid::from_child(&interrupted), Signal::INT).unwrap();
    assert_eq!(interrupted.wait().unwrap().code(), Some(1));
    let mut answer = String::new();
    interrupted.stdout.take().unwrap().read_to_string(&mut answer).unwrap();
    assert!(answer.contains("\"complete\":false"), "{answer}");

    garbage(&socket);
    stopped(&cell, clients);
    assert_eq!(served.stop(), "");
    assert!(!socket.exists());
    let status: Value = serde_json::from_str(&ended(&cell, &["status", "a", "--json"])).unwrap();
    assert_eq!((&status["state"], &status["slots"][1]["member"]), (&"optimal".into(), &path(&cell, "m6")));
    assert!(ended(&cell, &["scrub", "a", "--json"]).contains("\"damaged\":[]"));
    assert_eq!([count(&cell, "member_failed"), count(&cell, "rebuild_completed")], [2, 2]);
    assert_eq!([count(&cell, "member_replaced"), count(&cell, "spare_added")], [1, 1]);
}

fn path(cell: &CellDirectory, name: &str) -> Value {
    cell.path(name).to_str().unwrap().into()
}

/// Sends data that is not a valid request.
#[track_caller]
fn garbage(socket: &Path) {
    let answer = |sent: &[u8]| {
        let mut stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let _ = stream.write_all(sent);
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
    };
    for wrong in
        [&b"\n"[..], b"\xff\xfe\n", b"{}\n", b"{\"array\":\"a\",\"directory\":\"/\",\"operation\":\"x\"}\n"]
    {
        assert!(answer(wrong).contains("the request is not valid"), "{wrong:?}");
    }
    let deep = [vec![b'['; 100_000], b"\n".to_vec()].concat();
    assert!(answer(&deep).contains("the request is not valid"));
    // A line without an end, and a client that disconnects within a line.
    assert_eq!(answer(&vec![b'x'; 3 << 20]), "");
    drop(UnixStream::connect(socket).unwrap().write_all(b"{\"array\""));
    let crowd: Vec<_> = (0..40).map(|_| UnixStream::connect(socket)).collect();
    drop(crowd);
}

#[test]
fn luns_and_snapshots_are_created_while_other_luns_are_served() {
    if !has(&["nbdsh"]) {
        return;
    }
    let cell = CellDirectory::new();
    created(&cell, "raid6", 5);
    ended(&cell, &["lun", "create", "a", "mail", "--size", "1GiB"]);
    let served = RaidServeProcess::start(&cell, &["--listen", "127.0.0.1:0"]);
    let uri = served.uri_of("mail");
    tool("nbdsh", &["-u", &uri, "-c", "h.pwrite(b'old!' * 4096, 512 << 20)"]);
    wait_for("the socket", || cell.path("a/control.sock").exists());
    let clients = clients(&cell, &uri);
    assert_eq!(json(&cell, &["snapshot", "create", "a", "mail", "s1"])["snapshot"], "s1");
    tool("nbdsh", &["-u", &uri, "-c", "h.pwrite(b'new!' * 4096, 512 << 20)"]);
    assert!(said(&cell, 0, &["snapshot", "list", "a"]).0.starts_with("mail s1 20"));
    said(&cell, 0, &["snapshot", "clone", "a", "mail", "s1", "trial"]);
    let (text, _) = said(&cell, 0, &["lun", "create", "a", "more", "--size", "64MiB"]);
    assert!(text.contains("exports it after its next start"), "{text}");
    let free = json(&cell, &["lun", "list", "a"])["free_bytes"].as_u64().unwrap();
    said(&cell, 0, &["grow", "a", "m5", "--size", "24MiB"]);
    let grown = json(&cell, &["lun", "list", "a"])["free_bytes"].as_u64().unwrap();
    assert!(grown > free + (8 << 20), "{free}, {grown}");
    assert!(said(&cell, 0, &["lun", "clean", "a", "--json"]).0.contains("\"blocks_moved\""));
    for words in [
        &["snapshot", "rollback", "a", "mail", "s1", "--force"][..],
        &["lun", "delete", "a", "mail", "--force"],
    ] {
        let stderr = said(&cell, 2, words).1;
        assert!(stderr.contains("clients or a test are using the LUN mail"), "{stderr}");
    }
    said(&cell, 0, &["snapshot", "delete", "a", "mail", "s1"]);
    said(&cell, 0, &["lun", "delete", "a", "more", "--force"]);
    stopped(&cell, clients);
    served.stop();
    let served = RaidServeProcess::start(&cell, &["--listen", "127.0.0.1:0"]);
    for (lun, word) in [("mail", "new!"), ("trial", "old!")] {
        let script = format!("assert h.pread(16384, 512 << 20) == b'{word}' * 4096");
        tool("nbdsh", &["-u", &served.uri_of(lun), "-c", &script]);
    }
    served.stop();
    assert!(ended(&cell, &["scrub", "a", "--json"]).contains("\"damaged\":[]"));
}

#[test]
fn a_stale_socket_is_replaced_and_a_long_path_works() {
    let cell = CellDirectory::new();
    let long = "d".repeat(120);
    cell.make_dir(&long);
    created(&cell, "raid5", 3);
    let array = format!("{long}/a");
    std::fs::rename(cell.path("a"), cell.path(&array)).unwrap();
    std::os::unix::fs::symlink(&array, cell.path("a")).unwrap();
    let socket = cell.path("a/control.sock");
    let served = RaidServeProcess::start(&cell, &["--listen", "127.0.0.1:0"]);
    wait_for("the socket", || socket.exists());
    assert_eq!(json(&cell, &["scrub", &array])["complete"], true);
    served.kill();
    assert!(socket.exists());
    // No process uses the array, so an existing socket file does not matter.
    assert_eq!(json(&cell, &["scrub", "a"])["complete"], true);
    let served = RaidServeProcess::start(&cell, &["--listen", "127.0.0.1:0"]);
    wait_for("an answer", || cell.program(&["raid", "scrub", "a"]).output().unwrap().status.success());
    served.stop();
    assert!(!socket.exists());

    cell.write("a/control.sock", "something else");
    let served = RaidServeProcess::start(&cell, &["--listen", "127.0.0.1:0"]);
    let stderr = said(&cell, 2, &["scrub", "a"]).1;
    assert!(stderr.contains("a: another process is using the array (its member "), "{stderr}");
    let notes = served.stop();
    assert!(notes.contains("other commands cannot change the array while it is in use"), "{notes}");
    assert_eq!(std::fs::read_to_string(&socket).unwrap(), "something else");
}

#[test]
fn an_array_under_test_handles_member_failure_replacement_and_scrub() {
    let cell = CellDirectory::with_limits();
    let members: Vec<String> = (0..6).map(|member| format!("m{member}")).collect();
    let members: Vec<&str> = members.iter().map(String::as_str).collect();
    ended(
        &cell,
        &[&["create", "a", "--level", "raid-dp", "--size", "48MiB", "--members"], &members[..]].concat(),
    );
    ended(&cell, &["lun", "create", "a", "mail", "--size", "128MiB"]);
    let words = [
        "--config",
        "wide.toml",
        "--dir",
        "array:a/mail",
        "--size",
        "32MiB",
        "--duration",
        "10m",
        "--rate",
        "100",
        "--quiet",
    ];
    let mut test =
        cell.command(&[&words[..], &["--output", "out"]].concat()).stdout(Stdio::null()).spawn().unwrap();
    wait_for("the measured time", || {
        let text = std::fs::read_to_string(cell.path("out/events.jsonl")).unwrap_or_default();
        assert!(test.try_wait().unwrap().is_none(), "{text}");
        text.contains("\"measure\"")
    });
    assert_eq!(json(&cell, &["fail", "a", "m1"])["state"], "degraded");
    assert_eq!(json(&cell, &["replace", "a", "1", "m6", "--size", "48MiB"])["state"], "optimal");
    assert_eq!(json(&cell, &["scrub", "a"])["damaged"], Value::Array(vec![]));
    ended(&cell, &["snapshot", "create", "a", "mail", "during"]);
    let stderr = said(&cell, 2, &["lun", "delete", "a", "mail", "--force"]).1;
    assert!(stderr.contains("clients or a test are using the LUN mail"), "{stderr}");
    kill_process(Pid::from_child(&test), Signal::INT).unwrap();
    let code = test.wait().unwrap().code();
    assert!(matches!(code, Some(0 | 1)), "{code:?}");
    let names: Vec<Value> = events(&cell).into_iter().map(|event| event["event"].clone()).collect();
    for name in ["member_failed", "member_replaced", "rebuild_completed", "scrub_ended", "test_ended"] {
        assert!(names.contains(&name.into()), "{name}: {names:?}");
    }
    assert!(ended(&cell, &["scrub", "a", "--json"]).contains("\"damaged\":[]"));
}
