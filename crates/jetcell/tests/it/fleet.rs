//! Tests of fleets of three processes with a real NATS server on the loopback interface: one combined result, and the
//! failure of a host, the coordinator, the network or the server.
//!
//! Without `nats-server`, these tests print a message and are skipped.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use testkit::{TestRequirement, skip};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::cell::CellDirectory;

/// Timeout that is longer than any of these fleets needs on a busy machine.
const FLEET_TIMEOUT: Duration = Duration::from_secs(150);

/// Options with wide limits and a small load, because these tests do not judge the storage of the test machine.
const OPTIONS: &str = "
[options]
size = '32MiB'
cache = '16MiB'
threads = 2
rate = 40
[options.records]
tables = 1
[options.thresholds]
average_database_read_ms = 100000
maximum_database_read_ms = 100000
average_log_write_ms = 100000
maximum_log_write_ms = 100000
page_fault_stalls = 1000000
";

fn server_program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path).chain(["/usr/sbin".into()]);
    directories.map(|directory| directory.join("nats-server")).find(|file| file.is_file())
}

/// Returns true if the server is installed.
fn has_server() -> bool {
    let found = server_program().is_some();
    if !found {
        skip(TestRequirement::Nats, "nats-server is not installed (scripts/setup-nats.sh)");
    }
    found
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A process that is killed when the test ends.
struct KilledProcess(Child);

impl Drop for KilledProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl KilledProcess {
    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    fn output(mut self, what: &str) -> Output {
        let began = Instant::now();
        while self.0.try_wait().unwrap().is_none() {
            assert!(began.elapsed() < FLEET_TIMEOUT, "{what} does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
        let read = |from: Option<&mut dyn Read>| {
            let mut bytes = Vec::new();
            from.map(|from| from.read_to_end(&mut bytes));
            bytes
        };
        let stdout = read(self.0.stdout.as_mut().map(|out| out as &mut dyn Read));
        let stderr = read(self.0.stderr.as_mut().map(|err| err as &mut dyn Read));
        Output { status: self.0.wait().unwrap(), stdout, stderr }
    }

    /// Waits for the exit. Returns the exit code and the text on stderr.
    fn end(self, what: &str) -> (Option<i32>, String) {
        let output = self.output(what);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// A fleet of processes in a working directory.
struct FleetProcesses {
    cell: CellDirectory,
    port: u16,
}

impl FleetProcesses {
    fn new(hosts: u32, settings: &str) -> FleetProcesses {
        let cell = CellDirectory::new();
        let mut text = format!("name = 'test'\nhosts = {hosts}\noutput = 'out'\njoin_timeout = '60s'\n");
        let (top, options) = settings.split_once("[options]").unwrap_or((settings, ""));
        text += top;
        text += &OPTIONS.replace("[options]\n", &format!("[options]\n{options}\n"));
        for rank in 0..hosts {
            let dir = cell.make_dir(&format!("host{rank}"));
            text += &format!(
                "[[host]]\noptions = {{ dirs = ['{}/db'], output = '{0}/db/run' }}\n",
                dir.display()
            );
        }
        cell.write("FLEET.toml", text);
        FleetProcesses { cell, port: free_port() }
    }

    fn spawn(&self, words: &[&str]) -> KilledProcess {
        let mut command = self.cell.program(words);
        KilledProcess(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    fn coordinator(&self, more: &[&str]) -> KilledProcess {
        let words = ["fleet", "run", "--config", "FLEET.toml", "--json"];
        self.spawn(&[&words, more].concat())
    }

    fn listening(&self) -> Vec<String> {
        vec!["--listen".into(), format!("127.0.0.1:{}", self.port)]
    }

    fn host_at(&self, rank: u32, port: u16, more: &[&str]) -> KilledProcess {
        let (rank, url) = (rank.to_string(), format!("nats://127.0.0.1:{port}"));
        let directory = format!("host{rank}");
        let words = ["fleet", "join", "--fleet", "test", "--quiet", "--nats", &url, "--rank", &rank];
        self.spawn(&[&words, &["--allow-dir", &directory][..], more].concat())
    }

    fn host(&self, rank: u32) -> KilledProcess {
        self.host_at(rank, self.port, &[])
    }

    fn wait_for(&self, what: &str, reached: impl Fn() -> bool) {
        let began = Instant::now();
        while !reached() {
            assert!(began.elapsed() < FLEET_TIMEOUT, "{what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until the hosts are measuring.
    fn wait_for_window(&self, ranks: &[u32]) {
        for rank in ranks {
            let samples = self.cell.path(&format!("host{rank}/db/run/samples.csv"));
            let lines = || fs::read_to_string(&samples).map_or(0, |text| text.lines().count());
            self.wait_for("the measured time does not begin", || lines() >= 2);
        }
    }

    fn directory(&self) -> PathBuf {
        let entries = fs::read_dir(self.cell.path("out")).unwrap().map(|entry| entry.unwrap().path());
        let mut runs: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
        assert_eq!(runs.len(), 1, "{runs:?}");
        runs.remove(0)
    }
}

fn strings(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Adds the buckets of a stored histogram to `all`.
fn add_buckets(all: &mut BTreeMap<u64, u64>, text: &str) {
    for bucket in text.split_ascii_whitespace() {
        let (us, count) = bucket.split_once(':').unwrap();
        *all.entry(us.parse().unwrap()).or_default() += count.parse::<u64>().unwrap();
    }
}

/// Checks that the histograms and totals of a fleet equal the sums over its hosts.
fn check_sums(fleet: &Value, hosts: &[Value]) {
    for (name, merged) in fleet["histograms"].as_object().unwrap() {
        let (mut found, mut expected) = (BTreeMap::new(), BTreeMap::new());
        add_buckets(&mut found, merged.as_str().unwrap());
        for host in hosts {
            add_buckets(&mut expected, host["histograms"][name].as_str().unwrap_or_default());
        }
        assert!(found == expected && !found.is_empty(), "{name}");
        let table = if fleet["latency"].get(name).is_some() { "latency" } else { "operation_latency" };
        let count = |result: &Value| result[table][name]["count"].as_u64().unwrap_or(0);
        assert_eq!(count(fleet), hosts.iter().map(count).sum::<u64>(), "{name}");
    }
    assert!(fleet["histograms"].get("log_write").is_some());
    let iops: f64 = hosts.iter().map(|host| host["achieved_transactional_iops"].as_f64().unwrap()).sum();
    let found = fleet["totals"]["achieved_transactional_iops"].as_f64().unwrap();
    assert!((found - iops).abs() < 1e-6 * iops.max(1.0), "{found} {iops}");
}

/// Checks a stored result against the schema with an independent validator.
#[track_caller]
fn check_schema(result: &Path) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let environment = std::env::var_os("JETCELL_READERS_VENV");
    let environment = environment.map_or_else(|| root.join("target/readers-venv"), PathBuf::from);
    let python = environment.join("bin/python");
    if !python.exists() {
        return skip(TestRequirement::Readers, "no validator of schemas (scripts/setup-readers.sh)");
    }
    let program = "import json, sys, jsonschema; jsonschema.validate(*(json.load(open(path)) for path in sys.argv[1:]))";
    let schema = root.join("docs/fleet.schema.json");
    let output = Command::new(python).args(["-c", program]).arg(result).arg(schema).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn outcomes(fleet: &Value) -> Vec<&str> {
    fleet["hosts"].as_array().unwrap().iter().map(|host| host["outcome"].as_str().unwrap()).collect()
}

fn start_server(port: u16) -> KilledProcess {
    start_server_with(port, &[])
}

fn start_server_with(port: u16, more: &[&str]) -> KilledProcess {
    let mut command = Command::new(server_program().unwrap());
    command.args(["-a", "127.0.0.1", "-p", &port.to_string()]).args(more);
    let server = KilledProcess(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let began = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(began.elapsed() < FLEET_TIMEOUT, "nats-server does not listen");
        std::thread::sleep(Duration::from_millis(20));
    }
    server
}

/// A proxy that forwards bytes between clients and a server, and can cut the connections.
struct CuttableProxy {
    port: u16,
    cut: Arc<AtomicBool>,
}

impl CuttableProxy {
    fn to(server: u16) -> CuttableProxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (port, cut) = (listener.local_addr().unwrap().port(), Arc::new(AtomicBool::new(false)));
        let is_cut = cut.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else { continue };
                for (from, to) in [(&client, &server), (&server, &client)] {
                    let (from, to, is_cut) =
                        (from.try_clone().unwrap(), to.try_clone().unwrap(), is_cut.clone());
                    std::thread::spawn(move || forward(from, to, &is_cut));
                }
            }
        });
        CuttableProxy { port, cut }
    }
}

/// Forwards bytes. A cut connection discards them, as a network without a route does, and neither side receives an
/// error.
fn forward(mut from: TcpStream, mut to: TcpStream, is_cut: &AtomicBool) {
    let mut buffer = [0; 16 << 10];
    while let Ok(read) = from.read(&mut buffer) {
        if read == 0 {
            break;
        }
        if !is_cut.load(Ordering::SeqCst) && std::io::Write::write_all(&mut to, &buffer[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
}

#[test]
fn three_hosts_give_one_result_despite_a_lost_server() {
    if !has_server() {
        return;
    }
    let fleet = FleetProcesses::new(3, "[options]\nduration = '8s'");
    let server = start_server(fleet.port);
    let url = format!("nats://127.0.0.1:{}", fleet.port);
    let hosts: Vec<KilledProcess> = (0..3).map(|rank| fleet.host(rank)).collect();
    let coordinator = fleet.coordinator(&["--nats", &url]);
    fleet.wait_for_window(&[0, 1, 2]);
    drop(server);
    std::thread::sleep(Duration::from_secs(2));
    let _server = start_server(fleet.port);
    let output = coordinator.output("the coordinator");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{said}");
    for (rank, host) in hosts.into_iter().enumerate() {
        let (code, said) = host.end("a host");
        assert!(matches!(code, Some(0 | 1)), "host {rank}: {said}");
    }
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(outcomes(&printed), ["completed"; 3]);
    let rule = |name: &str| {
        let rules = printed["rules"].as_array().unwrap();
        rules.iter().find(|rule| rule["name"].as_str().unwrap().starts_with(name)).unwrap().clone()
    };
    assert_eq!(rule("Hosts that were lost")["measured"], 0.0);
    assert!(rule("Common time")["measured"].as_f64().unwrap() > 0.0);
    let directory = fleet.directory();
    assert_eq!(json(&directory.join("fleet.json")), printed);
    check_schema(&directory.join("fleet.json"));
    // Results that are stored on the hosts, not those that the hosts sent.
    let own: Vec<Value> =
        (0..3).map(|rank| json(&fleet.cell.path(&format!("host{rank}/db/run/result.json")))).collect();
    check_sums(&printed, &own);
    for row in printed["hosts"].as_array().unwrap() {
        assert!(row["clock"]["round_trip_ms"].as_f64().unwrap() > 0.0 && row["start_skew_ms"].is_number());
        assert!(row["measured_seconds"].as_f64().unwrap() >= 8.0, "the window has its full length");
    }
    let page = fs::read_to_string(directory.join("report.html")).unwrap();
    assert!(page.contains("All hosts over time") && page.contains("<svg"), "{page}");
    // Other commands read the fleet as one run, and each host as a separate run.
    for run in [directory.clone(), directory.join("host-2")] {
        let shown = fleet.cell.program(&["report", run.to_str().unwrap()]).output().unwrap();
        assert!(!shown.stdout.is_empty(), "{}", String::from_utf8_lossy(&shown.stderr));
    }
    let whole = json(&directory.join("result.json"));
    assert_eq!(whole["database_files"], 3);
    assert_eq!(whole["instances"].as_array().unwrap().len(), 3);
    assert!(!fleet.cell.path("out/fleet-state.json").exists());
    assert!((0..3).all(|rank| !fleet.cell.path(&format!("host{rank}/db/jetcell-fleet.json")).exists()));
}

#[test]
fn each_host_measures_alone_before_all_measure_together() {
    if !has_server() {
        return;
    }
    let fleet = FleetProcesses::new(3, "[options]\nduration = '3s'");
    let listening = fleet.listening();
    let coordinator = fleet.coordinator(&[&strings(&listening)[..], &["--alone-first", "2s"]].concat());
    let hosts: Vec<KilledProcess> = (0..3).map(|rank| fleet.host(rank)).collect();
    let output = coordinator.output("the coordinator");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{said}");
    for host in hosts {
        let (code, said) = host.end("a host");
        assert!(matches!(code, Some(0 | 1)), "{said}");
    }
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(outcomes(&printed), ["completed"; 3]);
    let rows = printed["hosts"].as_array().unwrap();
    let time = |value: &Value| chrono::DateTime::parse_from_rfc3339(value.as_str().unwrap()).unwrap();
    let mut before = None;
    for (rank, row) in rows.iter().enumerate() {
        let alone = &row["alone"];
        assert!(alone["measured_seconds"].as_f64().unwrap() >= 2.0, "{alone}");
        assert!(alone["operations_per_second"].as_f64().unwrap() > 0.0, "{alone}");
        // The hosts measure in rank order, and never two at the same time.
        let (started, ended) = (time(&alone["started"]), time(&alone["ended"]));
        assert!(started < ended && before.is_none_or(|before| before <= started), "{rank}: {rows:?}");
        before = Some(ended);
        let own = json(&fleet.cell.path(&format!("host{rank}/db/run/result.json")));
        assert_eq!(own["alone"], *alone);
        assert!(own["phases"].as_array().unwrap().iter().any(|phase| phase["phase"] == "alone"));
    }
    assert!(before.unwrap() <= time(&printed["measured_from"]));
    let directory = fleet.directory();
    check_schema(&directory.join("fleet.json"));
    let page = fs::read_to_string(directory.join("report.html")).unwrap();
    assert!(
        page.contains("Alone and together") && page.contains("the sum of the hosts measured alone"),
        "{page}"
    );
}

#[test]
fn unreachable_hosts_are_named_and_a_killed_coordinator_resumes() {
    if !has_server() {
        return;
    }
    let fleet = FleetProcesses::new(3, "lost_after = '4s'\nlease = '12s'\n[options]\nduration = '7s'");
    let server = start_server(fleet.port);
    let url = format!("nats://127.0.0.1:{}", fleet.port);
    let proxy = CuttableProxy::to(fleet.port);
    let [whole, mut killed] = [fleet.host(0), fleet.host(1)];
    let cut = fleet.host_at(2, proxy.port, &[]);
    let first = fleet.coordinator(&["--nats", &url]);
    fleet.wait_for_window(&[0, 1, 2]);
    killed.0.kill().unwrap();
    proxy.cut.store(true, Ordering::SeqCst);
    drop(first);
    let second = fleet.coordinator(&["--nats", &url]);
    let output = second.output("the second coordinator");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(printed["verdict"], "invalid");
    assert_eq!(outcomes(&printed), ["completed", "lost", "lost"]);
    let reason = printed["reason"].as_str().unwrap();
    assert!(reason.contains("(rank 1) timed out while measuring"), "{reason}");
    check_schema(&fleet.directory().join("fleet.json"));
    check_sums(&printed, &[json(&fleet.cell.path("host0/db/run/result.json"))]);
    let (code, said) = whole.end("the host that is left");
    assert!(matches!(code, Some(0 | 1)), "{said}");
    // The host that was cut off stops when its lease expires. Its result is complete.
    let (code, said) = cut.end("the host that is cut off");
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("the result is stored on this host"), "{said}");
    assert!(fleet.cell.path("host2/db/run/report.html").exists());
    drop(server);
}

#[test]
fn ctrl_c_stops_every_host_and_frozen_hosts_time_out() {
    if !has_server() {
        return;
    }
    let fleet = FleetProcesses::new(3, "lost_after = '4s'\nlease = '10s'\n[options]\nduration = '10m'");
    let listening = fleet.listening();
    let coordinator = fleet.coordinator(&strings(&listening));
    let hosts: Vec<KilledProcess> = (0..3).map(|rank| fleet.host(rank)).collect();
    fleet.wait_for_window(&[0, 1, 2]);
    hosts[1].signal(Signal::STOP);
    coordinator.signal(Signal::INT);
    let output = coordinator.output("the coordinator");
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&printed["verdict"], &printed["reason"]),
        (&"incomplete".into(), &"stopped on request".into())
    );
    assert_eq!(outcomes(&printed), ["completed", "lost", "completed"]);
    hosts[1].signal(Signal::CONT);
    for (rank, host) in hosts.into_iter().enumerate() {
        let (code, said) = host.end("a host");
        assert_eq!(code, Some(1), "host {rank}: {said}");
    }
    // The server has exited.
    assert!(TcpStream::connect(("127.0.0.1", fleet.port)).is_err());
}

/// Starts a coordinator and two hosts. Returns the message with which the coordinator refused the fleet.
fn refused(fleet: &FleetProcesses, hosts: Vec<KilledProcess>) -> String {
    let listening = fleet.listening();
    let (code, said) = fleet.coordinator(&strings(&listening)).end("the coordinator");
    assert_eq!(code, Some(2), "{said}");
    for host in hosts {
        let (code, said) = host.end("a host");
        assert_eq!(code, Some(2), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    assert!(!fleet.cell.path("out").exists(), "nothing was started");
    let is_left =
        |rank| fs::read_dir(fleet.cell.path(&format!("host{rank}/db"))).is_ok_and(|found| found.count() > 0);
    assert!(!is_left(0) && !is_left(1), "a directory has something in it");
    said
}

#[test]
fn invalid_fleet_input_starts_no_run() {
    if !has_server() {
        return;
    }
    let twins = FleetProcesses::new(2, "[options]\nduration = '5s'");
    let said = refused(&twins, vec![twins.host(0), twins.host(0)]);
    assert!(said.contains("two hosts have rank 0"), "{said}");

    let outside = FleetProcesses::new(2, "[options]\nduration = '5s'");
    let other = outside.cell.make_dir("elsewhere");
    let text = fs::read_to_string(outside.cell.path("FLEET.toml")).unwrap();
    let shown = outside.cell.path("host1").display().to_string();
    outside.cell.write("FLEET.toml", text.replace(&shown, &other.display().to_string()));
    let said = refused(&outside, vec![outside.host(0), outside.host(1)]);
    assert!(said.contains("--allow-dir"), "{said}");

    let large = FleetProcesses::new(2, "[options]\nduration = '5s'");
    let hosts = vec![large.host(0), large.host_at(1, large.port, &["--max-size", "1MiB"])];
    let said = refused(&large, hosts);
    assert!(said.contains("--max-size"), "{said}");

    let shared = FleetProcesses::new(2, "[options]\nduration = '5s'");
    let text = fs::read_to_string(shared.cell.path("FLEET.toml")).unwrap();
    let [one, two] = ["host0", "host1"].map(|name| shared.cell.path(name).display().to_string());
    shared.cell.write("FLEET.toml", text.replace(&two, &one));
    let hosts = vec![shared.host(0), shared.host_at(1, shared.port, &["--allow-dir", "host0"])];
    let said = refused(&shared, hosts);
    assert!(said.contains("is also used by the host with rank"), "{said}");
}

#[test]
fn invalid_command_line_words_are_refused() {
    let fleet = FleetProcesses::new(2, "[options]\nduration = '5s'");
    let join = ["fleet", "join", "--fleet", "test", "--allow-dir", "host0"];
    let refused = |words: &[&str]| fleet.cell.program_refused(&[&join, words].concat());
    assert!(refused(&[]).contains("the rank is not set"));
    assert!(refused(&["--rank", "2", "--size", "2"]).contains("is out of range for 2 hosts"));
    assert!(refused(&["--rank", "0", "--nats", "nats://user:secret@127.0.0.1:1"]).contains("--token-file"));
    assert!(refused(&["--rank", "0", "--allow-dir", "nowhere"]).contains("not a directory"));
    let run = |words: &[&str]| fleet.cell.program_refused(&[&["fleet", "run"], words].concat());
    assert!(run(&["--config", "nowhere.toml"]).contains("nowhere.toml: cannot be read"));
    fleet.cell.write("one.toml", "name = 'f'\nhosts = 1\noptions.dirs = ['/d']");
    assert!(run(&["--config", "one.toml"]).contains("a fleet needs at least two hosts"));
    let closed = format!("nats://127.0.0.1:{}", fleet.port);
    let said = run(&["--config", "FLEET.toml", "--nats", &closed]);
    assert!(said.contains("failed to connect") && said.contains("--nats"), "{said}");
    let open = run(&["--config", "FLEET.toml", "--listen", "0.0.0.0:0"]);
    assert!(open.contains("is reachable from other machines"), "{open}");
}

#[test]
fn hosts_are_started_by_ssh() {
    if !has_server() {
        return;
    }
    let fleet = FleetProcesses::new(2, "[options]\nduration = '2s'");
    let secret = fleet.cell.secret("token", "s3cret'{}\n");
    // This script runs the command as a shell on another machine would, and records it.
    let program = Path::new(env!("CARGO_BIN_EXE_jetcell")).parent().unwrap().display().to_string();
    let seen = fleet.cell.path("seen");
    let script = format!(
        "#!/bin/sh\nfor line; do :; done\necho \"$4 $line\" >> {}\nPATH={program}:$PATH\nexec sh -c \"$line\"\n",
        seen.display()
    );
    let ssh = fleet.cell.make_dir("bin").join("ssh");
    fs::write(&ssh, script).unwrap();
    fs::set_permissions(&ssh, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", ssh.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let (listening, token, root) = (fleet.listening(), secret.display().to_string(), fleet.cell.path("."));
    let root = root.display().to_string();
    let mut words = vec!["fleet", "run", "--config", "FLEET.toml", "--json", "--token-file", &token];
    words.extend(strings(&listening));
    words.extend(["--ssh", "db1,db2", "--ssh-allow-dir", &root]);
    let mut command = fleet.cell.program(&words);
    let child = command.env("PATH", path).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let output = KilledProcess(child).output("the coordinator");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{said}");
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(outcomes(&printed), ["completed"; 2], "{said}");
    let seen = fs::read_to_string(seen).unwrap();
    assert!(seen.contains("db1 ") && seen.contains("db2 ") && !seen.contains("s3cret"), "{seen}");
    assert!(!said.contains("s3cret") && !String::from_utf8_lossy(&output.stdout).contains("s3cret"));
    // A client without the token is refused.
    let _server = start_server_with(fleet.port, &["--auth", "other"]);
    let url = format!("nats://127.0.0.1:{}", fleet.port);
    for more in [&[][..], &["--token-file", &token]] {
        let words = [&["fleet", "run", "--config", "FLEET.toml", "--nats", &url], more].concat();
        let stranger = fleet.cell.program_refused(&words);
        assert!(stranger.contains("check --token-file"), "{stranger}");
    }
}
