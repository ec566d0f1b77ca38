//! Plans which logs a recovery replays, and where the replay can stop.

use std::path::{Path, PathBuf};

use ese_format::header::DatabaseState;
use ese_format::{Generation, LogPosition};
use jetcell_sync::Arc;
use jetcell_vfs::Vfs;

use super::{DiscoveredDatabase, RecoverySet};
use crate::log::{LogChain, LogNames, LogReader};
use crate::{Result, UsageError};

/// Plan for a recovery: the logs to replay, and the logs that are missing.
#[derive(Clone, Debug)]
pub struct RecoveryPlan {
    /// Generations and their files, in order.
    pub logs: Vec<(Generation, PathBuf)>,
    /// First and last missing generations that a database needs to be consistent, with the path of the database.
    pub required: Option<(PathBuf, Generation, Generation)>,
    /// First missing generation between existing ones, or the newest generation if that one is missing.
    pub missing: Option<Generation>,
    /// Newest generation that may contain committed transactions, if it is missing.
    pub committed: Option<Generation>,
}

impl DiscoveredDatabase {
    /// Returns the generation where redo starts, if the database belongs to the stream.
    fn first_needed(&self) -> Generation {
        match self.header.state {
            DatabaseState::CleanShutdown => self.header.consistent_position.generation,
            _ => self.header.gen_min_required,
        }
    }

    /// Returns whether the database must be recovered.
    fn is_dirty(&self) -> bool {
        self.header.state == DatabaseState::DirtyShutdown
    }

    /// Returns the last generation that the database needs to be consistent.
    fn last_needed(&self) -> Generation {
        self.header.gen_max_required.max(self.header.current_full_backup.gen_high)
    }

    /// Returns whether the file is a copy from a backup, which includes all logs that it needs.
    fn is_from_backup(&self) -> bool {
        self.header.current_full_backup.gen_low != Generation(0)
    }
}

impl RecoverySet {
    /// Returns the plan for a recovery up to `until`, including the logs that are missing.
    pub fn plan(&self, until: LogPosition) -> RecoveryPlan {
        let oldest = self.logs.first_key_value().map_or(Generation(0), |(oldest, _)| *oldest);
        let first = self.databases.iter().map(DiscoveredDatabase::first_needed).min().unwrap_or(oldest);
        let mut plan = RecoveryPlan { logs: Vec::new(), required: None, missing: None, committed: None };
        let mut expected = first;
        for (&generation, path) in self.logs.range(first..) {
            if generation != expected {
                break;
            }
            if LogPosition::new(generation.0, 1, 0) < until {
                plan.logs.push((generation, path.clone()));
            }
            expected = generation.next();
        }
        let (none, stopped) = (expected == first, until <= LogPosition::new(expected.0, 1, 0));
        let dirty = || self.databases.iter().filter(|database| database.is_dirty());
        let from_backup = dirty().next().is_some() && dirty().all(DiscoveredDatabase::is_from_backup);
        for database in dirty() {
            let needed = database.last_needed();
            if none || needed >= expected && !stopped {
                plan.required = Some((database.path.clone(), expected, needed.max(first)));
            }
            let committed = database.header.gen_max_committed;
            if committed >= expected && !stopped {
                plan.committed = Some(committed);
            }
        }
        let gap = self.logs.range(expected..).next().is_some();
        if none || (gap || !self.has_current && !from_backup) && !stopped {
            plan.missing = Some(expected);
        }
        plan
    }

    /// Returns the first position from `at` on where a replay can stop. A record that contains `at` is replayed as a
    /// whole, so the result is the end of that record. If the log ends inside the record, the result is the record's
    /// start.
    pub fn stop_position(&self, vfs: &Arc<dyn Vfs>, at: LogPosition) -> LogPosition {
        let reader = LogReader::received(vfs.clone(), LogNames::new(Path::new("."), self.base_name));
        let (mut chain, mut end) = (LogChain::default(), at);
        // The record can begin in the previous generation. Damage is reported when the logs are verified.
        for (&generation, path) in self.logs.range(Generation(at.generation.0.saturating_sub(1))..) {
            reader.add(generation, path);
            let Ok(log) = reader.receive(generation, &chain, true) else { break };
            let visited = reader.visit_received(&log, &chain, |stored| {
                if stored.start < at && at < stored.end {
                    end = stored.end;
                }
                Ok(())
            });
            let Ok(visited) = visited else { break };
            let begun = visited.pending_from().filter(|begun| *begun < at);
            if generation >= at.generation {
                match begun {
                    Some(begun) => end = begun,
                    None => break,
                }
            }
            chain = visited;
        }
        end
    }

    /// Checks that a replay up to `until` makes the databases consistent.
    ///
    /// # Errors
    /// Returns [`Error::Usage`](crate::Error::Usage) if a database needs records after `until`.
    pub fn check_stop(&self, vfs: &Arc<dyn Vfs>, plan: &RecoveryPlan, until: LogPosition) -> Result<()> {
        let reader = LogReader::received(vfs.clone(), LogNames::new(Path::new("."), self.base_name));
        for database in self.databases.iter().filter(|database| database.is_dirty()) {
            let needed = database.last_needed();
            if until.generation > needed {
                continue;
            }
            let end = match plan.logs.last() {
                Some((last, path)) if *last == needed => {
                    reader.add(needed, path);
                    reader.receive(needed, &LogChain::default(), true)?.end()
                }
                _ => LogPosition::MAX,
            };
            if until < end {
                let database = database.path.clone();
                return Err(UsageError::StopTooEarly { database, needed, until }.into());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ese_format::header::DatabaseHeader;
    use ese_format::log::record::{LogRecord, Opaque};
    use ese_format::{PageSize, Signature};
    use jetcell_vfs::{FileStem, SimVfs};

    use super::*;
    use crate::DatabaseOptions;
    use crate::btree::tests::open;
    use crate::log::LogNameFormat;

    const END: LogPosition = LogPosition::MAX;

    /// Generations named in a database header: the required range and the newest committed one. If there are none,
    /// the generation of the clean shutdown.
    type Generations = (u32, Option<(u32, u32)>);

    fn database(&(first, dirty): &Generations) -> DiscoveredDatabase {
        let mut header =
            DatabaseHeader::for_new_database(PageSize::KIB_4, Signature::default(), Signature::default());
        match dirty {
            Some((required, committed)) => {
                header.state = DatabaseState::DirtyShutdown;
                header.gen_min_required = Generation(first);
                (header.gen_max_required, header.gen_max_committed) =
                    (Generation(required), Generation(committed));
            }
            None => {
                header.state = DatabaseState::CleanShutdown;
                header.consistent_position = LogPosition::new(first, 7, 0);
            }
        }
        DiscoveredDatabase { path: PathBuf::from("one.edb"), header }
    }

    /// Returns the plan's generations, the missing required ones, the next missing one, and the newest missing
    /// committed one.
    fn plan(logs: &[u32], has_current: bool, databases: &[Generations], until: LogPosition) -> ExpectedPlan {
        let plan = recovery_set(logs, has_current, databases).plan(until);
        let replayed = plan.logs.iter().map(|(generation, _)| generation.0).collect();
        let required = plan.required.map(|(_, first, last)| (first.0, last.0));
        (
            replayed,
            required,
            plan.missing.map(|missing| missing.0),
            plan.committed.map(|committed| committed.0),
        )
    }

    fn recovery_set(logs: &[u32], has_current: bool, databases: &[Generations]) -> RecoverySet {
        RecoverySet {
            base_name: FileStem::E00,
            signature: Signature::default(),
            logs: logs.iter().map(|number| (Generation(*number), PathBuf::new())).collect(),
            databases: databases.iter().map(database).collect(),
            set_aside: None,
            ignored: Vec::new(),
            log_names: LogNameFormat::default(),
            has_current,
            signatures: Vec::new(),
        }
    }

    type ExpectedPlan = (Vec<u32>, Option<(u32, u32)>, Option<u32>, Option<u32>);

    #[test]
    fn a_plan_without_databases_has_all_consecutive_logs() {
        assert_eq!(plan(&[3, 4, 5], true, &[], END), (vec![3, 4, 5], None, None, None));
        assert_eq!(
            plan(&[3, 4, 5], false, &[], END),
            (vec![3, 4, 5], None, Some(6), None),
            "the newest is missing"
        );
        assert_eq!(plan(&[3, 5], true, &[], END), (vec![3], None, Some(4), None), "a gap");
        assert_eq!(plan(&[], true, &[], END), (vec![], None, Some(0), None));
    }

    #[test]
    fn a_plan_begins_with_the_oldest_log_the_databases_need() {
        let dirty = (4, Some((5, 6)));
        assert_eq!(plan(&[3, 4, 5, 6], true, &[dirty], END), (vec![4, 5, 6], None, None, None));
        assert_eq!(plan(&[3, 4, 5, 6], true, &[dirty, (3, None)], END), (vec![3, 4, 5, 6], None, None, None));
        assert_eq!(plan(&[5, 6], true, &[dirty], END), (vec![], Some((4, 5)), Some(4), Some(6)));
        assert_eq!(plan(&[4], true, &[dirty], END), (vec![4], Some((5, 5)), None, Some(6)));
        assert_eq!(
            plan(&[4, 5], true, &[dirty], END),
            (vec![4, 5], None, None, Some(6)),
            "commits can be lost"
        );
        assert_eq!(
            plan(&[5, 6], true, &[(4, None)], END),
            (vec![], None, Some(4), None),
            "a clean one needs no log"
        );
    }

    #[test]
    fn a_plan_ends_at_the_requested_stop_position() {
        let dirty = (4, Some((5, 6)));
        let until = |generation, segment| LogPosition::new(generation, segment, 0);
        let whole = (vec![4, 5], None, None, None);
        assert_eq!(plan(&[4, 5, 6], true, &[dirty], until(5, 3)), whole);
        assert_eq!(plan(&[4, 5, 6], true, &[dirty], until(6, 1)), whole, "nothing of the next one");
        assert_eq!(plan(&[4, 5], false, &[dirty], until(6, 1)), whole, "what is missing is not needed");
        assert_eq!(plan(&[4, 5], false, &[dirty], until(6, 2)), (vec![4, 5], None, Some(6), Some(6)));
        assert_eq!(plan(&[4, 5, 6], true, &[dirty], until(6, 2)), (vec![4, 5, 6], None, None, None));
        assert_eq!(plan(&[4, 6], true, &[dirty], until(6, 2)), (vec![4], Some((5, 5)), Some(5), Some(6)));
        assert_eq!(plan(&[4, 6], true, &[dirty], until(5, 1)), (vec![4], None, None, None));
        assert_eq!(plan(&[4, 5], true, &[dirty], until(3, 1)), (vec![], None, None, None), "none is missing");
        assert_eq!(plan(&[5, 6], true, &[dirty], until(3, 1)), (vec![], Some((4, 5)), Some(4), None));
    }

    #[test]
    fn a_backup_needs_no_current_log() {
        let (mut set, dirty) = (recovery_set(&[4, 5], false, &[(4, Some((4, 5)))]), |set: &RecoverySet| {
            let plan = set.plan(END);
            (plan.required.map(|(_, first, last)| (first.0, last.0)), plan.missing.map(|missing| missing.0))
        });
        assert_eq!(dirty(&set), (None, Some(6)));
        let backup = &mut set.databases[0].header.current_full_backup;
        (backup.gen_low, backup.gen_high) = (Generation(4), Generation(5));
        assert_eq!(dirty(&set), (None, None));
        set.databases[0].header.current_full_backup.gen_high = Generation(6);
        assert_eq!(dirty(&set), (Some((6, 6)), None), "a log of the backup is missing");
        set.databases.push(database(&(4, Some((4, 5)))));
        assert_eq!(dirty(&set).1, Some(6), "one database is not from a backup");
    }

    #[test]
    fn a_replay_stops_where_a_record_begins() {
        let disk = SimVfs::new();
        let instance = open(&disk, PageSize::KIB_4, 64).unwrap();
        instance.create_database(Path::new("/db/test.edb"), &DatabaseOptions::default()).unwrap();
        // The record is longer than a segment.
        let long = LogRecord::Ignored(Opaque { kind: 82, body: vec![7; 9000] });
        let short = LogRecord::Ignored(Opaque { kind: 82, body: vec![1, 2] });
        let (start, end) = instance.core().append(&[long]).unwrap();
        let (next, last) = instance.core().append(&[short]).unwrap();
        instance.flush().unwrap();
        drop(instance);
        let vfs: Arc<dyn Vfs> = Arc::new(disk.process_kill());
        let set = RecoverySet::find(&vfs, &vfs.list(Path::new("/log")).unwrap()).unwrap();
        let stop = |at| set.stop_position(&vfs, at);
        let inside = |from: LogPosition, by: u64| LogPosition::from_u64(from.to_u64() + by);
        assert_eq!((stop(start), stop(end), stop(next), stop(last)), (start, end, next, last));
        for at in [
            inside(start, 1),
            inside(start, 1 << 16),
            LogPosition::new(start.generation.0, start.segment + 2, 0),
        ] {
            assert_eq!(stop(at), end, "{at:?}");
        }
        assert_eq!(stop(inside(next, 1)), last);
        assert_eq!((stop(END), stop(LogPosition::MIN)), (END, LogPosition::MIN));
        let plan = set.plan(END);
        assert!(set.check_stop(&vfs, &plan, END).is_ok());
        // The truncated log is undamaged, whatever position was given.
        for at in [inside(start, 1), inside(next, 1)] {
            let (path, cut) = (&plan.logs.last().unwrap().1, stop(at));
            RecoverySet::cut_log(&vfs, path, cut).unwrap();
            assert!(set.verify(&vfs, &plan, END).is_ok(), "{at:?}");
        }
    }

    #[test]
    fn a_replay_that_stops_too_early_is_an_error() {
        let vfs: Arc<dyn Vfs> = Arc::new(SimVfs::new());
        let set = recovery_set(&[4, 5, 6], true, &[(4, Some((5, 6)))]);
        for (generation, fits) in [(3, false), (4, false), (5, false), (6, true)] {
            let until = LogPosition::new(generation, 1, 0);
            let plan = set.plan(until);
            assert_eq!(set.check_stop(&vfs, &plan, until).is_ok(), fits, "{generation}");
            assert_eq!(plan.required, None);
        }
        let until = LogPosition::new(3, 1, 0);
        assert!(matches!(set.verify(&vfs, &set.plan(until), until), Err(crate::Error::Usage(_))));
    }
}
