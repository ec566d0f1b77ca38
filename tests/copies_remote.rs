//! Runs copies between real processes over TLS. The active side, its server, the copy, and the connection fail at
//! random moments, and copies take over.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use jetcell_copies::{CopyPhase, CopyState, LostHistory, streamed_progress};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use system_tests::durable_promises::{DurablePromises, history};
use system_tests::killed::{DurableReports, KillChild, create_if_new, disk, open};
use system_tests::tls_files::TlsFiles;
use system_tests::tls_proxy::TlsProxy;

/// Default number of takeovers. Every second takeover is without loss. `JETCELL_REMOTE_ROUNDS` overrides this number.
const ROUNDS: usize = 4;
/// Number of faults while a copy follows.
const FAULTS_PER_RUN: usize = 4;
/// Number of faulty attempts at a change of roles before it may complete.
const MAX_TRIES: usize = 3;

/// A child process that is killed when this value is dropped.
struct ChildGuard(Child);

impl Drop for ChildGuard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A directory, the server that exports it to the other side, and the proxy in front of the server.
struct RemoteSide {
    directory: PathBuf,
    proxy: TlsProxy,
    server: Option<ChildGuard>,
}

/// Two sides that change roles.
struct RemotePair {
    rng: ChaCha8Rng,
    files: PathBuf,
    active: RemoteSide,
    copy: RemoteSide,
    promises: DurablePromises,
    context: String,
    kills: u32,
    stops: u32,
    cuts: u32,
}

#[test]
fn copies_take_over_from_another_process_over_tls() {
    let base = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let files = base.path().join("tls");
    std::fs::create_dir(&files).unwrap();
    TlsFiles::create(&files);
    let mut pair = RemotePair::new(base.path(), files, 29);
    std::fs::create_dir(&pair.active.directory).unwrap();
    {
        let (instance, database) = open(&pair.active.directory).unwrap();
        create_if_new(&instance, &database).unwrap();
        drop(database);
        instance.shutdown().unwrap();
    }
    pair.serve();
    pair.run_until_done("seed");
    let rounds = std::env::var("JETCELL_REMOTE_ROUNDS").ok().and_then(|text| text.parse().ok());
    let mut lost = 0;
    for round in 0..rounds.unwrap_or(ROUNDS) {
        pair.context = format!("round {round}");
        let reports = pair.work();
        match round % 2 {
            0 => pair.switch_over(&reports),
            _ => lost += pair.fail_over(&reports),
        }
    }
    let cuts = u64::from(pair.cuts) + pair.active.proxy.cuts() + pair.copy.proxy.cuts();
    let total = pair.promises.total();
    println!(
        "{} kills, {} stops, {cuts} cuts, {total} transactions are there, {lost} acknowledged ones were lost",
        pair.kills, pair.stops
    );
    assert!(total > 0 && cuts > 0 && pair.kills > 0 && pair.stops > 0);
}

impl RemoteSide {
    /// Returns the address under which the other side connects.
    fn address(&self) -> String {
        format!("tls://localhost:{}/app", self.proxy.port())
    }

    /// Makes the server and the connection to it unavailable.
    fn disconnect(&mut self) {
        self.proxy.set_target(None);
        self.proxy.cut();
        self.server = None;
    }
}

impl RemotePair {
    /// Creates two sides in a directory; neither has any files yet. `files` contains the certificates.
    fn new(base: &Path, files: PathBuf, seed: u64) -> RemotePair {
        let side =
            |name: &str| RemoteSide { directory: base.join(name), proxy: TlsProxy::start(), server: None };
        RemotePair {
            rng: ChaCha8Rng::seed_from_u64(seed),
            files,
            active: side("one"),
            copy: side("two"),
            promises: DurablePromises::new(),
            context: "seeding".to_string(),
            kills: 0,
            stops: 0,
            cuts: 0,
        }
    }

    fn child(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_copy-child"));
        command.args(words).env("JETCELL_TLS_FILES", &self.files).stderr(Stdio::piped());
        command
    }

    /// Starts or restarts the server of the active side.
    fn serve(&mut self) {
        self.active.disconnect();
        let directory = self.active.directory.to_str().unwrap();
        let mut child =
            self.child(&["serve", directory]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        self.active.server = Some(ChildGuard(child));
        let address =
            line.trim().parse().unwrap_or_else(|_| panic!("{}: the server says {line}", self.context));
        self.active.proxy.set_target(Some(address));
    }

    /// Returns the arguments of a command that works on the copy.
    fn words(&self, name: &str, limit: &str) -> Vec<String> {
        let copy = self.copy.directory.to_str().unwrap().to_string();
        match name {
            "activate" => vec![name.into(), copy, limit.into(), self.copy.address()],
            _ => vec![name.into(), self.active.address(), copy],
        }
    }

    fn run(&self, words: &[String]) -> Command {
        self.child(&words.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Injects a temporary fault.
    fn inject_fault(&mut self) {
        match self.rng.random_range(0..4) {
            0 => {
                self.kills += 1;
                self.serve();
            }
            1 => self.stop_server(),
            2 => {
                self.cuts += 1;
                self.active.proxy.cut();
            }
            // The cut is in the middle of a message.
            _ => self.active.proxy.cut_after(self.rng.random_range(0..300_000)),
        }
    }

    /// Stops the server process for a while, as on an overloaded host.
    fn stop_server(&mut self) {
        let Some(server) = &self.active.server else { return };
        let id = server.0.id().to_string();
        let signal = |name: &str| {
            let sent = Command::new("kill").args([name, &id]).status().unwrap();
            assert!(sent.success(), "{}: {name}", self.context);
        };
        signal("-STOP");
        std::thread::sleep(Duration::from_millis(self.rng.random_range(10..400)));
        signal("-CONT");
        self.stops += 1;
    }

    /// Runs a command with faults, and then without faults, when it must complete. Returns the loss of an activation,
    /// if it is known.
    fn run_until_done(&mut self, name: &str) -> Option<LostHistory> {
        self.run_until_done_with_limit(name, "nothing")
    }

    fn run_until_done_with_limit(&mut self, name: &str, limit: &str) -> Option<LostHistory> {
        let (words, mut known) = (self.words(name, limit), None);
        for _ in 0..MAX_TRIES {
            let mut child =
                ChildGuard(self.run(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
            std::thread::sleep(Duration::from_millis(self.rng.random_range(1..150)));
            if self.active.server.is_some() && self.rng.random_bool(0.7) {
                self.inject_fault();
                std::thread::sleep(Duration::from_millis(self.rng.random_range(1..150)));
            }
            let _ = child.0.kill();
            drop(child);
            self.kills += 1;
            if self.is_done(name) {
                return known;
            }
            if let Some(CopyPhase::Activating { lost, .. }) = self.state().map(|state| state.phase) {
                known = lost;
            }
        }
        // Cancels a cut that is still pending.
        self.active.proxy.cut_after(u64::MAX);
        let output = self.run(&words).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && self.is_done(name), "{}: {words:?}: {said}", self.context);
        reported_loss(&output).or(known)
    }

    fn state(&self) -> Option<CopyState> {
        CopyState::read(&*disk().unwrap(), &self.copy.directory).unwrap()
    }

    fn is_done(&self, name: &str) -> bool {
        match name {
            "activate" => self.state().is_none(),
            _ => self.state().is_some_and(|state| state.phase == CopyPhase::Following),
        }
    }

    /// Runs the load on the active side while the copy follows. The connection fails several times, and finally both
    /// sides are killed.
    fn work(&mut self) -> DurableReports {
        let load = KillChild::start(env!("CARGO_BIN_EXE_kill-child"), &self.active.directory);
        self.serve();
        let words = self.words("replicate", "");
        let messages = self.files.join("replicate.err");
        let start = |pair: &RemotePair| {
            let messages = std::fs::File::create(&messages).unwrap();
            ChildGuard(pair.run(&words).stdout(Stdio::null()).stderr(messages).spawn().unwrap())
        };
        let mut replicate = start(self);
        for _ in 0..FAULTS_PER_RUN {
            std::thread::sleep(Duration::from_millis(self.rng.random_range(50..300)));
            let ended = replicate.0.try_wait().unwrap();
            let said = || std::fs::read_to_string(&messages).unwrap();
            assert!(ended.is_none(), "{}: the replication ended: {ended:?}: {}", self.context, said());
            match self.rng.random_range(0..3) {
                0 => {
                    drop(replicate);
                    self.kills += 1;
                    replicate = start(self);
                }
                _ => self.inject_fault(),
            }
        }
        self.active.proxy.cut_after(u64::MAX);
        self.check_copy_progress();
        let reports = load.kill();
        drop(replicate);
        self.kills += 2;
        reports
    }

    /// Checks that the copy makes progress after the faults.
    fn check_copy_progress(&self) {
        let vfs = disk().unwrap();
        let at = || {
            (
                self.state().map(|state| state.next),
                streamed_progress(&vfs, &self.copy.directory).map(|part| part.1),
            )
        };
        let (first, began) = (at(), Instant::now());
        while at() == first {
            assert!(
                began.elapsed() < Duration::from_secs(60),
                "{}: the copy does not go on: {first:?}",
                self.context
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Switches over while the server of the killed side is available, so nothing may be lost.
    fn switch_over(&mut self, reports: &DurableReports) {
        let lost = self.run_until_done("activate");
        assert!(lost.is_none(), "{}: {lost:?}", self.context);
        assert!(open(&self.active.directory).is_err(), "{}: there are two active sides", self.context);
        let old = CopyState::read(&*disk().unwrap(), &self.active.directory).unwrap();
        assert_eq!(old.map(|state| state.source), Some(self.copy.address()), "{}", self.context);
        self.promises.check_active_side(&self.copy.directory, u32::MAX, reports, &self.context);
        self.change_roles();
    }

    fn change_roles(&mut self) {
        self.active.disconnect();
        std::mem::swap(&mut self.active, &mut self.copy);
        self.serve();
    }

    /// Fails over while the host of the killed side is unreachable; it becomes reachable again later. Returns the
    /// number of acknowledged transactions that were lost.
    fn fail_over(&mut self, reports: &DurableReports) -> i32 {
        self.active.disconnect();
        let refused = self.run(&self.words("activate", "nothing")).output().unwrap();
        assert!(!refused.status.success(), "{}: the active side is away", self.context);
        let lost = self.run_until_done_with_limit("activate", "any");
        let kept = lost.map_or(0, |lost| lost.first - 1);
        let found = self.promises.check_active_side(&self.copy.directory, kept, reports, &self.context);
        self.change_roles();
        let all = reports.last_acknowledged(u32::MAX);
        let is_lost = all.iter().zip(&found).any(|(all, found)| all > found);
        let relation = history(&self.copy.directory).compare(&history(&self.active.directory)).unwrap();
        assert!(!is_lost || relation.is_divergence(), "{}: {relation:?}", self.context);
        self.run_until_done("reseed");
        all.iter().zip(&found).map(|(all, found)| (all - found).max(0)).sum()
    }
}

/// Returns the loss that a completed activation reported.
fn reported_loss(output: &Output) -> Option<LostHistory> {
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

/// An interrupted seed resumes where it stopped: the second attempt copies less than the whole database.
#[test]
fn a_seed_resumes_after_a_dropped_connection() {
    let base = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let place = |name: &str| base.path().join(name);
    for name in ["tls", "one"] {
        std::fs::create_dir(place(name)).unwrap();
    }
    TlsFiles::create(&place("tls"));
    grow(&place("one"));
    let size = std::fs::metadata(place("one/killed.edb")).unwrap().len();
    let mut pair = RemotePair::new(base.path(), place("tls"), 1);
    pair.serve();
    pair.active.proxy.cut_after(size * 3 / 4);
    let words = pair.words("seed", "");
    let output = pair.run(&words).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("connection was lost"), "{said}");
    let kept = std::fs::metadata(place("two/incoming/killed.edb")).unwrap().len();
    assert!(kept >= size / 4, "{kept} bytes of {size} are kept");
    // The connection is cut before the whole database could be transferred.
    pair.active.proxy.cut_after(size * 3 / 4);
    let output = pair.run(&words).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    pair.active.proxy.cut_after(u64::MAX);
    assert!(pair.is_done("seed") && pair.active.proxy.cuts() == 1);
    let shown: &Path = &pair.copy.directory;
    assert_eq!(std::fs::metadata(shown.join("killed.edb")).unwrap().len(), size);
}

/// Creates a database of several megabytes.
fn grow(directory: &Path) {
    let (instance, database) = open(directory).unwrap();
    create_if_new(&instance, &database).unwrap();
    let mut session = instance.session();
    for thread in 10..610 {
        session.begin().unwrap();
        system_tests::killed::write_rows(&mut session, &database, thread, 240).unwrap();
        session.commit(ese_engine::CommitMode::Lazy).unwrap();
    }
    drop((session, database));
    instance.shutdown().unwrap();
}
