//! The end of a chapter: all sides are closed and replayed, and then compared.

use jetcell_copies::{CopyPhase, CopyState, DirectorySource, Replicator, StreamDirectory};
use jetcell_vfs::FileStem;
use rand::Rng;

use super::{CopyScenario, MAX_DRAIN_ROUNDS};
use crate::copies::hosts::HostDisks;
use crate::copies::load::{ActiveSide, difference, pages};
use crate::copies::tally::FaultDuration;

impl CopyScenario {
    /// Closes and replays all sides, and asserts that their pages are equal.
    pub(super) fn compare_all(&mut self) {
        if self.faults == FaultDuration::Bounded {
            self.network.lock().expect("no panic").heal();
        }
        self.restore_power();
        if self.start().is_none() {
            self.fail("starting", "the power is on");
        }
        if self.faults == FaultDuration::Bounded && self.rng.random_bool(0.7) {
            self.damage();
        }
        let ended =
            self.instance.take().map_or(Ok(()), |active| active.roll().and_then(|()| active.shut_down()));
        ended.unwrap_or_else(|error| self.fail("shutdown", error));
        self.model.durable = self.model.commits();
        // This adds a generation that only contains the shutdown of an instance.
        let seed = self.rng.random();
        let closed = ActiveSide::open(&self.hosts, self.active, seed)
            .and_then(|active| active.roll().and_then(|()| active.shut_down()));
        closed.unwrap_or_else(|error| self.fail("closing", error));
        for host in self.copies() {
            if self.drain(host) {
                let (theirs, ours) = (pages(&self.hosts, self.active), pages(&self.hosts, host));
                let different = difference(&theirs, &ours);
                assert!(different.is_empty(), "{}: host {host}: {different:?}", self.context);
                self.tally.compared += 1;
            }
        }
    }

    /// Follows until the queues are empty. Without network faults, this must happen within a limited number of steps.
    fn drain(&mut self, host: usize) -> bool {
        for _ in 0..MAX_DRAIN_ROUNDS {
            self.follow(host);
            let Some(copy) = &self.copies[host] else { continue };
            let state = copy.state();
            let logs = DirectorySource::new(StreamDirectory::new(
                &self.vfs,
                &HostDisks::store(self.active),
                FileStem::E00,
                Default::default(),
            ));
            let closed = jetcell_copies::LogSource::available_logs(&logs).map_or(0, |offer| offer.closed.0);
            if copy.is_confirmed()
                && state.next > closed
                && state.replay_queue() == 0
                && state.phase == CopyPhase::Following
            {
                let copy = self.copies[host].take();
                let stopped = copy.map(Replicator::stop).transpose();
                if let Err(error) = stopped {
                    self.fail("stopping a copy", error);
                }
                return true;
            }
        }
        if self.faults == FaultDuration::Bounded {
            let state = CopyState::read(&*self.vfs, &HostDisks::store(host));
            panic!("{}: the queues of host {host} do not drain: {state:?}", self.context);
        }
        false
    }
}
