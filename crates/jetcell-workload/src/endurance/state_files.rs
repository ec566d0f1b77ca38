//! State files of a stress test. A complete state contains all histograms and may take a megabyte per database, so it
//! is written only once a minute. Between these writes, increments are appended to a small journal and synced. After
//! a crash, the complete state and the journal lines that refer to it restore the test to its state about one second
//! before the crash.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use jetcell_vfs::{OutputFile, open_input, sync_directory};
use serde::{Deserialize, Serialize};

use super::{EnduranceState, STATE_FILE, add_io};
use crate::measurement::{InstanceIo, LoadTally, PageDamageCounts};
use crate::result::TestPart;
use crate::start_error::StartError;

/// Name of the journal, in the same directory as the complete state.
const JOURNAL: &str = "jetcell-stress.jsonl";

/// Time after which the complete state is written again and the journal is restarted.
const FULL_STATE_INTERVAL: Duration = Duration::from_secs(60);

/// A journal line: the work measured since the previous state.
#[derive(Serialize, Deserialize)]
struct StateIncrement {
    /// Number of the complete state to which the increment applies. After a crash, the journal may still contain
    /// lines for an older state.
    after: u64,
    /// The part that is running.
    part: TestPart,
    /// Total measured time in seconds.
    seconds: f64,
    /// Number of stalls in the total measured time.
    stalls: u64,
    /// Damage to pages in the whole test.
    #[serde(default)]
    damage: PageDamageCounts,
    /// I/O since the previous state.
    io: Vec<InstanceIo>,
    /// Work since the previous state.
    tally: LoadTally,
}

/// The state files for the running part of a stress test, and their contents.
pub(crate) struct StateFiles {
    dir: PathBuf,
    stored: EnduranceState,
    whole: Instant,
    /// `None` after an error. The next state is then stored in full.
    journal: Option<OutputFile>,
    /// Longest measured time, in seconds, that a crash could have lost. It runs from one stored state to the moment
    /// when the next one was durable.
    longest_gap: f64,
    failure: Option<io::Error>,
}

impl StateFiles {
    /// Stores the state at the start of a part.
    pub(crate) fn create(state: EnduranceState) -> io::Result<StateFiles> {
        let Some(dir) = state.profile.dirs.first().cloned() else {
            return Err(io::Error::other("the test does not have a directory"));
        };
        let (stored, whole) = (state.clone(), Instant::now());
        let mut files = StateFiles { dir, stored, whole, journal: None, longest_gap: 0.0, failure: None };
        files.store_full(state)?;
        Ok(files)
    }

    /// Stores a state. After an error, the files still contain an older state, and [`StateFiles::take_failure`]
    /// returns the error.
    pub(crate) fn store(&mut self, mut state: EnduranceState) {
        let (began, measured) = (Instant::now(), state.seconds - self.stored.seconds);
        if let Some(part) = state.parts.last_mut() {
            part.missing_seconds = self.longest_gap;
        }
        let stored = match self.journal.take().filter(|_| self.whole.elapsed() < FULL_STATE_INTERVAL) {
            Some(journal) => self.append(journal, state),
            None => self.store_full(state),
        };
        match stored {
            Ok(()) => self.longest_gap = self.longest_gap.max(measured + began.elapsed().as_secs_f64()),
            Err(error) => self.failure = Some(error),
        }
    }

    /// Returns the last error and clears it.
    pub(crate) fn take_failure(&mut self) -> Option<io::Error> {
        self.failure.take()
    }

    fn store_full(&mut self, state: EnduranceState) -> io::Result<()> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let state = EnduranceState { number: u64::try_from(now.as_nanos()).unwrap_or(u64::MAX), ..state };
        STATE_FILE.write(&self.dir, &state)?;
        (self.stored, self.whole) = (state, Instant::now());
        self.journal = Some(OutputFile::create(&self.dir.join(JOURNAL))?);
        // The journal's directory entry must survive a machine crash.
        sync_directory(&self.dir)
    }

    fn append(&mut self, mut journal: OutputFile, state: EnduranceState) -> io::Result<()> {
        let before = &self.stored;
        let io = state.io.iter().enumerate().map(|(instance, now)| match before.io.get(instance) {
            Some(earlier) => now.since(earlier),
            None => now.clone(),
        });
        let increment = StateIncrement {
            after: before.number,
            part: state.parts.last().cloned().unwrap_or_default(),
            seconds: state.seconds,
            stalls: state.stalls,
            damage: state.damage.clone(),
            io: io.collect(),
            tally: state.tally.since(&before.tally),
        };
        let mut line = serde_json::to_string(&increment)?;
        line.push('\n');
        journal.write_all(line.as_bytes())?;
        journal.sync()?;
        self.stored = EnduranceState { number: before.number, ..state };
        self.journal = Some(journal);
        Ok(())
    }
}

/// Applies the journal to a complete state. Reading stops at a damaged or truncated line, because the crash occurred
/// while that line was being written.
pub(super) fn with_increments(mut test: EnduranceState, dir: &Path) -> Result<EnduranceState, StartError> {
    let path = dir.join(JOURNAL);
    let unreadable = StartError::io("read", &path);
    let file = match open_input(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(test),
        Err(error) => return Err(unreadable(error)),
    };
    let mut lines = BufReader::new(file.take(STATE_FILE.max_bytes));
    let mut line = Vec::new();
    loop {
        line.clear();
        if let Err(error) = lines.read_until(b'\n', &mut line) {
            return Err(unreadable(error));
        }
        let Ok(more) = serde_json::from_slice::<StateIncrement>(&line) else { return Ok(test) };
        if more.after != test.number || !line.ends_with(b"\n") {
            return Ok(test);
        }
        add_io(&mut test.io, &more.io);
        test.tally.add(&more.tally);
        (test.seconds, test.stalls, test.damage) = (more.seconds, more.stalls, more.damage);
        if let Some(part) = test.parts.last_mut() {
            *part = more.part;
        }
    }
}

/// Removes the journal.
pub(super) fn remove(dir: &Path) -> io::Result<()> {
    match fs::remove_file(dir.join(JOURNAL)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.and_then(|()| sync_directory(dir)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::Measurement;
    use crate::profile::Options;
    use crate::run_tests::scratch;

    /// Returns the state after `seconds` seconds, with one transfer and one insert per second.
    fn state(begun: &EnduranceState, seconds: u32) -> EnduranceState {
        let mut io = InstanceIo::default();
        let mut tally = LoadTally { batches: vec![u64::from(seconds)], ..LoadTally::default() };
        for second in 0..seconds {
            io.log_write.record(4096, 100 + u64::from(second));
            tally.operations[0].record(u64::from(second) + 1);
            tally.counts[0] += 1;
            tally.add_wrong(format!("record {second}"));
        }
        let part = TestPart { measured_seconds: seconds.into(), ..TestPart::default() };
        let measured = Measurement { seconds: seconds.into(), io: vec![io], tally, ..Measurement::default() };
        begun.state_after(&measured, vec![part])
    }

    fn same(one: &EnduranceState, other: &EnduranceState) -> bool {
        let text = |test: &EnduranceState| {
            let parts = vec![TestPart { missing_seconds: 0.0, ..test.parts.last().unwrap().clone() }];
            serde_json::to_string(&EnduranceState { number: 0, parts, ..test.clone() }).unwrap()
        };
        text(one) == text(other)
    }

    #[test]
    fn the_journal_restores_the_last_stored_state() {
        let dir = scratch();
        let options = Options { dirs: vec![dir.path().to_path_buf()], ..Options::default() };
        let begun = EnduranceState::new(&options.resolve().unwrap(), &PathBuf::from("out"));
        let read = || EnduranceState::read(dir.path()).unwrap().unwrap();
        // The directory still contains the journal of an earlier test.
        fs::write(dir.path().join(JOURNAL), "{\"after\":1}\n").unwrap();
        let mut files = StateFiles::create(state(&begun, 0)).unwrap();
        assert!(same(&read(), &state(&begun, 0)));
        for seconds in [1, 2, 30] {
            files.store(state(&begun, seconds));
            assert!(same(&read(), &state(&begun, seconds)), "{seconds}");
        }
        assert!(files.take_failure().is_none() && read().parts[0].missing_seconds > 0.0);

        // Whatever follows the second line, the state after two seconds is read.
        let journal = fs::read(dir.path().join(JOURNAL)).unwrap();
        let lines: Vec<&[u8]> = journal.split_inclusive(|byte| *byte == b'\n').collect();
        let kept = lines[0].len() + lines[1].len();
        for tail in [&b""[..], &b"\0\0\0"[..], &journal[kept..journal.len() - 1], &b"{}\n{}\n"[..]] {
            fs::write(dir.path().join(JOURNAL), [&journal[..kept], tail].concat()).unwrap();
            assert!(same(&read(), &state(&begun, 2)), "{:?}", String::from_utf8_lossy(tail));
        }

        // A complete state supersedes the older journal, even if a crash prevented the journal from being removed.
        fs::write(dir.path().join(JOURNAL), &journal).unwrap();
        let old = fs::read(dir.path().join(JOURNAL)).unwrap();
        files.store_full(state(&begun, 40)).unwrap();
        fs::write(dir.path().join(JOURNAL), old).unwrap();
        assert!(same(&read(), &state(&begun, 40)));
        EnduranceState::remove_files(dir.path()).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_full_state_is_stored_after_a_failed_write() {
        let dir = scratch();
        let options = Options { dirs: vec![dir.path().to_path_buf()], ..Options::default() };
        let begun = EnduranceState::new(&options.resolve().unwrap(), &PathBuf::from("out"));
        let mut files = StateFiles::create(state(&begun, 0)).unwrap();
        // Writes to `/dev/full` fail as if the device were full.
        files.journal = Some(OutputFile::append(Path::new("/dev/full")).unwrap());
        files.store(state(&begun, 1));
        assert!(files.take_failure().is_some());
        files.store(state(&begun, 2));
        assert!(files.take_failure().is_none());
        assert!(same(&EnduranceState::read(dir.path()).unwrap().unwrap(), &state(&begun, 2)));
    }
}
