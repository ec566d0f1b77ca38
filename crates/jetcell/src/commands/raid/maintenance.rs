//! `jetcell raid rebuild` and `scrub`: restores and verifies the redundancy of an array.

use clap::Args;
use jetcell_array_service::ArrayOperation;
use jetcell_input::quantity::ByteRate;

use super::array_operation::ArrayOperationArgs;
use crate::outcome::CommandResult;

/// Continue a rebuild, or start it on a spare
#[derive(Args)]
#[command(after_help = "\
Zones that lack the most members are rebuilt first. Ctrl-C interrupts the rebuild; the same command resumes it, also after a crash.

Examples:
  jetcell raid rebuild arr1
  jetcell raid rebuild arr1 --rate 50MB/s --json

Exit code: 0 nothing is left to rebuild, 1 interrupted, or blocks could not be recovered, 2 could not run.")]
pub struct RaidRebuildArgs {
    #[command(flatten)]
    array: ArrayOperationArgs,
    /// Limit the rate of the rebuild
    #[arg(long, value_name = "BYTES/S")]
    rate: Option<ByteRate>,
}

impl RaidRebuildArgs {
    pub fn run(self) -> CommandResult {
        self.array.perform(ArrayOperation::Rebuild { rate: self.rate })
    }
}

/// Read and verify all blocks of an array, and repair damaged blocks
#[derive(Args)]
#[command(after_help = "\
A block with a wrong checksum, or from an older write, is recovered from the other members, verified and written back. If all
checksums are correct and parity disagrees with the data, only parity blocks are recomputed. Ctrl-C interrupts the pass; the same
command resumes it.

Examples:
  jetcell raid scrub arr1
  jetcell raid scrub arr1 --rate 20MB/s --json

Exit code: 0 no damage, 1 damage was found (repaired or not), or the pass was interrupted, 2 could not run.")]
pub struct RaidScrubArgs {
    #[command(flatten)]
    array: ArrayOperationArgs,
    /// Limit the rate, in bytes of array data
    #[arg(long, value_name = "BYTES/S")]
    rate: Option<ByteRate>,
}

impl RaidScrubArgs {
    pub fn run(self) -> CommandResult {
        self.array.perform(ArrayOperation::Scrub { rate: self.rate })
    }
}
