//! The coordinator tracks the hosts, releases the barriers and collects the results. It performs no I/O: it receives
//! messages and times, and returns actions.

mod coordinator_state;
mod host_messages;
mod member;
mod silent_hosts;
mod stop_reason;
mod storage_outcome;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::config::FleetConfig;
use crate::message::{
    self, Barrier, CoordinatorHeartbeat, CoordinatorMessage, FleetSubjects, HostMessage, MessageError,
};

pub use coordinator_state::{CoordinatorState, ResumeError, SavedMember};
pub use member::{FleetMember, HostActivity, LostHost};
pub use stop_reason::{FleetRefusal, StopReason};
pub use storage_outcome::{StorageOutcome, StoreResultError};

/// Maximum number of results that are fetched concurrently. Each result is held in memory until it is stored.
const MAX_CONCURRENT_FETCHES: usize = 8;

/// Number of chunks in one request to a host.
const CHUNKS_PER_REQUEST: u64 = 4;

/// Time after which missing chunks are requested again.
const CHUNK_REQUEST_TIMEOUT_NS: u64 = 1_500_000_000;

/// Number of missed heartbeats after which the coordinator considers the broker disconnected. It receives its own
/// heartbeats through the broker.
const MAX_MISSED_HEARTBEATS: u64 = 4;

/// An action that the coordinator asks its caller to perform.
#[derive(Clone, Debug, PartialEq)]
pub enum CoordinatorAction {
    /// Publish a message to a subject.
    Send(String, Vec<u8>),
    /// Store a host's result, then call [`Coordinator::record_stored_result`].
    StoreResult(u32, Vec<u8>),
    /// Report an event to the user.
    Report(FleetEvent),
}

/// A fleet event that the coordinator reports.
#[derive(Clone, Debug, PartialEq)]
pub enum FleetEvent {
    /// A host joined.
    Joined(u32),
    /// A barrier was released.
    BarrierReleased(Barrier),
    /// A host's turn to measure its load alone has begun.
    AloneTurnStarted(u32),
    /// A host has stopped sending messages.
    Silent(u32),
    /// A silent host sends messages again.
    Returned(u32),
    /// A host was declared lost.
    DeclaredLost(u32),
    /// A host's test has ended.
    TestEnded(u32),
    /// All hosts must stop.
    Stopping(StopReason),
    /// The broker no longer delivers messages.
    BrokerLost,
    /// The broker delivers messages again.
    BrokerRestored,
}

/// Message counters for a fleet coordinator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageCounts {
    /// Number of messages received.
    pub received: u64,
    /// Number of bytes received.
    pub received_bytes: u64,
    /// Number of messages sent.
    pub sent: u64,
    /// Number of bytes sent.
    pub sent_bytes: u64,
    /// Number of messages ignored: invalid messages, and messages from another run or from a process that is not part
    /// of the fleet.
    pub ignored: u64,
}

/// A fleet coordinator. All times are in nanoseconds since 1970 on its clock.
#[derive(Debug)]
pub struct Coordinator {
    config: FleetConfig,
    program: String,
    run: String,
    epoch: String,
    subjects: FleetSubjects,
    members: BTreeMap<u32, FleetMember>,
    open: Option<Barrier>,
    /// The host whose turn it is to measure its load alone. Derived from the states of the hosts.
    turn: Option<u32>,
    start_ns: Option<u64>,
    stop: Option<StopReason>,
    began_ns: u64,
    next_beat_ns: u64,
    /// Time when the coordinator last received one of its own heartbeats. These heartbeats have arrived without a gap
    /// since `echoes_since_ns`.
    last_own_heartbeat_ns: u64,
    echoes_since_ns: u64,
    broker_lost: bool,
    counts: MessageCounts,
    changed: bool,
    actions: Vec<CoordinatorAction>,
}

impl Coordinator {
    /// Creates a coordinator for a new run. `run` and `epoch` are random identifiers.
    pub fn new(config: FleetConfig, program: &str, run: String, epoch: String, now: u64) -> Coordinator {
        Coordinator {
            subjects: FleetSubjects::new(&config.name),
            config,
            program: program.into(),
            run,
            epoch,
            members: BTreeMap::new(),
            open: None,
            turn: None,
            start_ns: None,
            stop: None,
            began_ns: now,
            next_beat_ns: now,
            last_own_heartbeat_ns: now,
            echoes_since_ns: now,
            broker_lost: false,
            counts: MessageCounts::default(),
            changed: true,
            actions: Vec::new(),
        }
    }

    /// Returns the run's random identifier.
    pub fn run(&self) -> &str {
        &self.run
    }

    /// Returns the configuration.
    pub fn config(&self) -> &FleetConfig {
        &self.config
    }

    /// Returns the subjects to which the coordinator subscribes.
    pub fn subscriptions(&self) -> Vec<String> {
        vec![self.subjects.to_coordinator(), self.subjects.to_all()]
    }

    /// Returns the hosts that have joined, by rank.
    pub fn members(&self) -> impl Iterator<Item = &FleetMember> {
        self.members.values()
    }

    /// Returns a host that has joined.
    pub fn member(&self, rank: u32) -> Option<&FleetMember> {
        self.members.get(&rank)
    }

    /// Returns the most recently released barrier.
    pub fn released_barrier(&self) -> Option<Barrier> {
        self.open
    }

    /// Returns the start time of the measurement.
    pub fn start_ns(&self) -> Option<u64> {
        self.start_ns
    }

    /// Returns the start time of the run.
    pub fn started_ns(&self) -> u64 {
        self.began_ns
    }

    /// Returns the reason why all hosts are stopping early, if they are.
    pub fn stop_reason(&self) -> Option<&StopReason> {
        self.stop.as_ref()
    }

    /// Returns the message counters.
    pub fn message_counts(&self) -> MessageCounts {
        self.counts
    }

    /// Returns true if the fleet has finished.
    pub fn is_finished(&self) -> bool {
        let joined = self.members.len() as u64 == u64::from(self.config.size());
        (joined || self.stop.is_some()) && self.members.values().all(FleetMember::is_settled)
    }

    /// Stops the tests on all hosts. Each host still reports its result.
    pub fn request_stop(&mut self) {
        self.stop_with(StopReason::Requested);
    }

    fn refuse(&mut self, reason: FleetRefusal) {
        self.stop_with(StopReason::Refused(reason));
    }

    fn stop_with(&mut self, stop: StopReason) {
        if self.stop.is_none() {
            self.report(FleetEvent::Stopping(stop.clone()));
            self.stop = Some(stop);
            self.changed = true;
            // Send the next heartbeat immediately to notify the hosts.
            self.next_beat_ns = 0;
        }
    }

    /// Records whether a result was stored successfully.
    pub fn record_stored_result(&mut self, rank: u32, outcome: Result<(), StoreResultError>) {
        if let Some(member) = self.members.get_mut(&rank) {
            member.set_storage_outcome(match outcome {
                Ok(()) => StorageOutcome::Stored(()),
                Err(error) => StorageOutcome::Failed(error.to_string()),
            });
            self.changed = true;
            self.dismiss(rank);
        }
    }

    fn report(&mut self, news: FleetEvent) {
        self.actions.push(CoordinatorAction::Report(news));
    }

    fn send(&mut self, subject: String, message: &CoordinatorMessage) {
        let payload = message::encode(&self.program, &self.run, message, &[]);
        self.counts.sent += 1;
        self.counts.sent_bytes += payload.len() as u64;
        self.actions.push(CoordinatorAction::Send(subject, payload));
    }

    fn send_to(&mut self, rank: u32, message: &CoordinatorMessage) {
        self.send(self.subjects.to_host(rank), message);
    }

    /// Processes a message.
    pub fn receive(&mut self, now: u64, bytes: &[u8]) -> Vec<CoordinatorAction> {
        /// A message on one of the subscribed subjects.
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum ReceivedMessage {
            Host(HostMessage),
            Coordinator(CoordinatorMessage),
        }
        self.counts.received += 1;
        self.counts.received_bytes += bytes.len() as u64;
        match message::decode::<ReceivedMessage>(&self.program, bytes) {
            Err(MessageError::OtherVersion { program, protocol, rank }) if self.open.is_none() => {
                let (own_program, own_protocol) = (self.program.clone(), message::PROTOCOL);
                self.refuse(FleetRefusal::OtherVersion {
                    rank,
                    program,
                    protocol,
                    own_program,
                    own_protocol,
                });
            }
            Err(_) => self.counts.ignored += 1,
            Ok(heard) => match heard.message {
                ReceivedMessage::Coordinator(CoordinatorMessage::Beat(beat)) => {
                    self.receive_coordinator_heartbeat(now, &heard.run, &beat);
                }
                ReceivedMessage::Coordinator(_) => self.counts.ignored += 1,
                ReceivedMessage::Host(HostMessage::Beat(beat)) => {
                    self.receive_host_heartbeat(now, &heard.run, beat);
                }
                ReceivedMessage::Host(HostMessage::Ping { rank, token, sent_ns }) => {
                    let pong =
                        CoordinatorMessage::Pong { token, sent_ns, received_ns: now, answered_ns: now };
                    self.send_to(rank, &pong);
                }
                ReceivedMessage::Host(HostMessage::Piece { rank, token, number }) => {
                    self.receive_chunk(now, rank, &token, number, &heard.attached);
                }
            },
        }
        std::mem::take(&mut self.actions)
    }

    /// Handles a heartbeat from a coordinator. This coordinator's own heartbeats prove that the broker works. A
    /// second coordinator must not use the same subjects.
    fn receive_coordinator_heartbeat(&mut self, now: u64, run: &str, beat: &CoordinatorHeartbeat) {
        if run != self.run || beat.epoch != self.epoch {
            self.counts.ignored += 1;
            if self.open.is_none() {
                self.refuse(FleetRefusal::OtherCoordinator(self.config.name.clone()));
            }
            return;
        }
        if now.saturating_sub(self.last_own_heartbeat_ns) > self.heartbeats_ns(MAX_MISSED_HEARTBEATS) {
            self.echoes_since_ns = now;
        }
        self.last_own_heartbeat_ns = now;
        if std::mem::take(&mut self.broker_lost) {
            self.report(FleetEvent::BrokerRestored);
        }
    }

    fn heartbeats_ns(&self, count: u64) -> u64 {
        self.config.beat.0.as_nanos() as u64 * count
    }

    /// Advances the time. Must be called several times per heartbeat interval.
    pub fn tick(&mut self, now: u64) -> Vec<CoordinatorAction> {
        if !self.broker_lost
            && now.saturating_sub(self.last_own_heartbeat_ns) > self.heartbeats_ns(MAX_MISSED_HEARTBEATS)
        {
            self.broker_lost = true;
            self.report(FleetEvent::BrokerLost);
        }
        self.report_silent_hosts();
        match (self.stop.is_some(), self.open) {
            (true, _) => self.drop_silent_hosts(|_| true, "while the fleet was stopping"),
            (false, None) => self.check_all_joined(now),
            (false, Some(_)) => {
                self.assign_turn();
                self.release_barriers(now);
                self.drop_silent_hosts_at_end();
            }
        }
        self.fetch_results(now);
        if now >= self.next_beat_ns {
            self.next_beat_ns = now + self.heartbeats_ns(1);
            self.send_heartbeat();
        }
        std::mem::take(&mut self.actions)
    }

    fn send_heartbeat(&mut self) {
        let beat = CoordinatorMessage::Beat(CoordinatorHeartbeat {
            epoch: self.epoch.clone(),
            open: self.open,
            turn: self.turn,
            start_ns: self.start_ns,
            stop: self.stop.as_ref().map(ToString::to_string),
            lease_ms: self.config.lease.0.as_millis() as u64,
        });
        self.send(self.subjects.to_all(), &beat);
    }

    /// Checks whether all hosts have joined, which is required before the first barrier.
    fn check_all_joined(&mut self, now: u64) {
        let missing: Vec<u32> =
            (0..self.config.size()).filter(|rank| !self.members.contains_key(rank)).collect();
        let waited = now.saturating_sub(self.began_ns);
        if !missing.is_empty() {
            if waited >= self.config.join_timeout.0.as_nanos() as u64 {
                self.refuse(FleetRefusal::NotJoined { missing, timeout: self.config.join_timeout });
            }
            return;
        }
        let silent =
            self.members.values().find(|member| self.is_silent(member)).map(FleetMember::display_name);
        match silent {
            Some(host) => self.refuse(FleetRefusal::TimedOut(host)),
            None => self.release_barriers(now),
        }
    }

    fn measures_alone(&self) -> bool {
        self.config.alone_first.is_some()
    }

    /// Gives the turn to the next host once the previous host has measured its load alone. A host that is silent
    /// during its turn is declared lost, because all the others are waiting for it.
    fn assign_turn(&mut self) {
        let waits = self.open == Some(Barrier::Alone);
        let next = self.members.values().find(|member| waits && !member.has_reached(Barrier::WarmUp));
        let turn = next.map(|member| (member.rank(), self.is_silent(member)));
        if let Some((rank, true)) = turn {
            return self.declare_lost(rank, "during its turn to measure alone");
        }
        let turn = turn.map(|(rank, _)| rank);
        if std::mem::replace(&mut self.turn, turn) != turn {
            self.next_beat_ns = 0;
            if let Some(rank) = turn {
                self.report(FleetEvent::AloneTurnStarted(rank));
            }
        }
    }

    /// Releases the next barrier if every host has reached it. If only silent hosts have not reached it, they are
    /// declared lost.
    fn release_barriers(&mut self, now: u64) {
        let gates = Barrier::ALL.into_iter().filter(|gate| *gate != Barrier::Alone || self.measures_alone());
        let next = { gates }.find(|gate| Some(*gate) > self.open);
        let Some(gate) = next else { return };
        let late = |member: &&FleetMember| !member.has_reached(gate);
        if self.members.values().filter(late).all(|member| self.is_silent(member)) {
            if gate <= Barrier::Create
                && let Some(host) = self.members.values().find(late).map(FleetMember::display_name)
            {
                return self.refuse(FleetRefusal::TimedOut(host));
            }
            let lost: Vec<u32> = self.members.values().filter(late).map(FleetMember::rank).collect();
            for rank in lost {
                self.declare_lost(
                    rank,
                    &format!("when all other hosts were waiting at the barrier '{}'", gate.title()),
                );
            }
            let can_go_on = self.members.values().any(|member| !member.is_settled());
            if gate == Barrier::Measure && can_go_on {
                self.start_ns = Some(now + self.config.lead.0.as_nanos() as u64);
            }
            self.open = Some(gate);
            self.changed = true;
            self.next_beat_ns = 0;
            self.report(FleetEvent::BarrierReleased(gate));
        }
    }
}

#[cfg(test)]
mod tests;
