//! Options that are available both on the command line and in the TOML file.

use std::path::Path;

use clap::Args;
use jetcell_input::toml;
use jetcell_raid_models::curve::CurveAxis;
use jetcell_raid_models::simulation::DistributionShapes;
use jetcell_raid_models::units::{
    AnnualFailure, Bytes, BytesPerSecond, ErrorsPerByte, Fraction, Hours, PerHour,
};
use jetcell_raid_models::{AfrInterpretation, Error, MarkovModel, RaidType, ReliabilityInputs, ScrubPolicy};
use jetcell_vfs::read_input;
use serde::Deserialize;

use crate::outcome::{CommandContext, CommandResult};

/// Maximum size in bytes of a configuration file.
const MAX_CONFIG: u64 = 1 << 20;

fn afr_reading(text: &str) -> Result<AfrInterpretation, Error> {
    match text {
        "rate" => Ok(AfrInterpretation::Rate),
        "probability" => Ok(AfrInterpretation::Probability),
        _ => Err(Error::Unknown { what: "reading", name: text.into(), choices: "rate, probability" }),
    }
}

fn shapes(text: &str) -> Result<DistributionShapes, Error> {
    match text {
        "published" => Ok(DistributionShapes::Published),
        "exponential" => Ok(DistributionShapes::Exponential),
        _ => {
            Err(Error::Unknown { what: "kind of law", name: text.into(), choices: "published, exponential" })
        }
    }
}

/// Declares each option once for clap, TOML and merging. Options that describe the case are also passed to the
/// models.
macro_rules! options {
    (
        case { $($(#[$case_about:meta])* $case:ident: $case_kind:ty,)* }
        run { $($(#[$run_about:meta])* $run:ident: $run_kind:ty,)* }
    ) => {
        /// Options that describe a reliability case and its calculation.
        #[derive(Args, Debug, Default, Deserialize)]
        #[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
        pub struct ReliabilityOptions {
            $($(#[$case_about])* pub $case: Option<$case_kind>,)*
            $($(#[$run_about])* pub $run: Option<$run_kind>,)*
        }

        impl ReliabilityOptions {
            /// Returns these options. Options that are not set are taken from `file`.
            pub fn with_defaults_from(self, file: ReliabilityOptions) -> ReliabilityOptions {
                ReliabilityOptions { $($case: self.$case.or(file.$case),)* $($run: self.$run.or(file.$run),)* }
            }

            /// Returns the inputs for the models.
            pub fn inputs(&self) -> ReliabilityInputs {
                ReliabilityInputs { $($case: self.$case,)* }
            }
        }
    };
}

options! {
    case {
        /// RAID type: raid10, raid5, raid6, raid-dp, mirror3 or triple-parity [default: raid-dp]
        #[arg(long = "type", value_name = "TYPE")]
        #[serde(rename = "type")]
        raid: RaidType,
        /// Data capacity of each group, in drives; a group of mirrors is a stripe over as many mirror sets [default:
        /// 7, mirrors 1]
        #[arg(long, value_name = "N", allow_negative_numbers = true)]
        data_disks: u32,
        /// Groups in the array [default: 1]
        #[arg(long, value_name = "N", allow_negative_numbers = true)]
        groups: u32,
        /// Drives in the array, instead of --groups
        #[arg(long, value_name = "N", allow_negative_numbers = true)]
        drives: u32,
        /// Service life in years [default: 5]
        #[arg(long, value_name = "Y", allow_negative_numbers = true)]
        years: f64,
        /// Model: a for one parity, b1 or b2 for two, general for any number [default: a, b1, general]
        #[arg(long, value_name = "MODEL")]
        model: MarkovModel,
        /// Annual failure rate of a drive, such as 1.9% or 0.019/y [default: 1.9%]
        #[arg(long, value_name = "RATE", allow_hyphen_values = true)]
        afr: AnnualFailure,
        /// Meaning of --afr: rate (failures per year of operation) or probability (of a failure within a year)
        /// [default: rate]
        #[arg(long, value_name = "READING", value_parser = afr_reading)]
        afr_reading: AfrInterpretation,
        /// Mean time between failures of a drive, instead of --afr
        #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
        mtbf: Hours,
        /// Rate of latent defects per drive [default: 1.08e-4/h, as measured]
        #[arg(long, value_name = "RATE", allow_hyphen_values = true)]
        latent_rate: PerHour,
        /// Unrecoverable errors per bit or byte read, such as 1e-15/bit, instead of --latent-rate
        #[arg(long, value_name = "RATE", allow_hyphen_values = true)]
        error_rate: ErrorsPerByte,
        /// Rate at which hosts read from a drive, for --error-rate [default: --bandwidth times --load]
        #[arg(long, value_name = "RATE", allow_hyphen_values = true)]
        read_rate: BytesPerSecond,
        /// Mean time to restore a failed drive, excluding the time to get a spare [default: 12h]
        #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
        restore: Hours,
        /// Rebuild rate, instead of --restore; needs --capacity
        #[arg(long, value_name = "RATE", allow_hyphen_values = true)]
        rebuild_rate: BytesPerSecond,
        /// Mean time until a latent defect is found and repaired, or the word never [default: 168h]
        #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
        scrub: ScrubPolicy,
        /// Duration of one scrub pass over a drive, instead of --scrub; the mean time to detection is half of it
        #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
        scrub_pass: Hours,
        /// Capacity of a drive
        #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
        capacity: Bytes,
        /// Sequential rate of a drive; with --capacity, it determines the rebuild and scrub times
        #[arg(long, value_name = "RATE", allow_hyphen_values = true)]
        bandwidth: BytesPerSecond,
        /// Share of the bandwidth that hosts use [default: 0%]
        #[arg(long, value_name = "SHARE", allow_hyphen_values = true)]
        load: Fraction,
        /// Share of the remaining bandwidth that a scrub may use [default: 10%]
        #[arg(long, value_name = "SHARE", allow_hyphen_values = true)]
        scrub_share: Fraction,
        /// Maximum combined rate of all drives in a group during a rebuild [default: no limit]
        #[arg(long, value_name = "RATE", allow_hyphen_values = true)]
        bus: BytesPerSecond,
        /// Number of spare drives [default: one is always available]
        #[arg(long, value_name = "N", allow_negative_numbers = true)]
        spares: u32,
        /// Time until a used spare is replaced [default: 72h]
        #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
        spare_delivery: Hours,
    }
    run {
        /// Simulate each drive individually, with lifetimes that need not follow constant rates
        #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
        monte_carlo: bool,
        /// Seed for the simulation; the same seed produces the same result [default: 1]
        #[arg(long, value_name = "N")]
        seed: u64,
        /// Distributions used in the simulation: published (Weibull) or exponential (as in the models) [default:
        /// published]
        #[arg(long, value_name = "LAWS", value_parser = shapes)]
        laws: DistributionShapes,
        /// Simulate until the 95 % interval is within plus or minus this share [default: 2%]
        #[arg(long, value_name = "SHARE", allow_hyphen_values = true)]
        precision: Fraction,
        /// Maximum number of simulated lifetimes of a group [default: 20000000]
        #[arg(long, value_name = "N", allow_negative_numbers = true)]
        lives: u64,
        /// Show all RAID types with the same usable capacity
        #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
        compare: bool,
        /// Show the probability of loss as a function of group-size, scrub, restore or disk-size
        #[arg(long, value_name = "AXIS")]
        curve: CurveAxis,
        /// Find the layout with the fewest drives whose probability of data loss is at most this value, such as 0.1%
        #[arg(long, value_name = "SHARE", allow_hyphen_values = true)]
        target: Fraction,
    }
}

impl ReliabilityOptions {
    /// Returns these options. Options that are not set are taken from `measured`.
    pub fn with_measured(self, measured: ReliabilityOptions) -> ReliabilityOptions {
        let rebuild_rate = match (self.restore, self.bandwidth) {
            (None, None) => self.rebuild_rate.or(measured.rebuild_rate),
            _ => self.rebuild_rate,
        };
        let needs_capacity = rebuild_rate.is_some() || self.bandwidth.is_some();
        ReliabilityOptions {
            raid: self.raid.or(measured.raid),
            data_disks: self.data_disks.or(measured.data_disks),
            groups: self.groups.or(measured.groups.filter(|_| self.drives.is_none())),
            capacity: self.capacity.or(measured.capacity.filter(|_| needs_capacity)),
            rebuild_rate,
            scrub: self.scrub.or(measured.scrub.filter(|_| self.scrub_pass.is_none())),
            latent_rate: self.latent_rate.or(measured.latent_rate.filter(|_| self.error_rate.is_none())),
            ..self
        }
    }

    /// Reads options from a file.
    pub fn read(file: &Path) -> CommandResult<ReliabilityOptions> {
        let name = file.display();
        let text = read_input(file, MAX_CONFIG).context(format_args!("--config {name}"))?;
        Ok(toml::parse(&format!("--config {name}"), &text)?)
    }
}
