//! Tests of `jetcell serve`, and of copies that follow over TLS.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::certificates::{make_authority, make_certificate};

use crate::cell::CellDirectory;
use crate::copies::{grow, insert, run, store};

/// A server, and its address. Dropping this ends the server.
struct TlsServeProcess {
    child: Child,
    port: u16,
}

impl TlsServeProcess {
    /// Serves a directory with a certificate for `localhost`.
    fn start(cell: &CellDirectory, directory: &str, more: &[&str]) -> TlsServeProcess {
        let tls = ["--tls-cert", "server.pem", "--tls-key", "server.key"];
        TlsServeProcess::listen(cell, "0", &[&["serve", directory], &tls[..], more].concat())
    }

    fn listen(cell: &CellDirectory, port: &str, words: &[&str]) -> TlsServeProcess {
        let listen = format!("127.0.0.1:{port}");
        let words = [words, &["--listen", &listen, "--token-file", "token"]].concat();
        let mut child = cell.program(&words).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        let port = line.split("127.0.0.1:").nth(1).and_then(|rest| rest.split('/').next()?.parse().ok());
        let port = port.unwrap_or_else(|| panic!("{line}"));
        std::thread::spawn(move || while stderr.read_line(&mut String::new()).is_ok_and(|len| len > 0) {});
        TlsServeProcess { child, port }
    }

    fn url(&self, name: &str) -> String {
        format!("tls://localhost:{}/{name}", self.port)
    }
}

impl Drop for TlsServeProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const REMOTE: [&str; 4] = ["--tls-ca", "ca.pem", "--token-file", "token"];

/// Creates a cell with certificates, a token and the directory of an instance.
fn site() -> CellDirectory {
    let cell = CellDirectory::new();
    for ca in ["ca", "stranger"] {
        make_authority(&cell.path(""), ca);
    }
    make_certificate(&cell.path(""), "ca", "server", "DNS:localhost");
    cell.secret("token", "a token of this test\n");
    cell.secret("other-token", "another token of this test\n");
    grow(&cell.path("app"), 0..60);
    cell
}

#[track_caller]
fn remote(cell: &CellDirectory, code: i32, words: &[&str]) -> String {
    run(cell, code, &[words, &REMOTE].concat())
}

#[track_caller]
fn remote_json(cell: &CellDirectory, code: i32, words: &[&str]) -> Value {
    serde_json::from_str(&remote(cell, code, &[words, &["--json"]].concat())).unwrap()
}

#[track_caller]
fn wait(what: &str, is: impl Fn() -> bool) {
    let began = Instant::now();
    while !is() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_copy_follows_another_host_and_switches_over_and_back() {
    let cell = site();
    let db1 = TlsServeProcess::start(&cell, "app", &["--allow-handover"]);
    let once = ["replicate", "--from", &db1.url("app"), "--to", "copy", "--once"];
    let state = remote_json(&cell, 0, &once);
    assert_eq!((&state["health"], &state["source"]), (&"healthy".into(), &db1.url("app").into()), "{state}");

    // Follow in block mode while a load runs.
    let (instance, database) = store(&cell.path("app"));
    let follow =
        ["replicate", "--from", &db1.url("app"), "--to", "copy", "--mode", "block", "--rate", "50MB/s"];
    let words = [&follow[..], &REMOTE].concat();
    let mut replicate = cell.program(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    insert(&instance, &database, 60..90);
    instance.core().log().roll_over().unwrap();
    insert(&instance, &database, 90..95);
    let closed = instance.core().log().tail().generation.0 - 1;
    let copies = || remote_json(&cell, 0, &["copies", &db1.url("app")])["copies"].clone();
    wait("the copy does not follow", || copies()[0]["state"]["replayed_generation"] == closed);
    wait("the open log does not come", || copies()[0]["state"]["streamed"]["bytes"].as_u64() > Some(0));
    let host = jetcell_host::host_name();
    assert_eq!(copies()[0]["host"], host.as_str());

    // One table lists several sides. An unreachable side does not hide the others.
    let gone = "tls://localhost:1/app";
    let table = remote(&cell, 2, &["copies", &db1.url("app"), "copy", gone]);
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines.len() == 4 && lines[0].contains("REPLAY QUEUE"), "{table}");
    assert!(
        lines[1].contains(&host) && lines[1].contains("healthy") && lines[2].starts_with("copy "),
        "{table}"
    );
    assert!(lines[3].contains("UNREACHABLE"), "{table}");

    // A running instance does not hand over its role.
    replicate.kill().unwrap();
    replicate.wait().unwrap();
    let refused = cell.program(&[&["activate", "copy"], &REMOTE[..]].concat()).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(2) && said.contains("is running"), "{said}");
    drop(database);
    instance.shutdown().unwrap();
    drop(instance);

    let db2 = TlsServeProcess::start(&cell, "copy", &["--allow-handover"]);
    let activated = remote_json(&cell, 0, &["activate", "copy", "--advertise", &db2.url("copy")]);
    assert_eq!((&activated["lost"], &activated["stepped_down"]), (&Value::Null, &true.into()), "{activated}");
    assert!(!cell.path("app/E00.log").exists(), "no instance can be opened there");
    let old: Value = serde_json::from_str(&fs::read_to_string(cell.path("app/copy.json")).unwrap()).unwrap();
    assert_eq!(old["source"], db2.url("copy"));

    // Replicate in the opposite direction, using the address that the old side has stored.
    let back = ["replicate", "--from", old["source"].as_str().unwrap(), "--to", "app", "--once"];
    grow(&cell.path("copy"), 95..120);
    assert_eq!(remote_json(&cell, 0, &back)["health"], "healthy");
    let compared = remote_json(&cell, 0, &["copies", "app", "--with", &db2.url("copy")]);
    assert!(["equal", "behind"].iter().any(|word| compared["relation"] == *word), "{compared}");
    let reseed = ["reseed", "--from", &db2.url("copy"), "--to", "app", "--incremental"];
    assert_eq!(remote_json(&cell, 0, &reseed)["incremental"], true);
    assert_eq!(
        remote_json(&cell, 0, &["reseed", "--from", &db2.url("copy"), "--to", "app"])["incremental"],
        false
    );
    assert_eq!(remote_json(&cell, 0, &back)["health"], "healthy");
}

#[test]
fn an_error_is_one_line_and_changes_nothing() {
    let cell = site();
    let db1 = TlsServeProcess::start(&cell, "app", &[]);
    let url = db1.url("app");
    let seed = |from: &str, ca: &str, token: &str| {
        let words =
            ["replicate", "--from", from, "--to", "copy", "--once", "--tls-ca", ca, "--token-file", token];
        cell.program_refused(&words)
    };
    let by_address = url.replace("localhost", "127.0.0.1");
    let (unknown, gone) = (db1.url("other"), "tls://localhost:1/app".to_string());
    for (from, ca, token, what) in [
        (&url, "ca.pem", "other-token", "rejected the token"),
        (&url, "stranger.pem", "token", "is not trusted"),
        (&by_address, "ca.pem", "token", "is not valid for the name 127.0.0.1"),
        (&unknown, "ca.pem", "token", "does not have a directory `other`; it has app"),
        (
            &gone,
            "ca.pem",
            "token",
            "the host cannot be reached: Connection refused (os error 111); start jetcell serve on that host",
        ),
        (&url, "token", "token", "does not contain a certificate"),
        (&url, "none.pem", "token", "none.pem"),
        (&url, "ca.pem", "none", "none: "),
        (&url.replace("tls", "tcp"), "ca.pem", "token", "may require TLS"),
        (&"tls://localhost/app".to_string(), "ca.pem", "token", "does not contain a port"),
        (
            &"tls://me:secret@localhost:1/app".to_string(),
            "ca.pem",
            "token",
            "cannot contain a user or a password",
        ),
    ] {
        let said = seed(from, ca, token);
        assert!(said.contains(what), "{what}: {said}");
        assert!(!said.contains("a token of this test"), "{said}");
    }
    let said =
        cell.program_refused(&["replicate", "--from", &url, "--to", "copy", "--once", "--tls-ca", "ca.pem"]);
    assert!(said.contains("--token-file"), "{said}");
    let said = cell.program_refused(&["replicate", "--from", "app", "--to", &url]);
    assert!(said.contains("on the host of the copy"), "{said}");

    // An active side that answers and refuses is not treated as unreachable.
    remote(&cell, 0, &["replicate", "--from", &url, "--to", "copy", "--once"]);
    for lossy in ["1", "any"] {
        let words = [&["activate", "copy", "--lossy", lossy], &REMOTE[..]].concat();
        let output = cell.program(&words).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && said.contains("--allow-handover"), "{said}");
        let words =
            ["activate", "copy", "--lossy", lossy, "--tls-ca", "ca.pem", "--token-file", "other-token"];
        let output = cell.program(&words).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
    }
    assert!(cell.path("app/E00.log").exists() && cell.path("copy/copy.json").exists());

    for (words, what) in [
        (&["serve", "app", "--listen", "0.0.0.0:0", "--token-file", "token"][..], "--tls-cert"),
        (&["serve", "none", "--listen", "127.0.0.1:0", "--token-file", "token"], "none"),
        (&["serve", "app", "x/app=app", "--listen", "127.0.0.1:0", "--token-file", "token"], "x/app=app"),
        (
            &["serve", "app", "app=copy", "--listen", "127.0.0.1:0", "--token-file", "token"],
            "would both be named app",
        ),
        (
            &["serve", "app", "other=app", "--listen", "127.0.0.1:0", "--token-file", "token"],
            "are the same directory",
        ),
        (&["serve", "app", "--listen", "127.0.0.1:0", "--token-file", "names"], "jetcell"),
    ] {
        if what == "jetcell" {
            cell.secret("names", "short");
        }
        let said = cell.program_refused(words);
        assert!(said.contains(what) || what == "jetcell" && said.contains("5 characters"), "{what}: {said}");
    }
}
