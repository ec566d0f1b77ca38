//! Results of the reliability models for one array.

use jetcell_raid_models::comparison::{Row, compare, layout_for};
use jetcell_raid_models::curve::{Axis, Point, curve};
use jetcell_raid_models::sensitivity::{Effect, effects};
use jetcell_raid_models::simulation::{AfterLoss, Effort, Estimate, Experiment, Laws, Shapes};
use jetcell_raid_models::{Assessment, Case, Error, Fate};

use super::options::Options;
use crate::outcome::Failure;
use crate::progress_line::ProgressLine;

/// Model results, and the results of the simulation and the comparisons if they were requested.
pub struct Answer {
    pub case: Case,
    pub assessment: Assessment,
    pub effects: Vec<Effect>,
    pub simulation: Option<Simulation>,
    pub comparison: Option<Vec<Row>>,
    pub layout: Option<(f64, Option<Row>)>,
    pub curve: Option<(Axis, Vec<Point>)>,
    /// Position of the array itself on the axis of the curve.
    pub own: Option<f64>,
}

/// Result of the simulation.
pub struct Simulation {
    pub shapes: Shapes,
    pub laws: Laws,
    pub seed: u64,
    /// Estimate for one redundancy set.
    pub set: Estimate,
    pub group: Interval,
    pub array: Interval,
}

/// A probability with its 95 % confidence interval.
pub struct Interval {
    pub mean: f64,
    pub low: f64,
    pub high: f64,
}

impl Interval {
    /// Computes the interval for `count` sets from the interval for one set.
    fn of_all(set: &Estimate, count: f64) -> Interval {
        // Near 1, the upper end of the set's interval may exceed 1.
        let all =
            |loss: f64| Fate { loss: loss.min(1.0), survival: (1.0 - loss).max(0.0) }.of_all(count).loss;
        Interval { mean: all(set.mean), low: all(set.low), high: all(set.high) }
    }
}

impl Answer {
    pub fn new(options: &Options) -> Result<Answer, Failure> {
        Answer::find(options).map_err(|error| error.to_string().into())
    }

    fn find(options: &Options) -> Result<Answer, Error> {
        let question = options.question();
        let case = question.case()?;
        let simulated = options.monte_carlo == Some(true);
        let only_simulated = [
            ("--seed", options.seed.is_some()),
            ("--laws", options.laws.is_some()),
            ("--precision", options.precision.is_some()),
            ("--lives", options.lives.is_some()),
        ];
        if let Some((name, _)) = only_simulated.into_iter().find(|&(_, given)| given && !simulated) {
            return Err(Error::Combination(format!("{name} has no effect without --monte-carlo")));
        }
        Ok(Answer {
            assessment: Assessment::new(&case)?,
            effects: effects(&case)?,
            simulation: if simulated { Some(simulate(options, &case)?) } else { None },
            comparison: if options.compare == Some(true) { Some(compare(&question)?) } else { None },
            layout: match options.target {
                Some(target) => Some((target.get(), layout_for(&question, target.get())?)),
                None => None,
            },
            curve: match options.curve {
                Some(axis) => Some((axis, curve(&question, axis)?)),
                None => None,
            },
            own: options.curve.and_then(|axis| axis.own(&question, &case)),
            case,
        })
    }
}

fn simulate(options: &Options, case: &Case) -> Result<Simulation, Error> {
    let shapes = options.laws.unwrap_or_default();
    let laws = Laws::new(shapes, case)?;
    let usual = Effort::default();
    let effort = Effort {
        seed: options.seed.unwrap_or(usual.seed),
        precision: options.precision.map_or(usual.precision, |precision| precision.get()),
        lives: options.lives.unwrap_or(usual.lives),
    };
    let line = ProgressLine::new();
    let experiment = Experiment::new(case.array.set(), laws, case.hours(), AfterLoss::End, true);
    let set = experiment.estimate(effort, |so_far| {
        let precision = so_far.relative_precision() * 100.0;
        if let Some(line) = &line {
            let details = format!("{:.3e} ± {precision:.1} %, {} lives", so_far.mean, so_far.lives);
            line.show("simulating", None, &details);
        }
    });
    drop(line);
    let set = set?;
    let sets = f64::from(case.array.sets_per_group());
    Ok(Simulation {
        shapes,
        laws,
        seed: effort.seed,
        group: Interval::of_all(&set, sets),
        array: Interval::of_all(&set, sets * f64::from(case.array.groups())),
        set,
    })
}
