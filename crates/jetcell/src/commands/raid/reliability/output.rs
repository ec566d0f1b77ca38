//! Formats the result as text and as JSON.

use std::fmt::Write;

use jetcell_input::Align;
use jetcell_input::number::{four_digits, grouped, percentage};
use jetcell_raid_models::calculation_step::{CalculationStep, format_value};
use jetcell_raid_models::comparison::ComparedLayout;
use jetcell_raid_models::curve::{CurveAxis, CurvePoint};
use jetcell_raid_models::sensitivity::{DominantRepair, dominant_repair};
use jetcell_raid_models::simulation::DistributionShapes;
use jetcell_raid_models::units::{HOURS_PER_YEAR, PerHour};
use jetcell_raid_models::{MarkovModel, ReliabilityAssessment, ReliabilityCase};
use jetcell_report::{Digits, ReportCell, ReportTable, table_text, wrap};
use serde_json::{Value, json};

use super::result::{ProbabilityInterval, ReliabilityResult, ReliabilitySimulation};
use crate::console;
use crate::outcome::{CommandError, CommandResult};

fn years(hours: Option<f64>) -> String {
    hours.map_or("never".into(), |hours| format!("{} years", four_digits(hours / HOURS_PER_YEAR)))
}

/// Lines with names and values.
struct ValueLines(String);

impl ValueLines {
    fn add(&mut self, name: &str, value: impl std::fmt::Display) {
        let _ = writeln!(self.0, "{name:<34}{value}");
    }

    fn title(&mut self, title: &str) {
        let _ = writeln!(self.0, "\n{title}");
    }
}

/// Formats the result as text.
pub fn text(answer: &ReliabilityResult, explain: bool) -> String {
    let (case, assessment) = (&answer.case, &answer.assessment);
    let mut lines = ValueLines(head(case));
    if let Some(simulation) = &answer.simulation {
        simulated(&mut lines, case, assessment, simulation);
    }
    markov(&mut lines, case, assessment);
    add_effects(&mut lines, answer);
    if let Some(rows) = &answer.comparison {
        lines.title("All types with the same usable capacity:");
        table(&mut lines, &comparison(rows));
    }
    if let Some((target, row)) = &answer.layout {
        lines.title(&format!(
            "Layouts with the fewest drives and a probability of loss of at most {}:",
            percentage(*target)
        ));
        match row {
            Some(row) => table(&mut lines, &comparison(std::slice::from_ref(row))),
            None => lines.0.push_str(
                "no layout reaches this target; scrub more often, restore faster or use better drives\n",
            ),
        }
    }
    if let Some((axis, found)) = &answer.curve {
        let shown = points(*axis, found);
        lines.title(&format!("{}:", shown.title));
        table(&mut lines, &shown);
    }
    if explain {
        explanation(&mut lines, assessment.steps(case));
    }
    let mut out = lines.0;
    out.truncate(out.trim_end().len());
    out
}

/// Describes the array in one line.
pub fn subject(case: &ReliabilityCase) -> String {
    let array = case.array;
    let plural = if array.groups() == 1 { "" } else { "s" };
    format!(
        "{}: {} group{plural} of {}, {} drives, {} of them overhead; {} years; model {}",
        array.raid(),
        array.groups(),
        array.group_text(),
        array.drives(),
        array.overhead_disks(),
        format_value(case.years),
        case.model
    )
}

/// Returns a table of a drive's rates.
pub fn rates(case: &ReliabilityCase) -> ReportTable {
    let (rates, default) = (&case.rates, |name| case.defaults.contains(&name));
    let mean = |rate: PerHour| {
        rate.mean().map_or("never".into(), |time| ReportCell::number(time.get(), Digits::Four))
    };
    let rows = [
        ("failures of a drive", rates.failure, default("afr")),
        ("latent defects of a drive", rates.latent, default("latent-rate")),
        ("restores", rates.restore, default("restore")),
        ("scrubs", rates.scrub, default("scrub")),
    ];
    let rows = rows.map(|(name, rate, default)| {
        let source = if default { "published default" } else { "given" };
        let per_hour = ReportCell::number(rate.get(), Digits::Four);
        vec![name.into(), per_hour, mean(rate), source.into()]
    });
    let columns = ["Rate", "Per hour", "One in (h)", "From"];
    ReportTable::text_columns("Rates", &columns).aligned(1..3, Align::Right).rows(rows)
}

fn head(case: &ReliabilityCase) -> String {
    format!("{}\n\nRates:\n{}", subject(case), table_text(&rates(case), console::width()))
}

fn interval(interval: &ProbabilityInterval) -> String {
    let ends =
        format!("95 %: {} to {} %", four_digits(interval.low * 100.0), four_digits(interval.high * 100.0));
    if interval.mean == 0.0 {
        format!("none observed  ({ends})")
    } else {
        format!("{}  ({ends})", percentage(interval.mean))
    }
}

fn simulated(
    lines: &mut ValueLines,
    case: &ReliabilityCase,
    assessment: &ReliabilityAssessment,
    simulation: &ReliabilitySimulation,
) {
    let shapes = match simulation.shapes {
        DistributionShapes::Published => "published Weibull laws",
        DistributionShapes::Exponential => "constant rates",
    };
    lines.title(&format!("Monte Carlo, {shapes}, seed {}:", simulation.seed));
    lines.add("probability of loss", interval(&simulation.array));
    lines.add("  of one group", interval(&simulation.group));
    let set = &simulation.set;
    lines.add("lives, effective", format!("{}, {}", set.lives, four_digits(set.effective_lives.round())));
    if simulation.group.mean > 0.0 {
        let ratio = assessment.group.loss / simulation.group.mean;
        lines
            .add("Markov model for comparison", format!("{} times the simulated figure", four_digits(ratio)));
    }
    lines.title(&format!("Markov model {}, constant rates:", case.model));
}

fn markov(lines: &mut ValueLines, case: &ReliabilityCase, answer: &ReliabilityAssessment) {
    if !lines.0.ends_with(":\n") {
        lines.title("Result:");
    }
    results(case, answer).into_iter().for_each(|(name, value)| lines.add(name, value));
}

/// Returns the probabilities and times computed by the models.
pub fn results(case: &ReliabilityCase, answer: &ReliabilityAssessment) -> Vec<(&'static str, String)> {
    let mut all = vec![
        ("probability of loss", percentage(answer.array.loss)),
        ("  of one group", percentage(answer.group.loss)),
        ("groups that lose data per 1,000", four_digits(answer.lossy_groups_per_1000())),
        ("mean time to loss, array", years(answer.array_mean_time_to_loss(case))),
        ("mean time to loss, one set", years(answer.set_mean_time_to_loss)),
    ];
    if !matches!(case.model, MarkovModel::General(_)) {
        let high = (answer.general_group_loss / answer.group.loss - 1.0) * 100.0;
        let how = if high >= 0.0 { "understates" } else { "overstates" };
        let judged = if high.is_nan() {
            String::new()
        } else {
            format!(": model {} {how} by {:.1} %", case.model, high.abs())
        };
        let value = format!("{}{judged}", percentage(answer.general_group_loss));
        all.push(("  of one group, general chain", value));
    }
    let classical = answer.classical.group_probability_of_loss;
    let ratio = answer.group.loss / classical;
    let judged = if ratio.is_finite() {
        format!(": {} times too low, because it ignores latent defects", four_digits(ratio))
    } else {
        String::new()
    };
    all.push(("  of one group, classical formula", format!("{}{judged}", percentage(classical))));
    all
}

fn advice(governor: DominantRepair) -> &'static str {
    match governor {
        DominantRepair::Scrub => "The scrub interval governs the loss; faster restores have little effect.",
        DominantRepair::Restore => {
            "The restore time governs the loss; more frequent scrubs have little effect."
        }
        DominantRepair::Both => "Scrub interval and restore time both govern the loss.",
        DominantRepair::Neither => {
            "Neither scrubs nor restores govern the loss; the drives and the layout do."
        }
    }
}

fn add_effects(lines: &mut ValueLines, answer: &ReliabilityResult) {
    if answer.effects.is_empty() {
        return;
    }
    lines.title("Effect of each parameter: for a change of 1 %, and when halved:");
    for effect in &answer.effects {
        let text = format!("{:+.2} %   x {}", effect.elasticity, four_digits(effect.halved));
        lines.add(&format!("  {}", effect.input.name()), text);
    }
    let _ = writeln!(lines.0, "{}", advice(dominant_repair(&answer.effects)));
}

/// Returns a table that compares layouts.
pub fn comparison(rows: &[ComparedLayout]) -> ReportTable {
    let columns = ["Groups", "Drives", "Model", "Overhead", "Loss (%)", "Risk", "Write", "Restore (h)"];
    let row = |row: &ComparedLayout| -> Vec<ReportCell> {
        let number = |value: f64| ReportCell::number(value, Digits::Four);
        vec![
            row.array.raid().name().into(),
            format!("{} x {}", row.array.groups(), row.array.group_text()).into(),
            ReportCell::count(row.drives),
            row.model.name().into(),
            ReportCell::count(row.overhead_drives),
            number(row.probability_of_loss * 100.0),
            number(row.relative_risk),
            row.write_cost.to_string().into(),
            row.restore.map_or("never".into(), |time| number(time.get())),
        ]
    };
    ReportTable::numbers("Layouts", "Type", columns)
        .rows(rows.iter().map(row))
        .note("Risk: multiple of the safest in the list; write: disk operations of a small write.")
}

/// Returns a table of the points on a curve.
pub fn points(axis: CurveAxis, points: &[CurvePoint]) -> ReportTable {
    let number = |value: f64| ReportCell::number(value, Digits::Four);
    let row = |point: &CurvePoint| -> Vec<ReportCell> {
        let losses = [point.group_probability_of_loss, point.probability_of_loss];
        let [group, array] = losses.map(|loss| number(loss * 100.0));
        vec![number(point.at), grouped(point.drives as f64).into(), group, array]
    };
    let title = format!("Loss by {}", axis.title());
    let table = ReportTable::numbers(&title, axis.name(), ["Drives", "Group (%)", "Array (%)"]);
    table.aligned(.., Align::Right).rows(points.iter().map(row))
}

fn table(lines: &mut ValueLines, table: &ReportTable) {
    lines.0 += table_text(table, console::width()).as_str();
    table.notes.iter().for_each(|note| lines.0 += wrap("  ", note, console::width()).as_str());
}

fn explanation(lines: &mut ValueLines, steps: Vec<CalculationStep>) {
    lines.title("Each formula with its numbers (n data disks, N drives of a set):");
    for step in steps {
        let _ = writeln!(lines.0, "  {}: {}", step.symbol, step.what);
        let _ = writeln!(lines.0, "      = {}", step.formula);
        let _ = writeln!(lines.0, "      = {}", step.numbers);
        let _ =
            writeln!(lines.0, "      = {}", format!("{} {}", format_value(step.value), step.unit).trim_end());
    }
}

/// Formats the result as JSON. Keys do not change between versions.
pub fn json(answer: &ReliabilityResult, explain: bool) -> CommandResult<String> {
    let (case, assessment) = (&answer.case, &answer.assessment);
    let (array, rates) = (case.array, &case.rates);
    let mut value = json!({
        "probability_of_loss": assessment.array.loss,
        "group_probability_of_loss": assessment.group.loss,
        "interval": Value::Null,
        "model": case.model,
        "inputs": {
            "type": array.raid(),
            "data_disks": array.data_disks(),
            "groups": array.groups(),
            "years": case.years,
            "hours": case.hours(),
            "failure_per_hour": rates.failure.get(),
            "latent_per_hour": rates.latent.get(),
            "restore_per_hour": rates.restore.get(),
            "scrub_per_hour": rates.scrub.get(),
            "defaults": case.defaults,
        },
        "drives": array.drives(),
        "overhead_drives": array.overhead_disks(),
        "lossy_groups_per_1000": assessment.lossy_groups_per_1000(),
        "mean_time_to_loss_hours": assessment.array_mean_time_to_loss(case),
        "set_mean_time_to_loss_hours": assessment.set_mean_time_to_loss,
        "general_group_probability_of_loss": assessment.general_group_loss,
        "closed_form_group_probability_of_loss": assessment.closed_form_group_loss,
        "classical": assessment.classical,
        "sensitivity": answer.effects,
        "governed_by": dominant_repair(&answer.effects),
        "times": case.times,
        "spare_wait": case.spare_wait,
    });
    let Some(object) = value.as_object_mut() else { return Err(CommandError::new("no result")) };
    let mut insert_field = |key: &str, value: Value| object.insert(key.into(), value);
    if let Some(simulation) = &answer.simulation {
        insert_field(
            "markov",
            json!({
                "model": case.model,
                "probability_of_loss": assessment.array.loss,
                "group_probability_of_loss": assessment.group.loss,
            }),
        );
        insert_field("model", json!("monte-carlo"));
        insert_field("probability_of_loss", json!(simulation.array.mean));
        insert_field("group_probability_of_loss", json!(simulation.group.mean));
        insert_field("interval", json!([simulation.array.low, simulation.array.high]));
        insert_field(
            "simulation",
            json!({
                "confidence": 0.95,
                "group_interval": [simulation.group.low, simulation.group.high],
                "laws": simulation.shapes,
                "weibull_hours": simulation.laws,
                "seed": simulation.seed,
                "set": simulation.set,
            }),
        );
        insert_field("lossy_groups_per_1000", json!(1000.0 * simulation.group.mean));
    }
    if let Some(rows) = &answer.comparison {
        insert_field("comparison", json!(rows));
    }
    if let Some((target, row)) = &answer.layout {
        insert_field("layout", json!({ "target": target, "found": row }));
    }
    if let Some((axis, points)) = &answer.curve {
        insert_field("curve", json!({ "axis": axis, "points": points }));
    }
    if explain {
        insert_field("steps", json!(assessment.steps(case)));
    }
    Ok(jetcell_input::json_pretty(&value)?)
}
