//! Turns of maintenance: the load alone, and beside each task, so that the cost of each task is measured.

use ese_engine::Error;

use crate::engine::Store;
use crate::profile::{Maintenance, MaintenanceSettings, Profile};

/// The turns of one measurement. Every second round goes through them backwards, so that a trend affects all tasks alike.
pub(super) struct Turns<'a> {
    store: &'a dyn Store,
    settings: MaintenanceSettings,
    of_round: Vec<Maintenance>,
}

impl<'a> Turns<'a> {
    /// The turns that the profile asks for.
    pub fn of(store: &'a dyn Store, profile: &Profile) -> Option<Turns<'a>> {
        let settings = profile.maintenance();
        let of_round = || std::iter::once(Maintenance::default()).chain(settings.tasks.each()).collect();
        profile.maintenance_impact.then(|| Turns { store, settings, of_round: of_round() })
    }

    /// Turns in a round.
    pub fn in_round(&self) -> u32 {
        self.of_round.len() as u32
    }

    /// The maintenance of a turn.
    pub fn maintenance(&self, turn: usize) -> Maintenance {
        let (round, place) = (turn / self.of_round.len(), turn % self.of_round.len());
        match round.is_multiple_of(2) {
            true => self.of_round[place],
            false => self.of_round[self.of_round.len() - 1 - place],
        }
    }

    /// Ends the maintenance of the turn before, and starts that of this one.
    pub fn begin(&self, turn: usize) -> Result<(), Error> {
        self.store.stop_maintenance();
        self.store.start_maintenance(&MaintenanceSettings { tasks: self.maintenance(turn), ..self.settings })
    }
}
