//! Redo of a log, part by part. Used both when an instance is opened and by the [`Replayer`](super::Replayer).

use std::collections::BTreeMap;

use ese_format::log::record::LogRecord;
use ese_format::{Generation, LogPosition};
use jetcell_sync::Arc;

use super::attach::Attacher;
use super::decode;
use super::redo::Redo;
use super::replay_window::ReplayWindow;
use crate::Result;
use crate::events::{EventKind, EventReporter};
use crate::log::LogReader;

/// State of a log replay in progress. Passes page changes to [`Redo`], and records about whole databases to
/// [`Attacher`].
pub(super) struct Replay {
    reader: Arc<LogReader>,
    pub redo: Redo,
    pub attacher: Attacher,
    /// Position of the record that marks a clean end of a shutdown or recovery, if it is the last relevant record.
    pub clean_end: Option<LogPosition>,
    /// Number of records replayed, by type.
    pub by_type: BTreeMap<&'static str, u64>,
    /// Generation whose records are being replayed, and the number of its records replayed so far.
    generation: Option<(Generation, u64)>,
    events: EventReporter,
}

impl Replay {
    pub fn new(
        reader: Arc<LogReader>,
        redo: Redo,
        attacher: Attacher,
        clean_end: Option<LogPosition>,
        events: EventReporter,
    ) -> Replay {
        let by_type = BTreeMap::new();
        Replay { reader, redo, attacher, clean_end, by_type, generation: None, events }
    }

    /// Counts a replayed record in a generation. If the generation is new, returns the previous one and its count.
    fn count(&mut self, generation: Generation) -> Option<(Generation, u64)> {
        match &mut self.generation {
            Some((current, records)) if *current == generation => {
                *records += 1;
                None
            }
            other => other.replace((generation, 1)),
        }
    }

    /// Reports the last generation at the end of the log.
    pub fn report_last(&mut self) {
        let last = self.generation.take();
        self.report(last);
    }

    fn report(&self, replayed: impl IntoIterator<Item = (Generation, u64)>) {
        for (generation, records) in replayed {
            self.events.report(EventKind::LogReplayed { generation, records });
        }
    }

    /// Replays the next part of the log.
    pub fn replay(&mut self, window: ReplayWindow) -> Result<()> {
        let ReplayWindow { records, payloads, .. } = window;
        let mut replayed = Vec::new();
        for buffered in records {
            replayed.extend(self.count(buffered.start.generation));
            let (start, record) = (buffered.start, decode(&self.reader, &buffered)?);
            *self.by_type.entry(record.name()).or_default() += 1;
            self.clean_end = match &record {
                LogRecord::Term2(_) | LogRecord::RecoveryQuit2(_) => Some(start),
                LogRecord::Nop2(_) | LogRecord::Nop => self.clean_end,
                _ => None,
            };
            match &record {
                LogRecord::CreateDb(create) => {
                    self.redo.replay_pages(&payloads)?;
                    self.attacher.create(create, start)?;
                }
                LogRecord::AttachDb(attach) => {
                    self.redo.replay_pages(&payloads)?;
                    self.attacher.attach(attach, start)?;
                }
                LogRecord::DetachDb(detach) => {
                    self.redo.replay_pages(&payloads)?;
                    self.redo.check_readable_to_close(Some(detach.database.0))?;
                    self.attacher.detach(detach.database.0, start)?;
                }
                LogRecord::SetDbVersion(version) => {
                    self.attacher.set_version(version)?;
                }
                LogRecord::Backup2(backup) => {
                    self.attacher.replay_backup(backup)?;
                }
                // ESE's clean shutdown, which does not log detach records.
                LogRecord::ShutDownMark => {
                    self.redo.replay_pages(&payloads)?;
                    self.redo.check_readable_to_close(None)?;
                    self.attacher.replay_shutdown(start)?;
                }
                LogRecord::Term2(_) | LogRecord::RecoveryQuit2(_) => {
                    self.attacher.replay_termination();
                    self.redo.record(buffered, record, &payloads)?;
                }
                _ => self.redo.record(buffered, record, &payloads)?,
            }
        }
        self.redo.replay_pages(&payloads)?;
        self.report(replayed);
        Ok(())
    }
}
