//! Runs copies with real processes on a real disk. The active side, the replication, the activation, and the reseed
//! are killed while they work, and copies take over.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use jetcell_copies::{CopyPhase, CopyState, LostHistory};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use system_tests::durable_promises::{DurablePromises, history};
use system_tests::killed::{DurableReports, KillChild, create_if_new, disk, open};

/// Number of times that a copy takes over. Every second takeover is without loss.
const ROUNDS: usize = 6;
/// Number of times that a change of roles is killed before it may complete.
const KILLS: usize = 3;

/// Two directories that change roles, and the promises to the clients of the active directory.
struct DirectoryPair {
    rng: ChaCha8Rng,
    active: PathBuf,
    copy: PathBuf,
    promises: DurablePromises,
    context: String,
    kills: u32,
}

#[test]
fn copies_take_over_from_a_killed_process() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let place = |name: &str| directory.path().join(name);
    let mut pair = DirectoryPair {
        rng: ChaCha8Rng::seed_from_u64(23),
        active: place("one"),
        copy: place("two"),
        promises: DurablePromises::new(),
        context: "seeding".to_string(),
        kills: 0,
    };
    std::fs::create_dir(&pair.active).unwrap();
    {
        let (instance, database) = open(&pair.active).unwrap();
        create_if_new(&instance, &database).unwrap();
        drop(database);
        instance.shutdown().unwrap();
    }
    pair.run_until_done(&["seed", "one", "two"]);
    let mut lost = 0;
    for round in 0..ROUNDS {
        pair.context = format!("round {round}");
        let reports = pair.work();
        match round % 2 {
            0 => pair.switch_over(&reports),
            _ => lost += pair.fail_over(&reports),
        }
    }
    let total = pair.promises.total();
    assert!(pair.state(&pair.copy).is_some());
    println!("{} kills, {total} transactions are there, {lost} acknowledged ones were lost", pair.kills);
    assert!(total > 0);
}

impl DirectoryPair {
    fn child(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_copy-child"));
        command.arg(words[0]);
        for word in &words[1..] {
            match *word {
                "one" | "two" => command.arg(self.active.with_file_name(word)),
                other => command.arg(other),
            };
        }
        command.stderr(Stdio::piped());
        command
    }

    /// Runs a command. It is killed at random moments a few times, and must then complete when it is not killed.
    /// Returns the loss of an activation, if it is known after the kills.
    fn run_until_done(&mut self, words: &[&str]) -> Option<LostHistory> {
        let mut known = None;
        for _ in 0..KILLS {
            let mut child = self.child(words).spawn().unwrap();
            std::thread::sleep(Duration::from_millis(self.rng.random_range(1..120)));
            child.kill().unwrap();
            child.wait().unwrap();
            self.kills += 1;
            if self.is_done(words) {
                return known;
            }
            if let Some(CopyPhase::Activating { lost, .. }) = self.state(&self.copy).map(|state| state.phase)
            {
                known = lost;
            }
        }
        let output = self.child(words).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && self.is_done(words), "{}: {words:?}: {said}", self.context);
        reported_loss(&output).or(known)
    }

    fn state(&self, directory: &Path) -> Option<CopyState> {
        CopyState::read(&*disk().unwrap(), directory).unwrap()
    }

    fn is_done(&self, words: &[&str]) -> bool {
        match words[0] {
            "activate" => self.state(&self.copy).is_none(),
            _ => self.state(&self.copy).is_some_and(|state| state.phase == CopyPhase::Following),
        }
    }

    /// Runs the load on the active side while the copy follows. The copy is killed several times, and finally both
    /// are killed.
    fn work(&mut self) -> DurableReports {
        let load = KillChild::start(env!("CARGO_BIN_EXE_kill-child"), &self.active);
        let (from, to) = (name(&self.active), name(&self.copy));
        let mut replicate = self.child(&["replicate", from, to]).spawn().unwrap();
        for _ in 0..self.rng.random_range(1..4) {
            std::thread::sleep(Duration::from_millis(self.rng.random_range(50..500)));
            assert!(replicate.try_wait().unwrap().is_none(), "{}: the replication ended", self.context);
            replicate.kill().unwrap();
            replicate.wait().unwrap();
            self.kills += 2;
            replicate = self.child(&["replicate", from, to]).spawn().unwrap();
        }
        std::thread::sleep(Duration::from_millis(self.rng.random_range(50..500)));
        let reports = load.kill();
        replicate.kill().unwrap();
        replicate.wait().unwrap();
        reports
    }

    /// Switches over while the directory of the killed side is readable, so nothing may be lost.
    fn switch_over(&mut self, reports: &DurableReports) {
        let to = name(&self.copy);
        let lost = self.run_until_done(&["activate", to, "nothing"]);
        assert!(lost.is_none(), "{}: {lost:?}", self.context);
        assert!(open(&self.active).is_err(), "{}: there are two active sides", self.context);
        self.promises.check_active_side(&self.copy, u32::MAX, reports, &self.context);
        std::mem::swap(&mut self.active, &mut self.copy);
    }

    /// Fails over while the directory of the killed side is unavailable; it becomes available again later. Returns
    /// the number of acknowledged transactions that were lost.
    fn fail_over(&mut self, reports: &DurableReports) -> i32 {
        let away = self.active.with_extension("away");
        std::fs::rename(&self.active, &away).unwrap();
        let to = name(&self.copy);
        let refused = self.child(&["activate", to, "nothing"]).output().unwrap();
        assert!(!refused.status.success(), "{}: the active side is away", self.context);
        let limited = self.child(&["activate", to, "2"]).output().unwrap();
        let lost = if limited.status.success() {
            reported_loss(&limited)
        } else {
            self.run_until_done(&["activate", to, "any"])
        };
        let within = lost.is_some_and(|lost| lost.last_known - lost.first <= 2);
        assert!(!limited.status.success() || within, "{}: {lost:?}", self.context);
        let kept = lost.map_or(0, |lost| lost.first - 1);
        let found = self.promises.check_active_side(&self.copy, kept, reports, &self.context);
        std::fs::rename(&away, &self.active).unwrap();
        std::mem::swap(&mut self.active, &mut self.copy);
        self.check_recognised(&found, reports);
        self.run_until_done(&["reseed", name(&self.active), name(&self.copy)]);
        let all = reports.last_acknowledged(u32::MAX);
        all.iter().zip(&found).map(|(all, found)| (all - found).max(0)).sum()
    }

    /// Checks that the old active side is recognized as diverged if it has a transaction that the new active side
    /// lacks.
    fn check_recognised(&self, found: &[i32], reports: &DurableReports) {
        let lost = reports.last_acknowledged(u32::MAX).iter().zip(found).any(|(all, found)| all > found);
        let relation = history(&self.copy).compare(&history(&self.active)).unwrap();
        assert!(!lost || relation.is_divergence(), "{}: {relation:?}", self.context);
    }
}

/// Returns the loss that a completed activation reported.
fn reported_loss(output: &Output) -> Option<LostHistory> {
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

fn name(directory: &Path) -> &'static str {
    if directory.ends_with("one") { "one" } else { "two" }
}
