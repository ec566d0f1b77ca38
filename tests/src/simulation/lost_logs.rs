//! Loss of the newest log generations after a cut, which a waypoint latency permits.

use std::path::{Path, PathBuf};

use ese_engine::Error;
use ese_format::header::{DatabaseHeader, DatabaseState};
use ese_format::log::header::{LogHeader, SEGMENT_BYTES};
use ese_format::{Generation, LogPosition};
use jetcell_vfs::{IoBuffer, IoReason, OpenMode};
use rand::Rng;

use super::EngineSimulation;
use super::model::ModelState;

/// A state that was durable when the log ended in generation `by`.
#[derive(Clone, Copy)]
pub(super) struct DurableMark {
    pub generation: Generation,
    pub state: usize,
}

impl EngineSimulation {
    /// Marks all states so far as durable, with the log up to `end`.
    pub(super) fn mark_durable(&mut self, end: LogPosition) {
        self.marks.push(DurableMark { generation: end.generation, state: self.states.len() - 1 });
    }

    /// Records that recovery found the state with this number. Later states are lost.
    pub(super) fn record_recovered(&mut self, which: usize, found: ModelState, newest: Generation) {
        if self.plan.waypoint_latency == 0 {
            self.states = vec![found];
            self.durable = 0;
            return;
        }
        // Losing generations can restore earlier states.
        self.states.truncate(which + 1);
        self.durable = which;
        self.marks.retain(|mark| mark.state <= which);
        self.marks.push(DurableMark { generation: newest, state: which });
    }

    /// Removes up to as many of the newest generations as the waypoint latency permits.
    pub(super) fn lose_generations(&mut self) {
        let latency = self.plan.waypoint_latency;
        let Some(newest) = self.logs().iter().filter(|log| !log.prepared).map(|log| log.generation).max()
        else {
            return;
        };
        if latency == 0 {
            return;
        }
        let (mut oldest_end, mut committed) = (Generation(0), Generation(0));
        for number in 0..self.plan.databases {
            let Some(header) = self.header(&self.db_path(number)) else { continue };
            let attached = header.attach_position.generation;
            match header.state {
                DatabaseState::DirtyShutdown => {
                    if self.is_detaching {
                        self.floors[number] = header.gen_max_required;
                    }
                    let waypoint =
                        Generation(newest.0.saturating_sub(latency)).max(attached).max(self.floors[number]);
                    assert!(
                        header.gen_max_required <= waypoint,
                        "{}: the database requires {:?} of {newest:?} with a latency of {latency}, attached in {attached:?}",
                        self.context,
                        header.gen_max_required
                    );
                    // The required generation never decreases, even if generations are lost.
                    self.floors[number] = header.gen_max_required;
                    oldest_end = oldest_end.max(header.gen_max_required);
                    committed = committed.max(header.gen_max_committed);
                }
                // A clean database contains everything up to its shutdown.
                _ => oldest_end = oldest_end.max(header.consistent_position.generation),
            }
        }
        self.is_detaching = false;
        let lost = self.rng.random_range(0..=latency);
        let last = Generation(newest.0.saturating_sub(lost)).max(oldest_end);
        if last >= newest || last < Generation(1) {
            return;
        }
        self.remove_generations_after(last);
        self.tally.lost_generations += u64::from(newest.0 - last.0);
        let durable = self.durable;
        let kept = self.marks.iter().filter(|mark| mark.generation <= last).map(|mark| mark.state);
        self.durable = kept.max().unwrap_or(0);
        self.marks.retain(|mark| mark.generation <= last);
        self.tally.lost_commits += u64::from(self.durable < durable);
        // The databases are consistent, but the loss must be reported.
        match self.open() {
            Err(Error::CommittedLogsMissing { .. } | Error::LogMissing { .. }) => {}
            Err(error) => panic!("{}: the loss was refused with {error}", self.context),
            Ok(_) => panic!("{}: the loss of {last:?} to {newest:?} was not noticed", self.context),
        }
        if committed > last && self.rng.random_bool(0.5) {
            // Renames the newest remaining log to the name of the current log, as an activation does.
            let current = self.logs.join("E00.log");
            let path = self.logs().into_iter().find(|log| log.generation == last).map(|log| log.path);
            let disk = self.disk.files();
            disk.rename(&path.expect("the log was kept"), &current).expect("the power is on");
            disk.sync_directory(&self.logs).expect("the power is on");
            match self.open() {
                Err(Error::CommittedLogsMissing { committed: (first, missing), .. }) => {
                    assert_eq!((first, missing), (last.next(), committed), "{}", self.context);
                }
                opened => panic!("{}: {:?} instead of -582", self.context, opened.err()),
            }
        }
        self.has_lost_logs = true;
    }

    fn remove_generations_after(&self, last: Generation) {
        let disk = self.disk.files();
        for log in self.logs().into_iter().filter(|log| log.generation > last) {
            disk.remove(&log.path).expect("the power is on");
        }
        disk.sync_directory(&self.logs).expect("the power is on");
    }

    fn logs(&self) -> Vec<ArchivedLog> {
        let disk = self.disk.files();
        let names = disk.list(&self.logs).expect("the power is on");
        let read = |path: PathBuf| {
            let file = disk.open(&path, OpenMode::Read).ok()?;
            let mut segment = IoBuffer::zeroed(SEGMENT_BYTES);
            file.read_at(0, &mut segment, IoReason::LogRead).ok()?;
            let generation = LogHeader::decode(&segment).ok()?.generation;
            let prepared = path.file_name().is_some_and(|name| name == "E00tmp.log");
            Some(ArchivedLog { path, generation, prepared })
        };
        names
            .into_iter()
            .filter(|path| path.extension().is_some_and(|end| end == "log"))
            .filter_map(read)
            .collect()
    }

    fn header(&self, path: &Path) -> Option<DatabaseHeader> {
        let file = self.disk.files().open(path, OpenMode::Read).ok()?;
        let mut start = IoBuffer::zeroed(2 * self.plan.size.bytes());
        file.read_at(0, &mut start, IoReason::DatabaseHeader).ok()?;
        DatabaseHeader::read_from_start(&start).ok().map(|(header, _)| header)
    }
}

struct ArchivedLog {
    path: PathBuf,
    generation: Generation,
    /// True if the file has the name of a log that is prepared as the next generation.
    prepared: bool,
}
