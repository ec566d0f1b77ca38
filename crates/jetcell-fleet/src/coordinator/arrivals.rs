//! Messages from hosts: state updates and result chunks.

use super::{ASK_AGAIN_NS, Coordinator, Effect, FETCHES, Member, News, PIECES};
use crate::message::{Condition, FromCoordinator, Gate, HostBeat};
use crate::parcel::Intake;

impl Coordinator {
    pub(super) fn host_beat(&mut self, now: u64, run: &str, beat: HostBeat) {
        let (rank, size) = (beat.rank, self.config.size());
        let of_this_run = run == self.run;
        if !run.is_empty() && !of_this_run {
            self.counts.ignored += 1;
            return self.reject(&beat, "another run of this fleet is in progress");
        }
        if self.open.is_none()
            && let Some(reason) = self.mistake(&beat, size)
        {
            self.reject(&beat, &reason);
            return self.refuse(reason);
        }
        if rank >= size {
            self.counts.ignored += 1;
            return self.reject(&beat, &format!("rank {rank} of {size} hosts"));
        }
        let silent = self.members.get(&rank).map(|member| self.is_silent(member));
        match self.members.get_mut(&rank) {
            Some(member) if member.beat().token == beat.token => member.update(beat, now),
            // A host was restarted before all hosts had joined.
            None | Some(_) if self.open.is_none() && silent != Some(false) => {
                self.members.insert(rank, Member::new(beat, now));
                self.changed = true;
                self.tell(News::Joined(rank));
            }
            Some(member) if self.open.is_none() => {
                let reason = format!(
                    "two hosts have rank {rank}: {} and {}; give each host a unique --rank",
                    member.beat().name,
                    crate::message::shown(&beat.name)
                );
                self.reject(&beat, &reason);
                return self.refuse(reason);
            }
            _ => {
                self.counts.ignored += 1;
                return self.reject(&beat, "the test started without this process");
            }
        }
        self.answer(rank);
    }

    /// Returns the reason why a host cannot join, or `None` if it can.
    fn mistake(&self, beat: &HostBeat, size: u32) -> Option<String> {
        let host = format!("host {} (rank {})", crate::message::shown(&beat.name), beat.rank);
        if beat.rank >= size {
            return Some(format!("{host} joined a fleet of {size} hosts; the rank must be 0 to {}", size - 1));
        }
        if let Some(other) = beat.size.filter(|other| *other != size) {
            return Some(format!(
                "{host} was started for {other} hosts, but the configuration has {size}; use the same \
                 number in both"
            ));
        }
        match &beat.configuration {
            Some(other) if *other != self.config.digest => Some(format!(
                "the configuration of {host} differs from the configuration of the coordinator; give both \
                 the same file"
            )),
            _ => None,
        }
    }

    fn reject(&mut self, beat: &HostBeat, reason: &str) {
        let message = FromCoordinator::Rejected { token: beat.token.clone(), reason: reason.into() };
        self.send_to(beat.rank, &message);
    }

    /// Responds to a host's newest state.
    fn answer(&mut self, rank: u32) {
        let everybody = self.members.len() as u64 == u64::from(self.config.size());
        let Some(member) = self.members.get_mut(&rank) else { return };
        let (token, shown) = (member.beat().token.clone(), member.shown());
        match member.beat().condition.clone() {
            // No host accesses its disks until all hosts have joined.
            Condition::Joining if everybody && self.stop.is_none() => {
                let order = self.config.order(rank);
                self.send_to(rank, &FromCoordinator::Order { token, order });
            }
            Condition::Refused { reason } => {
                if self.open < Some(Gate::Create) {
                    self.refuse(format!("{shown}: {reason}"));
                }
                self.dismiss(rank);
            }
            Condition::Ended { failure } => {
                // If one host's test cannot start, there is no point in keeping the others waiting.
                if let Some(reason) = failure.filter(|_| self.open < Some(Gate::WarmUp)) {
                    self.refuse(format!("{shown}: {reason}"));
                }
                let Some(member) = self.members.get_mut(&rank) else { return };
                if !std::mem::replace(&mut member.ended_told, true) {
                    self.changed = true;
                    self.tell(News::Ended(rank));
                }
                self.dismiss(rank);
            }
            Condition::Joining | Condition::Running => {}
        }
    }

    /// Dismisses a host that has nothing left to do.
    pub(super) fn dismiss(&mut self, rank: u32) {
        let Some(member) = self.members.get(&rank) else { return };
        if member.is_settled() && member.has_ended() {
            let token = member.beat().token.clone();
            self.send_to(rank, &FromCoordinator::Dismissed { token });
        }
    }

    /// Requests results, from only a few hosts at a time.
    pub(super) fn fetch(&mut self, now: u64) {
        let mut running = self.members.values().filter(|member| member.intake.is_some()).count();
        let ready: Vec<u32> = self
            .members
            .values()
            .filter(|member| !member.is_settled() && member.has_ended() && member.beat().offer.is_some())
            .map(Member::rank)
            .collect();
        for rank in ready {
            let Some(member) = self.members.get_mut(&rank) else { continue };
            if member.intake.is_none() && running < FETCHES {
                let Some(offer) = member.beat().offer else { continue };
                match Intake::begin(offer) {
                    Some(intake) => member.intake = Some(intake),
                    None => {
                        self.kept(rank, Err(format!("the result has {} bytes, which exceeds the maximum", offer.bytes)));
                        continue;
                    }
                }
                (member.asked_ns, running) = (0, running + 1);
            }
            self.ask(now, rank);
        }
    }

    /// Requests the next chunks from a host, if no request is pending.
    fn ask(&mut self, now: u64, rank: u32) {
        let Some(member) = self.members.get_mut(&rank) else { return };
        let Some(intake) = &member.intake else { return };
        let (first, missing) = (intake.next(), intake.missing());
        let on_their_way = first < member.asked_until && now < member.asked_ns + ASK_AGAIN_NS;
        if missing == 0 || (on_their_way && member.asked_ns > 0) {
            return;
        }
        let count = missing.min(PIECES);
        (member.asked_ns, member.asked_until) = (now, first + count);
        let token = member.beat().token.clone();
        self.send_to(rank, &FromCoordinator::Send { token, first, count });
    }

    pub(super) fn piece(&mut self, now: u64, rank: u32, token: &str, number: u64, bytes: &[u8]) {
        let Some(member) = self.members.get_mut(&rank).filter(|member| member.beat().token == token) else {
            self.counts.ignored += 1;
            return;
        };
        let Some(intake) = &mut member.intake else { return };
        if !intake.add(number, bytes) {
            return;
        }
        if intake.missing() > 0 {
            return self.ask(now, rank);
        }
        match intake.take() {
            Some(result) => self.effects.push(Effect::Keep(rank, result)),
            // The result was damaged in transit, so it is requested again.
            None => member.asked_ns = 0,
        }
    }
}
