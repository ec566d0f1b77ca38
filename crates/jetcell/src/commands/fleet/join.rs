//! `jetcell fleet join`: lets a host take part in a fleet test.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use jetcell_fleet::bus::{NatsAccess, NatsBus};
use jetcell_fleet::config::is_valid_name;
use jetcell_fleet::{
    FleetConfig, FleetRank, HostIdentity, HostLimits, HostProgress as FleetProgress, HostSession,
    JoinOutcome, PROGRAM_VERSION, SessionEnd, StorageTestTask, join, random_token,
};
use jetcell_host::{Cancellation, cancelled_by_signals, host_name};
use jetcell_workload::units::{ByteSize, TimeSpan};
use jetcell_workload::{FinishedRun, Verdict};

use super::connection::ConnectionOptions;
use super::run::DEFAULT_ADDRESS;
use crate::commands::test::store;
use crate::console;
use crate::live::{MonitorObserver, RunMonitor, RunProgressDisplay};
use crate::outcome::{CommandError, CommandOutcome, CommandResult};

/// Maximum time for a NATS server to start.
const SERVER_START_TIMEOUT: Duration = Duration::from_secs(30);

/// Pause before the next attempt to connect to a server.
const CONNECT_RETRY_INTERVAL: Duration = Duration::from_millis(300);

const EXAMPLES: &str = "\
Examples:
  jetcell fleet join --fleet mail-cluster --rank 1 --allow-dir /srv/jetcell --max-size 200GiB
      the second host of a fleet whose coordinator is on this machine
  mpirun --host db1,db2 jetcell fleet join --fleet mail-cluster --nats nats://head:4222 --token-file /etc/jetcell/token --allow-dir /srv/jetcell
      rank and size come from Open MPI; Slurm, PMIx and indexed jobs of Kubernetes are also supported

The coordinator chooses the options of the test, which are those of jetcell test. The host refuses them if a directory is not below
--allow-dir, if databases would be larger than --max-size, or if files would be replaced without --allow-replace. No message makes
the host do anything else. A host that receives no message from the coordinator for the duration of the fleet's lease stops its test
and keeps the result.

Exit code: 0 the result was delivered and its verdict is a pass, 1 the verdict is not a pass, or the result was not delivered, 2 could not run.
Ctrl-C stops the test on this host cleanly; its result is still delivered.";

/// Take part in a fleet test
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct FleetJoinArgs {
    /// Name of the fleet
    #[arg(long, value_name = "NAME")]
    fleet: String,
    #[command(flatten)]
    connection: ConnectionOptions,
    /// Directory to which tests may write; may be repeated
    #[arg(long, value_name = "DIR", required = true)]
    allow_dir: Vec<PathBuf>,
    /// Maximum total size of a test's databases, including their growth and copies
    #[arg(long, value_name = "SIZE")]
    max_size: Option<ByteSize>,
    /// Let tests replace existing databases, if they use the option force
    #[arg(long)]
    allow_replace: bool,
    /// Number of this host, from 0; by default taken from the launcher
    #[arg(long, value_name = "N")]
    rank: Option<u32>,
    /// Number of hosts; by default taken from the launcher
    #[arg(long, value_name = "N", requires = "rank")]
    size: Option<u32>,
    /// Check that the coordinator has the same configuration as this file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Maximum time to wait for the coordinator
    #[arg(long, value_name = "TIME", default_value = "10m")]
    timeout: TimeSpan,
    /// Show no progress
    #[arg(long)]
    quiet: bool,
}

impl FleetJoinArgs {
    fn host_limits(&self) -> CommandResult<HostLimits> {
        for directory in &self.allow_dir {
            if !directory.is_dir() {
                return Err(CommandError::new(format_args!(
                    "--allow-dir {}: not a directory",
                    directory.display()
                ))
                .advise("create it"));
            }
        }
        Ok(HostLimits {
            directories: self.allow_dir.clone(),
            max_bytes: self.max_size.map(|size| size.0),
            allow_replacing: self.allow_replace,
        })
    }

    /// Runs the command.
    pub fn run(self) -> CommandResult {
        if !is_valid_name(&self.fleet) {
            return Err(CommandError::new("--fleet: the name is not valid")
                .advise("write 1 to 64 letters, digits, - and _"));
        }
        let limits = self.host_limits()?;
        let rank = FleetRank::detect(self.rank, self.size, |name| std::env::var(name).ok())?;
        let configuration = self.config.as_deref().map(FleetConfig::read).transpose()?;
        let configuration = configuration.map(|config| config.digest);
        let identity =
            HostIdentity { fleet_rank: rank, token: random_token(), name: host_name(), configuration };

        let interrupted = cancelled_by_signals()?;

        let url = self.connection.nats.clone().unwrap_or_else(|| format!("nats://{DEFAULT_ADDRESS}"));
        let patience = self.timeout.0;
        let mut session =
            HostSession::new(&self.fleet, PROGRAM_VERSION, identity, FleetProgress::default(), patience);
        let bus = connect(&self.connection.access(url), &session, &interrupted)?;
        let mut watcher =
            MonitorObserver::new(RunMonitor::default(), (!self.quiet).then(RunProgressDisplay::new));
        let mut own = None;
        let mut work = StorageTestTask::new(limits, &mut watcher, |finished: &FinishedRun| {
            let output = &finished.result.plan.output;
            if let Err(error) = store(finished, output) {
                CommandError::new(format_args!("{}: could not write results: {error}", output.display()))
                    .advise("free some space")
                    .print();
            }
            own = Some((finished.result.verdict, finished.result.reason.clone(), output.clone()));
        });
        let left = join(&bus, &mut session, &mut work, &interrupted);
        drop(work);
        watcher.finish();
        report_session_end(left, own)
    }
}

/// Connects to the server. Launchers start all hosts at the same time, so the server may not be running yet.
fn connect(access: &NatsAccess, session: &HostSession, interrupted: &Cancellation) -> CommandResult<NatsBus> {
    let began = Instant::now();
    loop {
        match NatsBus::connect(access, &session.subscriptions()) {
            Ok(bus) => return Ok(bus),
            Err(error)
                if error.is_unreachable()
                    && began.elapsed() < SERVER_START_TIMEOUT
                    && !interrupted.is_cancelled() =>
            {
                std::thread::sleep(CONNECT_RETRY_INTERVAL);
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Prints the result of the test and returns the outcome.
fn report_session_end(left: JoinOutcome, own: Option<(Verdict, String, PathBuf)>) -> CommandResult {
    if let Some((_, reason, output)) = &own {
        console::print_note(&format!("This host: {reason}; results in {}", output.display()));
    }
    let passed = own.is_some_and(|(verdict, ..)| verdict == Verdict::Pass);
    match (left.session_end, left.stop_reason) {
        (SessionEnd::ResultDelivered, None) if passed => Ok(CommandOutcome::Good),
        (SessionEnd::ResultDelivered, None) => Ok(CommandOutcome::Findings),
        (SessionEnd::ResultDelivered, Some(reason)) | (SessionEnd::ResultNotDelivered(reason), _) => {
            Err(CommandError::new(reason).with_outcome(CommandOutcome::Findings))
        }
        (SessionEnd::Refused(reason), _) => Err(CommandError::new(reason)),
    }
}
