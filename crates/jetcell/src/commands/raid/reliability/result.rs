//! Results of the reliability models for one array.

use jetcell_host::ProgressLine;
use jetcell_raid_models::comparison::{ComparedLayout, compare, layout_for};
use jetcell_raid_models::curve::{CurveAxis, CurvePoint, curve};
use jetcell_raid_models::sensitivity::{InputSensitivity, sensitivities};
use jetcell_raid_models::simulation::{
    AfterLossAction, DistributionShapes, EventDistributions, LossEstimate, LossSimulation, SimulationSettings,
};
use jetcell_raid_models::{Error, LossProbability, ReliabilityAssessment, ReliabilityCase};

use super::options::ReliabilityOptions;

/// Result of a reliability calculation, with the simulation and the comparisons if they were requested.
pub struct ReliabilityResult {
    pub case: ReliabilityCase,
    pub assessment: ReliabilityAssessment,
    pub effects: Vec<InputSensitivity>,
    pub simulation: Option<ReliabilitySimulation>,
    pub comparison: Option<Vec<ComparedLayout>>,
    pub layout: Option<(f64, Option<ComparedLayout>)>,
    pub curve: Option<(CurveAxis, Vec<CurvePoint>)>,
    /// Position of the array itself on the axis of the curve.
    pub own_array: Option<f64>,
}

/// Result of simulating an array's reliability.
pub struct ReliabilitySimulation {
    pub shapes: DistributionShapes,
    pub laws: EventDistributions,
    pub seed: u64,
    /// Estimate for one redundancy set.
    pub set: LossEstimate,
    pub group: ProbabilityInterval,
    pub array: ProbabilityInterval,
}

/// A probability with its 95 % confidence interval.
pub struct ProbabilityInterval {
    pub mean: f64,
    pub low: f64,
    pub high: f64,
}

impl ProbabilityInterval {
    /// Computes the interval for `count` sets from the interval for one set.
    fn for_sets(set: &LossEstimate, count: f64) -> ProbabilityInterval {
        // Near 1, the upper end of the set's interval may exceed 1.
        let all = |loss: f64| {
            LossProbability { loss: loss.min(1.0), survival: (1.0 - loss).max(0.0) }
                .for_independent_sets(count)
                .loss
        };
        ProbabilityInterval { mean: all(set.mean), low: all(set.low), high: all(set.high) }
    }
}

impl ReliabilityResult {
    pub fn new(options: &ReliabilityOptions) -> Result<ReliabilityResult, Error> {
        let question = options.inputs();
        let case = question.case()?;
        let simulated = options.monte_carlo == Some(true);
        let only_simulated = [
            ("--seed", options.seed.is_some()),
            ("--laws", options.laws.is_some()),
            ("--precision", options.precision.is_some()),
            ("--lives", options.lives.is_some()),
        ];
        if let Some((name, _)) = only_simulated.into_iter().find(|&(_, given)| given && !simulated) {
            return Err(Error::NoEffect(name, "--monte-carlo"));
        }
        Ok(ReliabilityResult {
            assessment: ReliabilityAssessment::new(&case)?,
            effects: sensitivities(&case)?,
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
            own_array: options.curve.and_then(|axis| axis.value_in(&question, &case)),
            case,
        })
    }
}

fn simulate(options: &ReliabilityOptions, case: &ReliabilityCase) -> Result<ReliabilitySimulation, Error> {
    let shapes = options.laws.unwrap_or_default();
    let laws = EventDistributions::new(shapes, case)?;
    let usual = SimulationSettings::default();
    let effort = SimulationSettings {
        seed: options.seed.unwrap_or(usual.seed),
        precision: options.precision.map_or(usual.precision, jetcell_raid_models::units::Fraction::get),
        lives: options.lives.unwrap_or(usual.lives),
    };
    let line = ProgressLine::new();
    let experiment = LossSimulation::new(case.array.set(), laws, case.hours(), AfterLossAction::End, true);
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
    Ok(ReliabilitySimulation {
        shapes,
        laws,
        seed: effort.seed,
        group: ProbabilityInterval::for_sets(&set, sets),
        array: ProbabilityInterval::for_sets(&set, sets * f64::from(case.array.groups())),
        set,
    })
}
