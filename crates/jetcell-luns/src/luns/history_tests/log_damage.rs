//! Damages the write log after a power cut.

use std::path::Path;

use jetcell_array::{ArrayError, BLOCK};
use jetcell_sync::Arc;
use jetcell_vfs::FaultVfs;
use rand::Rng;

use super::LunHistory;
use crate::luns::tests::LOG;

impl LunHistory {
    /// Damages one block of the write log, or truncates the log. The volume must then either contain all flushed
    /// writes or refuse to start. Afterwards, the log's content is restored.
    pub(super) fn damage_log(&mut self) {
        let path = Path::new(LOG);
        let whole = self.disk.contents(path).unwrap();
        let blocks = whole.len() / BLOCK;
        let is_used = |block: &usize| whole[block * BLOCK..][..BLOCK].iter().any(|byte| *byte != 0);
        let used: Vec<usize> = (0..blocks).filter(is_used).collect();
        let mut damaged = whole.clone();
        if self.rng.random_bool(0.2) {
            damaged.truncate(self.rng.random_range(0..whole.len()));
        } else {
            let at = used[self.rng.random_range(0..used.len())] * BLOCK + self.rng.random_range(0..8) * 512;
            damaged[at..at + 512].fill(self.rng.random());
        }
        let before = self.disk.clone_disk();
        self.disk.put(path, &damaged);
        self.counters.logs_damaged += 1;
        match self.start() {
            Ok(()) => {
                self.counters.logs_intact += 1;
                self.adopt();
                self.check();
                // Drops the volume, which the caller then starts again.
                self.volume = None;
                self.disk = self.disk.process_kill();
            }
            Err(ArrayError::WriteLog(_)) => {
                self.counters.logs_refused += 1;
                self.disk = before;
            }
            Err(error) => panic!("{error}"),
        }
        self.faults = Arc::new(FaultVfs::new(Arc::new(self.disk.clone())));
    }
}
