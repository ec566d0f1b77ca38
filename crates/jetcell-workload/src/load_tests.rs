//! Tests of the load on the model engine: growth of the tables, rates, and interim states.

use std::path::Path;
use std::time::{Duration, Instant};

use jetcell_host::Cancellation;

use crate::drive::{MeasurementDriver, MeasurementGoal};
use crate::engine::{DatabaseOpenMode, StorageEngine};
use crate::layout::RunPlan;
use crate::load::DatabaseLoad;
use crate::measurement::{Measurement, SampleFile};
use crate::model_engine::ModelEngine;
use crate::observer::{Observer, RunPhase};
use crate::profile::{Mix, Options, Profile};
use crate::units::TimeSpan;

fn profile(dir: &Path) -> Profile {
    let options = Options {
        dirs: vec![dir.to_path_buf()],
        duration: Some(TimeSpan(Duration::from_millis(300))),
        sample_interval: Some(TimeSpan(Duration::from_millis(50))),
        threads: Some(4),
        ..Options::default()
    };
    let mut profile = options.resolve().unwrap();
    // The content is not tested here.
    profile.records.long_bytes = 16;
    profile
}

/// Runs the load on new, empty databases until `control` returns.
fn load<R>(
    engine: &ModelEngine,
    profile: &Profile,
    control: impl FnOnce(&DatabaseLoad<'_>) -> R,
) -> (RunPlan, R) {
    let plan = RunPlan::make(profile, engine, "now", false).unwrap();
    let store = engine.open(&plan, DatabaseOpenMode::Create).unwrap();
    let (outcome, failure) =
        DatabaseLoad::new(&*store, plan.instances.len(), profile).unwrap().run(|load| control(load));
    assert!(failure.is_none(), "{failure:?}");
    (plan, outcome)
}

fn wait_for(load: &DatabaseLoad<'_>, operations: u64) {
    let began = Instant::now();
    while load.operations() < operations {
        assert!(began.elapsed() < Duration::from_secs(60), "{:?}", load.tally());
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn tables_grow_evenly_and_nearly_every_operation_finds_a_record() {
    let dir = tempfile::tempdir().unwrap();
    let (engine, profile) = (ModelEngine::default(), profile(dir.path()));
    let (plan, tally) = load(&engine, &profile, |load| {
        wait_for(load, 100_000);
        load.tally()
    });
    assert!(tally.misses + tally.conflicts < 1_000, "{} {}", tally.misses, tally.conflicts);
    let sizes: Vec<usize> = (0..profile.records.tables as usize)
        .map(|table| engine.rows(&plan.instances[0].database, table).len())
        .collect();
    let mean = sizes.iter().sum::<usize>() / sizes.len();
    assert!(mean > 1_000 && sizes.iter().all(|size| size.abs_diff(mean) < mean / 5), "{sizes:?}");
}

#[test]
fn operations_without_a_record_do_not_count_toward_the_rate() {
    let dir = tempfile::tempdir().unwrap();
    let mix = |insert| Mix { insert, delete: 0, replace: 0, read: 100 - insert };
    let kept = |profile: &Profile| {
        load(&ModelEngine::default(), profile, |load| {
            load.start_pace(500.0);
            std::thread::sleep(Duration::from_millis(600));
            load.open_loop().unwrap()
        })
        .1
    };
    let nothing = kept(&Profile { mix: mix(0), ..profile(dir.path()) });
    assert!(nothing.due >= 300 && nothing.not_completed == nothing.due, "{nothing:?}");
    assert!(nothing.waiting < 50 && !nothing.kept_rate(), "{nothing:?}");
    let inserts = kept(&Profile { mix: mix(100), ..profile(dir.path()) });
    assert!(inserts.kept_rate(), "{inserts:?}");
}

/// Observer that requests every interim state.
#[derive(Default)]
struct InterimObserver(Vec<Measurement>, Option<RunPhase>);

impl Observer for InterimObserver {
    fn begin_phase(&mut self, phase: RunPhase, _: u64) {
        self.1 = Some(phase);
    }
    fn advance(&mut self, _: u64, _: &str) {}
    fn log(&mut self, _: &str) {}
    fn wants_measured(&self) -> bool {
        true
    }
    fn report_measurement(&mut self, so_far: Measurement) {
        if self.1 == Some(RunPhase::Measure) {
            self.0.push(so_far);
        }
    }
}

#[test]
fn interim_results_contain_the_curve_during_confirmation() {
    let dir = tempfile::tempdir().unwrap();
    let engine = ModelEngine::default();
    let profile = Profile { find_max: true, ..profile(dir.path()) };
    let plan = RunPlan::make(&profile, &engine, "now", false).unwrap();
    let store = engine.open(&plan, DatabaseOpenMode::Create).unwrap();
    let mut file = SampleFile::create(&dir.path().join("samples.csv")).unwrap();
    let mut watcher = InterimObserver::default();
    let stop = &Cancellation::default();
    let drive = MeasurementDriver {
        store: &*store,
        copies: None,
        plan: &plan,
        profile: &profile,
        stop,
        measured_before: 0.0,
        goal: MeasurementGoal::Time,
    };
    drive.run(&mut file, &mut watcher).unwrap();
    let confirming: Vec<&Measurement> = watcher.0.iter().filter(|state| state.seconds > 0.0).collect();
    assert!(!confirming.is_empty());
    for state in confirming {
        let search = state.saturation.as_ref().unwrap();
        assert!(!search.steps.is_empty() && !search.ended && search.closed_loop_rate > 0.0, "{search:?}");
    }
}
