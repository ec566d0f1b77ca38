//! Compares the default experiment with the paper that it repeats, IBM NS3574-0 (2008). The file of figures states for
//! each one whether the model agrees, and why.

use jetcell_disk_simulation::config::{SimulatedLayout, SimulatedLevel};
use jetcell_disk_simulation::experiment::{ArrayStateResults, LayoutResults, SimulatedState};
use jetcell_disk_simulation::{Config, ExperimentResults, run};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Paper {
    figures: Vec<PaperFigure>,
    ratings: Vec<LevelRatings>,
}

/// A published figure and the expected result of the comparison.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PaperFigure {
    name: String,
    source: String,
    published: f64,
    /// Greatest difference that still agrees.
    #[serde(default)]
    tolerance: f64,
    /// Whether the published figure is an upper limit.
    #[serde(default)]
    at_most: bool,
    agrees: bool,
    why: String,
}

/// The words of one line of the paper's table 8.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LevelRatings {
    level: String,
    overall: PaperWord,
    writes: PaperWord,
    degraded: PaperWord,
    rebuild: PaperWord,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PaperWord {
    published: String,
    agrees: bool,
    why: String,
}

fn paper() -> Paper {
    let text = include_str!("../../fixtures/ns3574-0.toml");
    jetcell_input::toml::parse("ns3574-0.toml", text).unwrap()
}

/// Returns true if a layout is the one that the paper uses for a level: RAID-DP uses a write-anywhere layout, and the
/// other levels write in place.
fn is_level(name: &str, layout: &SimulatedLayout) -> bool {
    let anywhere = layout.write_anywhere.is_some();
    match layout.level {
        SimulatedLevel::Raid10 => name == "RAID 10" && !anywhere,
        SimulatedLevel::Raid5 => name == "RAID 5" && !anywhere,
        SimulatedLevel::Raid6 => name == "RAID 6" && !anywhere,
        SimulatedLevel::RaidDp => name == "RAID-DP" && anywhere,
    }
}

fn results<'a>(experiment: &'a ExperimentResults, level: &str) -> &'a LayoutResults {
    let place = experiment.config.layouts.iter().position(|layout| is_level(level, layout)).unwrap();
    &experiment.layouts[place]
}

fn in_state(layout: &LayoutResults, state: SimulatedState) -> &ArrayStateResults {
    layout.in_state(state).unwrap()
}

/// Returns the simulated counterpart of a published figure.
fn simulated(layout: &LayoutResults, name: &str) -> f64 {
    let normal = in_state(layout, SimulatedState::Normal);
    let rebuilding = in_state(layout, SimulatedState::Rebuilding);
    match name {
        "iops" => normal.iops,
        "read_ms" => normal.read_ms,
        "write_ms" => normal.write_ms,
        "read_ms_rebuilding" => rebuilding.read_ms,
        "reads_slower_percent" => (rebuilding.read_ms / normal.read_ms - 1.0) * 100.0,
        "writes_slower_percent" => (rebuilding.write_ms / normal.write_ms - 1.0) * 100.0,
        "disk_writes_per_host_write" => normal.disk_writes_per_host_write,
        "rebuild_mb_per_second" => rebuilding.rebuild_mb_per_second.unwrap(),
        "rebuild_seconds" => layout.timeline.whole_rebuild_seconds.unwrap(),
        other => panic!("unknown figure {other}"),
    }
}

fn rate(value: f64, best: impl Fn(f64) -> bool, good: impl Fn(f64) -> bool) -> &'static str {
    match value {
        value if best(value) => "Best",
        value if good(value) => "Good",
        _ => "Poor",
    }
}

/// Rates a layout by the rules that the file of figures states: overall, writes, degraded, rebuild.
fn words(layout: &LayoutResults, best_iops: f64, best_rebuild: f64) -> [(&'static str, f64); 4] {
    let normal = in_state(layout, SimulatedState::Normal);
    let share = |share: f64| (rate(share, |share| share >= 2.0 / 3.0, |share| share >= 1.0 / 3.0), share);
    // Drive reads in excess of one per host read are caused by writes.
    let accesses = (normal.disk_reads_per_host_read - 1.0).max(0.0) + normal.disk_writes_per_host_write;
    let slower = in_state(layout, SimulatedState::Degraded).read_ms / normal.read_ms - 1.0;
    [
        share(layout.highest_iops / best_iops),
        (rate(accesses, |accesses| accesses <= 2.05, |accesses| accesses <= 3.05), accesses),
        (rate(slower, |slower| slower <= 0.05, |slower| slower <= 0.1), slower),
        share(best_rebuild / simulated(layout, "rebuild_seconds")),
    ]
}

#[test]
fn the_default_experiment_agrees_with_the_paper_where_it_is_expected_to() {
    let paper = paper();
    // The whole experiment takes a minute, and its figures agree and differ in the same places.
    let mut config = Config { seconds: 15.0, warm_up_seconds: 12.0, ..Config::exchange_2007() };
    config.layouts.retain(|layout| paper.ratings.iter().any(|rating| is_level(&rating.level, layout)));
    let experiment = run(&config, &mut |_, _, _| {}).unwrap();
    let mut wrong = vec![];
    let anywhere = results(&experiment, "RAID-DP");
    for figure in &paper.figures {
        let found = simulated(anywhere, &figure.name);
        let agrees = if figure.at_most {
            found < figure.published
        } else {
            (found - figure.published).abs() <= figure.tolerance
        };
        if agrees != figure.agrees {
            wrong.push(format!(
                "{} ({}): published {}, simulated {found}; {}",
                figure.name, figure.source, figure.published, figure.why
            ));
        }
    }
    let best_iops = experiment.layouts.iter().map(|layout| layout.highest_iops).fold(0.0, f64::max);
    let seconds = experiment.layouts.iter().map(|layout| simulated(layout, "rebuild_seconds"));
    let best_rebuild = seconds.fold(f64::INFINITY, f64::min);
    for rating in &paper.ratings {
        let LevelRatings { level, overall, writes, degraded, rebuild } = rating;
        let found = words(results(&experiment, level), best_iops, best_rebuild);
        for ((found, figure), word) in found.into_iter().zip([overall, writes, degraded, rebuild]) {
            if (found == word.published) != word.agrees {
                wrong.push(format!(
                    "{level}: published {}, simulated {found} ({figure}); {}",
                    word.published, word.why
                ));
            }
        }
    }
    assert_eq!((paper.figures.len(), paper.ratings.len()), (9, 4));
    assert!(wrong.is_empty(), "{wrong:#?}");
}
