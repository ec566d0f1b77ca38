//! Measures the cost of each maintenance task. Turns without maintenance alternate with turns in which one task runs
//! concurrently with the load.

use crate::engine::DatabaseStore;
use crate::error::Error;
use crate::profile::{Maintenance, MaintenanceSettings, Profile};

/// The turns that the maintenance tasks take during one measurement. Every second round runs its turns in reverse
/// order, which spreads any trend equally over all tasks.
pub(super) struct MaintenanceTurns<'a> {
    store: &'a dyn DatabaseStore,
    settings: MaintenanceSettings,
    of_round: Vec<Maintenance>,
}

impl<'a> MaintenanceTurns<'a> {
    /// Returns the turns that the profile requests, if any.
    pub fn new(store: &'a dyn DatabaseStore, profile: &Profile) -> Option<MaintenanceTurns<'a>> {
        let settings = profile.maintenance();
        let of_round =
            || std::iter::once(Maintenance::default()).chain(settings.tasks.individual_tasks()).collect();
        profile.maintenance_impact.then(|| MaintenanceTurns { store, settings, of_round: of_round() })
    }

    /// Returns the number of turns in a round.
    pub fn turns_per_round(&self) -> u32 {
        self.of_round.len() as u32
    }

    /// Returns the maintenance task that runs during a turn.
    pub fn maintenance(&self, turn: usize) -> Maintenance {
        let (round, place) = (turn / self.of_round.len(), turn % self.of_round.len());
        if round.is_multiple_of(2) {
            self.of_round[place]
        } else {
            self.of_round[self.of_round.len() - 1 - place]
        }
    }

    /// Stops the previous turn's maintenance and starts this turn's maintenance.
    pub fn begin(&self, turn: usize) -> Result<(), Error> {
        self.store.stop_maintenance();
        self.store.start_maintenance(&MaintenanceSettings { tasks: self.maintenance(turn), ..self.settings })
    }
}
