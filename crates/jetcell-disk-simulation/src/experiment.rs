//! Runs all layouts in all states, and computes the results.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use crate::config::{Config, InvalidConfig, SimulatedLayout};
use crate::drive::DriveModel;
use crate::engine::{SimulationSetup, prepare_volume, simulate};
use crate::timeline::{Timeline, timeline};
use crate::write_anywhere::WriteAnywhereVolume;

/// Maximum mean read latency of a layout at its highest rate, in milliseconds.
pub const LATENCY_LIMIT_MS: f64 = 20.0;
/// Minimum fraction of the target rate at which the target counts as reached.
const MIN_REACHED_SHARE: f64 = 0.98;
/// Number of steps in the search for the highest rate. The result is accurate to 1/128 of the range.
const SEARCH_STEPS: u32 = 7;
/// Fractions in use and numbers of overwrites at which the write-anywhere volume is measured.
const FILLS: [f64; 6] = [0.25, 0.5, 0.7, 0.8, 0.9, 0.95];
const AGES: [f64; 4] = [0.0, 0.5, 1.0, 3.0];
/// Number of stripes in the volume on which decay is measured.
const DECAY_STRIPES: usize = 32 * 1024;

/// The state of a simulated array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SimulatedState {
    /// All drives work.
    Normal,
    /// A drive of the first group is lost.
    Degraded,
    /// The lost drive is being rebuilt on a spare.
    Rebuilding,
    /// Two drives of the first group are lost.
    DegradedTwice,
    /// Both lost drives are being rebuilt on spares at the same time.
    RebuildingTwice,
}

impl SimulatedState {
    /// Returns all states that a layout tolerates. After the failure of a second drive, RAID 10 loses data if both
    /// drives are in the same pair, and RAID 5 if both are in the same group.
    pub fn tolerated_by(layout: &SimulatedLayout) -> &'static [SimulatedState] {
        const ALL: [SimulatedState; 5] = [
            SimulatedState::Normal,
            SimulatedState::Degraded,
            SimulatedState::Rebuilding,
            SimulatedState::DegradedTwice,
            SimulatedState::RebuildingTwice,
        ];
        if layout.level.tolerated_losses() >= 2 { &ALL } else { &ALL[..3] }
    }

    /// Returns the number of lost drives.
    pub fn lost(self) -> usize {
        match self {
            SimulatedState::Normal => 0,
            SimulatedState::Degraded | SimulatedState::Rebuilding => 1,
            SimulatedState::DegradedTwice | SimulatedState::RebuildingTwice => 2,
        }
    }

    /// Returns true if lost drives are being rebuilt.
    pub fn is_rebuilding(self) -> bool {
        matches!(self, SimulatedState::Rebuilding | SimulatedState::RebuildingTwice)
    }
}

/// Simulation results for one layout in one array state.
#[derive(Clone, Debug, Serialize)]
pub struct ArrayStateResults {
    /// State of the array.
    pub state: SimulatedState,
    /// Number of host I/O operations per second that was reached.
    pub iops: f64,
    /// Mean read latency in milliseconds.
    pub read_ms: f64,
    /// 99th percentile of the read latency in milliseconds.
    pub read_ms_99: f64,
    /// Mean write latency in milliseconds.
    pub write_ms: f64,
    /// 99th percentile of the write latency in milliseconds.
    pub write_ms_99: f64,
    /// Mean latency of log writes in milliseconds. Absent if there are no logs.
    pub log_ms: Option<f64>,
    /// 99th percentile of the latency of log writes in milliseconds. Absent if there are no logs.
    pub log_ms_99: Option<f64>,
    /// Write commands to drives per host write, excluding those of the rebuild.
    pub disk_writes_per_host_write: f64,
    /// Read commands to drives per host read, including those for parity and for the rebuild.
    pub disk_reads_per_host_read: f64,
    /// Bytes written to drives per byte written by the host.
    pub bytes_per_host_byte: f64,
    /// Mean fraction of the time during which a drive was busy.
    pub utilisation: f64,
    /// Rebuild rate per drive in megabytes (10^6) per second.
    pub rebuild_mb_per_second: Option<f64>,
    /// Time to rebuild a whole drive at this rate, in seconds.
    pub rebuild_seconds: Option<f64>,
    /// Whether the target rate was reached.
    pub is_reached: bool,
}

/// Simulation results for one layout in all array states.
#[derive(Clone, Debug, Serialize)]
pub struct LayoutResults {
    /// Name of the layout.
    pub name: String,
    /// Number of drives.
    pub drives: usize,
    /// Fraction of the capacity in use.
    pub fill: f64,
    /// Results for each state.
    pub states: Vec<ArrayStateResults>,
    /// Highest rate of host I/O operations per second with a mean read latency of at most [`LATENCY_LIMIT_MS`].
    pub highest_iops: f64,
    /// A run before, during and after the loss and rebuild of a drive.
    pub timeline: Timeline,
}

impl LayoutResults {
    /// Returns the results of the layout in a state.
    pub fn in_state(&self, state: SimulatedState) -> Option<&ArrayStateResults> {
        self.states.iter().find(|results| results.state == state)
    }
}

/// The cost of host writes to a simulated write-anywhere volume as it ages.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct WriteAnywhereWriteCost {
    /// Fraction of the volume in use.
    pub fill: f64,
    /// Number of times that all data had been overwritten.
    pub overwritten: f64,
    /// Write commands to drives per host write.
    pub commands_per_host_write: f64,
    /// Blocks written to drives per block written by the host.
    pub blocks_per_host_block: f64,
    /// Read commands to drives per host write.
    pub reads_per_host_write: f64,
}

/// Results of a disk simulation experiment.
#[derive(Clone, Debug, Serialize)]
pub struct ExperimentResults {
    /// Configuration of the experiment.
    pub config: Config,
    /// Name of the drive.
    pub drive: String,
    /// Capacity of a drive in gigabytes (10^9).
    pub drive_gb: f64,
    /// Target rate of host I/O operations per second.
    pub target_iops: f64,
    /// Results for each layout.
    pub layouts: Vec<LayoutResults>,
    /// Decay of the first write-anywhere layout.
    pub decay: Vec<WriteAnywhereWriteCost>,
}

/// Runs an experiment. `progress` is called before each step with the index of the step, the number of steps, and a
/// description.
///
/// # Errors
/// Returns an error if the configuration's drive does not exist.
pub fn run(
    config: &Config,
    progress: &mut dyn FnMut(usize, usize, &str),
) -> Result<ExperimentResults, InvalidConfig> {
    let drive = config.selected_drive()?;
    let anywhere = config.layouts.iter().find(|layout| layout.write_anywhere.is_some());
    let of_layout = |layout: &SimulatedLayout| SimulatedState::tolerated_by(layout).len() + 2;
    let steps = config.layouts.iter().map(of_layout).sum::<usize>() + usize::from(anywhere.is_some());
    let mut step = 0;
    let mut begin = |what: &str| {
        progress(step, steps, what);
        step += 1;
    };
    let mut layouts = vec![];
    for layout in &config.layouts {
        let runner = LayoutRunner::new(config, layout, &drive);
        let mut states = vec![];
        for state in SimulatedState::tolerated_by(layout) {
            begin(&format!("{}, {}", layout.name, state_name(*state)));
            states.push(runner.measure_state(*state, config.load.iops(), config.seconds));
        }
        begin(&format!("{}, failure and rebuild of a drive", layout.name));
        let rate = states.iter().find_map(|figures| figures.rebuild_mb_per_second).unwrap_or(0.0);
        let timeline = timeline(runner.setup(config.load.iops(), config.seconds), rate);
        begin(&format!("{}, maximum rate", layout.name));
        let highest_iops = runner.highest_iops();
        let fill = layout.fill(&config.load, &drive);
        let (name, drives) = (layout.name.clone(), layout.drives());
        layouts.push(LayoutResults { name, drives, fill, states, highest_iops, timeline });
    }
    let decay = match anywhere {
        Some(layout) => {
            begin("aging of the write-anywhere volume");
            decay(config, layout)
        }
        None => vec![],
    };
    let target_iops = config.load.iops();
    let drive_gb = drive.capacity() as f64 / 1e9;
    let (config, drive) = (config.clone(), drive.name().into());
    Ok(ExperimentResults { config, drive, drive_gb, target_iops, layouts, decay })
}

/// Returns the name of a state.
pub fn state_name(state: SimulatedState) -> &'static str {
    match state {
        SimulatedState::Normal => "normal",
        SimulatedState::Degraded => "degraded",
        SimulatedState::Rebuilding => "rebuilding",
        SimulatedState::DegradedTwice => "degraded twice",
        SimulatedState::RebuildingTwice => "rebuilding twice",
    }
}

struct LayoutRunner<'a> {
    config: &'a Config,
    layout: &'a SimulatedLayout,
    drive: &'a DriveModel,
    volume: Option<WriteAnywhereVolume>,
}

impl<'a> LayoutRunner<'a> {
    fn new(config: &'a Config, layout: &'a SimulatedLayout, drive: &'a DriveModel) -> LayoutRunner<'a> {
        LayoutRunner { config, layout, drive, volume: prepare_volume(config, layout, drive) }
    }

    fn setup(&self, iops: f64, seconds: f64) -> SimulationSetup<'_> {
        let LayoutRunner { config, layout, drive, ref volume } = *self;
        SimulationSetup {
            config,
            layout,
            drive,
            volume: volume.as_ref(),
            iops,
            warm_up: config.warm_up_seconds,
            seconds,
            lost: 0,
            failure: None,
            rebuild: None,
            pass: None,
        }
    }

    fn measure_state(&self, state: SimulatedState, iops: f64, seconds: f64) -> ArrayStateResults {
        let lost = state.lost();
        let failure = (lost > 0).then_some(0.0);
        let rebuild = state.is_rebuilding().then_some(0.0);
        let measured = simulate(SimulationSetup { lost, failure, rebuild, ..self.setup(iops, seconds) });
        let (reads, writes) = (measured.read_ms.len() as f64, measured.write_ms.len() as f64);
        let reached = (reads + writes) / seconds;
        let rate = measured.rebuilt_bytes as f64 / 1e6 / seconds;
        let rate = (state.is_rebuilding() && rate > 0.0).then_some(rate);
        let capacity_mb = self.drive.capacity() as f64 / 1e6;
        let of_logs = |value: fn(&[f32]) -> f64| self.config.log.map(|_| value(&measured.log_ms));
        ArrayStateResults {
            state,
            iops: reached,
            read_ms: mean(&measured.read_ms),
            read_ms_99: percentile_99(&measured.read_ms),
            write_ms: mean(&measured.write_ms),
            write_ms_99: percentile_99(&measured.write_ms),
            log_ms: of_logs(mean),
            log_ms_99: of_logs(percentile_99),
            disk_writes_per_host_write: measured.disk_writes as f64 / writes.max(1.0),
            disk_reads_per_host_read: measured.disk_reads as f64 / reads.max(1.0),
            bytes_per_host_byte: measured.disk_written_bytes as f64
                / (writes * self.config.load.page_bytes as f64).max(1.0),
            utilisation: measured.utilisation,
            rebuild_mb_per_second: rate,
            rebuild_seconds: rate.map(|rate| capacity_mb / rate),
            is_reached: reached >= MIN_REACHED_SHARE * iops,
        }
    }

    /// Searches for the highest rate by bisection.
    fn highest_iops(&self) -> f64 {
        let (mut low, mut high) = (0.0, self.layout.drives() as f64 * 400.0);
        for _ in 0..SEARCH_STEPS {
            let middle = (low + high) / 2.0;
            let figures = self.measure_state(SimulatedState::Normal, middle, self.config.seconds / 2.0);
            if figures.is_reached && figures.read_ms <= LATENCY_LIMIT_MS {
                low = middle;
            } else {
                high = middle;
            }
        }
        low
    }
}

/// Measures the cost of writes to volumes with the layout's groups, for several fractions in use and several ages.
fn decay(config: &Config, layout: &SimulatedLayout) -> Vec<WriteAnywhereWriteCost> {
    let Some(options) = layout.write_anywhere else { return vec![] };
    let groups: Vec<(usize, usize)> =
        (0..layout.groups.len()).map(|group| (layout.data_drives(group), layout.level.parities())).collect();
    let blocks = (config.load.page_bytes / 4096) as u32;
    let mut all = vec![];
    for fill in FILLS {
        let rng = ChaCha8Rng::seed_from_u64(config.seed);
        let mut volume = WriteAnywhereVolume::new(&groups, DECAY_STRIPES, fill, blocks, rng);
        let pages = f64::from(volume.pages());
        // This volume is too small for consistency points as large as those of the real volume.
        let each = options.log_writes.min((pages / 50.0) as usize).max(64);
        let mut age = 0.0;
        for overwritten in AGES {
            volume.age(((overwritten - age) * pages) as u64, each);
            let measured = volume.age((pages * 0.1) as u64, each);
            age = overwritten + 0.1;
            all.push(WriteAnywhereWriteCost {
                fill,
                overwritten,
                commands_per_host_write: measured.commands_per_host_write(),
                blocks_per_host_block: measured.blocks_per_host_block(),
                reads_per_host_write: measured.reads_per_host_write(),
            });
        }
    }
    all
}

fn mean(values: &[f32]) -> f64 {
    values.iter().map(|value| f64::from(*value)).sum::<f64>() / values.len().max(1) as f64
}

fn percentile_99(values: &[f32]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f32::total_cmp);
    sorted
        .get((sorted.len() * 99 / 100).min(sorted.len().saturating_sub(1)))
        .map_or(0.0, |value| f64::from(*value))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the paper's experiment with a short duration.
    fn short() -> Config {
        Config { seconds: 20.0, warm_up_seconds: 15.0, ..Config::exchange_2007() }
    }

    fn figures(config: &Config, layout: &str, state: SimulatedState, iops: f64) -> ArrayStateResults {
        let layout = config.layouts.iter().find(|one| one.name.starts_with(layout)).unwrap();
        let drive = config.selected_drive().unwrap();
        LayoutRunner::new(config, layout, &drive).measure_state(state, iops, config.seconds)
    }

    #[test]
    fn in_place_layouts_have_write_penalties_unlike_write_anywhere_volumes() {
        let config = short();
        for (layout, writes, all) in [
            ("RAID 10", 2.0, 2.0),
            ("RAID 5", 2.0, 4.0),
            ("RAID 6", 3.0, 6.0),
            ("RAID-DP in place", 3.0, 6.0),
        ] {
            let found = figures(&config, layout, SimulatedState::Normal, 1000.0);
            let reads = found.disk_reads_per_host_read - 1.0;
            assert!((found.disk_writes_per_host_write - writes).abs() < 0.05, "{layout}: {found:?}");
            // There are as many host reads as host writes, so reads beyond one per host read belong to writes.
            assert!((found.disk_writes_per_host_write + reads - all).abs() < 0.2, "{layout}: {found:?}");
        }
        let found = figures(&config, "RAID-DP write", SimulatedState::Normal, 5000.0);
        assert!(found.disk_writes_per_host_write < 1.0 && found.is_reached, "{found:?}");
        assert!(found.bytes_per_host_byte > 1.1 && found.bytes_per_host_byte < 1.5, "{found:?}");
    }

    #[test]
    fn a_rebuild_slows_reads_and_not_logged_writes() {
        let config = short();
        let [normal, rebuilding] = [SimulatedState::Normal, SimulatedState::Rebuilding]
            .map(|state| figures(&config, "RAID-DP write", state, 5000.0));
        assert!(rebuilding.read_ms > 1.05 * normal.read_ms, "{normal:?} {rebuilding:?}");
        assert!((rebuilding.write_ms / normal.write_ms - 1.0).abs() < 0.05, "{normal:?} {rebuilding:?}");
        assert!(rebuilding.rebuild_mb_per_second.unwrap() > 1.0);
        assert!(normal.rebuild_seconds.is_none());
    }

    #[test]
    fn two_failed_drives_cost_more_and_are_rebuilt_together() {
        let config = short();
        for layout in ["RAID 6", "RAID-DP in place", "RAID-DP write"] {
            let [once, twice, rebuilding] =
                [SimulatedState::Degraded, SimulatedState::DegradedTwice, SimulatedState::RebuildingTwice]
                    .map(|state| figures(&config, layout, state, 1000.0));
            assert!(
                twice.disk_reads_per_host_read > once.disk_reads_per_host_read + 0.05,
                "{once:?} {twice:?}"
            );
            assert!(
                rebuilding.read_ms > once.read_ms && rebuilding.rebuild_seconds.is_some(),
                "{rebuilding:?}"
            );
        }
        let find_layout =
            |name: &str| config.layouts.iter().find(|layout| layout.name.starts_with(name)).unwrap();
        assert_eq!(
            ["RAID 10", "RAID 5", "RAID 6"].map(|name| SimulatedState::tolerated_by(find_layout(name)).len()),
            [3, 3, 5]
        );
    }

    #[test]
    fn log_write_cost_depends_on_the_layout() {
        let config = short();
        let log = |layout: &str| figures(&config, layout, SimulatedState::Normal, 1000.0).log_ms.unwrap();
        let (anywhere, mirrors, parity) = (log("RAID-DP write"), log("RAID 10"), log("RAID-DP in place"));
        assert!((anywhere - 0.5).abs() < 1e-6, "time of the write log: {anywhere}");
        assert!(parity > 1.5 * mirrors && mirrors > 0.5, "{parity} {mirrors}");
        let without = Config { log: None, ..config.clone() };
        assert!(figures(&without, "RAID 10", SimulatedState::Normal, 1000.0).log_ms.is_none());
    }

    #[test]
    fn an_open_queue_agrees_with_the_formula_at_low_rates() {
        // Without a queue, the duration of a read equals the mean access time within the region in use.
        let config = short();
        let found = figures(&config, "RAID 10", SimulatedState::Normal, 200.0);
        assert!((2.0..6.5).contains(&found.read_ms) && found.utilisation < 0.1, "{found:?}");
        // Utilisation = access rate x mean service time.
        let accesses = 200.0 * 0.5 * (1.0 + 2.0) / 62.0;
        let service = found.utilisation / accesses * 1e3;
        assert!((3.0..6.0).contains(&service), "{service}");
    }

    #[test]
    fn repeated_runs_produce_equal_results() {
        let config = short();
        let run = || format!("{:?}", figures(&config, "RAID-DP write", SimulatedState::Rebuilding, 2000.0));
        assert_eq!(run(), run());
    }
}
