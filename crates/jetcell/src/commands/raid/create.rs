//! `jetcell raid create`: creates an array.

use std::path::PathBuf;

use clap::Args;
use jetcell_array::RaidLevel;
use jetcell_array_service::{CreatedArray, NewArray};
use jetcell_input::number::human_bytes;
use jetcell_input::quantity::ByteSize;
use jetcell_input::{Printable, json_path, json_paths};
use serde_json::json;

use crate::console;
use crate::outcome::{CommandOutcome, CommandResult};
use crate::shared::array_environment::array_environment;

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
    pub fn create(self) -> CommandResult {
        let RaidCreateArgs { array, level, json, .. } = self;
        let new = NewArray {
            directory: array.clone(),
            level,
            members: self.members,
            spares: self.spares,
            size: self.size,
            chunk: self.chunk,
            simulated_drive: self.simulate_drive.map(|drive| (drive, self.time_scale)),
            force: self.force,
        };
        let CreatedArray { id, bytes, members, spares } = new.create(&array_environment()?)?;
        console::print_result(
            json,
            || {
                json!({ "array": json_path(array), "id": format!("{id:032x}"), "level": level.to_string(), "bytes": bytes,
                        "members": json_paths(&members), "spares": json_paths(&spares) })
            },
            || {
                let (shown, count) = (Printable(array.display()), members.len());
                format!("{shown}: {level}, {count} members, {}\n", human_bytes(bytes))
            },
        );
        Ok(CommandOutcome::Good)
    }
}
