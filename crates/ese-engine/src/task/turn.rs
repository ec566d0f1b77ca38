//! Serializes the maintenance of several databases, usually the databases on one disk.

use jetcell_sync::Mutex;

use crate::cache::AttachedFileId;

/// Exclusive right to run maintenance, held by one database at a time.
#[derive(Default)]
pub struct MaintenanceTurn(Mutex<Option<(usize, AttachedFileId)>>);

impl MaintenanceTurn {
    /// Acquires the turn if it is free or this database already holds it. `cache` distinguishes instances with
    /// separate caches.
    pub(crate) fn acquire(&self, cache: usize, file: AttachedFileId) -> bool {
        let mut holder = self.0.lock();
        *holder.get_or_insert((cache, file)) == (cache, file)
    }

    /// Releases the turn.
    pub(crate) fn release(&self, cache: usize, file: AttachedFileId) {
        let mut holder = self.0.lock();
        if *holder == Some((cache, file)) {
            *holder = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_database_at_a_time_holds_the_maintenance_turn() {
        let turn = MaintenanceTurn::default();
        assert!(turn.acquire(1, AttachedFileId(0)) && turn.acquire(1, AttachedFileId(0)));
        assert!(!turn.acquire(1, AttachedFileId(1)) && !turn.acquire(2, AttachedFileId(0)));
        turn.release(2, AttachedFileId(0));
        assert!(!turn.acquire(1, AttachedFileId(1)));
        turn.release(1, AttachedFileId(0));
        assert!(turn.acquire(1, AttachedFileId(1)));
    }
}
