//! Tests of the coordinator and hosts in simulated time, with message loss.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::*;
use crate::clock::ClockReading;
use crate::fleet_rank::FleetRank;
use crate::host::{HostIdentity, HostProgress, HostSession, SessionAction, SessionEnd};
use crate::message::{Assignment, HostCondition, MeasurementWindow};
use crate::result_transfer::ResultTransfer;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;
/// Time on the coordinator's clock at the start of a test.
const ERA: u64 = 1_700_000_000 * SECOND;

fn config(text: &str) -> FleetConfig {
    FleetConfig::parse("f.toml", &format!("name='f'\noptions.dirs=['/d']\n{text}")).unwrap()
}

/// A host with a simulated test, which takes a given time to reach each barrier.
struct SimulatedHost {
    session: HostSession,
    progress: HostProgress,
    began: bool,
    measures_alone: bool,
    is_alone: bool,
    /// The last barrier that the host has passed. The host reaches the next barrier at time `due`.
    last_passed: Option<Barrier>,
    due: Option<u64>,
    frozen: bool,
    killed: bool,
    cut: bool,
    departure: Option<SessionEnd>,
    speed: u64,
    ended: bool,
}

/// A coordinator and its hosts. Each message takes one millisecond to be delivered.
struct SimulatedFleet {
    now: u64,
    coordinator: Coordinator,
    hosts: Vec<SimulatedHost>,
    kept: BTreeMap<u32, Vec<u8>>,
    news: Vec<FleetEvent>,
    /// Messages in transit: delivery time, subject and bytes.
    wire: VecDeque<(u64, String, Vec<u8>)>,
    /// Percentage of messages that are lost.
    lost_percent: u64,
    counted: u64,
    broker_is_lost: bool,
    coordinator_is_dead: bool,
}

fn session(rank: u32, token: &str, progress: &HostProgress) -> HostSession {
    let identity = HostIdentity {
        fleet_rank: FleetRank { rank, size: None },
        token: token.into(),
        name: format!("host{rank}"),
        configuration: None,
    };
    HostSession::new("f", "1", identity, progress.clone(), Duration::from_secs(30))
}

fn result(rank: usize) -> Vec<u8> {
    vec![rank as u8 + 1; 300_000 * rank + 1]
}

impl SimulatedFleet {
    fn new(hosts: u32, text: &str) -> SimulatedFleet {
        let config = config(&format!("hosts={hosts}\n{text}"));
        let host = |rank| {
            let progress = HostProgress::default();
            SimulatedHost {
                session: session(rank, &format!("t{rank}"), &progress),
                progress,
                began: false,
                measures_alone: false,
                is_alone: false,
                last_passed: None,
                due: None,
                frozen: false,
                killed: false,
                cut: false,
                departure: None,
                speed: SECOND * (u64::from(rank) % 3 + 1),
                ended: false,
            }
        };
        SimulatedFleet {
            now: 0,
            coordinator: Coordinator::new(config, "1", "run".into(), "first".into(), ERA),
            hosts: (0..hosts).map(host).collect(),
            kept: BTreeMap::new(),
            news: Vec::new(),
            wire: VecDeque::new(),
            lost_percent: 0,
            counted: 0,
            broker_is_lost: false,
            coordinator_is_dead: false,
        }
    }

    fn publish(&mut self, subject: String, bytes: Vec<u8>) {
        self.counted += 1;
        // The messages to lose are chosen pseudo-randomly, because a regular pattern might always affect the same
        // host.
        let random = self.counted.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        if !self.broker_is_lost && random % 100 >= self.lost_percent {
            self.wire.push_back((self.now + MS, subject, bytes));
        }
    }

    fn work(&mut self, effects: Vec<CoordinatorAction>) {
        for effect in effects {
            match effect {
                CoordinatorAction::Send(subject, bytes) => self.publish(subject, bytes),
                CoordinatorAction::StoreResult(rank, bytes) => {
                    self.kept.insert(rank, bytes);
                    self.coordinator.record_stored_result(rank, Ok(()));
                }
                CoordinatorAction::Report(news) => self.news.push(news),
            }
        }
    }

    fn call(&mut self, rank: usize, calls: Vec<SessionAction>) {
        for call in calls {
            match call {
                SessionAction::Send(subject, bytes) if !self.hosts[rank].cut => self.publish(subject, bytes),
                SessionAction::Send(..) => {}
                SessionAction::RunAssignment(Assignment { alone, .. }) => {
                    (self.hosts[rank].began, self.hosts[rank].measures_alone) = (true, alone.is_some());
                    self.hosts[rank].progress.reach_barrier(Barrier::Confirm);
                }
                SessionAction::EndSession(departure) => self.hosts[rank].departure = Some(departure),
            }
        }
    }

    /// Returns the hosts that are currently measuring alone.
    fn alone_now(&self) -> Vec<usize> {
        let alone = |host: &SimulatedHost| host.is_alone && !host.killed;
        (0..self.hosts.len()).filter(|rank| alone(&self.hosts[*rank])).collect()
    }

    /// Advances the host's test. The time between barriers depends on the host's speed.
    fn test(&mut self, rank: usize) {
        let (now, monotonic) = (self.now, self.moment(rank).monotonic_ns);
        let host = &mut self.hosts[rank];
        if !host.began || host.ended {
            return;
        }
        if host.progress.stop_signal().is_cancelled() {
            host.ended = true;
            return host.session.record_test_end(Ok(ResultTransfer::new(result(rank)).unwrap()));
        }
        let behind = Barrier::ALL.into_iter().rfind(|gate| host.progress.is_released(*gate));
        if behind != host.last_passed {
            (host.last_passed, host.due) = (behind, None);
        }
        if behind == Some(Barrier::Alone) {
            if host.due.is_none() && !host.progress.is_its_turn() {
                return;
            }
            host.is_alone = true;
        }
        if behind == Some(Barrier::Measure) && host.due.is_none() {
            if host.progress.start_ns().is_none_or(|start| monotonic < start) {
                return;
            }
            host.progress.set_measurement_start(monotonic);
        }
        if now < *host.due.get_or_insert(now + host.speed) {
            return;
        }
        let measures_alone = host.measures_alone;
        let gates = Barrier::ALL.into_iter().filter(|gate| *gate != Barrier::Alone || measures_alone);
        match { gates }.find(|gate| Some(*gate) > behind) {
            Some(gate) => {
                host.is_alone &= gate != Barrier::WarmUp;
                if gate == Barrier::Verify {
                    host.progress.set_measurement_end(monotonic);
                }
                host.progress.reach_barrier(gate);
            }
            None => {
                host.ended = true;
                host.session.record_test_end(Ok(ResultTransfer::new(result(rank)).unwrap()));
            }
        }
    }

    fn moment(&self, rank: usize) -> ClockReading {
        // Every host started at a different time. The error of each wall clock, in seconds, equals the rank.
        let monotonic_ns = self.now + (rank as u64 + 1) * 1_000 * SECOND;
        ClockReading { monotonic_ns, wall_ns: ERA + self.now + rank as u64 * SECOND }
    }

    fn step(&mut self) {
        self.now += 5 * MS;
        while self.wire.front().is_some_and(|(at, ..)| *at <= self.now) {
            let (_, subject, bytes) = self.wire.pop_front().unwrap();
            if self.coordinator.subscriptions().contains(&subject) && !self.coordinator_is_dead {
                let effects = self.coordinator.receive(ERA + self.now, &bytes);
                self.work(effects);
            }
            for rank in 0..self.hosts.len() {
                let host = &self.hosts[rank];
                let hears = !host.frozen && !host.killed && !host.cut && host.departure.is_none();
                if hears && host.session.subscriptions().contains(&subject) {
                    let moment = self.moment(rank);
                    let calls = self.hosts[rank].session.receive(moment, &bytes);
                    self.call(rank, calls);
                }
            }
        }
        if !self.coordinator_is_dead {
            let effects = self.coordinator.tick(ERA + self.now);
            self.work(effects);
        }
        for rank in 0..self.hosts.len() {
            let host = &self.hosts[rank];
            if !host.frozen && !host.killed && host.departure.is_none() {
                self.test(rank);
                let moment = self.moment(rank);
                let calls = self.hosts[rank].session.tick(moment);
                self.call(rank, calls);
            }
        }
    }

    fn run_for(&mut self, seconds: u64) {
        let until = self.now + seconds * SECOND;
        while self.now < until {
            self.step();
        }
    }

    fn run_until(&mut self, what: &str, reached: impl Fn(&SimulatedFleet) -> bool) {
        let limit = self.now + 600 * SECOND;
        while !reached(self) {
            assert!(self.now < limit, "{what}: {:?}", self.news);
            self.step();
        }
    }

    /// Runs until the coordinator has finished and every running host has left.
    fn run_to_end(&mut self) {
        self.run_until("the end", |fleet| fleet.coordinator.is_finished());
        self.run_for(1);
    }

    fn lost(&self) -> Vec<u32> {
        self.coordinator.members().filter(|one| one.loss().is_some()).map(FleetMember::rank).collect()
    }

    fn refused(&self) -> String {
        match self.coordinator.stop_reason() {
            Some(StopReason::Refused(reason)) => reason.to_string(),
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    fn assert_has_all_results(&self, ranks: &[usize]) {
        let kept: BTreeSet<usize> = self.kept.keys().map(|rank| *rank as usize).collect();
        assert_eq!(kept, ranks.iter().copied().collect());
        assert!(ranks.iter().all(|rank| self.kept[&(*rank as u32)] == result(*rank)));
        assert!(ranks.iter().all(|rank| self.hosts[*rank].departure == Some(SessionEnd::ResultDelivered)));
    }
}

#[test]
fn all_barriers_open_in_order_and_hosts_start_together() {
    let mut fleet = SimulatedFleet::new(4, "");
    fleet.run_to_end();
    let opened: Vec<Barrier> = fleet
        .news
        .iter()
        .filter_map(|news| if let FleetEvent::BarrierReleased(gate) = news { Some(*gate) } else { None })
        .collect();
    let all: Vec<Barrier> = Barrier::ALL.into_iter().filter(|gate| *gate != Barrier::Alone).collect();
    assert_eq!(opened, all);
    fleet.assert_has_all_results(&[0, 1, 2, 3]);
    let start = fleet.coordinator.start_ns().unwrap();
    for member in fleet.coordinator.members() {
        let MeasurementWindow { began_ns, ended_ns } = member.heartbeat().window.unwrap();
        // A step takes 5 ms, and a message takes 1 ms in each direction.
        assert!(began_ns.abs_diff(start) <= 10 * MS, "{} {}", began_ns, start);
        assert!(ended_ns.is_some());
        let clock = member.heartbeat().clock.unwrap();
        let wrong = i64::from(member.rank()) * SECOND as i64;
        assert!(clock.offset_ns.abs_diff(wrong) <= 10 * MS && clock.moved_ns == 0, "{clock:?}");
    }
    assert!(
        fleet.coordinator.is_finished()
            && fleet.lost().is_empty()
            && fleet.coordinator.message_counts().ignored == 0
    );
}

#[test]
fn hosts_measure_alone_in_sequence() {
    for percent in [0, 30] {
        let mut fleet = SimulatedFleet::new(4, "alone_first='5s'");
        fleet.lost_percent = percent;
        let mut turns = Vec::new();
        while fleet.coordinator.released_barrier() < Some(Barrier::WarmUp) {
            fleet.step();
            let alone = fleet.alone_now();
            assert!(alone.len() <= 1, "{alone:?}");
            turns.extend(alone);
            turns.dedup();
        }
        assert_eq!(turns, [0, 1, 2, 3]);
        let told: Vec<u32> = fleet
            .news
            .iter()
            .filter_map(|news| if let FleetEvent::AloneTurnStarted(rank) = news { Some(*rank) } else { None })
            .collect();
        assert_eq!(told, [0, 1, 2, 3]);
        fleet.run_to_end();
        assert!(fleet.lost().is_empty() && fleet.kept.len() == 4);
    }
}

#[test]
fn a_host_that_times_out_does_not_block_other_hosts() {
    for (rank, given_up) in [(1, "during its turn to measure alone"), (2, "during its turn to measure alone")]
    {
        let mut fleet = SimulatedFleet::new(3, "alone_first='5s'");
        fleet.run_until("the turn of the second host", |fleet| fleet.alone_now() == [1]);
        fleet.hosts[rank].killed = true;
        fleet.run_to_end();
        assert_eq!(fleet.lost(), [rank as u32]);
        assert_eq!(fleet.coordinator.member(rank as u32).unwrap().loss().unwrap().given_up, given_up);
        fleet.assert_has_all_results(&[0, 3 - rank]);
    }
}

#[test]
fn a_second_coordinator_continues_with_the_same_turn() {
    let mut fleet = SimulatedFleet::new(3, "");
    fleet.coordinator.config.measure_alone_first(None).unwrap();
    fleet.run_until("the turn of the second host", |fleet| fleet.alone_now() == [1]);
    fleet.hosts[1].speed = 60 * SECOND;
    let saved = fleet.coordinator.take_changed_state().unwrap();
    // The file does not contain the option because it was given on the command line.
    let config = config("hosts=3\n");
    fleet.coordinator = Coordinator::resume(config, "1", saved, "second".into(), ERA + fleet.now).unwrap();
    fleet.run_until("the turn of the third host", |fleet| {
        assert!(fleet.alone_now().len() <= 1);
        fleet.alone_now() == [2]
    });
    fleet.run_to_end();
    fleet.assert_has_all_results(&[0, 1, 2]);
}

#[test]
fn lost_messages_cause_delays_but_no_changes() {
    for percent in [10, 30, 50] {
        let mut fleet = SimulatedFleet::new(3, "");
        fleet.lost_percent = percent;
        fleet.run_to_end();
        fleet.run_for(130);
        let kept: Vec<u32> = fleet.kept.keys().copied().collect();
        assert_eq!((kept, fleet.lost()), (vec![0, 1, 2], vec![]), "{percent}");
    }
}

#[test]
fn a_killed_host_times_out_and_other_hosts_continue() {
    for gate in [Barrier::WarmUp, Barrier::Measure, Barrier::Verify] {
        let mut fleet = SimulatedFleet::new(3, "");
        fleet.run_until("the gate", |fleet| fleet.coordinator.released_barrier() == Some(gate));
        fleet.hosts[1].killed = true;
        fleet.run_to_end();
        assert_eq!(fleet.lost(), [1], "{gate:?}");
        fleet.assert_has_all_results(&[0, 2]);
        assert!(
            fleet.news.contains(&FleetEvent::Silent(1)) && fleet.news.contains(&FleetEvent::DeclaredLost(1))
        );
    }
}

#[test]
fn a_host_that_reconnects_before_the_barrier_does_not_fail() {
    let mut fleet = SimulatedFleet::new(3, "");
    fleet.hosts[0].speed = 40 * SECOND;
    fleet.run_until("the window", |fleet| fleet.coordinator.released_barrier() == Some(Barrier::Measure));
    fleet.hosts[2].cut = true;
    fleet.run_for(20);
    assert!(fleet.news.contains(&FleetEvent::Silent(2)));
    fleet.hosts[2].cut = false;
    fleet.run_to_end();
    assert!(fleet.news.contains(&FleetEvent::Returned(2)) && fleet.lost().is_empty());
    fleet.assert_has_all_results(&[0, 1, 2]);
}

#[test]
fn a_disconnected_host_stops_when_the_lease_expires() {
    let mut fleet = SimulatedFleet::new(2, "lease='30s'");
    fleet.hosts[1].speed = 300 * SECOND;
    fleet.run_until("the begin", |fleet| fleet.coordinator.released_barrier() == Some(Barrier::Create));
    fleet.hosts[1].cut = true;
    fleet.run_for(29);
    assert!(!fleet.hosts[1].progress.stop_signal().is_cancelled());
    fleet.run_for(2);
    assert!(fleet.hosts[1].progress.stop_signal().is_cancelled());
    fleet.run_for(32);
    assert!(
        matches!(fleet.hosts[1].departure, Some(SessionEnd::ResultNotDelivered(_))),
        "{:?}",
        fleet.hosts[1].departure
    );
}

#[test]
fn a_frozen_host_that_thaws_within_the_lease_continues() {
    let mut fleet = SimulatedFleet::new(2, "lost_after='100s'\nlease='200s'");
    fleet.run_until("the window", |fleet| fleet.coordinator.released_barrier() == Some(Barrier::Measure));
    fleet.hosts[1].frozen = true;
    fleet.run_for(60);
    fleet.hosts[1].frozen = false;
    fleet.run_to_end();
    assert!(fleet.lost().is_empty());
    fleet.assert_has_all_results(&[0, 1]);
}

#[test]
fn a_one_minute_broker_outage_changes_nothing() {
    for gate in [Barrier::Create, Barrier::Measure, Barrier::Verify] {
        let mut fleet = SimulatedFleet::new(3, "");
        fleet.run_until("the gate", |fleet| fleet.coordinator.released_barrier() == Some(gate));
        fleet.broker_is_lost = true;
        fleet.run_for(60);
        assert!(fleet.news.contains(&FleetEvent::BrokerLost) && fleet.lost().is_empty());
        fleet.broker_is_lost = false;
        fleet.run_to_end();
        assert!(
            fleet.news.contains(&FleetEvent::BrokerRestored) && fleet.lost().is_empty(),
            "{:?}",
            fleet.news
        );
        fleet.assert_has_all_results(&[0, 1, 2]);
    }
}

#[test]
fn a_second_coordinator_takes_over_the_run() {
    for gate in [Barrier::Confirm, Barrier::Measure, Barrier::Verify] {
        let mut fleet = SimulatedFleet::new(3, "");
        fleet.run_until("the gate", |fleet| fleet.coordinator.released_barrier() == Some(gate));
        let saved = fleet.coordinator.take_changed_state().unwrap();
        let stored: CoordinatorState = serde_json::from_str(&serde_json::to_string(&saved).unwrap()).unwrap();
        assert_eq!(stored, saved);
        fleet.coordinator_is_dead = true;
        fleet.run_for(20);
        let config = fleet.coordinator.config().clone();
        let start = fleet.coordinator.start_ns();
        fleet.coordinator =
            Coordinator::resume(config, "1", stored, "second".into(), ERA + fleet.now).unwrap();
        fleet.coordinator_is_dead = false;
        fleet.run_to_end();
        assert!(fleet.lost().is_empty() && (start.is_none() || fleet.coordinator.start_ns() == start));
        fleet.assert_has_all_results(&[0, 1, 2]);
    }
    let mut fleet = SimulatedFleet::new(2, "");
    let saved = fleet.coordinator.take_changed_state().unwrap();
    let refused = Coordinator::resume(config("hosts=3"), "1", saved, "second".into(), ERA).err().unwrap();
    assert!(refused.advice().unwrap().contains("--new"), "{refused}");
}

#[test]
fn a_stop_ends_all_hosts_and_each_host_reports() {
    let mut fleet = SimulatedFleet::new(3, "");
    fleet.run_until("the window", |fleet| fleet.coordinator.released_barrier() == Some(Barrier::WarmUp));
    fleet.coordinator.request_stop();
    fleet.run_to_end();
    fleet.assert_has_all_results(&[0, 1, 2]);
    assert!(fleet.lost().is_empty());
    // Hosts that are still waiting for others to join leave as well.
    let mut joining = SimulatedFleet::new(3, "");
    joining.hosts[2].killed = true;
    joining.run_for(3);
    joining.coordinator.request_stop();
    joining.run_to_end();
    assert!(joining.hosts[..2].iter().all(|host| matches!(host.departure, Some(SessionEnd::Refused(_)))));
}

#[test]
fn configuration_errors_are_found_before_the_run_starts() {
    let mut fleet = SimulatedFleet::new(3, "join_timeout='5s'");
    fleet.hosts[1].killed = true;
    fleet.run_to_end();
    assert!(fleet.refused().contains("the host with rank 1 did not join within 5s"), "{}", fleet.refused());
    assert!(fleet.hosts.iter().all(|host| !host.began));

    let mut twins = SimulatedFleet::new(2, "");
    twins.hosts[1].session = session(0, "other", &twins.hosts[1].progress);
    twins.run_to_end();
    assert!(twins.refused().contains("two hosts have rank 0"), "{}", twins.refused());
    assert!(twins.hosts.iter().all(|host| !host.began && host.departure.is_some()));

    let mut beyond = SimulatedFleet::new(2, "");
    beyond.hosts[1].session = session(7, "t", &beyond.hosts[1].progress);
    beyond.run_to_end();
    assert!(beyond.refused().contains("the rank must be between 0 and 1"), "{}", beyond.refused());

    for (size, configuration, expected) in
        [(Some(5), None, "5 hosts"), (None, Some("x"), "differs from the configuration")]
    {
        let mut unequal = SimulatedFleet::new(2, "");
        let identity = HostIdentity {
            fleet_rank: FleetRank { rank: 1, size },
            token: "t1".into(),
            name: "n".into(),
            configuration: configuration.map(String::from),
        };
        let progress = unequal.hosts[1].progress.clone();
        unequal.hosts[1].session = HostSession::new("f", "1", identity, progress, Duration::from_secs(30));
        unequal.run_to_end();
        assert!(unequal.refused().contains(expected), "{}", unequal.refused());
    }

    let mut old = SimulatedFleet::new(2, "");
    let identity = HostIdentity {
        fleet_rank: FleetRank { rank: 1, size: None },
        token: "t1".into(),
        name: "n".into(),
        configuration: None,
    };
    let progress = old.hosts[1].progress.clone();
    old.hosts[1].session = HostSession::new("f", "0.9", identity, progress, Duration::from_secs(30));
    old.run_to_end();
    assert!(old.refused().contains("rank 1 runs jetcell 0.9"), "{}", old.refused());
    let departure = old.hosts[1].departure.clone();
    assert!(
        matches!(&departure, Some(SessionEnd::Refused(why)) if why.contains("same version")),
        "{departure:?}"
    );
}

#[test]
fn a_host_refusal_stops_all_hosts() {
    let mut fleet = SimulatedFleet::new(3, "");
    fleet.run_until("orders", |fleet| fleet.hosts.iter().all(|host| host.began));
    fleet.hosts[1].session.decline("/d is not inside a directory".into());
    fleet.hosts[1].ended = true;
    fleet.run_to_end();
    assert!(fleet.refused().contains("host1 (rank 1): /d is not inside"), "{}", fleet.refused());
    assert!(fleet.coordinator.released_barrier() < Some(Barrier::Create));
}

#[test]
fn unrelated_and_malformed_messages_are_counted_and_ignored() {
    let mut fleet = SimulatedFleet::new(2, "");
    fleet.run_until("the window", |fleet| fleet.coordinator.released_barrier() == Some(Barrier::Measure));
    let subject = fleet.coordinator.subjects.to_coordinator();
    let beat = |token: &str| ForeignHeartbeat(&fleet, token).bytes();
    let mut foreign = vec![b"garbage".to_vec(), vec![0; 600 << 10], beat("intruder")];
    foreign.push(message::encode(
        "1",
        "other run",
        &HostMessage::Ping { rank: 9, token: "x".into(), sent_ns: 0 },
        &[],
    ));
    foreign.push(message::encode(
        "1",
        "run",
        &HostMessage::Piece { rank: 9, token: "x".into(), number: 0 },
        b"abc",
    ));
    let before = fleet.coordinator.message_counts().ignored;
    for bytes in foreign {
        fleet.publish(subject.clone(), bytes.clone());
        fleet.publish(fleet.coordinator.subjects.to_all(), bytes);
    }
    fleet.run_to_end();
    assert!(
        fleet.coordinator.message_counts().ignored >= before + 6,
        "{:?}",
        fleet.coordinator.message_counts()
    );
    fleet.assert_has_all_results(&[0, 1]);
}

/// Creates a heartbeat from a process that is not part of the fleet.
struct ForeignHeartbeat<'a>(&'a SimulatedFleet, &'a str);

impl ForeignHeartbeat<'_> {
    fn bytes(&self) -> Vec<u8> {
        let mut beat = self.0.coordinator.member(1).unwrap().heartbeat().clone();
        (beat.token, beat.condition) = (self.1.into(), HostCondition::Ended { failure: None });
        message::encode("1", "run", &HostMessage::Beat(beat), &[])
    }
}
