//! Tests of hostile conditions for copies: links, secrets that other users can read, and unreadable registrations.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Child, Stdio};

use testkit::certificates::{make_authority, make_certificate};

use crate::cell::CellDirectory;
use crate::copies::{grow, json, run};

const TOKEN: [&str; 2] = ["--token-file", "token"];

fn site() -> CellDirectory {
    let cell = CellDirectory::new();
    cell.secret("token", "a token of this test\n");
    grow(&cell.path("app"), 0..60);
    cell
}

/// A server without TLS, its port, and the lines that it has printed. Dropping this ends the server.
struct PlainServeProcess(Child, u16, Vec<String>);

impl PlainServeProcess {
    fn start(cell: &CellDirectory) -> PlainServeProcess {
        let words = [&["serve", "app", "--listen", "127.0.0.1:0"], &TOKEN[..]].concat();
        let mut child = cell.program(&words).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = Vec::new();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let port = loop {
            let mut line = String::new();
            assert!(stderr.read_line(&mut line).unwrap() > 0, "{lines:?}");
            let port =
                line.split("tcp://127.0.0.1:").nth(1).and_then(|rest| rest.split('/').next()?.parse().ok());
            lines.push(line);
            if let Some(port) = port {
                break port;
            }
        };
        std::thread::spawn(move || stderr.read_to_end(&mut Vec::new()));
        PlainServeProcess(child, port, lines)
    }

    fn url(&self) -> String {
        format!("tcp://127.0.0.1:{}/app", self.1)
    }
}

impl Drop for PlainServeProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_server_reports_links_and_does_not_follow_them() {
    let cell = site();
    cell.make_dir("outside");
    cell.write("outside/streamed.log", "secret");
    symlink(cell.path("outside"), cell.path("app/incoming")).unwrap();
    cell.write("app/id_ed25519", "secret");
    let server = PlainServeProcess::start(&cell);
    assert!(
        server.2.iter().any(|line| line.contains("incoming is a link, which is not served")),
        "{:?}",
        server.2
    );
    // The copy requests the content of `incoming`, and receives nothing through the link.
    let url = server.url();
    let words = ["replicate", "--from", url.as_str(), "--to", "copy", "--once"];
    run(&cell, 0, &[&words[..], &TOKEN[..]].concat());
    let names: Vec<_> =
        fs::read_dir(cell.path("copy")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(
        names.iter().any(|name| name == "data.edb") && names.iter().all(|name| name != "id_ed25519"),
        "{names:?}"
    );
}

#[test]
fn a_copy_is_not_written_through_a_link() {
    let cell = site();
    cell.make_dir("outside");
    cell.make_dir("copy");
    symlink(cell.path("outside"), cell.path("copy/incoming")).unwrap();
    let said = cell.program_refused(&["replicate", "--from", "app", "--to", "copy", "--once"]);
    assert!(said.contains("copy/incoming: it is a link"), "{said}");
    fs::remove_file(cell.path("copy/incoming")).unwrap();
    run(&cell, 0, &["replicate", "--from", "app", "--to", "copy", "--once"]);
    fs::rename(cell.path("copy/data.edb"), cell.path("outside/data.edb")).unwrap();
    symlink(cell.path("outside/data.edb"), cell.path("copy/data.edb")).unwrap();
    let before = fs::read(cell.path("outside/data.edb")).unwrap();
    grow(&cell.path("app"), 60..90);
    for words in [
        &["replicate", "--from", "app", "--to", "copy", "--once"][..],
        &["reseed", "--from", "app", "--to", "copy"],
        &["reseed", "--from", "app", "--to", "copy", "--incremental", "--or-full"],
        &["activate", "copy"],
    ] {
        let said = cell.program_refused(words);
        assert!(said.contains("copy/data.edb: it is a link"), "{words:?}: {said}");
    }
    assert_eq!(fs::read(cell.path("outside/data.edb")).unwrap(), before);
}

#[test]
fn a_world_readable_secret_is_refused_with_a_fix_command() {
    let cell = site();
    make_authority(&cell.path(""), "ca");
    make_certificate(&cell.path(""), "ca", "server", "DNS:localhost");
    for name in ["token", "server.key"] {
        fs::copy(cell.path(name), cell.path("open")).unwrap();
        fs::set_permissions(cell.path("open"), fs::Permissions::from_mode(0o640)).unwrap();
    }
    let remote = ["--from", "tls://localhost:1/app", "--to", "copy", "--tls-ca", "ca.pem"];
    let serve = ["serve", "app", "--listen", "127.0.0.1:0"];
    let join = [
        "fleet",
        "join",
        "--fleet",
        "f",
        "--rank",
        "0",
        "--size",
        "2",
        "--allow-dir",
        ".",
        "--nats",
        "nats://localhost:1",
    ];
    let client = ["--tls-client-cert", "server.pem", "--tls-client-key", "open"];
    cell.write("fleet.toml", "name = 'f'\nhosts = 2\noutput = 'fleet'\n[options]\ndirs = ['d']\n");
    let fleet = ["fleet", "run", "--config", "fleet.toml", "--new"];
    for words in [
        [&serve[..], &["--token-file", "open"]].concat(),
        [&serve[..], &TOKEN[..], &["--tls-cert", "server.pem", "--tls-key", "open"]].concat(),
        [&["replicate"], &remote[..], &["--token-file", "open"]].concat(),
        [&["replicate"], &remote[..], &TOKEN[..], &client[..]].concat(),
        [&["copies", "tls://localhost:1/app", "--tls-ca", "ca.pem", "--token-file", "open"][..]].concat(),
        [&join[..], &["--token-file", "open"]].concat(),
        [&join[..], &["--nkey-file", "open"]].concat(),
        [&join[..], &["--credentials", "open"]].concat(),
        [&join[..], &client[..]].concat(),
        [&fleet[..], &["--token-file", "open"]].concat(),
        [&fleet[..], &["--tls-cert", "server.pem", "--tls-key", "open"]].concat(),
    ] {
        let said = cell.program_refused(&words);
        assert!(said.contains("run 'chmod 600 open'"), "{words:?}: {said}");
    }
}

#[test]
fn an_unreadable_registration_does_not_hide_other_copies() {
    let cell = site();
    run(&cell, 0, &["replicate", "--from", "app", "--to", "copy", "--once"]);
    cell.write("app/E00-bad.copy", [b'x'; 4096]);
    let all = json(&cell, 1, &["copies", "app"]);
    let copies = all["copies"].as_array().unwrap();
    assert_eq!(copies.len(), 2, "{all}");
    let bad = copies.iter().find(|copy| copy["id"] == "bad").unwrap();
    assert!(bad["waiting"].as_str().unwrap().contains("failed to read"), "{bad}");
    assert!(copies.iter().any(|copy| copy["state"]["health"] == "healthy"), "{all}");
    let table = run(&cell, 1, &["copies", "app"]);
    assert!(table.contains("failed to read") && table.contains("healthy"), "{table}");
}
