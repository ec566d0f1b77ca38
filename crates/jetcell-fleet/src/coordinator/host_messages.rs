//! Messages from hosts: state updates and result chunks.

use super::{
    CHUNK_REQUEST_TIMEOUT_NS, CHUNKS_PER_REQUEST, Coordinator, CoordinatorAction, FleetEvent, FleetMember,
    FleetRefusal, MAX_CONCURRENT_FETCHES, StoreResultError,
};
use crate::message::{Barrier, CoordinatorMessage, HostCondition, HostHeartbeat, display_text};
use crate::result_transfer::ResultReceiver;

impl Coordinator {
    pub(super) fn receive_host_heartbeat(&mut self, now: u64, run: &str, beat: HostHeartbeat) {
        let (rank, size) = (beat.rank, self.config.size());
        let of_this_run = run == self.run;
        if !run.is_empty() && !of_this_run {
            self.counts.ignored += 1;
            return self.reject(&beat, "another run of this fleet is in progress");
        }
        if self.open.is_none()
            && let Some(reason) = self.join_error(&beat, size)
        {
            self.reject(&beat, &reason.to_string());
            return self.refuse(reason);
        }
        if rank >= size {
            self.counts.ignored += 1;
            return self.reject(&beat, &format!("rank {rank} of {size} hosts"));
        }
        let silent = self.members.get(&rank).map(|member| self.is_silent(member));
        match self.members.get_mut(&rank) {
            Some(member) if member.heartbeat().token == beat.token => member.update(beat, now),
            // A host was restarted before all hosts had joined.
            None | Some(_) if self.open.is_none() && silent != Some(false) => {
                self.members.insert(rank, FleetMember::new(beat, now));
                self.changed = true;
                self.report(FleetEvent::Joined(rank));
            }
            Some(member) if self.open.is_none() => {
                let (one, other) = (member.heartbeat().name.clone(), display_text(&beat.name));
                let reason = FleetRefusal::SameRank { rank, one, other };
                self.reject(&beat, &reason.to_string());
                return self.refuse(reason);
            }
            _ => {
                self.counts.ignored += 1;
                return self.reject(&beat, "the test started without this process");
            }
        }
        self.respond(rank);
    }

    /// Returns the reason why a host cannot join, or `None` if it can.
    fn join_error(&self, beat: &HostHeartbeat, size: u32) -> Option<FleetRefusal> {
        let host = format!("host {} (rank {})", display_text(&beat.name), beat.rank);
        if beat.rank >= size {
            return Some(FleetRefusal::Rank { host, size });
        }
        if let Some(other) = beat.size.filter(|other| *other != size) {
            return Some(FleetRefusal::Size { host, other, size });
        }
        let is_other = beat.configuration.as_ref().is_some_and(|other| *other != self.config.digest);
        is_other.then_some(FleetRefusal::Configuration(host))
    }

    fn reject(&mut self, beat: &HostHeartbeat, reason: &str) {
        let message = CoordinatorMessage::Rejected { token: beat.token.clone(), reason: reason.into() };
        self.send_to(beat.rank, &message);
    }

    /// Responds to a host's newest state.
    fn respond(&mut self, rank: u32) {
        let everybody = self.members.len() as u64 == u64::from(self.config.size());
        let Some(member) = self.members.get_mut(&rank) else { return };
        let (token, shown) = (member.heartbeat().token.clone(), member.display_name());
        match member.heartbeat().condition.clone() {
            // No host accesses its disks until all hosts have joined.
            HostCondition::Joining if everybody && self.stop.is_none() => {
                let order = self.config.assignment(rank);
                self.send_to(rank, &CoordinatorMessage::Order { token, order });
            }
            HostCondition::Refused { reason } => {
                if self.open < Some(Barrier::Create) {
                    self.refuse(FleetRefusal::Host { host: shown, reason });
                }
                self.dismiss(rank);
            }
            HostCondition::Ended { failure } => {
                // If one host's test cannot start, there is no point in keeping the others waiting.
                if let Some(reason) = failure.filter(|_| self.open < Some(Barrier::WarmUp)) {
                    self.refuse(FleetRefusal::Host { host: shown, reason });
                }
                let Some(member) = self.members.get_mut(&rank) else { return };
                if !std::mem::replace(&mut member.end_reported, true) {
                    self.changed = true;
                    self.report(FleetEvent::TestEnded(rank));
                }
                self.dismiss(rank);
            }
            HostCondition::Joining | HostCondition::Running => {}
        }
    }

    /// Dismisses a host that has nothing left to do.
    pub(super) fn dismiss(&mut self, rank: u32) {
        let Some(member) = self.members.get(&rank) else { return };
        if member.is_settled() && member.has_ended() {
            let token = member.heartbeat().token.clone();
            self.send_to(rank, &CoordinatorMessage::Dismissed { token });
        }
    }

    /// Requests results, from only a few hosts at a time.
    pub(super) fn fetch_results(&mut self, now: u64) {
        let mut running = self.members.values().filter(|member| member.receiver.is_some()).count();
        let ready: Vec<u32> = self
            .members
            .values()
            .filter(|member| !member.is_settled() && member.has_ended() && member.heartbeat().offer.is_some())
            .map(FleetMember::rank)
            .collect();
        for rank in ready {
            let Some(member) = self.members.get_mut(&rank) else { continue };
            if member.receiver.is_none() && running < MAX_CONCURRENT_FETCHES {
                let Some(offer) = member.heartbeat().offer else { continue };
                match ResultReceiver::start(offer) {
                    Some(intake) => member.receiver = Some(intake),
                    None => {
                        self.record_stored_result(
                            rank,
                            Err(StoreResultError::TooLarge { bytes: offer.bytes }),
                        );
                        continue;
                    }
                }
                (member.requested_ns, running) = (0, running + 1);
            }
            self.request_chunks(now, rank);
        }
    }

    /// Requests the next chunks from a host, if no request is pending.
    fn request_chunks(&mut self, now: u64, rank: u32) {
        let Some(member) = self.members.get_mut(&rank) else { return };
        let Some(intake) = &member.receiver else { return };
        let (first, missing) = (intake.next_chunk(), intake.missing_chunks());
        let on_their_way =
            first < member.requested_until && now < member.requested_ns + CHUNK_REQUEST_TIMEOUT_NS;
        if missing == 0 || (on_their_way && member.requested_ns > 0) {
            return;
        }
        let count = missing.min(CHUNKS_PER_REQUEST);
        (member.requested_ns, member.requested_until) = (now, first + count);
        let token = member.heartbeat().token.clone();
        self.send_to(rank, &CoordinatorMessage::Send { token, first, count });
    }

    pub(super) fn receive_chunk(&mut self, now: u64, rank: u32, token: &str, number: u64, bytes: &[u8]) {
        let Some(member) = self.members.get_mut(&rank).filter(|member| member.heartbeat().token == token)
        else {
            self.counts.ignored += 1;
            return;
        };
        let Some(intake) = &mut member.receiver else { return };
        if !intake.add_chunk(number, bytes) {
            return;
        }
        if intake.missing_chunks() > 0 {
            return self.request_chunks(now, rank);
        }
        match intake.take_result() {
            Some(result) => self.actions.push(CoordinatorAction::StoreResult(rank, result)),
            // The result was damaged in transit, so it is requested again.
            None => member.requested_ns = 0,
        }
    }
}
