//! Assigns databases to threads. Databases get batches in turn, and each volume has at most its share of the threads at
//! a time. A slow volume therefore does not take threads away from the other volumes, which run at their own speed.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Assigns a load's databases to its threads.
pub(crate) struct ThreadAssignment {
    next: AtomicUsize,
    /// Volume number of each database.
    volumes: Vec<usize>,
    /// Number of threads that work on each volume.
    busy: Vec<AtomicUsize>,
    /// Maximum number of threads for each volume. The sum for all volumes is at least the number of threads.
    max_threads_per_volume: usize,
}

/// A thread's turn on a database. The turn ends when this value is dropped.
pub(crate) struct DatabaseTurn<'a> {
    busy: &'a AtomicUsize,
    /// Index of the database in the plan.
    pub(crate) database: usize,
}

impl Drop for DatabaseTurn<'_> {
    fn drop(&mut self) {
        self.busy.fetch_sub(1, Relaxed);
    }
}

impl ThreadAssignment {
    /// Creates the assignment for databases on these volumes and this number of threads. `volumes` must not be empty.
    pub(crate) fn new(volumes: Vec<usize>, threads: usize) -> ThreadAssignment {
        let count = volumes.iter().max().map_or(1, |last| last + 1);
        let busy = (0..count).map(|_| AtomicUsize::new(0)).collect();
        ThreadAssignment {
            next: AtomicUsize::new(0),
            volumes,
            busy,
            max_threads_per_volume: threads.div_ceil(count).max(1),
        }
    }

    /// Returns the next database whose volume has a free thread. At most one turn per thread is held, so a free
    /// volume always exists.
    pub(crate) fn take(&self) -> DatabaseTurn<'_> {
        loop {
            let database = self.next.fetch_add(1, Relaxed) % self.volumes.len();
            let busy = &self.busy[self.volumes[database]];
            let begun = busy.fetch_update(Relaxed, Relaxed, |busy| {
                (busy < self.max_threads_per_volume).then_some(busy + 1)
            });
            if begun.is_ok() {
                return DatabaseTurn { busy, database };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn databases_on_one_volume_are_assigned_round_robin() {
        let turns = ThreadAssignment::new(vec![0; 3], 4);
        let held: Vec<_> = (0..4).map(|_| turns.take()).collect();
        assert_eq!(held.iter().map(|turn| turn.database).collect::<Vec<_>>(), [0, 1, 2, 0]);
        drop(held);
        assert_eq!(turns.take().database, 1);
    }

    #[test]
    fn a_volume_with_busy_threads_is_skipped() {
        // Databases 0 and 2 are on the slow volume.
        let turns = ThreadAssignment::new(vec![0, 1, 0, 1], 4);
        let slow: Vec<_> = [turns.take(), turns.take(), turns.take(), turns.take()]
            .into_iter()
            .filter(|turn| turn.database % 2 == 0)
            .collect();
        assert_eq!(slow.len(), 2);
        let others: Vec<usize> = (0..6).map(|_| turns.take().database).collect();
        assert_eq!(others, [1, 3, 1, 3, 1, 3]);
        drop(slow);
        assert_eq!(turns.take().database, 0);
    }

    #[test]
    fn every_thread_gets_a_database() {
        for (volumes, threads) in [(8, 4), (8, 8), (3, 8), (1, 5)] {
            let turns =
                ThreadAssignment::new((0..volumes * 2).map(|database| database % volumes).collect(), threads);
            let held: Vec<_> = (0..threads).map(|_| turns.take()).collect();
            assert_eq!(held.len(), threads);
        }
    }
}
