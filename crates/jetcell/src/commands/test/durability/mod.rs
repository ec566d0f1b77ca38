//! `jetcell test durability`: tests whether storage keeps the writes that it has acknowledged.

mod storage;

use std::fs;
use std::io::BufReader;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use jetcell_durability::{
    DurabilityJournalHeader, FailureLevel, FileWitness, Journal, OperationNumber, TcpWitness, TestedStorage,
    Witness, WitnessListener, WitnessLocation, WriteError, WriterOutcome, verify, write,
};
use jetcell_host::machine::DirectoryStorage;
use jetcell_host::{Cancellation, ProgressReport, cancelled_by_signals};
use jetcell_input::json_pretty;
use jetcell_report::{durability_html, durability_markdown, durability_text};
use jetcell_vfs::{open_input, parent_directory};
use jetcell_workload::units::TimeSpan;

use self::storage::DurabilityTarget;
use crate::console;
use crate::outcome::{CommandContext, CommandError, CommandOutcome, CommandResult};
use crate::shared::empty_directory::require_empty;
use crate::shared::listen_address::listen_address;
use crate::shared::result_directory::store;

const EXAMPLES: &str = "\
Examples:
  jetcell test durability --listen 0.0.0.0:9200 --journal witness.jsonl
      on another host: the witness, which records the acknowledged writes
  jetcell test durability /mnt/tested/run --witness tcp:otherhost:9200
      on the machine whose power will be cut: writes until the cut
  jetcell test durability /mnt/tested/run --verify witness.jsonl
      after the cut, with the journal of the witness: what was lost, torn or reordered
  jetcell test durability /mnt/tested/run --witness /mnt/other/witness.jsonl --level reset
      the witness is a file on another disk; the machine will be reset, and the drives keep their power
  jetcell test durability run --witness witness.jsonl --level process --duration 10s
      the writer will be killed; every completed operation must be present
  jetcell test durability array:arr1 --level reset --witness tcp:otherhost:9200
      an array made by jetcell raid create, or with array:arr1/LUN one of its LUNs; stop the writer with kill -9, and verify with --same-boot
  jetcell test durability /mnt/tested/run --verify witness.jsonl --output verdict
      also stores the verdict as report.html, report.md and result.json in the directory verdict

The directory must be new or empty. The test needs 128 MiB. Verification changes nothing.
docs/test-durability.md explains how to cut the power with a switch, IPMI, or a virtual machine.

Exit code: 0 written, or all acknowledged writes are present; 1 an operation failed, or acknowledged writes are missing; 2 could not run.";

/// File that identifies the kernel's current boot.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Test whether storage keeps acknowledged writes when the power is cut
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct DurabilityTestArgs {
    /// Directory on the storage under test, or array:DIR or array:DIR/LUN
    #[arg(value_name = "DIR", required_unless_present = "listen", conflicts_with = "listen")]
    directory: Option<PathBuf>,
    /// Witness that records the acknowledged writes: tcp:HOST:PORT, or a new file on another disk
    #[arg(long, value_name = "WITNESS", required_unless_present_any = ["listen", "verify"])]
    witness: Option<WitnessLocation>,
    /// Failure that the storage must survive
    #[arg(long, value_enum, value_name = "LEVEL", default_value_t = LevelName::Power, conflicts_with_all = ["verify", "listen"])]
    level: LevelName,
    /// End the test after this time, for example 60s [default: at the power cut, or at Ctrl-C]
    #[arg(long, value_name = "TIME", conflicts_with_all = ["verify", "listen"])]
    duration: Option<TimeSpan>,
    /// Seed for all operations [default: the current time]
    #[arg(long, value_name = "N", conflicts_with_all = ["verify", "listen"])]
    seed: Option<u64>,
    /// Run no ESE engine transactions
    #[arg(long, conflicts_with_all = ["verify", "listen"])]
    no_transactions: bool,
    /// Compare the directory with this journal of the witness
    #[arg(long, value_name = "JOURNAL", conflicts_with_all = ["witness", "listen"])]
    verify: Option<PathBuf>,
    /// Verify although this machine was not restarted, because only the storage was cut off and then mounted again
    #[arg(long, requires = "verify")]
    same_boot: bool,
    /// Run as the witness for a writer on another host or in another process
    #[arg(long, value_name = "[ADDRESS:]PORT", requires = "journal", value_parser = listen_address)]
    listen: Option<SocketAddr>,
    /// File in which the witness stores the journal
    #[arg(long, value_name = "FILE", requires = "listen")]
    journal: Option<PathBuf>,
    /// Directory for the verdict as report.html, report.md and result.json; it must be empty or new
    #[arg(long, value_name = "DIR", requires = "verify")]
    output: Option<PathBuf>,
    /// Print the verification as JSON
    #[arg(long, requires = "verify")]
    json: bool,
    /// Print no progress
    #[arg(long)]
    quiet: bool,
}

/// Failure that the storage must survive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum LevelName {
    /// The writer is killed
    Process,
    /// The machine is reset; drives keep their power
    Reset,
    /// Power is cut to the machine and its drives
    Power,
}

impl From<LevelName> for FailureLevel {
    fn from(name: LevelName) -> FailureLevel {
        match name {
            LevelName::Process => FailureLevel::Process,
            LevelName::Reset => FailureLevel::Reset,
            LevelName::Power => FailureLevel::Power,
        }
    }
}

impl DurabilityTestArgs {
    /// Runs the command.
    pub fn run(self) -> CommandResult {
        match (&self.directory, &self.verify, &self.witness, self.listen.zip(self.journal.as_ref())) {
            (.., Some((address, journal))) => self.listen(address, journal),
            (Some(directory), Some(journal), ..) => self.verify(directory, journal),
            (Some(directory), None, Some(witness), None) => self.write(directory, witness),
            _ => Err(CommandError::new("nothing to test or to listen on")
                .advise("specify a directory, or use --listen with --journal")),
        }
    }

    fn note(&self, line: &str) {
        if !self.quiet {
            console::print_note(line);
        }
    }

    fn write(&self, directory: &Path, witness: &WitnessLocation) -> CommandResult {
        let tested = DurabilityTarget::detect(directory)?;
        if tested.is_array() && self.level == LevelName::Process {
            return Err(CommandError::new(
                "an array runs inside the writer process, so killing that process resets the array",
            )
            .advise("use --level reset"));
        }
        if !tested.is_array() {
            require_empty(directory, "test")?;
        }
        self.check_witness_location(&tested, witness)?;
        let cancel = cancelled_by_signals()?;
        let written = tested.with_storage(|storage| {
            tested.check_free_space(&*storage.direct)?;
            self.write_until_stopped(&tested, witness, storage, &cancel)
        })?;
        match written.failed {
            Some((operation, error)) => {
                CommandError::new(format_args!("operation {} failed: {error}", operation.0))
                    .advise(
                        "if this was the power cut, verify the operations that were acknowledged before it",
                    )
                    .print();
                Ok(CommandOutcome::Findings)
            }
            None if written.last.0 == 0 => {
                Err(CommandError::new(format_args!("{}: nothing was acknowledged", directory.display()))
                    .advise("let the writer run longer"))
            }
            None => {
                self.note(&format!(
                    "test ended; the last operation that the witness recorded is {}",
                    written.last.0
                ));
                Ok(CommandOutcome::Good)
            }
        }
    }

    /// Writes until the test is stopped, its time has elapsed, or the storage fails.
    fn write_until_stopped(
        &self,
        tested: &DurabilityTarget,
        witness: &WitnessLocation,
        storage: &TestedStorage,
        cancel: &Cancellation,
    ) -> CommandResult<WriterOutcome> {
        let mut witness = open_witness(witness)?;
        let clock = storage.direct.clock();
        let seed = self.seed.unwrap_or(clock.unix_ms().unsigned_abs());
        let begin = DurabilityJournalHeader {
            boot: boot_id(),
            unix_ms: clock.unix_ms(),
            storage: Some(DirectoryStorage::examine(tested.existing_path())),
            ..DurabilityJournalHeader::new(
                seed,
                self.level.into(),
                !self.no_transactions,
                tested.directory().into(),
            )
        };
        self.note(&format!(
            "{}: writing; cut the power at any time, or stop with Ctrl-C",
            tested.directory().display()
        ));
        let (began, mut line) = (Instant::now(), Instant::now());
        let limit = self.duration.map_or(Duration::MAX, |span| span.0);
        let mut go_on = |at: OperationNumber| {
            if line.elapsed() >= ProgressReport::PLAIN_INTERVAL {
                line = Instant::now();
                self.note(&format!("{} operations in {} s", at.0, began.elapsed().as_secs()));
            }
            !cancel.is_cancelled() && began.elapsed() < limit
        };
        write(storage, tested.directory(), &begin, &mut *witness, &mut go_on).map_err(|error| match error {
            WriteError::Witness(_) => {
                CommandError::from(error).advise("operations recorded before the error can be verified")
            }
            other => other.into(),
        })
    }

    /// Fails if the witness is a file on a disk that would be cut off together with the tested storage.
    fn check_witness_location(
        &self,
        tested: &DurabilityTarget,
        witness: &WitnessLocation,
    ) -> CommandResult<()> {
        let WitnessLocation::File(path) = witness else { return Ok(()) };
        if self.level == LevelName::Process {
            return Ok(());
        }
        let shown = path.display();
        match tested.shares_a_disk_with(parent_directory(path)) {
            Ok(None) => Ok(()),
            Ok(Some(where_it_is)) => {
                Err(CommandError::new(format_args!("{shown}: the witness is {where_it_is}"))
                    .advise("use a file on another disk, or tcp:HOST:PORT"))
            }
            Err(error) => Err(error).context(shown),
        }
    }

    fn listen(&self, address: SocketAddr, journal: &Path) -> CommandResult {
        let listener = WitnessListener::bind(address).map_err(|error| {
            CommandError::new(format_args!("{address}: the witness cannot listen ({error})"))
                .advise("specify a port, or an ADDRESS:PORT of this machine")
        })?;
        let cancel = cancelled_by_signals()?;
        let mut kept =
            FileWitness::create(journal).context(journal.display()).advise("specify a new file")?;
        let at = listener.address().context(address)?;
        self.note(&format!("Witness: {at}; Ctrl-C ends it after the cut"));
        let lines = listener
            .serve(&mut kept, &cancel, |error| {
                self.note(&format!("Witness: a connection could not be accepted ({error})"));
            })
            .context(format_args!("{}: the journal is incomplete", journal.display()))?;
        if lines == 0 {
            return Err(CommandError::new(format_args!("{}: nothing was received", journal.display()))
                .advise("start the writer with --witness tcp:HOST:PORT before the witness ends"));
        }
        self.note(&format!("{}: {lines} lines", journal.display()));
        Ok(CommandOutcome::Good)
    }

    fn verify(&self, directory: &Path, path: &Path) -> CommandResult {
        require_empty(self.output.as_deref(), "verdict")?;
        let tested = DurabilityTarget::detect(directory)?;
        let input = open_input(path).context(path.display())?;
        let journal = Journal::read(BufReader::new(input)).context(path.display())?;
        if journal.last.0 == 0 {
            return Err(CommandError::new(format_args!("{}: nothing was acknowledged", path.display()))
                .advise("let the writer run longer before the cut"));
        }
        let restarted = journal.begin.boot != boot_id();
        if journal.begin.level != FailureLevel::Process && !restarted && !self.same_boot {
            return Err(CommandError::new(
                "this machine was not restarted after the writer started, so its memory would be verified \
                 instead of the storage",
            )
            .advise("restart it, or use --same-boot if only the storage lost power and was mounted again"));
        }
        let found = tested.with_storage(|storage| {
            verify(&*storage.direct, tested.directory(), &journal).context(directory.display())
        })?;
        if let Some(output) = &self.output {
            store(output, &durability_html(&found), &durability_markdown(&found), &json_pretty(&found)?)?;
        }
        let text = || durability_text(&found, console::width());
        console::print_serialized(self.json, || json_pretty(&found), text)?;
        Ok(CommandOutcome::good_if(found.is_passed()))
    }
}

fn open_witness(location: &WitnessLocation) -> CommandResult<Box<dyn Witness>> {
    Ok(match location {
        WitnessLocation::Tcp(address) => Box::new(
            TcpWitness::connect(address)
                .context(format_args!("{address}: the witness cannot be reached"))
                .advise("start it there with --listen and --journal")?,
        ),
        WitnessLocation::File(path) => Box::new(FileWitness::create(path).context(path.display())?),
    })
}

fn boot_id() -> Option<String> {
    fs::read_to_string(BOOT_ID).ok().map(|id| id.trim().to_string())
}
