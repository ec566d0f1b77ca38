//! Alternating runs of the mail load in several directories, to compare them.

use std::path::{Path, PathBuf};

use jetcell_host::{Cancellation, Interrupt};
use jetcell_lab::filesystems::figures;
use jetcell_workload::engine_ese::{Backend, EseEngine};
use jetcell_workload::profile::TestConfiguration;
use jetcell_workload::{ConfigurationError, Observer, Options, RunPhase, TestKind, run};

use crate::console;
use crate::outcome::{CommandContext, CommandError, CommandOutcome, CommandResult};

/// Returns the error of a test that the user stopped with Ctrl-C.
pub fn interrupted() -> CommandError {
    CommandError::new("stopped")
        .advise("an incomplete test has no result")
        .with_outcome(CommandOutcome::Findings)
}

/// Returns the load options, after checking that they are valid for each directory.
pub fn load_options(
    given: Options,
    config: Option<&Path>,
    directories: &[PathBuf],
) -> CommandResult<Options> {
    let file = match config {
        Some(path) => TestConfiguration::read(path, TestKind::Performance, &given).map_err(first_mistake)?,
        None => TestConfiguration::default(),
    };
    let options = Options { log_dirs: Vec::new(), ..given.over(file.options) };
    for path in directories {
        let options = Options { dirs: vec![path.clone()], ..options.clone() };
        options.resolve_for(TestKind::Performance).map_err(first_mistake)?;
    }
    Ok(options)
}

/// Returns the first mistake in a configuration as an error.
fn first_mistake(mistakes: Vec<ConfigurationError>) -> CommandError {
    mistakes.into_iter().next().map_or_else(|| CommandError::new("invalid options"), CommandError::from)
}

/// Runs the load several times, alternating between its variants. Ctrl-C stops it.
pub struct LoadTurns {
    options: Options,
    engine: EseEngine,
    stop: Cancellation,
}

impl LoadTurns {
    /// Installs the Ctrl-C handler. The first Ctrl-C ends the test, and the second one ends the process, unless the
    /// test must clean up.
    pub fn new(options: Options, cleans_up: bool) -> CommandResult<LoadTurns> {
        let stop = Cancellation::default();
        let interrupt = if cleans_up {
            let text = "file systems are being unmounted; wait until this completes";
            Interrupt::without_exit(&stop, || console::print_note(text))
        } else {
            Interrupt::new(&stop)
        };
        interrupt.install()?;
        let engine =
            EseEngine::with_mounts(Backend::Auto, Vec::new()).context("could not start the I/O backend")?;
        Ok(LoadTurns { options, engine, stop })
    }

    /// Returns the cancellation that Ctrl-C triggers.
    pub fn cancellation(&self) -> &Cancellation {
        &self.stop
    }

    /// Runs the load in a directory, with its existing databases or with new ones, and stores the result in `output`.
    /// Returns the value of each row of the result table.
    pub fn measure(&self, directory: &Path, output: &Path, open: bool) -> CommandResult<Vec<f64>> {
        let at = directory.display();
        let options = Options {
            dirs: vec![directory.into()],
            open: Some(open),
            output: Some(output.into()),
            ..self.options.clone()
        };
        let profile = options.resolve_for(TestKind::Performance).map_err(first_mistake).context(&at)?;
        let finished = run(&profile, &self.engine, &mut QuietObserver, &self.stop).context(&at)?;
        finished
            .result
            .write(&output.join("result.json"))
            .context(format_args!("{at}: {} cannot be written", output.display()))?;
        if self.stop.is_cancelled() { Err(interrupted()) } else { Ok(figures(&finished.result).to_vec()) }
    }
}

/// Observer that does not show the phases of a turn.
struct QuietObserver;

impl Observer for QuietObserver {
    fn begin_phase(&mut self, _: RunPhase, _: u64) {}
    fn advance(&mut self, _: u64, _: &str) {}
    fn log(&mut self, _: &str) {}
}
