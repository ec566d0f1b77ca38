//! Tests with the mail load. One generic type builds the profile from the options, runs it and reports the result.

use std::io::{IsTerminal, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use jetcell_host::{Cancellation, Interrupt};
use jetcell_input::{Printable, json_pretty};
use jetcell_vfs::replace_output;
use jetcell_workload::engine_ese::{Backend, EseEngine};
use jetcell_workload::profile::{EXAMPLE, TestConfiguration};
use jetcell_workload::{
    ConfigurationError, DEFAULT_DIRECTORY, FinishedRun, Profile, Verdict, run, with_interrupted_options,
};

use super::kind::StorageTestCommand;
use super::power_options::PowerOptions;
use super::workload_options::WorkloadOptions;
use crate::console;
use crate::live::{MetricsServer, MonitorObserver, RunMetrics, RunMonitor, RunProgressDisplay, Screen};
use crate::outcome::{CommandContext, CommandError, CommandOutcome, CommandResult};
use crate::shared::array_volumes::{self, array_counters, mount_arrays};
use crate::shared::listen_address::listen_address;

/// A storage test on the command line.
#[derive(Args)]
#[command(after_help = T::EXAMPLES)]
pub struct StorageTestArgs<T: StorageTestCommand> {
    #[command(flatten)]
    options: WorkloadOptions<T>,
    /// Read options from a TOML file or a JetstressConfig.xml; command line options take precedence
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print a complete configuration file with comments
    #[arg(long)]
    example_config: bool,
    /// Kernel interface for I/O
    #[arg(long, value_enum, default_value_t = IoInterface::Auto)]
    io: IoInterface,
    #[command(flatten)]
    power: PowerOptions,
    /// Show charts of the last minutes in the terminal during the run
    #[arg(long)]
    live: bool,
    /// Serve the counters as OpenMetrics text over HTTP; without an address, only on the loopback interface
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = listen_address)]
    metrics: Option<SocketAddr>,
    /// Print result.json on stdout instead of the summary
    #[arg(long)]
    json: bool,
    /// Print the verdict only: no progress and no tables
    #[arg(long)]
    quiet: bool,
}

/// Kernel interface for I/O.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum IoInterface {
    /// io_uring if the kernel allows it, otherwise threads
    Auto,
    /// io_uring
    Uring,
    /// Pool of threads
    Threads,
}

impl<T: StorageTestCommand> StorageTestArgs<T> {
    /// Runs the command.
    pub fn run(self) -> CommandResult {
        if self.example_config {
            console::print(EXAMPLE);
            return Ok(CommandOutcome::Good);
        }
        let (io, live, metrics, quiet) = (self.io, self.live, self.metrics, self.quiet);
        let power = self.power.clone();
        let shown = match (self.json, quiet) {
            (true, _) => ResultOutput::Json,
            (false, true) => ResultOutput::Verdict,
            (false, false) => ResultOutput::Summary,
        };
        let (profile, arrays) = match self.profile() {
            Ok(found) => found,
            Err(lines) => {
                for line in lines {
                    line.print();
                }
                return Ok(CommandOutcome::CouldNotRun);
            }
        };
        let monitor = RunMonitor::default();
        let stop = Cancellation::default();
        let interrupt = interrupt(&stop, monitor.clone(), live);
        interrupt.install()?;
        let backend = match io {
            IoInterface::Auto => Backend::Auto,
            IoInterface::Uring => Backend::Uring,
            IoInterface::Threads => Backend::Threads,
        };
        let volumes = mount_arrays(arrays)?;
        let engine = EseEngine::with_mounts(backend, volumes.mounts())
            .context("could not start the I/O backend")
            .advise("try --io threads")?
            .with_array_storage(volumes.storage());
        let engine = match array_counters(&volumes) {
            Some(read) => engine.with_array_counters(read),
            None => engine,
        };
        let mut observers = start_observers(&monitor, interrupt, live, metrics, quiet)?;
        let meter = power.start(profile.duration.0)?;
        let finished = run(&profile, &engine, &mut observers.watcher, &stop);
        observers.watcher.finish();
        volumes.close()?;
        let mut finished = finished?;
        meter.finish(&mut finished.result);
        drop(observers);
        report(&finished, shown)
    }

    /// Returns the profile, and the arrays named in its directories.
    fn profile(self) -> Result<(Profile, Vec<PathBuf>), Vec<CommandError>> {
        let errors = |mistakes: Vec<ConfigurationError>| -> Vec<CommandError> {
            mistakes.into_iter().map(CommandError::from).collect()
        };
        let one = |error| vec![error];
        let file = match &self.config {
            Some(path) => TestConfiguration::read(path, T::KIND, &self.options.options).map_err(errors)?,
            None => TestConfiguration::default(),
        };
        let mut options = self.options.options.over(file.options);
        if options.dirs.is_empty() {
            options.dirs = vec![DEFAULT_DIRECTORY.into()];
        }
        let mut arrays = array_volumes::resolve_array_directories(&mut options.dirs).map_err(one)?;
        arrays.extend(array_volumes::resolve_array_directories(&mut options.log_dirs).map_err(one)?);
        array_volumes::check_test(T::KIND, options.to.as_deref(), &arrays).map_err(one)?;
        let options = with_interrupted_options(options, T::KIND).map_err(|refusal| vec![refusal.into()])?;
        let profile = options.resolve_for(T::KIND).map_err(errors)?;
        file.notes.iter().for_each(|note| console::print_note(note));
        Ok((profile, arrays))
    }
}

/// Observers of a run. Dropping this value stops them.
struct RunObservers {
    watcher: MonitorObserver,
    _screen: Option<Screen>,
    _metrics: Option<MetricsServer>,
}

/// Starts the requested observers. If this fails, the run has not changed anything yet.
fn start_observers(
    monitor: &RunMonitor,
    interrupt: Interrupt,
    live: bool,
    metrics: Option<SocketAddr>,
    quiet: bool,
) -> CommandResult<RunObservers> {
    let serve = |address| MetricsServer::start(address, Box::new(RunMetrics(monitor.clone())));
    let metrics = metrics.map(serve).transpose()?;
    if let Some(server) = &metrics {
        console::print_note(&format!("Metrics: {}", server.url()));
    }
    let screen = live.then(|| Screen::open_for_run(monitor.clone(), interrupt)).transpose()?;
    let watcher = MonitorObserver::new(monitor.clone(), (!live && !quiet).then(RunProgressDisplay::new));
    Ok(RunObservers { watcher, _screen: screen, _metrics: metrics })
}

/// Returns the reaction to Ctrl-C: the first one requests the end of the run, and the second one ends the process.
fn interrupt(stop: &Cancellation, monitor: RunMonitor, live: bool) -> Interrupt {
    Interrupt::with_first(stop, move || {
        monitor.mark_stopping();
        if !live {
            // The terminal has printed ^C without a line end after it.
            let line_end = if std::io::stderr().is_terminal() { "\n" } else { "" };
            let text = "jetcell: stopping cleanly; press Ctrl-C again to stop immediately";
            let _ = writeln!(std::io::stderr(), "{line_end}{text}");
        }
    })
}

/// Stores the results before printing them, so they are not lost if the output pipe is closed.
fn report(finished: &FinishedRun, shown: ResultOutput) -> CommandResult {
    let result = &finished.result;
    let output = &result.plan.output;
    let stored = store(finished, output);
    let page = output.join("report.html");
    match shown {
        ResultOutput::Json => console::print_json(&json_pretty(result)?),
        ResultOutput::Verdict => {
            console::print_styled(&jetcell_report::verdict_line(
                result.verdict,
                &result.reason,
                console::width(),
            ));
        }
        ResultOutput::Summary => {
            let mut text = jetcell_report::text(result, &finished.samples, console::width());
            if stored.is_ok() {
                text += &format!("\n  Report: {}\n", Printable(page.display()));
            }
            console::print_styled(&text);
        }
    }
    stored
        .context(format_args!("{}: could not write results", output.display()))
        .advise("free some space, and check result.json for the stored results")?;
    Ok(match result.verdict {
        Verdict::Pass => CommandOutcome::Good,
        Verdict::Fail | Verdict::Incomplete => CommandOutcome::Findings,
    })
}

/// Form in which the result of a run is printed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ResultOutput {
    Summary,
    Verdict,
    Json,
}

/// Stores the result of a test with its report.
pub fn store(finished: &FinishedRun, output: &Path) -> std::io::Result<()> {
    finished.result.write(&output.join("result.json"))?;
    replace_output(&output.join("report.html"), jetcell_report::html(&finished.result, &finished.samples))
}
