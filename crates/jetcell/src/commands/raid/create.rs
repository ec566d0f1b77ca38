//! `jetcell raid create`: creates an array.

use std::io::Read;
use std::path::PathBuf;

use clap::Args;
use jetcell_array::{Array, AssembleOptions, BLOCK, CreateArrayOptions, RaidLevel};
use jetcell_input::Printable;
use jetcell_input::number::human_bytes;
use jetcell_workload::EventFile;
use jetcell_workload::units::ByteSize;
use serde_json::json;

use super::array_directory::ArrayDirectory;
use super::member_file::{CreatedMemberFiles, shared_devices};
use super::running_array::{ArrayEventSeverity, add_event};
use super::simulated_drive::SimulatedDriveOptions;
use crate::console;
use crate::outcome::{CommandContext, CommandError, CommandOutcome, CommandResult};
use crate::shared::files::{absolute, vfs};

const EXAMPLES: &str = "\
Levels: raid0, mirror (2 or 3 members), raid10, raid10-3 (3 copies), raid5, raid6, raid-tp (triple parity), raid-dp (up to 16 data
members) and raid-dp-257 (up to 28). All data on the members is lost; members with data are refused unless --force is specified.

Examples:
  jetcell raid create arr1 --level raid-dp --members /dev/sdb /dev/sdc /dev/sdd /dev/sde
  jetcell raid create arr2 --level raid6 --members disks/m{1..8} --size 1GiB --spares disks/s1
      creates the files that do not exist
  jetcell raid create arr3 --level raid-dp --members disks/m{1..16} --size 1GiB --simulate-drive 15k-146
      an array of 16 spindles of 15,000 rpm: each file has the timing of such a drive, on any storage
  jetcell raid create arr4 --level raid6 --members disks/m{1..9} --size 1GiB --simulate-drive mine.toml --time-scale 10
      drives with the parameters of a file, ten times as fast as real ones

jetcell raid simulate --drives lists the simulated drives. Files are created sparse. A member that is smaller than the drive has the
seek times of the whole drive. The write log of LUNs is not slowed down. --simulate-drive and --time-scale are stored in array.toml,
where they can be changed.

Exit code: 0 created, 2 not created; nothing was changed, except with --force on members with data.";

/// Create an array from files or block devices
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct RaidCreateArgs {
    /// Directory for the array, which lists the members and stores the events
    #[arg(value_name = "ARRAY")]
    array: PathBuf,
    /// Level of data protection
    #[arg(long, value_name = "LEVEL")]
    level: RaidLevel,
    /// Files or block devices of equal size
    #[arg(long, required = true, num_args = 1.., value_name = "FILE")]
    members: Vec<PathBuf>,
    /// Members that replace failed members
    #[arg(long, num_args = 1.., value_name = "FILE")]
    spares: Vec<PathBuf>,
    /// Create files that do not exist, with this size
    #[arg(long, value_name = "SIZE")]
    size: Option<ByteSize>,
    /// Number of consecutive bytes on one member: a power of two from 4KiB to 256KiB
    #[arg(long, default_value = "64KiB", value_name = "SIZE")]
    chunk: ByteSize,
    /// Give the members the timing of this drive: a name, or a TOML file with its parameters
    #[arg(long, value_name = "DRIVE")]
    simulate_drive: Option<String>,
    /// Factor by which the simulated drives are faster than real ones
    #[arg(long, default_value_t = 1.0, value_name = "N", requires = "simulate_drive")]
    time_scale: f64,
    /// Use members that hold data or belong to an array, and destroy their content
    #[arg(long)]
    force: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl RaidCreateArgs {
    pub fn create(&self) -> CommandResult {
        ArrayDirectory::refuse_used(&self.array)?;
        let absolute_paths =
            |paths: &[PathBuf]| paths.iter().map(|path| absolute(path)).collect::<Result<Vec<_>, _>>();
        let (members, spares) = (absolute_paths(&self.members)?, absolute_paths(&self.spares)?);
        let all = [members.clone(), spares.clone()].concat();
        let drive =
            self.simulate_drive.as_ref().map(|name| SimulatedDriveOptions::new(name, self.time_scale));
        let drive = drive.transpose()?;
        drive.as_ref().map_or(Ok(()), |drive| drive.check_size(self.size))?;
        let vfs = vfs()?;
        let files =
            CreatedMemberFiles::create_missing(&*vfs, &all, self.size.map(|size| size.0), drive.is_some())?;
        let options = CreateArrayOptions {
            chunk: self.chunk_blocks()?,
            force: self.force,
            ..CreateArrayOptions::new(self.level, random_id()?)
        };
        Array::create(&*vfs, &members, &options)?;
        let mut array = Array::assemble(vfs.clone(), &members, AssembleOptions::default())?;
        spares.iter().try_for_each(|spare| array.add_spare(spare, self.force))?;
        let (bytes, id) = (array.layout().bytes(), options.id);
        array.close()?;
        // The directory is claimed only at this point, because a refused command must not change anything. Another
        // process may have created an array in the directory in the meantime.
        let claimed = ArrayDirectory::claim(&*vfs, &self.array).inspect_err(|_| {
            // The original error is reported, so a failure of the erasure is ignored.
            let _ = Array::erase(&*vfs, id, &all);
        })?;
        let events = EventFile::open(&self.array, true)
            .context(format_args!("{}: events cannot be written", self.array.display()))?;
        let (path, members_of_file) = (self.array.clone(), all.clone());
        let is_simulated = drive.is_some();
        let directory =
            ArrayDirectory { path, id, members: members_of_file, write_log: None, simulated_drive: drive };
        directory.save()?;
        files.keep();
        claimed.keep();
        let (level, count) = (self.level, members.len());
        let text = format!("An array was created: {level}, {count} members, {}.", human_bytes(bytes));
        let figures = json!({ "level": level.to_string(), "members": count, "bytes": bytes });
        add_event(&events, "array_created", ArrayEventSeverity::Information, &text, figures);
        if !is_simulated {
            shared_devices(&all).iter().for_each(|line| console::print_note(line));
        }
        console::print_result(
            self.json,
            || {
                json!({ "array": self.array, "id": format!("{id:032x}"), "level": level.to_string(), "bytes": bytes,
                        "members": members, "spares": spares })
            },
            || {
                format!(
                    "{}: {level}, {count} members, {}\n",
                    Printable(self.array.display()),
                    human_bytes(bytes)
                )
            },
        );
        Ok(CommandOutcome::Good)
    }

    fn chunk_blocks(&self) -> CommandResult<u32> {
        let blocks = self.chunk.0 / BLOCK as u64;
        let fits = self.chunk.0.is_multiple_of(BLOCK as u64) && blocks.is_power_of_two() && blocks <= 64;
        match u32::try_from(blocks) {
            Ok(blocks) if fits => Ok(blocks),
            _ => Err(CommandError::new(format_args!(
                "--chunk {} must be a power of two from 4KiB to 256KiB",
                self.chunk
            ))
            .advise("correct this value")),
        }
    }
}

fn random_id() -> CommandResult<u128> {
    let mut bytes = [0; 16];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut bytes));
    read.context("/dev/urandom")?;
    Ok(u128::from_le_bytes(bytes).max(1))
}
