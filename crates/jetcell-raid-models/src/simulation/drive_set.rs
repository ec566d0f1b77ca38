//! Simulates one set of drives. A simulated mission of the set is called a life.
//!
//! A state is critical if the failure of another drive could be a loss. In critical states, the cumulative hazard of
//! the fatal failures is added to the estimate. This is the compensator of the losses, which has the same mean. A
//! loss still ends the life. This method needs a few thousand times fewer lives than counting losses.
//!
//! Failure biasing makes failures that lead to critical states more frequent. In states that are not critical, with f
//! failed drives, hazards are multiplied by a factor b(f). The weight of a life is multiplied by exp((b - 1) H) as
//! the hazard H accumulates and by 1/b at each failure, which does not change the mean. In critical states, b is 1,
//! so the weight is constant while the hazard is integrated.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::RngCore;

use super::event_distributions::EventDistributions;
use super::weibull::Weibull;
use crate::array::DriveSet;
use crate::model::GeneralModelRules;

/// How a simulated life continues after data loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterLossAction {
    /// The life ends. The estimate is a probability of loss.
    End,
    /// The set is restored without defects and the life continues. The estimate is a mean number of losses.
    Restore,
}

/// Parameters for a data loss simulation.
#[derive(Clone, Debug)]
pub struct LossSimulation {
    /// The simulated set of drives.
    pub set: DriveSet,
    /// Distributions of the times between events.
    pub laws: EventDistributions,
    /// Length of a life in hours.
    pub hours: f64,
    /// Action after a loss.
    pub after_loss: AfterLossAction,
    /// Treatment of defects while drives are missing. The scrub always continues.
    pub rules: GeneralModelRules,
    /// Factor by which hazards are multiplied, indexed by the number of failed drives. Beyond the end of the vector,
    /// it is 1.
    bias: Vec<f64>,
}

/// Contribution of one simulated life to the estimates.
#[derive(Clone, Copy, Debug, Default)]
pub struct LifeOutcome {
    /// Weighted sum of the hazards of fatal failures.
    pub estimate: f64,
    /// Weighted number of losses. It has the same mean, but far more noise.
    pub counted: f64,
}

/// Draws from the exponential distribution with mean 1.
fn unit(random: &mut ChaCha8Rng) -> f64 {
    // The half added to the 53 random bits ensures that the value is never 0 or 1.
    let uniform = ((random.next_u64() >> 11) as f64 + 0.5) * (1.0 / (1u64 << 53) as f64);
    -uniform.ln()
}

impl LossSimulation {
    /// Creates a simulation, optionally with a suitable bias.
    pub fn new(
        set: DriveSet,
        laws: EventDistributions,
        hours: f64,
        after_loss: AfterLossAction,
        biased: bool,
    ) -> LossSimulation {
        let rules = GeneralModelRules::default();
        let mut simulation = LossSimulation { set, laws, hours, after_loss, rules, bias: Vec::new() };
        if biased && after_loss == AfterLossAction::End {
            simulation.bias = simulation.fitting_bias();
        }
        simulation
    }

    /// Computes the bias. Without failed drives, it aims at one failure per life. With failed drives, it aims at
    /// another failure in half of the restores, or in one restore per life if a life has many. A larger bias would
    /// make the weights too uneven.
    fn fitting_bias(&self) -> Vec<f64> {
        let Some(failure) = self.laws.failure else { return Vec::new() };
        let drives = f64::from(self.set.drives());
        let failures = drives * failure.hazard(self.hours);
        let restore = self.laws.restore.approximate_mean();
        let scrub = self.laws.scrub.map_or(self.hours, |law| law.approximate_mean()).min(self.hours);
        // If defects are frequent, most losses need m - 1 failures and a defect; otherwise they need m failures.
        let defects = self.laws.latent.map_or(0.0, |law| drives * (scrub + restore) / law.approximate_mean());
        let levels = if defects > 0.1 { self.set.parities - 1 } else { self.set.parities };
        let per_restore = failures * restore / self.hours;
        (0..levels)
            .map(|failed| match failed {
                0 => (1.0 / failures).max(1.0),
                _ => (0.5f64.min(1.0 / failures.max(1.0)) / per_restore).max(1.0),
            })
            .map(|factor| if factor.is_finite() { factor } else { 1.0 })
            .collect()
    }

    /// Returns the approximate number of events per simulated lifetime.
    pub fn expected_events(&self) -> f64 {
        let laws = &self.laws;
        let time = |law: Option<Weibull>| law.map_or(self.hours, |law| law.approximate_mean());
        let defects = self.hours / (time(laws.latent) + time(laws.scrub));
        let failures = laws.failure.map_or(0.0, |law| law.hazard(self.hours));
        f64::from(self.set.drives()) * 2.0 * (defects + failures)
    }

    /// Returns the factor by which hazards are multiplied in a state that is not critical.
    fn bias(&self, failed: u32) -> f64 {
        self.bias.get(failed as usize).copied().unwrap_or(1.0)
    }
}

/// A drive slot, which holds a working drive or is being restored.
#[derive(Clone, Copy)]
struct DriveSlot {
    /// Time at which the drive was new.
    installed_at: f64,
    /// Biased hazard that remains until the drive fails.
    budget: f64,
    /// Time up to which the accumulated hazard has been deducted from the budget.
    used_until: f64,
    /// Time at which the drive fails at the current bias, or at which the restore ends.
    next: f64,
    /// Time at which the next defect arises, or at which the current defect is repaired.
    other: f64,
    failed: bool,
    defective: bool,
}

/// Cause of a loss.
#[derive(PartialEq, Eq)]
enum LossCause {
    Failure,
    /// A defect that arose when no redundancy remained.
    Defect,
}

/// The state of a simulated drive set. The value is reused across many simulations.
pub struct SimulatedDriveSet<'a> {
    experiment: &'a LossSimulation,
    slots: Vec<DriveSlot>,
    now: f64,
    failed: u32,
    defective: u32,
    weight: f64,
    bias: f64,
}

impl<'a> SimulatedDriveSet<'a> {
    /// Creates a set for which no life has been simulated yet.
    pub fn new(experiment: &'a LossSimulation) -> SimulatedDriveSet<'a> {
        let slots = Vec::with_capacity(experiment.set.drives() as usize);
        SimulatedDriveSet { experiment, slots, now: 0.0, failed: 0, defective: 0, weight: 1.0, bias: 1.0 }
    }

    /// Simulates one life from its start.
    pub fn run(&mut self, random: &mut ChaCha8Rng) -> LifeOutcome {
        (self.now, self.failed, self.defective, self.weight) = (0.0, 0, 0, 1.0);
        self.slots.clear();
        self.bias = self.experiment.bias(0);
        for _ in 0..self.experiment.set.drives() {
            let slot = self.new_drive(random);
            self.slots.push(slot);
        }
        let mut outcome = LifeOutcome::default();
        loop {
            let (index, time) = self.next_event();
            let end = time.min(self.experiment.hours);
            self.advance_to(end, &mut outcome);
            if time >= self.experiment.hours {
                return outcome;
            }
            if let Some(loss) = self.execute_event(index, random) {
                if loss == LossCause::Defect {
                    // The accumulated hazard covers failures only, so a loss caused by a defect is added here.
                    outcome.estimate += self.weight;
                }
                outcome.counted += self.weight;
                if self.experiment.after_loss == AfterLossAction::End {
                    return outcome;
                }
                self.reset_drives(random);
            }
            self.rebias();
        }
    }

    fn new_drive(&self, random: &mut ChaCha8Rng) -> DriveSlot {
        let laws = &self.experiment.laws;
        let mut slot = DriveSlot {
            installed_at: self.now,
            budget: unit(random),
            used_until: self.now,
            next: f64::INFINITY,
            other: self.now + laws.latent.map_or(f64::INFINITY, |law| law.age(unit(random))),
            failed: false,
            defective: false,
        };
        self.schedule(&mut slot);
        slot
    }

    /// Schedules a working drive's failure according to its hazard budget.
    fn schedule(&self, slot: &mut DriveSlot) {
        let Some(law) = self.experiment.laws.failure else { return };
        slot.next = slot.installed_at
            + law.age(law.hazard(slot.used_until - slot.installed_at) + slot.budget / self.bias);
    }

    fn next_event(&self) -> (usize, f64) {
        let times = self.slots.iter().map(|slot| slot.next.min(slot.other)).enumerate();
        times.fold((0, f64::INFINITY), |first, event| if event.1 < first.1 { event } else { first })
    }

    /// Returns true if a failure of the drive would be a loss in the current state.
    fn is_fatal(&self, slot: &DriveSlot) -> bool {
        let others = self.defective - u32::from(slot.defective);
        self.failed + 1 + u32::from(others > 0) > self.experiment.set.parities
    }

    fn is_critical(&self) -> bool {
        self.slots.iter().any(|slot| !slot.failed && self.is_fatal(slot))
    }

    fn fitting_bias(&self) -> f64 {
        if self.is_critical() { 1.0 } else { self.experiment.bias(self.failed) }
    }

    /// Advances the time to `end`. No event occurs until then.
    fn advance_to(&mut self, end: f64, outcome: &mut LifeOutcome) {
        let redundant = self.experiment.set.parities - self.failed.min(self.experiment.set.parities);
        let critical = redundant <= u32::from(self.defective > 0);
        if let Some(law) = self.experiment.laws.failure
            && (critical || self.bias != 1.0)
        {
            let (mut fatal, mut all) = (0.0, 0.0);
            for slot in self.slots.iter().filter(|slot| !slot.failed) {
                let hazard = law.hazard(end - slot.installed_at) - law.hazard(self.now - slot.installed_at);
                all += hazard;
                if self.is_fatal(slot) {
                    fatal += hazard;
                }
            }
            outcome.estimate += self.weight * fatal;
            self.weight *= ((self.bias - 1.0) * all).exp();
        }
        self.now = end;
    }

    /// Executes a slot's next event. Returns the cause if the event is a loss.
    fn execute_event(&mut self, index: usize, random: &mut ChaCha8Rng) -> Option<LossCause> {
        let &(mut slot) = self.slots.get(index)?;
        let LossSimulation { laws, rules, set, .. } = self.experiment;
        let mut lost = None;
        if slot.other < slot.next {
            slot.defective = !slot.defective;
            let law = if slot.defective { laws.scrub } else { laws.latent };
            slot.other = self.now + law.map_or(f64::INFINITY, |law| law.age(unit(random)));
            self.defective = if slot.defective { self.defective + 1 } else { self.defective - 1 };
            let is_late = slot.defective && self.failed == set.parities;
            lost = (is_late && rules.late_defects).then_some(LossCause::Defect);
        } else if slot.failed {
            self.failed -= 1;
            if rules.rebuild_cleans {
                self.reset_drives(random);
            }
            slot = self.new_drive(random);
        } else {
            lost = self.is_fatal(&slot).then_some(LossCause::Failure);
            self.weight /= self.bias;
            self.defective -= u32::from(slot.defective);
            self.failed += 1;
            (slot.failed, slot.defective, slot.other) = (true, false, f64::INFINITY);
            slot.next = self.now + laws.restore.age(unit(random));
        }
        self.slots[index] = slot;
        lost
    }

    /// Resets all drives to a state without defects.
    fn reset_drives(&mut self, random: &mut ChaCha8Rng) {
        let latent = self.experiment.laws.latent;
        for slot in self.slots.iter_mut().filter(|slot| slot.defective) {
            slot.defective = false;
            slot.other = self.now + latent.map_or(f64::INFINITY, |law| law.age(unit(random)));
        }
        self.defective = 0;
    }

    /// Switches to the bias for the current state, which changes the rate at which the remaining hazard budgets are
    /// used.
    fn rebias(&mut self) {
        let bias = self.fitting_bias();
        let Some(law) = self.experiment.laws.failure else { return };
        if bias == self.bias {
            return;
        }
        let (before, now) = (std::mem::replace(&mut self.bias, bias), self.now);
        let mut slots = std::mem::take(&mut self.slots);
        for slot in slots.iter_mut().filter(|slot| !slot.failed) {
            let passed =
                law.hazard(now - slot.installed_at) - law.hazard(slot.used_until - slot.installed_at);
            slot.budget = (slot.budget - before * passed).max(0.0);
            slot.used_until = now;
            self.schedule(slot);
        }
        self.slots = slots;
    }
}
