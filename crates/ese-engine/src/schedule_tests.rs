//! Runs a test once for each of many thread schedules. See `docs/internals/testing.md`.
//!
//! | variable | meaning |
//! | --- | --- |
//! | `JETCELL_SCHEDULE_SECONDS` | time per test; 2 by default |
//! | `JETCELL_SCHEDULE_SEED` | first seed; 1 by default |
//! | `JETCELL_SCHEDULE_DIR` | directory where a failing schedule is stored; by default, it is printed instead |
//! | `JETCELL_SCHEDULE_REPLAY` | a stored schedule; if set, only this schedule is run |

use std::time::{Duration, Instant};

use jetcell_sync::Arc;
use shuttle::scheduler::{PctScheduler, RandomScheduler, ReplayScheduler};
use shuttle::{Config, FailurePersistence, Runner};

/// Number of schedules per seed.
const ROUND: usize = 20;
/// Number of preemptions in a schedule from the PCT scheduler, which finds bugs that a few preemptions can trigger.
const PREEMPTIONS: usize = 3;
/// Stack size of the test threads in bytes. Trees and instances need more than shuttle's 60 KiB.
const STACK: usize = 512 << 10;

fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap_or_else(|_| panic!("{name}: {value}")))
}

/// Runs `body`, which starts and joins threads, alternately under random and PCT schedules.
pub(crate) fn explore(body: impl Fn() + Send + Sync + 'static) {
    let body = Arc::new(body);
    let config = || {
        let mut config = Config::new();
        config.stack_size = STACK;
        config.silence_warnings = true;
        if let Some(directory) = std::env::var_os("JETCELL_SCHEDULE_DIR") {
            config.failure_persistence = FailurePersistence::File(Some(directory.into()));
        }
        config
    };
    if let Some(schedule) = std::env::var_os("JETCELL_SCHEDULE_REPLAY") {
        let scheduler = ReplayScheduler::new_from_file(&schedule).expect("the schedule can be read");
        Runner::new(scheduler, config()).run(move || body());
        return;
    }
    let end = Instant::now() + Duration::from_secs(variable("JETCELL_SCHEDULE_SECONDS", 2));
    let (mut seed, mut schedules) = (variable("JETCELL_SCHEDULE_SEED", 1), 0);
    while Instant::now() < end {
        let test = body.clone();
        let random = RandomScheduler::new_from_seed(seed, ROUND);
        schedules += Runner::new(random, config()).run(move || test());
        let test = body.clone();
        let preempting = PctScheduler::new_from_seed(seed, PREEMPTIONS, ROUND);
        schedules += Runner::new(preempting, config()).run(move || test());
        seed += 1;
    }
    println!("{schedules} schedules");
}
