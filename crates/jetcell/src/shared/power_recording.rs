//! Records the readings of a meter in a log, on the caller's thread or on a separate thread.

use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use jetcell_power::{MeterKind, MeterScope, PowerMeter, PowerRecorder};

use crate::console;
use crate::outcome::{CommandContext, CommandError, CommandResult};

/// Records a power meter's readings to a log.
pub struct PowerRecording {
    meter: PowerMeter,
    recorder: PowerRecorder,
    /// Number of failed readings.
    pub failures: u64,
}

impl PowerRecording {
    /// Opens a meter and creates a log that contains a first reading.
    pub fn open(kind: &MeterKind, scope: Option<MeterScope>, output: &Path) -> CommandResult<PowerRecording> {
        let scope = match (scope, kind.scope()) {
            (None, None) => {
                return Err(CommandError::new(format_args!("{kind} does not report its scope"))
                    .advise("specify the scope: drive, enclosure, server or processor"));
            }
            (Some(given), Some(own)) if given != own => {
                return Err(CommandError::new(format_args!("{kind} measures {own}")).advise("omit the scope"));
            }
            (given, own) => given.or(own).unwrap_or(MeterScope::Server),
        };
        let mut meter = kind.open()?;
        let first = meter.read()?;
        let recorder = PowerRecorder::create(output, scope, now_ms(), first)?;
        Ok(PowerRecording { meter, recorder, failures: 0 })
    }

    /// Adds a reading. A temporary failure of the meter leaves a gap in the log. Returns an error if the log cannot be
    /// written, or if the meter will not return another reading.
    pub fn read(&mut self) -> CommandResult<()> {
        match self.meter.read() {
            Ok(reading) => Ok(self.recorder.add(now_ms(), reading)?),
            Err(error) if error.is_temporary() => {
                self.failures += 1;
                if self.failures == 1 {
                    console::print_note(&format!("{}; retrying", CommandError::from(error).full_text()));
                }
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Reads the meter periodically in a thread, until [`RecordingThread::finish`] is called.
    pub fn start_thread(mut self, interval: Duration) -> CommandResult<RecordingThread> {
        let (stop, stopped) = mpsc::channel();
        let work = move || {
            loop {
                let ends = !matches!(stopped.recv_timeout(interval), Err(RecvTimeoutError::Timeout));
                self.read()?;
                if ends {
                    return Ok(());
                }
            }
        };
        let spawned = thread::Builder::new().name("power meter".into()).spawn(work);
        let thread = spawned.context("could not start the meter thread")?;
        Ok(RecordingThread { stop, thread })
    }
}

/// A thread that reads a power meter periodically.
pub struct RecordingThread {
    stop: Sender<()>,
    thread: JoinHandle<CommandResult<()>>,
}

impl RecordingThread {
    /// Takes a last reading and ends the thread.
    pub fn finish(self) -> CommandResult<()> {
        drop(self.stop);
        self.thread.join().unwrap_or_else(|_| Err(CommandError::new("the meter thread panicked")))
    }
}

fn now_ms() -> i64 {
    chrono::Utc::now().timestamp_millis()
}
