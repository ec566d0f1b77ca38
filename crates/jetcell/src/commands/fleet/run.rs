//! `jetcell fleet run`: coordinates the hosts of a fleet.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use jetcell_fleet::bus::NatsBus;
use jetcell_fleet::clock::HostClocks;
use jetcell_fleet::config::EXAMPLE;
use jetcell_fleet::nats_server::{NatsServer, NatsServerSecurity};
use jetcell_fleet::result::{FleetResult, FleetVerdict};
use jetcell_fleet::{Coordinator, FleetConfig, PROGRAM_VERSION, StopReason, coordinate, random_token};
use jetcell_host::{Cancellation, Interrupt};
use jetcell_input::{Printable, json_pretty};
use jetcell_workload::units::TimeSpan;

use super::connection::ConnectionOptions;
use super::ssh::SshOptions;
use super::store::FleetStore;
use super::tables::{fleet_text, verdict_line};
use super::view::draw;
use crate::console;
use crate::live::{MetricsServer, Screen};
use crate::outcome::{CommandContext, CommandError, CommandOutcome, CommandResult};
use crate::shared::listen_address::listen_address;

/// Default address on which the command starts a server and to which hosts connect.
pub const DEFAULT_ADDRESS: &str = "127.0.0.1:4222";

const EXAMPLES: &str = "\
Examples:
  jetcell fleet run --config FLEET.toml
      starts nats-server on 127.0.0.1, for hosts that are processes on this machine
  jetcell fleet run --config FLEET.toml --nats tls://nats.example.org:4222 --credentials fleet.creds
      uses an existing server
  jetcell fleet run --config FLEET.toml --listen 10.0.0.5:4222 --token-file token --tls-cert server.pem --tls-key server.key --tls-ca ca.pem
      starts a server that other machines can reach, with TLS and a token
  jetcell fleet run --config FLEET.toml --nats nats://head:4222 --ssh db1,db2,db3 --ssh-allow-dir /srv/jetcell
      starts the hosts by ssh
  jetcell fleet run --config FLEET.toml --alone-first 2m
      each host measures its load alone for two minutes, one after another; then all hosts measure together

If the coordinator is killed, start it again with the same command within the fleet's lease: it resumes the run.

Files:
  OUTPUT/fleet-state.json      exists while a run is in progress
  OUTPUT/Fleet_<time>/         fleet.json, report.html; result.json and samples.csv of all hosts as one run, which jetcell report and
                               jetcell compare read; host-N/ with the result of each host

Exit code: 0 pass, 1 fail, invalid or stopped early, 2 could not run.
Ctrl-C stops the tests on all hosts cleanly, and each host still reports; a second Ctrl-C stops immediately.";

/// Coordinate a test across many hosts
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct FleetRunArgs {
    /// Configuration file of the fleet
    #[arg(long, value_name = "FILE", required_unless_present = "example_config")]
    config: Option<PathBuf>,
    /// Print a complete configuration with comments
    #[arg(long)]
    example_config: bool,
    #[command(flatten)]
    connection: ConnectionOptions,
    /// Address on which to start a server if --nats is not specified
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = listen_address, default_value = DEFAULT_ADDRESS, conflicts_with = "nats")]
    listen: SocketAddr,
    /// Certificate for the server that this command starts
    #[arg(long, value_name = "FILE", requires = "tls_key", conflicts_with = "nats")]
    tls_cert: Option<PathBuf>,
    /// Private key for this certificate
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    #[command(flatten)]
    ssh: SshOptions,
    /// Let each host first measure its load alone, one host after the other, so that the report shows how hosts that
    /// share storage slow each other down; without a time, each host measures for the duration of its test
    #[arg(long, value_name = "TIME", num_args = 0..=1)]
    alone_first: Option<Option<TimeSpan>>,
    /// Discard an unfinished run, and start a new one
    #[arg(long)]
    new: bool,
    /// Serve live figures for all hosts as OpenMetrics text over HTTP; without an address, only on the loopback
    /// interface
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = listen_address)]
    metrics: Option<SocketAddr>,
    /// Show all hosts in the terminal while they run, instead of the progress line
    #[arg(long, conflicts_with = "quiet")]
    live: bool,
    /// Print fleet.json on stdout instead of the summary
    #[arg(long)]
    json: bool,
    /// Print the verdict only
    #[arg(long)]
    quiet: bool,
}

impl FleetRunArgs {
    /// Runs the command.
    pub fn run(self) -> CommandResult {
        if self.example_config {
            console::print(EXAMPLE);
            return Ok(CommandOutcome::Good);
        }
        self.coordinate()
    }

    /// Starts a server if no server address was given.
    fn server(&self, directory: &Path) -> CommandResult<Option<NatsServer>> {
        if self.connection.nats.is_some() {
            return Ok(None);
        }
        let security = NatsServerSecurity {
            token_file: self.connection.token_file.clone(),
            tls: self.tls_cert.clone().zip(self.tls_key.clone()),
        };
        let started = NatsServer::start(self.listen, &security, directory);
        Ok(Some(started?))
    }

    fn coordinate(self) -> CommandResult {
        let path = self.config.clone().unwrap_or_default();
        let mut config = FleetConfig::read(&path)?;
        if let Some(span) = self.alone_first {
            let asked = config.measure_alone_first(span);
            asked.context("--alone-first")?;
        }
        self.ssh.check(config.size())?;
        let clocks = HostClocks::start();
        let (mut store, saved) = FleetStore::open(&config, self.new, self.quiet || self.json || self.live)?;
        let (now, epoch) = (clocks.steady_ns(), random_token());
        let mut coordinator = match saved {
            Some(saved) => {
                let resumed = Coordinator::resume(config, PROGRAM_VERSION, saved, epoch, now)?;
                store.show_message("The interrupted run continues.");
                resumed
            }
            None => Coordinator::new(config, PROGRAM_VERSION, random_token(), epoch, now),
        };
        let stop = Cancellation::default();
        let interrupt = Interrupt::new(&stop);
        interrupt.install()?;
        let screen = self.live.then(|| {
            let (monitor, stopping) = (store.monitor(), stop.clone());
            Screen::open(move |frame| draw(frame, &monitor.state(), stopping.is_cancelled()), interrupt)
        });
        let screen = screen.transpose()?;
        let result = self.with_server(&mut coordinator, clocks, &mut store, &stop)?;
        drop(screen);
        self.end(&result, &store)
    }

    fn with_server(
        &self,
        coordinator: &mut Coordinator,
        clocks: HostClocks,
        store: &mut FleetStore,
        stop: &Cancellation,
    ) -> CommandResult<FleetResult> {
        let directory = tempfile::tempdir().context("cannot create a directory for nats-server")?;
        let server = self.server(directory.path())?;
        let url = match (&server, &self.connection.nats) {
            (Some(server), _) => server.url(),
            (None, Some(url)) => url.clone(),
            (None, None) => format!("nats://{DEFAULT_ADDRESS}"),
        };
        let bus = NatsBus::connect(&self.connection.access(url.clone()), &coordinator.subscriptions())?;
        let serve = |address| MetricsServer::start(address, Box::new(store.monitor()));
        let metrics = self.metrics.map(serve).transpose()?;
        if let Some(metrics) = &metrics {
            store.show_message(&format!("Metrics: {}", metrics.url()));
        }
        // The hosts of a resumed run are already running.
        let is_new = coordinator.members().next().is_none();
        let token = self.connection.token_file.as_deref();
        let name = coordinator.config().name.clone();
        let hosts = is_new.then(|| self.ssh.start(&name, &url, token)).transpose()?;
        coordinate(coordinator, clocks, &bus, store, stop);
        if let Some(hosts) = hosts {
            let is_lost = |rank: u32| coordinator.member(rank).is_none_or(|member| member.loss().is_some());
            hosts.end(|rank| is_lost(u32::try_from(rank).unwrap_or(u32::MAX)));
        }
        drop(bus);
        drop(server);
        if let Some(StopReason::Refused(reason)) = coordinator.stop_reason() {
            store.files.abandon();
            return Err(CommandError::new(reason.to_string()));
        }
        store.finish(coordinator)
    }

    fn end(&self, result: &FleetResult, store: &FleetStore) -> CommandResult {
        if self.json {
            console::print_json(&json_pretty(result)?);
        } else if self.quiet {
            console::print_styled(&verdict_line(result, usize::MAX));
        } else {
            let mut text = fleet_text(result, console::width());
            let page = store.files.path().join("report.html");
            text += &format!("\n  Report: {}\n", Printable(page.display()));
            console::print_styled(&text);
        }
        Ok(match result.verdict {
            FleetVerdict::Pass => CommandOutcome::Good,
            FleetVerdict::Fail | FleetVerdict::Invalid | FleetVerdict::Incomplete => CommandOutcome::Findings,
        })
    }
}
