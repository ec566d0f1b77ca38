//! Runs the story of one seed.

mod comparison;
mod repair;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ese_engine::{RecoverySet, VerifiedLog};
use jetcell_backup::{BackupError, BackupOptions, BackupSetError};
use jetcell_copies::{
    ActivationResult, CopyError, CopyPhase, CopyState, LossLimit, Refusal, ReplayOptions, Replicator, Reseed,
    Result, SeedOptions, UnfitReason, activate, seed_running, seed_stopped,
};
use jetcell_vfs::Vfs;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::damage::bad_pages;
use super::host_transport::{HostTransport, connected_vfs, remote_store};
use super::hosts::{HOSTS, HostDisks};
use super::load::{ActiveSide, CommittedModel};
use super::network::{RemoteSource, SharedNetwork, SimulatedNetwork};
use super::tally::{CopyTally, FaultDuration};

/// Number of steps within which queues must drain without faults.
const MAX_DRAIN_ROUNDS: usize = 60;
/// Number of rounds between two comparisons of all sides.
const ROUNDS: usize = 14;
/// Number of comparisons in a story.
const PHASES: usize = 3;

struct CopyScenario {
    rng: ChaCha8Rng,
    hosts: HostDisks,
    vfs: Arc<dyn Vfs>,
    transport: HostTransport,
    network: SharedNetwork,
    faults: FaultDuration,
    active: usize,
    instance: Option<ActiveSide>,
    copies: [Option<Replicator>; HOSTS],
    /// Copies that were confirmed to have the same history as the current active side.
    confirmed: [bool; HOSTS],
    model: CommittedModel,
    tally: CopyTally,
    context: String,
}

/// Runs one seed. Panics if data was lost or damaged, or if a copy makes no progress.
pub fn run(seed: u64, faults: FaultDuration, way: HostTransport) -> CopyTally {
    let (hosts, network, cuts) = (HostDisks::new(), SimulatedNetwork::new(seed), Arc::default());
    let mut story = CopyScenario {
        rng: ChaCha8Rng::seed_from_u64(seed),
        vfs: match way {
            HostTransport::Calls => Arc::new(hosts.clone()),
            HostTransport::Connections => connected_vfs(&hosts, &network, &cuts),
        },
        transport: way,
        network,
        hosts,
        faults,
        active: 0,
        instance: None,
        copies: [None, None, None],
        confirmed: [false; HOSTS],
        model: CommittedModel::new(),
        tally: CopyTally::default(),
        context: format!("seed {seed}, {faults:?}"),
    };
    story.begin();
    for chapter in 0..PHASES {
        story.context = format!("seed {seed}, {faults:?}, chapter {chapter}");
        for _ in 0..ROUNDS {
            story.round();
        }
        story.compare_all();
        story.tally.histories += 1;
    }
    story.tally.commits += story.model.commits() as u64;
    story.tally.connections_cut += cuts.load(Ordering::Relaxed);
    story.tally
}

impl CopyScenario {
    /// Prints an event if a single seed is replayed.
    fn report_event(&self, what: impl FnOnce() -> String) {
        if std::env::var_os("JETCELL_SIM_SEED").is_some() {
            eprintln!("{}: {}", self.context, what());
        }
    }

    fn fail(&self, what: &str, error: impl std::fmt::Display) -> ! {
        for path in (0..HOSTS).flat_map(|host| self.files(host)) {
            if let Ok(log) = VerifiedLog::read(&self.vfs, &path, false) {
                self.report_event(|| {
                    format!("{}: generation {:X}, end {:?}", path.display(), log.generation.0, log.end)
                });
            }
        }
        panic!("{}: {what}: {error}", self.context)
    }

    fn source(&self) -> RemoteSource {
        RemoteSource::new(&self.vfs, self.active_store(), &self.network, self.active)
    }

    /// Returns the directory of the active side, as accessed by copies.
    fn active_store(&self) -> PathBuf {
        match self.transport {
            HostTransport::Calls => HostDisks::store(self.active),
            HostTransport::Connections => remote_store(self.active),
        }
    }

    fn files(&self, host: usize) -> Vec<PathBuf> {
        self.vfs.list(&HostDisks::store(host)).unwrap_or_default()
    }

    fn replay_options(&mut self) -> ReplayOptions {
        ReplayOptions {
            keep_instance: self.rng.random_bool(0.6),
            stream_log: self.rng.random_bool(0.6),
            cache_bytes: 1 << 20,
            checkpoint_depth: 96 << 10,
            threads: false,
            ..ReplayOptions::default()
        }
    }

    fn seed_options(again: bool) -> SeedOptions {
        let backup = BackupOptions { threads: false, save_bytes: 1, ..BackupOptions::default() };
        SeedOptions { backup, replace_existing: again }
    }

    /// Creates the active side, some transactions, and two copies: one seeded from the running instance, and one from
    /// its files.
    fn begin(&mut self) {
        let seed = self.rng.random();
        let mut active =
            ActiveSide::open(&self.hosts, 0, seed).unwrap_or_else(|error| self.fail("opening", error));
        for _ in 0..4 {
            active.commit(&mut self.model, &mut self.rng).unwrap_or_else(|error| self.fail("commit", error));
        }
        let (options, source) = (CopyScenario::seed_options(false), self.source());
        seed_running(&self.vfs, &active.instance, &HostDisks::store(1), &source, &options)
            .unwrap_or_else(|error| self.fail("seeding", error));
        active.shut_down().unwrap_or_else(|error| self.fail("shutdown", error));
        seed_stopped(&self.vfs, &self.files(0), &HostDisks::store(2), &source, &options)
            .unwrap_or_else(|error| self.fail("seeding", error));
        self.model.durable = self.model.commits();
    }

    fn copies(&self) -> impl Iterator<Item = usize> + use<> {
        let active = self.active;
        (0..HOSTS).filter(move |host| *host != active)
    }

    fn round(&mut self) {
        {
            let mut network = self.network.lock().expect("no panic");
            network.is_unreliable = self.rng.random_bool(0.5);
            for host in 0..HOSTS {
                network.cut[host] = self.rng.random_bool(0.1);
            }
        }
        if self.rng.random_bool(0.25) {
            let host = self.rng.random_range(0..HOSTS);
            let disk = self.hosts.disk(host);
            let limit = 1 << self.rng.random_range(0..9);
            disk.cut_power_after(disk.operations() + self.rng.random_range(0..limit) + 1);
        }
        self.vfs.clock().sleep(std::time::Duration::from_millis(50));
        self.run_client();
        for host in self.copies() {
            for _ in 0..self.rng.random_range(0..3) {
                self.follow(host);
            }
        }
        match self.rng.random_range(0..14) {
            0 => self.switch_over(),
            1 => self.fail_over(),
            _ => {}
        }
        self.restart_dead();
    }

    /// Runs the client, if the active side runs or can be started.
    fn run_client(&mut self) {
        if self.start().is_none() {
            return;
        }
        let Some(mut active) = self.instance.take() else { return };
        let steps = self.rng.random_range(1..8);
        let worked = (0..steps).try_for_each(|_| {
            active.commit(&mut self.model, &mut self.rng)?;
            if self.rng.random_bool(0.3) {
                active.change_rows(&mut self.rng)?;
            }
            if self.rng.random_bool(0.3) {
                active.maintain(&mut self.rng)?;
                self.tally.maintained += 1;
            }
            active.step(&mut self.rng)
        });
        match worked {
            Ok(()) => self.instance = Some(active),
            Err(error) if self.hosts.has_power(self.active) => self.fail("work", error),
            Err(_) => drop(active),
        }
    }

    /// Starts the active side, and compares its content with the promises.
    fn start(&mut self) -> Option<()> {
        if self.instance.is_none() {
            let seed = self.rng.random();
            let opened = ActiveSide::open(&self.hosts, self.active, seed);
            let mut active = match opened {
                Ok(active) => active,
                Err(_) if !self.hosts.has_power(self.active) => return None,
                Err(error) => self.fail("starting", error),
            };
            if self.hosts.has_power(self.active) {
                let number = active.number(&self.model, &self.context);
                self.report_event(|| {
                    format!(
                        "host {} starts with transaction {number}, durable {}",
                        self.active, self.model.durable
                    )
                });
                self.check_durable(number);
                self.model.continue_from(number);
            }
            self.instance = Some(active);
        }
        Some(())
    }

    fn check_durable(&self, number: usize) {
        let durable = self.model.durable;
        assert!(number >= durable, "{}: durable transactions {number} to {durable} are lost", self.context);
    }

    /// Restarts hosts that lost power, and kills the processes of some other hosts.
    fn restart_dead(&mut self) {
        for host in 0..HOSTS {
            let kill = self.rng.random_bool(0.04);
            if !kill && self.hosts.has_power(host) {
                continue;
            }
            self.restart(host, kill);
        }
    }

    /// Restores the power of all hosts, and keeps it on until the next round.
    fn restore_power(&mut self) {
        for host in 0..HOSTS {
            if !self.hosts.has_power(host) {
                self.restart(host, false);
            }
            self.hosts.disk(host).cut_power_after(u64::MAX);
        }
    }

    fn restart(&mut self, host: usize, kill: bool) {
        self.tally.cuts += 1;
        self.report_event(|| format!("host {host} restarts, kill {kill}"));
        if host == self.active {
            self.instance = None;
        }
        self.copies[host] = None;
        let seed = self.rng.random();
        self.hosts.restart_host(host, kill, seed);
    }

    /// Runs one step of a copy.
    fn follow(&mut self, host: usize) {
        if self.copies[host].is_none() {
            let (source, options) = (Box::new(self.source()), self.replay_options());
            match Replicator::open(&self.vfs, &HostDisks::store(host), source, options) {
                Ok(copy) => self.copies[host] = Some(copy),
                Err(_) if !self.hosts.has_power(host) => return,
                Err(CopyError::Refused { .. }) => return self.reseed(host),
                Err(error) => self.fail("a copy cannot be opened", error),
            }
        }
        let Some(copy) = &mut self.copies[host] else { return };
        match copy.step() {
            Ok(report) => {
                self.confirmed[host] |= copy.is_confirmed();
                let state = copy.state();
                let told = format!(
                    "host {host}: {} copied, {} replayed, next {:X}, {:?}",
                    report.copied, report.replayed, state.next, state.end
                );
                if std::env::var_os("JETCELL_SIM_SEED").is_some() && !report.is_idle() {
                    eprintln!("{}: {told}", self.context);
                }
                self.tally.replayed += u64::from(report.replayed);
                self.tally.streamed += report.streamed_bytes;
                self.tally.waited += u64::from(report.waiting.is_some());
            }
            Err(_) if !self.hosts.has_power(host) => self.copies[host] = None,
            Err(CopyError::Refused { .. }) => {
                self.copies[host] = None;
                self.reseed(host);
            }
            Err(error) => self.fail("a copy cannot follow", error),
        }
    }

    /// Returns the reason why the copy on a host cannot follow.
    fn unfit_reason(&self, host: usize) -> Option<(UnfitReason, String)> {
        match CopyState::read(&*self.vfs, &HostDisks::store(host)) {
            Ok(Some(CopyState { phase: CopyPhase::Unfit { reason, what }, .. })) => Some((reason, what)),
            _ => None,
        }
    }

    /// Reseeds a copy that cannot follow: incrementally if possible, otherwise completely.
    fn reseed(&mut self, host: usize) {
        self.report_event(|| format!("host {host} needs a reseed: {:?}", self.unfit_reason(host)));
        if let Some((reason, what)) = self.unfit_reason(host) {
            let expected = matches!(
                reason,
                UnfitReason::BadLog | UnfitReason::LogsGone | UnfitReason::Diverged | UnfitReason::Reseeding
            );
            // A damaged page cannot wait for its repair when the log closes the database.
            let is_damaged = reason == UnfitReason::BadDatabase && !bad_pages(&self.hosts, host).is_empty();
            assert!(expected || is_damaged, "{}: host {host}: {what}", self.context);
        }
        if self.rng.random_bool(0.7) {
            let files = self.vfs.list(&self.active_store()).unwrap_or_default();
            match Reseed::plan(&self.vfs, &files, &HostDisks::store(host))
                .and_then(|reseed| reseed.run(&mut |_| ()))
            {
                Ok(_) => {
                    self.report_event(|| format!("host {host} was patched"));
                    self.tally.patched += 1;
                    return;
                }
                Err(_) if !self.hosts.has_power(host) => {
                    self.tally.in_change += 1;
                    return;
                }
                Err(_) => {}
            }
        }
        let options = CopyScenario::seed_options(true);
        let (vfs, to, source) = (self.vfs.clone(), HostDisks::store(host), self.source());
        let seeded = match &self.instance {
            Some(active) => seed_running(&vfs, &active.instance, &to, &source, &options),
            None => seed_stopped(&vfs, &self.files(self.active), &to, &source, &options),
        };
        match seeded {
            Ok(seeded) => {
                self.report_event(|| format!("host {host} was seeded: next {:X}", seeded.state.next));
                self.tally.seeded += 1;
            }
            Err(_) if !self.hosts.has_power(host) || !self.hosts.has_power(self.active) => {
                self.tally.in_change += 1;
            }
            // A damaged page of the active side must be repaired first.
            Err(error) if error.is_temporary() || self.has_bad_page(&error) => {
                self.report_event(|| format!("host {host} is not seeded: {error}"));
            }
            Err(error) => self.fail("a full reseed", error),
        }
    }

    /// Returns true if a seed failed because a page of the active side is damaged.
    fn has_bad_page(&self, error: &CopyError) -> bool {
        let is_bad_page = matches!(
            error,
            CopyError::Refused { reason: Refusal::BadPages, .. }
                | CopyError::Backup(BackupError::Set(BackupSetError::BadPages(_)))
        );
        is_bad_page && !bad_pages(&self.hosts, self.active).is_empty()
    }

    fn activate(&mut self, host: usize, limit: LossLimit) -> Result<ActivationResult> {
        self.copies[host] = None;
        let (source, options) = (Box::new(self.source()), self.replay_options());
        let activated = activate(&self.vfs, &HostDisks::store(host), source, limit, &options);
        if let Err(error) = &activated {
            self.report_event(|| format!("host {host} is not activated ({limit:?}): {error}"));
        }
        activated
    }

    /// Stops or kills the active side, and switches over to a copy without loss.
    fn switch_over(&mut self) {
        match self.instance.take() {
            Some(active) if self.rng.random_bool(0.6) => {
                let stopped = active.shut_down();
                if self.hosts.has_power(self.active) {
                    stopped.unwrap_or_else(|error| self.fail("shutdown", error));
                    self.model.durable = self.model.commits();
                }
            }
            // The active side is killed.
            other => drop(other),
        }
        if !self.hosts.has_power(self.active) {
            return;
        }
        let host = self.copies().nth(self.rng.random_range(0..2)).unwrap_or(0);
        for _ in 0..6 {
            match self.activate(host, LossLimit::Nothing) {
                Ok(result) => {
                    assert!(result.lost.is_none() && result.stepped_down, "{}: {result:?}", self.context);
                    self.tally.switched += 1;
                    return self.record_takeover(host);
                }
                Err(_) if !self.hosts.has_power(host) => {
                    self.tally.in_change += 1;
                    self.restart(host, false);
                }
                Err(_) if !self.hosts.has_power(self.active) => {
                    self.tally.in_change += 1;
                    let active = self.active;
                    self.restart(active, false);
                }
                Err(_) => {}
            }
        }
        self.end_activation(host);
    }

    /// Completes an unfinished activation. Without network faults it must complete, unless the old active side still
    /// has its role.
    fn end_activation(&mut self, host: usize) {
        let begun = matches!(
            CopyState::read(&*self.vfs, &HostDisks::store(host)),
            Ok(Some(CopyState { phase: CopyPhase::Activating { .. }, .. }))
        );
        let has_role = self.vfs.exists(&HostDisks::store(self.active).join("E00.log")).unwrap_or(false);
        if !begun && has_role {
            return;
        }
        self.network.lock().expect("no panic").heal();
        self.restore_power();
        match self.activate(host, LossLimit::Nothing) {
            Ok(result) => {
                assert!(result.lost.is_none(), "{}: {result:?}", self.context);
                self.tally.switched += 1;
                self.record_takeover(host);
            }
            // A crash during the creation of the next log also leaves no current log.
            Err(error) if !has_role && !self.has_role() => self.fail("an activation does not end", error),
            Err(_) => {}
        }
    }

    /// Returns true if the newest log of the active side is not named like a closed log, so an instance can be
    /// opened.
    fn has_role(&self) -> bool {
        let set = RecoverySet::find(&self.vfs, &self.files(self.active));
        let newest = set.ok().and_then(|set| set.logs.last_key_value().map(|(_, path)| path.clone()));
        newest.is_some_and(|path| path.ends_with("E00.log") || path.ends_with("E00tmp.log"))
    }

    /// Records that a copy became the active side without loss.
    fn record_takeover(&mut self, host: usize) {
        self.report_event(|| format!("host {host} took over from {}", self.active));
        let old = self.active;
        self.active = host;
        self.copies = [None, None, None];
        self.confirmed = [false; HOSTS];
        if self.hosts.has_power(old) {
            let set = RecoverySet::find(&self.vfs, &self.files(old));
            assert!(set.is_err() || !self.can_open(old), "{}: there are two active sides", self.context);
        }
        let _ = self.start();
    }

    /// Returns true if an instance can be opened on a host.
    fn can_open(&self, host: usize) -> bool {
        ActiveSide::open(&self.hosts, host, 7).is_ok()
    }

    /// Makes a copy take over with the data that it has, while the active side is unavailable.
    fn fail_over(&mut self) {
        self.instance = None;
        let (old, host) = (self.active, self.copies().nth(self.rng.random_range(0..2)).unwrap_or(0));
        if !self.confirmed[host] {
            // The copy may still have an abandoned history, which the model does not contain.
            return;
        }
        let unreachable = self.rng.random_bool(0.7);
        self.network.lock().expect("no panic").cut[old] = unreachable;
        let limit = match self.rng.random_range(0..3) {
            0 => LossLimit::Generations(self.rng.random_range(0..13)),
            _ => LossLimit::Any,
        };
        let result = match self.activate(host, limit) {
            Ok(result) => result,
            Err(_) => return self.end_fail_over(host),
        };
        self.record_failover(old, host, &result, limit);
    }

    /// Completes a failover that was refused or interrupted: it completes, or the old active side keeps its role.
    fn end_fail_over(&mut self, host: usize) {
        if !self.hosts.has_power(host) {
            self.tally.in_change += 1;
            self.restart(host, false);
        }
        let old = self.active;
        match CopyState::read(&*self.vfs, &HostDisks::store(host)) {
            // The failover completed, but the power cut destroyed its answer, so the loss is unknown.
            Ok(None) => return self.record_role_change(old, host, 0),
            Ok(Some(state)) if matches!(state.phase, CopyPhase::Activating { .. }) => {}
            _ => return self.end_activation(host),
        }
        self.network.lock().expect("no panic").heal();
        self.restore_power();
        match self.activate(host, LossLimit::Any) {
            Ok(result) => self.record_failover(old, host, &result, LossLimit::Any),
            Err(error) => self.fail("a failover does not end", error),
        }
    }

    fn record_failover(&mut self, old: usize, host: usize, result: &ActivationResult, limit: LossLimit) {
        let Some(lost) = result.lost else {
            self.tally.switched += 1;
            return self.record_takeover(host);
        };
        if let LossLimit::Generations(most) = limit {
            assert!(lost.last_known - lost.first <= most, "{}: {lost:?}, limit {most}", self.context);
        }
        self.tally.failed_over += 1;
        self.tally.kept_parts += u64::from(lost.first_in_part);
        self.report_event(|| format!("host {host} took over from {old} with loss: {result:?}"));
        self.record_role_change(old, host, self.model.last_before(lost.first));
    }

    /// Records that another host is active, with at least the transactions up to `must`.
    fn record_role_change(&mut self, old: usize, host: usize, must: usize) {
        self.network.lock().expect("no panic").forget_open_logs();
        self.active = host;
        self.copies = [None, None, None];
        self.confirmed = [false; HOSTS];
        let before = self.model.durable;
        self.model.durable = must.min(before);
        if self.hosts.has_power(host) {
            let _ = self.start();
        }
        if self.instance.is_some() {
            self.tally.lost_commits += before.saturating_sub(self.model.commits()) as u64;
        }
        // The old side must not be started before it is reseeded.
        let stepped_down =
            CopyState::read(&*self.vfs, &HostDisks::store(old)).is_ok_and(|state| state.is_some());
        if self.hosts.has_power(old) && !stepped_down {
            self.reseed(old);
        }
    }
}
