//! Damages a page of one side, and checks that it is repaired with the page of another side.

use ese_engine::{EventProfile, MaintenanceThrottle};
use jetcell_copies::{CopyPhase, CopyScanOptions, CopyState, scan_copy};
use rand::Rng;

use super::{CopyScenario, MAX_DRAIN_ROUNDS};
use crate::copies::damage::{bad_pages, damage_page};
use crate::copies::hosts::HostDisks;

impl CopyScenario {
    /// Damages a page on the disk of one side while the other sides have it intact. The page must be repaired while
    /// the sides are running.
    pub(super) fn damage(&mut self) {
        let copies: Vec<_> = self.copies().collect();
        for host in &copies {
            (0..MAX_DRAIN_ROUNDS).for_each(|_| self.follow(*host));
        }
        let is_copy = self.rng.random_bool(0.5);
        let host = if is_copy { copies[self.rng.random_range(0..2)] } else { self.active };
        let store = HostDisks::store(host);
        if !copies.iter().all(|host| self.follows(*host)) {
            return;
        }
        let Some(mut active) = self.instance.take() else { return };
        // Only pages on the disk can be damaged, so dirty pages are written first.
        active.instance.flush().unwrap_or_else(|error| self.fail("flush", error));
        let Some(page) = damage_page(&self.hosts, host, &mut self.rng) else {
            self.instance = Some(active);
            return;
        };
        self.report_event(|| format!("page {page} of host {host} is damaged"));
        for round in 0..MAX_DRAIN_ROUNDS {
            if round == MAX_DRAIN_ROUNDS / 2 {
                // An open transaction keeps the checkpoints of the copies back, and a copy that restarts replays from
                // its checkpoint. A copy that restarts often would therefore not catch up, and would not write the
                // repaired page.
                active.end_other().unwrap_or_else(|error| self.fail("a rollback", error));
            }
            let worked = active.scan().and_then(|()| {
                if is_copy {
                    active.commit(&mut self.model, &mut self.rng)?;
                }
                active.roll()?;
                active.instance.exchange_pages()?;
                active.instance.checkpoint()?;
                active.roll()
            });
            worked.unwrap_or_else(|error| self.fail("work with a damaged page", error));
            // A copy that needs a new seed gets it from the running instance.
            self.instance = Some(active);
            for host in &copies {
                self.scan_copy(*host);
                (0..3).for_each(|_| self.follow(*host));
                if self.rng.random_bool(0.3) {
                    self.copies[*host] = None;
                }
            }
            let Some(still_active) = self.instance.take() else { return };
            active = still_active;
            self.vfs.clock().sleep(std::time::Duration::from_secs(6));
            if bad_pages(&self.hosts, host).is_empty() {
                self.tally.repaired[usize::from(is_copy)] += 1;
                self.instance = Some(active);
                return;
            }
        }
        self.fail(
            &format!("{} is not repaired", store.display()),
            format!("{:?}", bad_pages(&self.hosts, host)),
        );
    }

    fn follows(&self, host: usize) -> bool {
        let state = CopyState::read(&*self.vfs, &HostDisks::store(host)).ok().flatten();
        state.is_some_and(|state| state.phase == CopyPhase::Following)
    }

    /// Scans a copy concurrently with its replay. A copy that waits for a new seed is skipped.
    fn scan_copy(&mut self, host: usize) {
        if !self.follows(host) {
            return;
        }
        let options = CopyScanOptions {
            batch_bytes: 64 << 10,
            throttle: MaintenanceThrottle::default(),
            interval: std::time::Duration::ZERO,
            events: None,
            profile: EventProfile::default(),
            cancellation: ese_check::Cancellation::default(),
        };
        let scanned = scan_copy(&self.vfs, &HostDisks::store(host), &options, &mut |_, _| true);
        if let Err(error) = scanned {
            self.fail("the scan of a copy", error);
        }
    }
}
