//! `jetcell size`: sizes storage from a configuration, as text, JSON or formulas, and writes the configuration of a test.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use jetcell_sizing::array::Array;
use jetcell_sizing::catalogue::DEFAULT_DISKS;
use jetcell_sizing::platform::PLATFORMS;
use jetcell_sizing::states::State;
use jetcell_sizing::{Catalogue, Config, Design, EXAMPLE, Sizing, size};

use crate::console::print;
use crate::outcome::{Failure, Outcome, print_error};
use crate::whole_file;

const EXAMPLES: &str = "\
Examples:
  jetcell size --example > site.toml
      a complete configuration with explanations, to be edited
  jetcell size --config site.toml
      I/O, space, memory, network, backup, and the disks of each array in five states
  jetcell size --config site.toml --explain
      also every formula with its numbers, to verify by hand
  jetcell size --config site.toml --test-config test.toml && jetcell test performance --config test.toml
      runs the test that proves the design
  jetcell size --list-disks > my-disks.toml; jetcell size --config site.toml --disks my-disks.toml
      adds disks to the catalogue

Exit code: 0 sized, 2 could not run.";

/// No real configuration is larger.
const LARGEST_FILE: u64 = 1 << 20;

/// Sizes storage for mailboxes: I/O, space, memory, network, backup windows, arrays, cost
#[derive(Args)]
#[command(after_help = EXAMPLES, arg_required_else_help = true)]
pub struct Size {
    /// Configuration (TOML); see --example
    #[arg(long, value_name = "FILE", required_unless_present_any = ["example", "list_disks", "list_platforms"])]
    config: Option<PathBuf>,
    /// Catalogue of further disks; see --list-disks
    #[arg(long, value_name = "FILE")]
    disks: Vec<PathBuf>,
    /// Print every formula with its numbers
    #[arg(long, conflicts_with = "json")]
    explain: bool,
    /// Print all results as JSON
    #[arg(long)]
    json: bool,
    /// Write the configuration of a test that proves the design to this file
    #[arg(long, value_name = "FILE")]
    test_config: Option<PathBuf>,
    /// Print a complete configuration with comments
    #[arg(long, exclusive = true)]
    example: bool,
    /// Print the built-in catalogue of disks, which also shows the format
    #[arg(long, exclusive = true)]
    list_disks: bool,
    /// Print the coefficients of the mail platforms with their sources
    #[arg(long, exclusive = true)]
    list_platforms: bool,
}

impl Size {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        let text = match (self.example, self.list_disks, self.list_platforms) {
            (true, _, _) => Ok(EXAMPLE.to_string()),
            (_, true, _) => Ok(DEFAULT_DISKS.to_string()),
            (_, _, true) => Ok(PLATFORMS.to_string()),
            _ => self.sized(),
        };
        match text {
            Ok(text) => {
                print(&text);
                Outcome::Good
            }
            Err(what) => {
                print_error(what);
                Outcome::CouldNotRun
            }
        }
    }

    fn sized(&self) -> Result<String, Failure> {
        let path = self.config.as_deref().ok_or("no configuration: add --config FILE")?;
        let config = Config::read(&format!("--config {}", path.display()), &read("--config", path)?);
        let config = config.map_err(|mistake| mistake.to_string())?;
        let mut catalogue = Catalogue::built_in();
        for path in &self.disks {
            let added = catalogue.add_file(&format!("--disks {}", path.display()), &read("--disks", path)?);
            added.map_err(|mistake| mistake.to_string())?;
        }
        let sizing =
            size(&config, &catalogue).map_err(|mistake| format!("--config {}: {mistake}", path.display()))?;
        if let Some(target) = &self.test_config {
            whole_file::write(target, &sizing.test_config)
                .map_err(|error| format!("--test-config {} cannot be written: {error}", target.display()))?;
        }
        if self.json {
            let json = serde_json::to_string_pretty(&sizing);
            return json.map(|text| text + "\n").map_err(|error| format!("no JSON: {error}").into());
        }
        let summary = summary(&sizing).map_err(|error| error.to_string())?;
        Ok(if self.explain { format!("{summary}{}", sizing.sheet) } else { summary })
    }
}

fn read(option: &str, path: &Path) -> Result<String, Failure> {
    let wrong = |what: String| Failure::from(format!("{option} {}: {what}", path.display()));
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| wrong(format!("cannot be read: {error}")))?;
    file.take(LARGEST_FILE + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| wrong(format!("cannot be read: {error}")))?;
    if bytes.len() as u64 > LARGEST_FILE {
        return Err(wrong("is larger than 1 MiB, which no configuration is".into()));
    }
    let text = String::from_utf8(bytes).map_err(|_| wrong("is not UTF-8 text".into()))?;
    Ok(text.strip_prefix('\u{feff}').map(str::to_string).unwrap_or(text))
}

fn summary(sizing: &Sizing) -> Result<String, std::fmt::Error> {
    let mut out = String::new();
    let (mailbox, server, inputs) = (&sizing.mailbox, &sizing.server, &sizing.inputs);
    writeln!(
        out,
        "{} mailboxes on {} servers, {} copies, {}",
        inputs.mailboxes.count, inputs.servers.count, inputs.servers.copies, inputs.platform
    )?;
    writeln!(out, "\nOne mailbox")?;
    writeln!(
        out,
        "  {:.4} IOPS ({:.4} reads, {:.4} writes), {:.0} MiB on disk, {:.1} MiB of cache, {:.0} logs a day",
        mailbox.iops(),
        mailbox.reads,
        mailbox.writes,
        mailbox.on_disk_mib,
        mailbox.cache_mib,
        mailbox.logs_per_day
    )?;
    writeln!(out, "\nOne server, {} headroom included", inputs.servers.headroom)?;
    writeln!(
        out,
        "  {:<15} {:>9} {:>9} {:>9} {:>9} {:>9} {:>12} {:>10}",
        "state", "mailboxes", "db read/s", "db wrt/s", "log rd/s", "log wrt/s", "maint. MB/s", "bckp MB/s"
    )?;
    for load in &server.loads {
        writeln!(
            out,
            "  {:<15} {:>9.0} {:>9.1} {:>9.1} {:>9.1} {:>9.1} {:>12.1} {:>10.1}",
            load.state.to_string(),
            load.active_mailboxes,
            load.database_reads,
            load.database_writes,
            load.log_reads,
            load.log_writes,
            load.maintenance_mb_s,
            load.backup_mb_s
        )?;
    }
    writeln!(
        out,
        "\n  databases    {} in all, {} copies on a server; {:.0} mailboxes and {:.1} GiB each",
        server.databases,
        server.database_copies_per_server,
        server.mailboxes_per_database,
        server.database_gib
    )?;
    writeln!(
        out,
        "  volumes      {} of {:.1} GiB; {:.1} GiB in all, logs {:.1} GiB",
        server.database_volumes_per_server,
        server.database_volume_gib,
        server.database_capacity_gib,
        server.log_capacity_gib
    )?;
    writeln!(out, "  memory       {:.1} GiB, {:.1} GiB of it cache", server.memory_gib, server.cache_gib)?;
    writeln!(
        out,
        "  replication  {:.1} Mbit/s in the busiest hour; a single stream needs a window of {:.0} KiB",
        server.replication_mbit_s, server.replication_window_kib
    )?;
    writeln!(
        out,
        "  backup       {:.1} h; restore with replay {:.1} h",
        server.backup_hours, server.restore_hours
    )?;
    writeln!(out, "\nDesigns, cheapest over {} years first; disks by what asks for them", inputs.cost.years)?;
    for design in &sizing.designs {
        write_design(&mut out, design)?;
    }
    if !sizing.comparisons.is_empty() {
        writeln!(out, "\nDrives; percentages are of the base")?;
    }
    for drive in &sizing.comparisons {
        writeln!(
            out,
            "  {} beside {} (base): price {:+.1} %, random I/O {:+.1} %; per IOPS {:.3} beside {:.3}, per GiB {:.4} \
             beside {:.4}; IOPS per W {:.1} beside {:.1}",
            drive.disk,
            drive.base,
            drive.price_gain * 100.0,
            drive.iops_gain * 100.0,
            drive.price_per_iops,
            drive.base_price_per_iops,
            drive.price_per_gib,
            drive.base_price_per_gib,
            drive.iops_per_watt,
            drive.base_iops_per_watt
        )?;
    }
    for warning in &server.warnings {
        writeln!(out, "\nNote: {warning}")?;
    }
    Ok(out)
}

fn write_design(out: &mut String, design: &Design) -> std::fmt::Result {
    let economy = &design.economy;
    writeln!(
        out,
        "\n  {} of {}: {} disks in all ({} spares); {:.0} to buy, {:.0} W, {:.0} kWh/year for {:.0}/year, {:.0} in all",
        design.array,
        design.disk,
        design.disks,
        design.spares,
        economy.price,
        economy.watts,
        economy.kwh_per_year,
        economy.energy_cost_per_year,
        economy.total_cost
    )?;
    write_array(out, "database", &design.database)?;
    if let Some(log) = &design.log {
        write_array(out, "log", log)?;
    }
    writeln!(out, "    capacity is enough for {:.0} mailboxes", design.mailboxes_by_capacity)
}

fn write_array(out: &mut String, what: &str, array: &Array) -> std::fmt::Result {
    let states: Vec<_> =
        array.disks_for_load.iter().map(|need| format!("{} {}", need.state, need.disks)).collect();
    let state = array.state.map_or("every state".to_string(), |state: State| state.to_string());
    writeln!(
        out,
        "    {what}: {} disks a server, bound by {} ({state}); capacity {}, {}; rebuild {:.1} h",
        array.disks,
        array.constraint,
        array.disks_for_capacity,
        states.join(", "),
        array.rebuild_hours
    )
}
