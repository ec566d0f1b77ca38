//! Results and progress of a coordinator: stores them, and shows them to the user.

use std::collections::BTreeMap;

use jetcell_fleet::result::FleetResult;
use jetcell_fleet::{
    Coordinator, CoordinatorBackend, CoordinatorState, FleetConfig, FleetDirectory, FleetEvent, FleetMember,
    HostResult, StoreResultError,
};
use jetcell_host::ProgressLine;
use jetcell_input::time::format_duration;
use jetcell_report::StoredRun;

use super::monitor::FleetMonitor;
use super::page::fleet_html;
use crate::console;
use crate::outcome::{CommandContext, CommandError, CommandResult};

/// Interval between two updates of the displayed hosts and the metrics.
const SHOW_INTERVAL_NS: u64 = 500_000_000;

/// Stores a coordinator's state and results, and shows its progress.
pub struct FleetStore {
    /// Files of the run.
    pub files: FleetDirectory,
    quiet: bool,
    line: Option<ProgressLine>,
    monitor: FleetMonitor,
    /// Time, on the coordinator's clock, at which the hosts were last shown.
    shown_ns: u64,
    failed: bool,
}

impl FleetStore {
    /// Opens the directory of a fleet without writing to it. Returns the state of an unfinished run, if there is one.
    pub fn open(
        config: &FleetConfig,
        new: bool,
        quiet: bool,
    ) -> CommandResult<(FleetStore, Option<CoordinatorState>)> {
        let (files, saved) = FleetDirectory::open(config, new)?;
        let line = if quiet { None } else { ProgressLine::new() };
        let monitor = FleetMonitor::default();
        Ok((FleetStore { files, quiet, line, monitor, shown_ns: 0, failed: false }, saved))
    }

    /// Returns the monitor with the live figures of the hosts.
    pub fn monitor(&self) -> FleetMonitor {
        self.monitor.clone()
    }

    /// Shows a message to the user.
    pub fn show_message(&self, text: &str) {
        self.monitor.add_event_line(text);
        match &self.line {
            _ if self.quiet => {}
            Some(line) => line.suspend(|| console::print_note(text)),
            None => console::print_note(text),
        }
    }

    /// Combines the hosts' results into the result of the fleet, and stores it.
    pub fn finish(&mut self, coordinator: &Coordinator) -> CommandResult<FleetResult> {
        self.line = None;
        let mut results = BTreeMap::new();
        for (rank, directory) in self.files.stored_results(coordinator) {
            let StoredRun { result, samples } = StoredRun::read(&directory)?;
            results.insert(rank, HostResult { result, samples });
        }
        let finished = self.files.finish(coordinator, &results, |fleet| fleet_html(fleet, &results));
        finished
            .context(format_args!("{}: could not write results", self.files.path().display()))
            .advise("free some space, and run the command again")
    }

    fn host(coordinator: &Coordinator, rank: u32) -> String {
        coordinator.member(rank).map_or_else(|| format!("rank {rank}"), FleetMember::display_name)
    }
}

impl CoordinatorBackend for FleetStore {
    fn store_result(&mut self, rank: u32, bytes: &[u8]) -> Result<(), StoreResultError> {
        self.files.store_result(rank, bytes)
    }

    fn save_state(&mut self, saved: &CoordinatorState) {
        let written = self.files.save_state(saved);
        let had_failed = std::mem::replace(&mut self.failed, written.is_err());
        if let Err(error) = written
            && !had_failed
        {
            let context =
                "cannot be written; the run continues, but a restarted coordinator cannot resume it";
            CommandError::from(error)
                .context(format_args!("{}: {context}", self.files.state_file().display()))
                .print();
        }
    }

    fn report(&mut self, news: &FleetEvent, fleet: &Coordinator) {
        let host = |rank: &u32| FleetStore::host(fleet, *rank);
        let hosts = fleet.config().size();
        let text = match news {
            FleetEvent::Joined(rank) => {
                format!("{} joined, {} of {hosts}", host(rank), fleet.members().count())
            }
            FleetEvent::BarrierReleased(gate) => gate.title().to_string(),
            FleetEvent::AloneTurnStarted(rank) => format!("{} measures its load alone", host(rank)),
            FleetEvent::Silent(rank) => format!("{} is not responding", host(rank)),
            FleetEvent::Returned(rank) => format!("{} is responding again", host(rank)),
            FleetEvent::DeclaredLost(rank) => format!("{} timed out; the other hosts continue", host(rank)),
            FleetEvent::TestEnded(rank) => format!("{} has finished", host(rank)),
            FleetEvent::Stopping(reason) => format!("Stopping all hosts: {reason}"),
            FleetEvent::BrokerLost => "The NATS server does not respond; hosts continue without it".into(),
            FleetEvent::BrokerRestored => "The NATS server responds again".into(),
        };
        self.show_message(&text);
    }

    fn show_progress(&mut self, fleet: &Coordinator, now_ns: u64) {
        if now_ns < self.shown_ns + SHOW_INTERVAL_NS {
            return;
        }
        self.shown_ns = now_ns;
        self.monitor.update(fleet, now_ns);
        let Some(line) = &self.line else { return };
        let state = self.monitor.state();
        let (hosts, iops, bytes) = state.totals();
        let running = fleet.members().filter(|member| !member.is_settled());
        let fractions: Vec<f64> = running.map(|member| member.heartbeat().fraction).collect();
        let share = (!fractions.is_empty()).then(|| fractions.iter().sum::<f64>() / fractions.len() as f64);
        let mut details = format!("{} of {} hosts", fleet.members().count(), fleet.config().size());
        if hosts > 0 {
            details = format!("{iops:.0} IOPS, {:.1} MB/s on {hosts} hosts", bytes / 1e6);
        }
        line.show(state.title, share, &format!("{details}, {} so far", format_duration(state.since)));
    }
}
