//! Simulates many hosts without a load in one process, to test the capacity of a coordinator and its NATS server.
//!
//! ```sh
//! cargo run -p jetcell-fleet --example joiners -- NAME nats://127.0.0.1:4222 1000 RESULT.json
//! ```
//!
//! Every host reaches each barrier immediately, measures nothing, and returns the result in `RESULT.json`. The
//! samples come from the file `samples.csv` in the same directory.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::time::{Duration, Instant};

use jetcell_fleet::bus::{Bus, NatsAccess, NatsBus};
use jetcell_fleet::clock::HostClocks;
use jetcell_fleet::host::SessionAction;
use jetcell_fleet::message::{Barrier, FleetSubjects};
use jetcell_fleet::{
    FleetRank, HostIdentity, HostProgress, HostResult, HostSession, HostTestError, PROGRAM_VERSION,
    ResultTransfer, SessionEnd, random_token,
};
use jetcell_workload::measurement::read_samples;

const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Returns the process to which a message is addressed, or `None` if it is addressed to all.
fn token_of(bytes: &[u8]) -> Option<String> {
    let message: serde_json::Value = serde_json::from_slice(bytes).ok()?;
    let kind = message.get("message")?.as_object()?.values().next()?;
    Some(kind.get("token")?.as_str()?.to_string())
}

struct JoiningHost {
    token: String,
    session: HostSession,
    progress: HostProgress,
    began: bool,
    measured: Option<Instant>,
    ended: bool,
    departure: Option<SessionEnd>,
}

impl JoiningHost {
    fn new(fleet: &str, rank: u32) -> JoiningHost {
        let token = random_token();
        let identity = HostIdentity {
            fleet_rank: FleetRank { rank, size: None },
            token: token.clone(),
            name: format!("simulated-{rank}"),
            configuration: None,
        };
        let progress = HostProgress::default();
        let session =
            HostSession::new(fleet, PROGRAM_VERSION, identity, progress.clone(), Duration::from_secs(600));
        JoiningHost { token, session, progress, began: false, measured: None, ended: false, departure: None }
    }

    /// Advances the host from barrier to barrier. The measurement takes five seconds.
    fn work(&mut self, clocks: &HostClocks, parcel: &ResultTransfer) {
        if !self.began || self.ended {
            return;
        }
        let now = clocks.now().monotonic_ns;
        let next = Barrier::ALL.into_iter().find(|gate| !self.progress.is_released(*gate));
        let has_started = self.progress.start_ns().is_some_and(|start| now >= start);
        if has_started && self.measured.is_none() {
            self.progress.set_measurement_start(now);
            self.measured = Some(Instant::now());
        }
        let has_measured = self.measured.is_some_and(|since| since.elapsed() >= Duration::from_secs(5));
        if has_measured {
            self.progress.set_measurement_end(now);
        }
        match next {
            Some(Barrier::Verify) if !has_measured => {}
            Some(gate) => self.progress.reach_barrier(gate),
            None => {
                self.ended = true;
                self.session.record_test_end(Ok(parcel.clone()));
            }
        }
        if self.progress.stop_signal().is_cancelled() && !self.ended {
            self.ended = true;
            self.session.record_test_end(Err(HostTestError::StoppedBeforeStart));
        }
    }

    fn call(&mut self, calls: Vec<SessionAction>, bus: &NatsBus) {
        for call in calls {
            match call {
                SessionAction::Send(subject, payload) => bus.publish(&subject, payload),
                SessionAction::RunAssignment(_) => {
                    self.began = true;
                    self.progress.reach_barrier(Barrier::Confirm);
                }
                SessionAction::EndSession(departure) => self.departure = Some(departure),
            }
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [fleet, url, count, result] = words.as_slice() else {
        return Err(
            "specify the fleet name, the server address, the number of hosts, and a result.json".into()
        );
    };
    let directory = Path::new(result).parent().unwrap_or(Path::new("."));
    let handed_in = HostResult {
        result: serde_json::from_slice(&std::fs::read(result)?)?,
        samples: read_samples(&directory.join("samples.csv"))?,
    };
    let parcel = ResultTransfer::new(serde_json::to_vec(&handed_in)?).ok_or("the result is too large")?;
    let mut hosts: Vec<JoiningHost> = (0..count.parse()?).map(|rank| JoiningHost::new(fleet, rank)).collect();
    let places: HashMap<String, usize> = hosts.iter().map(|host| host.token.clone()).zip(0..).collect();
    let subjects = FleetSubjects::new(fleet);
    let access = NatsAccess { url: url.clone(), ..NatsAccess::default() };
    let bus = NatsBus::connect(&access, &[subjects.to_all(), subjects.to_every_host()])?;
    let clocks = HostClocks::start();
    let mut left: BTreeMap<String, usize> = BTreeMap::new();
    let began = Instant::now();
    let mut tick = 0;
    while hosts.iter().any(|host| host.departure.is_none()) {
        let mut received = bus.receive(POLL_INTERVAL);
        while let Some(bytes) = received.take() {
            let of = token_of(&bytes).map(|token| places.get(&token).copied());
            let to = match of {
                Some(Some(place)) => place..place + 1,
                Some(None) => 0..0,
                None => 0..hosts.len(),
            };
            for host in hosts[to].iter_mut().filter(|host| host.departure.is_none()) {
                let calls = host.session.receive(clocks.now(), &bytes);
                host.call(calls, &bus);
            }
            received = bus.receive(Duration::ZERO);
        }
        // Each iteration handles a tenth of the hosts. This spreads the heartbeats over the interval.
        let slice = hosts.len().div_ceil(10);
        let begin = (tick * slice) % hosts.len();
        tick += 1;
        for host in hosts.iter_mut().skip(begin).take(slice).filter(|host| host.departure.is_none()) {
            host.work(&clocks, &parcel);
            let calls = host.session.tick(clocks.now());
            host.call(calls, &bus);
        }
    }
    for host in &hosts {
        *left.entry(format!("{:?}", host.departure)).or_default() += 1;
    }
    println!("{count} hosts, {:.1} s: {left:?}", began.elapsed().as_secs_f64());
    Ok(())
}
