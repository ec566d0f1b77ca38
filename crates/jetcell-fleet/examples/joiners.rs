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

use jetcell_fleet::bus::{Access, Bus, NatsBus};
use jetcell_fleet::clock::Clocks;
use jetcell_fleet::host::Call;
use jetcell_fleet::message::{Gate, Subjects};
use jetcell_fleet::{
    Departure, HostResult, HostSession, Identity, PROGRAM, Parcel, Place, Progress, random_token,
};
use jetcell_workload::measurement::read_samples;

const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Returns the process to which a message is addressed, or `None` if it is addressed to all.
fn token_of(bytes: &[u8]) -> Option<String> {
    let message: serde_json::Value = serde_json::from_slice(bytes).ok()?;
    let kind = message.get("message")?.as_object()?.values().next()?;
    Some(kind.get("token")?.as_str()?.to_string())
}

struct Host {
    token: String,
    session: HostSession,
    progress: Progress,
    began: bool,
    measured: Option<Instant>,
    ended: bool,
    departure: Option<Departure>,
}

impl Host {
    fn new(fleet: &str, rank: u32) -> Host {
        let token = random_token();
        let identity = Identity {
            place: Place { rank, size: None },
            token: token.clone(),
            name: format!("simulated-{rank}"),
            configuration: None,
        };
        let progress = Progress::default();
        let session = HostSession::new(fleet, PROGRAM, identity, progress.clone(), Duration::from_secs(600));
        Host { token, session, progress, began: false, measured: None, ended: false, departure: None }
    }

    /// Advances the host from barrier to barrier. The measurement takes five seconds.
    fn work(&mut self, clocks: &Clocks, parcel: &Parcel) {
        if !self.began || self.ended {
            return;
        }
        let now = clocks.now().monotonic_ns;
        let next = Gate::ALL.into_iter().find(|gate| !self.progress.is_open(*gate));
        let has_started = self.progress.start_ns().is_some_and(|start| now >= start);
        if has_started && self.measured.is_none() {
            self.progress.measured_from(now);
            self.measured = Some(Instant::now());
        }
        let has_measured = self.measured.is_some_and(|since| since.elapsed() >= Duration::from_secs(5));
        if has_measured {
            self.progress.measured_until(now);
        }
        match next {
            Some(Gate::Verify) if !has_measured => {}
            Some(gate) => self.progress.reach(gate),
            None => {
                self.ended = true;
                self.session.end(Ok(parcel.clone()));
            }
        }
        if self.progress.stop().is_set() && !self.ended {
            self.ended = true;
            self.session.end(Err("stopped".into()));
        }
    }

    fn call(&mut self, calls: Vec<Call>, bus: &NatsBus) {
        for call in calls {
            match call {
                Call::Send(subject, payload) => bus.publish(&subject, payload),
                Call::Begin(_) => {
                    self.began = true;
                    self.progress.reach(Gate::Confirm);
                }
                Call::Leave(departure) => self.departure = Some(departure),
            }
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [fleet, url, count, result] = words.as_slice() else {
        return Err(
            "give the fleet name, the server address, the number of hosts, and a result.json"
                .into(),
        );
    };
    let directory = Path::new(result).parent().unwrap_or(Path::new("."));
    let handed_in = HostResult {
        result: serde_json::from_slice(&std::fs::read(result)?)?,
        samples: read_samples(&directory.join("samples.csv"))?,
    };
    let parcel = Parcel::new(serde_json::to_vec(&handed_in)?).ok_or("the result is too large")?;
    let mut hosts: Vec<Host> = (0..count.parse()?).map(|rank| Host::new(fleet, rank)).collect();
    let places: HashMap<String, usize> = hosts.iter().map(|host| host.token.clone()).zip(0..).collect();
    let subjects = Subjects::of(fleet);
    let access = Access { url: url.clone(), ..Access::default() };
    let bus = NatsBus::connect(&access, &[subjects.to_all(), subjects.to_every_host()])?;
    let clocks = Clocks::begin();
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
