//! Simulates arrays over several years: drives fail, defects occur, and scrubs and rebuilds repair them, until the
//! array itself reports data loss or the mission ends. The Markov chain and the Monte Carlo simulation of
//! `jetcell-raid-models` use the same rates. They must predict the same fraction of losses, and the same number of
//! transitions between states of the array.
//!
//! Only the events are executed; the time between them is just added up. The rates are far higher than those of real
//! drives, so losses are frequent. `JETCELL_ARRAY_LIVES` sets the number of lives in each world, and
//! `JETCELL_ARRAY_SEED` sets the first seed.

use jetcell_raid_models::simulation::weibull::Weibull;
use jetcell_raid_models::simulation::{
    AfterLossAction, EventDistributions, LossSimulation, SimulationSettings,
};
use jetcell_raid_models::units::{Hours, PerHour};
use jetcell_raid_models::{
    DriveSet, EventRates, GeneralModelRules, MarkovModel, chain::MarkovChain, diagram::StateDiagram,
};
use jetcell_vfs::Vfs;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::geometry::{BLOCK, ZONE_ROWS};
use crate::history_tests::environment;
use crate::test_array::TestArray;
use crate::{ArrayError, ArrayRefusal, ArrayState, RaidLevel, ScrubReport};

/// Duration of a mission in hours (five years).
const MISSION: f64 = 43_800.0;
/// Half-width of a 99.9 % confidence interval, in standard errors.
const DEVIATE: f64 = 3.29;

/// Schedule of scrubs.
#[derive(Clone, Copy)]
enum ScrubSchedule {
    /// Random zones at random times. The value is the mean number of hours between scrubs of a zone, which
    /// corresponds to the constant rate of the Markov chain.
    Random(f64),
    /// Zones in ascending order. The value is the number of hours that a pass over all zones takes.
    Periodic(f64),
}

/// Parameters and initial state shared by all lives of an array.
struct LifeParameters {
    set: DriveSet,
    laws: EventDistributions,
    scrubs: ScrubSchedule,
    /// An array that was shut down, with one row of data in every zone.
    prepared: TestArray,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ArrayLoss {
    /// The array stopped, and cannot be assembled without its failed drives.
    Stopped,
    /// At least one row cannot be recovered.
    Rows,
}

/// Events that the array reported in one life.
#[derive(Default)]
struct LifeReport {
    loss: Option<ArrayLoss>,
    /// Number of times that one more member went missing, indexed by the number of members that were already missing.
    degraded: [u32; 3],
    rebuilds: u32,
    repaired: u64,
}

struct SimulatedMember {
    /// Time at which the drive fails or, if it has failed, at which its slot is restored.
    next: f64,
    is_failed: bool,
    defect_at: f64,
    /// Zone of the drive's current defect.
    defect: Option<u64>,
}

impl LifeParameters {
    fn new(
        level: RaidLevel,
        data: u32,
        parities: u32,
        laws: EventDistributions,
        scrubs: ScrubSchedule,
    ) -> LifeParameters {
        let set = DriveSet { data, parities };
        let zones = u64::from(set.drives());
        let prepared = TestArray::with_zones(level, set.drives() as usize, 1, zones);
        let mut world = LifeParameters { set, laws, scrubs, prepared };
        for row in world.rows().chain([1]) {
            write_row(&mut world.prepared, row, row + 5).unwrap();
        }
        world.prepared.close();
        world
    }

    /// Returns the number of zones, which equals the number of drives. Each defect can therefore have its own zone,
    /// so no row has two defects. On real drives, two defects in one row are similarly rare.
    fn zones(&self) -> u64 {
        self.set.drives().into()
    }

    /// Returns the rows with data, one in each zone. Row 1 is written as well, to let the array detect failures.
    fn rows(&self) -> impl Iterator<Item = u64> + use<> {
        (0..self.zones()).map(|zone| zone * ZONE_ROWS)
    }

    fn with_constant_rates(level: RaidLevel, data: u32, parities: u32, rates: &EventRates) -> LifeParameters {
        let scrubs = ScrubSchedule::Random(rates.scrub.mean().unwrap().get());
        LifeParameters::new(level, data, parities, EventDistributions::exponential(rates).unwrap(), scrubs)
    }

    fn lives(&self) -> Vec<LifeReport> {
        let first = environment("JETCELL_ARRAY_SEED", 1);
        let seeds = first..first + environment("JETCELL_ARRAY_LIVES", 100);
        seeds.map(|seed| ArrayLife::new(self, seed).run()).collect()
    }

    fn losses_by_simulation(&self) -> (f64, f64) {
        let mut experiment = LossSimulation::new(self.set, self.laws, MISSION, AfterLossAction::End, false);
        experiment.rules = GeneralModelRules::for_arrays();
        let effort = SimulationSettings { seed: 1, precision: 1e-5, lives: 50_000 };
        let estimate = experiment.estimate(effort, |_| ()).unwrap();
        (estimate.mean, estimate.standard_error)
    }
}

fn write_row(tested: &mut TestArray, row: u64, value: u64) -> crate::Result<()> {
    let layout = *tested.array().layout();
    let blocks = (0..layout.data_columns()).map(|column| layout.block_at(row, column));
    tested.write(&blocks.map(|block| (block, value)).collect())
}

struct ArrayLife<'world> {
    world: &'world LifeParameters,
    tested: TestArray,
    random: ChaCha8Rng,
    now: f64,
    drives: Vec<SimulatedMember>,
    next_scrub: f64,
    scrubbed: u64,
    report: LifeReport,
}

impl ArrayLife<'_> {
    fn new(world: &LifeParameters, seed: u64) -> ArrayLife<'_> {
        let mut life = ArrayLife {
            world,
            tested: world.prepared.copy(seed),
            random: ChaCha8Rng::seed_from_u64(seed),
            now: 0.0,
            drives: vec![],
            next_scrub: 0.0,
            scrubbed: 0,
            report: LifeReport::default(),
        };
        life.drives = (0..world.set.drives()).map(|_| life.new_drive()).collect();
        life.next_scrub = life.scrub_after();
        life
    }

    /// Draws a random time from a distribution.
    fn time(&mut self, law: Option<Weibull>) -> f64 {
        let unit = -(1.0 - self.random.random::<f64>()).ln();
        law.map_or(f64::INFINITY, |law| law.age(unit))
    }

    fn new_drive(&mut self) -> SimulatedMember {
        let laws = self.world.laws;
        let (next, defect_at) = (self.now + self.time(laws.failure), self.now + self.time(laws.latent));
        SimulatedMember { next, is_failed: false, defect_at, defect: None }
    }

    fn scrub_after(&mut self) -> f64 {
        match self.world.scrubs {
            ScrubSchedule::Random(mean) => {
                let law = Weibull::exponential(Hours::new(mean / self.world.zones() as f64).unwrap());
                self.now + self.time(law.ok())
            }
            ScrubSchedule::Periodic(hours) => self.now + hours / self.world.zones() as f64,
        }
    }

    fn failed(&self) -> usize {
        self.drives.iter().filter(|drive| drive.is_failed).count()
    }

    fn run(mut self) -> LifeReport {
        while self.report.loss.is_none() {
            let time = |drive: &SimulatedMember| drive.next.min(drive.defect_at);
            let times = self.drives.iter().map(time).enumerate();
            let (slot, at) = times.min_by(|one, other| one.1.total_cmp(&other.1)).unwrap();
            self.now = at.min(self.next_scrub);
            if self.now > MISSION {
                self.check();
                break;
            }
            let drive = &self.drives[slot];
            if self.next_scrub <= at {
                self.scrub();
            } else if drive.defect_at < drive.next {
                self.damage(slot);
            } else if drive.is_failed {
                self.restore(slot);
            } else {
                self.fail(slot);
            }
        }
        self.report
    }

    fn fail(&mut self, slot: usize) {
        let before = self.failed();
        let path = self.tested.array().status().slots[slot].member.clone().unwrap();
        self.tested.fail_file(&path);
        match write_row(&mut self.tested, 1, self.now as u64 | 1) {
            Ok(()) => assert_eq!(self.tested.array().status().state, ArrayState::Degraded(before + 1)),
            Err(ArrayError::Stopped { .. }) => {
                self.tested.reset();
                let refused = self.tested.assemble(true);
                let is_gone = self.tested.members.is_empty();
                let is_refused =
                    matches!(refused, Err(ArrayError::Refused(ArrayRefusal::TooManyMissing { .. })));
                assert!(is_refused || is_gone && refused.is_err(), "{refused:?}");
                self.report.loss = Some(ArrayLoss::Stopped);
                return;
            }
            Err(other) => panic!("{other}"),
        }
        let next = self.now + self.time(Some(self.world.laws.restore));
        self.drives[slot] = SimulatedMember { next, is_failed: true, defect_at: f64::INFINITY, defect: None };
        self.read_without_redundancy();
        if self.report.loss.is_none() {
            self.report.degraded[before] += 1;
        }
    }

    /// Corrupts a block on a drive.
    fn damage(&mut self, slot: usize) {
        let is_free = |zone: &u64| self.drives.iter().all(|drive| drive.defect != Some(*zone));
        let free: Vec<u64> = (0..self.world.zones()).filter(is_free).collect();
        let zone = free[self.random.random_range(0..free.len())];
        let path = self.tested.array().status().slots[slot].member.clone().unwrap();
        let offset = TestArray::offset(zone * ZONE_ROWS) + 512 * self.random.random_range(0..8);
        self.tested.disk.corrupt(&path, offset, &[0x99; 512]).unwrap();
        self.drives[slot].defect = Some(zone);
        self.drives[slot].defect_at = f64::INFINITY;
        self.read_without_redundancy();
    }

    /// Reads all rows if no redundancy is left. Any defect then causes data loss, and these reads find it. If there is
    /// redundancy left, nothing is read, because the reads would repair defects.
    fn read_without_redundancy(&mut self) {
        if self.failed() < self.world.set.parities as usize {
            return;
        }
        let layout = *self.tested.array().layout();
        for row in self.world.rows() {
            for block in (0..layout.data_columns()).map(|column| layout.block_at(row, column)) {
                match self.tested.value(block) {
                    Ok(value) => assert_eq!(value, self.tested.model[block as usize]),
                    Err(ArrayError::Unrecoverable { .. }) => self.report.loss = Some(ArrayLoss::Rows),
                    Err(other) => panic!("{other}"),
                }
            }
        }
    }

    /// Scrubs the next zone.
    fn scrub(&mut self) {
        let zone = match self.world.scrubs {
            ScrubSchedule::Random(_) => self.random.random_range(0..self.world.zones()),
            ScrubSchedule::Periodic(_) => self.scrubbed % self.world.zones(),
        };
        self.scrubbed += 1;
        let mut report = ScrubReport::default();
        let array = self.tested.array();
        array.members_mut().config.scrub_cursor = zone;
        array.scrub_zones(1, &mut report).unwrap();
        let found = self.drives.iter().filter(|drive| drive.defect == Some(zone)).count() as u64;
        assert!(report.unrecoverable.is_empty() && report.parity_mismatches.is_empty(), "{report:?}");
        assert_eq!(report.repaired, found);
        self.report.repaired += found;
        self.clean(|of_drive| of_drive == zone);
        self.next_scrub = self.scrub_after();
    }

    /// Marks defects in these zones as repaired.
    fn clean(&mut self, is_clean: impl Fn(u64) -> bool) {
        for slot in 0..self.drives.len() {
            if self.drives[slot].defect.is_some_and(&is_clean) {
                self.drives[slot].defect = None;
                self.drives[slot].defect_at = self.now + self.time(self.world.laws.latent);
            }
        }
    }

    /// Replaces a failed drive and rebuilds its slot.
    fn restore(&mut self, slot: usize) {
        let file = self.tested.new_file();
        self.tested.array().replace(slot, &file, false).unwrap();
        loop {
            let progress = self.tested.array().rebuild_rows(ZONE_ROWS).unwrap();
            assert_eq!(progress.rows_lost, 0);
            if progress.is_complete() {
                break;
            }
        }
        self.tested.refresh_members();
        self.drives[slot] = self.new_drive();
        self.clean(|_| true);
        self.report.rebuilds += 1;
        if self.failed() == 0 {
            assert_eq!(self.tested.array().status().state, ArrayState::Optimal);
            self.tested.faults.clear();
            for dead in std::mem::take(&mut self.tested.dead) {
                self.tested.disk.remove(&dead).unwrap();
            }
        }
    }

    /// Checks at the end of a life that all data is intact.
    fn check(&mut self) {
        let layout = *self.tested.array().layout();
        let mut buffer = vec![0; BLOCK];
        for block in self.world.rows().chain([1]).map(|row| layout.block_at(row, 0)) {
            self.tested.array().read(block, &mut buffer).unwrap();
            assert_eq!(buffer[..8], self.tested.model[block as usize].to_le_bytes());
        }
    }
}

/// Returns the mean of the counts over all lives, and the standard error of this mean.
fn mean(counts: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let lives = counts.clone().count() as f64;
    let mean = counts.clone().sum::<f64>() / lives;
    let variance = counts.map(|count| (count - mean).powi(2)).sum::<f64>() / (lives - 1.0);
    (mean, (variance / lives).sqrt())
}

#[track_caller]
fn agree(what: &str, found: (f64, f64), expected: f64, error: f64) {
    let error = found.1.hypot(error);
    let off = (found.0 - expected) / error;
    println!("{what}: {:.4} ± {:.4}, expected {expected:.4}: {off:+.1} errors", found.0, found.1);
    assert!(off.abs() < DEVIATE, "{what}: {:.4} is {off:.1} errors from {expected:.4}", found.0);
}

/// Returns the number of transitions from `failed` to `failed + 1` missing drives without data loss, as predicted by
/// the chain.
fn degradations(diagram: &StateDiagram, times: &[f64], rates: &EventRates, failed: usize) -> f64 {
    let begins = |state: usize, failed: usize| diagram.states[state].starts_with(&format!("({failed},"));
    let counts = |arrow: &&jetcell_raid_models::diagram::StateTransition| {
        begins(arrow.from, failed) && arrow.to.is_some_and(|to| begins(to, failed + 1))
    };
    let arrows = diagram.transitions.iter().filter(counts);
    arrows.map(|arrow| times[arrow.from] * arrow.times * arrow.symbol.rate_per_hour(rates)).sum()
}

/// Returns rates for these mean times in hours.
fn rates([failure, latent, restore, scrub]: [f64; 4]) -> EventRates {
    let rate = |hours| PerHour::once_per(Hours::new(hours).unwrap()).unwrap();
    EventRates { failure: rate(failure), latent: rate(latent), restore: rate(restore), scrub: rate(scrub) }
}

#[test]
fn data_loss_at_constant_rates_matches_the_markov_chain() {
    for (level, data, parities, hours) in [
        (RaidLevel::Mirror, 1, 1, [15_000.0, 20_000.0, 300.0, 900.0]),
        (RaidLevel::Raid5, 3, 1, [25_000.0, 60_000.0, 300.0, 900.0]),
        (RaidLevel::Mirror, 1, 2, [9_000.0, 9_000.0, 1_000.0, 600.0]),
        (RaidLevel::Raid6, 3, 2, [14_000.0, 20_000.0, 1_000.0, 600.0]),
        (RaidLevel::RaidDp { prime: 17 }, 3, 2, [14_000.0, 20_000.0, 1_000.0, 600.0]),
    ] {
        let rates = rates(hours);
        let world = LifeParameters::with_constant_rates(level, data, parities, &rates);
        let lives = world.lives();
        let diagram = StateDiagram::new(MarkovModel::General(GeneralModelRules::for_arrays()), world.set);
        let chain: MarkovChain = diagram.chain(&rates).unwrap();
        let losses = mean(lives.iter().map(|life| f64::from(u8::from(life.loss.is_some()))));
        let what = format!("{level} {data}+{parities}, {} lives", lives.len());
        agree(&format!("{what}, losses"), losses, chain.probabilities_after(MISSION).unwrap().loss, 0.0);
        let (simulated, error) = world.losses_by_simulation();
        agree(&format!("{what}, losses by Monte Carlo"), losses, simulated, error);
        let times = chain.mean_times(MISSION).unwrap();
        for failed in 0..parities as usize {
            let found = mean(lives.iter().map(|life| f64::from(life.degraded[failed])));
            let expected = degradations(&diagram, &times, &rates, failed);
            agree(&format!("{what}, {failed} to {} missing", failed + 1), found, expected, 0.0);
        }
        let count = |kind| lives.iter().filter(|life| life.loss == Some(kind)).count();
        let (stopped, rows) = (count(ArrayLoss::Stopped), count(ArrayLoss::Rows));
        assert!(stopped > 0 && rows > 0, "{what}: {stopped} stopped, {rows} lost rows");
        assert!(lives.iter().map(|life| life.repaired).sum::<u64>() > 0);
    }
}

#[test]
fn data_loss_with_wear_and_scrubs_matches_monte_carlo() {
    // The time between a defect and the scrub that finds it is between zero and the interval. This distribution has
    // the same mean and variance.
    const INTERVAL: f64 = 1_500.0;
    let law = |offset: f64, scale: f64, shape| {
        Weibull::new(Hours::new(offset).unwrap(), Hours::new(scale).unwrap(), shape).unwrap()
    };
    let laws = |failure: f64, latent: f64, restore: f64| EventDistributions {
        failure: Some(law(0.0, failure, 1.5)),
        latent: Some(law(0.0, latent, 1.0)),
        restore: law(restore / 4.0, restore, 2.0),
        scrub: Some(law(0.0, INTERVAL / 2.0 / 0.889_6, 1.79)),
    };
    for (level, data, parities, laws) in [
        (RaidLevel::Raid5, 3, 1, laws(25_000.0, 60_000.0, 300.0)),
        (RaidLevel::RaidDp { prime: 17 }, 3, 2, laws(14_000.0, 16_000.0, 900.0)),
    ] {
        let world = LifeParameters::new(level, data, parities, laws, ScrubSchedule::Periodic(INTERVAL));
        let lives = world.lives();
        let losses = mean(lives.iter().map(|life| f64::from(u8::from(life.loss.is_some()))));
        let (simulated, error) = world.losses_by_simulation();
        agree(&format!("{level} {data}+{parities}, wear, {} lives", lives.len()), losses, simulated, error);
        assert!(lives.iter().map(|life| life.rebuilds).sum::<u32>() > lives.len() as u32);
    }
}
