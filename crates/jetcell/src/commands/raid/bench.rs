//! `jetcell raid bench`: compares an array with the file system that stores its members.

use std::path::{Path, PathBuf};

use clap::Args;
use jetcell_array_service::{ArrayDirectory, is_array};
use jetcell_lab::drive::{TestTarget, WritePermission};
use jetcell_vfs::parent_directory;

use crate::commands::disk::MeasurementOptions;
use crate::outcome::{CommandError, CommandResult};

const EXAMPLES: &str = "\
Runs the steps of jetcell disk test: transfer rates, access times, queue depths, syncs and mixed loads, alternately on the array and in
a directory for comparison, with differences and their confidence intervals. Writes are durable only after a sync;
--end-sync includes the sync in the time.

Examples:
  jetcell raid bench arr1
      compared with a file in the directory of its first member
  jetcell raid bench arr2/mail --beside /mnt/nvme --steps transfer_write,transfer_read,random_read_4k --end-sync
      a LUN, compared with another file system; only some steps, durable writes

The array must not contain blocks of its own; test files and LUNs are not changed.

Exit code: 0 measured, 1 a read did not return the data just written, 2 could not run.";

/// Measure an array, or a LUN on it, and compare it with plain files
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct RaidBenchArgs {
    /// Directory of the array, or ARRAY/LUN
    #[arg(value_name = "ARRAY")]
    array: PathBuf,
    /// Directory on the file system to compare with [default: that of the first member]
    #[arg(long, value_name = "DIR")]
    beside: Option<PathBuf>,
    #[command(flatten)]
    options: MeasurementOptions,
}

impl RaidBenchArgs {
    pub fn run(self) -> CommandResult {
        let beside = self.beside.map_or_else(|| first_member(&self.array), Ok)?;
        let mut array = std::ffi::OsString::from("array:");
        array.push(&self.array);
        let size = self.options.size();
        self.options.run(&[array.into(), beside], &|vfs, path| {
            Ok(TestTarget::open(vfs, path, size, WritePermission::ReadOnly)?)
        })
    }
}

/// Returns the directory of the first member.
fn first_member(array: &Path) -> CommandResult<PathBuf> {
    let parent = parent_directory(array);
    let directory = if is_array(array) || !is_array(parent) {
        ArrayDirectory::open(array)?
    } else {
        ArrayDirectory::open(parent)?
    };
    let member = directory.members.first().and_then(|member| member.parent());
    let inside = member.filter(|directory| !directory.starts_with("/dev"));
    inside.map(Path::to_path_buf).ok_or_else(|| {
        CommandError::new(format_args!("{}: the members are devices", array.display()))
            .advise("use --beside to specify a directory for the comparison")
    })
}
