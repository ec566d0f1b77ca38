//! Rules for when a host is considered silent, and when a silent host is declared lost.

use std::time::Duration;

use super::{Coordinator, FleetEvent, FleetMember};
use crate::message::Barrier;

impl Coordinator {
    /// Returns how long a host has been silent, not counting times when the broker was not working.
    pub fn silence_duration(&self, member: &FleetMember) -> Duration {
        let since = member.last_contact_ns().max(self.echoes_since_ns);
        Duration::from_nanos(self.last_own_heartbeat_ns.saturating_sub(since))
    }

    pub(super) fn is_silent(&self, member: &FleetMember) -> bool {
        self.silence_duration(member) >= self.config.lost_after.0
    }

    pub(super) fn report_silent_hosts(&mut self) {
        let changed: Vec<(u32, bool)> = self
            .members
            .values()
            .filter(|member| !member.is_settled() && self.is_silent(member) != member.silent)
            .map(|member| (member.rank(), !member.silent))
            .collect();
        for (rank, silent) in changed {
            if let Some(member) = self.members.get_mut(&rank) {
                member.silent = silent;
            }
            self.report(if silent { FleetEvent::Silent(rank) } else { FleetEvent::Returned(rank) });
        }
    }

    /// Declares silent hosts lost after the last barrier, but only once all other hosts have finished. Until then, no
    /// host has to wait for them.
    pub(super) fn drop_silent_hosts_at_end(&mut self) {
        if self.open == Barrier::ALL.last().copied() {
            self.drop_silent_hosts(|member| !member.is_settled(), "when all other hosts had finished");
        }
    }

    /// Declares the missing hosts lost if all of them are silent.
    pub(super) fn drop_silent_hosts(&mut self, missing: impl Fn(&FleetMember) -> bool, when: &str) {
        let left: Vec<u32> = self
            .members
            .values()
            .filter(|one| !one.is_settled() && missing(one))
            .map(FleetMember::rank)
            .collect();
        let all_silent =
            left.iter().all(|rank| self.members.get(rank).is_some_and(|one| self.is_silent(one)));
        if all_silent {
            left.into_iter().for_each(|rank| self.declare_lost(rank, when));
        }
    }

    pub(super) fn declare_lost(&mut self, rank: u32, when: &str) {
        if let Some(member) = self.members.get_mut(&rank) {
            member.declare_lost(when);
            self.changed = true;
            self.report(FleetEvent::DeclaredLost(rank));
        }
    }
}
