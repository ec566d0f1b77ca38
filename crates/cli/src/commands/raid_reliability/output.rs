//! The answer as text and as JSON.

use std::fmt::Write;

use raid_models::step::show;
use raid_models::units::HOURS_PER_YEAR;
use raid_models::{Assessment, Case, Model};
use serde_json::{Value, json};

/// A probability as people read it, with the number that it stands for.
fn probability(value: f64) -> String {
    format!("{} %", show(value * 100.0))
}

fn years(hours: Option<f64>) -> String {
    hours.map_or("never".into(), |hours| format!("{} years", show(round(hours / HOURS_PER_YEAR))))
}

/// Four digits are enough for a comparison.
fn round(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

/// Lines for people.
pub fn text(case: &Case, answer: &Assessment, explain: bool) -> String {
    let mut out = String::new();
    let array = case.array;
    let (rates, groups) = (&case.rates, array.groups());
    let plural = if groups == 1 { "" } else { "s" };
    let _ = writeln!(
        out,
        "{}: {groups} group{plural} of {}, {} drives, {} of them overhead; {} years; model {}",
        array.raid(),
        array.group_text(),
        array.drives(),
        array.overhead_disks(),
        show(case.years),
        case.model
    );
    let default = |name| if case.defaults.contains(&name) { "  (published default)" } else { "" };
    let mean = |rate: raid_models::units::PerHour| {
        rate.mean().map_or("never".into(), |time| format!("{} h", show(time.get())))
    };
    let _ = writeln!(out);
    for (name, rate, time, source) in [
        ("failures of a drive", rates.failure, "mean life", default("afr")),
        ("latent defects", rates.latent, "one in", default("latent-rate")),
        ("restores", rates.restore, "mean time", default("restore")),
        ("scrubs", rates.scrub, "mean time", default("scrub")),
    ] {
        let _ = writeln!(out, "{name:<34}{:>14} /h  {time} {}{source}", show(rate.get()), mean(rate));
    }
    let _ = writeln!(out);
    let mut line = |name: &str, value: String| {
        let _ = writeln!(out, "{name:<34}{value}");
    };
    line("probability of loss", probability(answer.array.loss));
    line("  of one group", probability(answer.group.loss));
    line("groups that lose data per 1,000", show(round(answer.lossy_groups_per_1000())));
    line("mean time to loss, array", years(answer.array_mean_time_to_loss(case)));
    line("mean time to loss, one set", years(answer.set_mean_time_to_loss));
    if !matches!(case.model, Model::General(_)) {
        let high = (answer.general_group_loss / answer.group.loss - 1.0) * 100.0;
        let judged = if high.is_nan() {
            String::new()
        } else {
            format!(
                ": model {} {} by {:.1} %",
                case.model,
                if high >= 0.0 { "understates" } else { "overstates" },
                high.abs()
            )
        };
        line("  of one group, general chain", format!("{}{judged}", probability(answer.general_group_loss)));
    }
    let classical = answer.classical.group_probability_of_loss;
    let ratio = answer.group.loss / classical;
    let judged = if ratio.is_finite() {
        format!(": {} times too low, it knows no defects", show(round(ratio)))
    } else {
        String::new()
    };
    line("  of one group, classical formula", format!("{}{judged}", probability(classical)));
    if explain {
        let _ = writeln!(out, "\nEach formula with its numbers (n data disks, N drives of a set):");
        for step in answer.steps(case) {
            let _ = writeln!(out, "  {}: {}", step.symbol, step.what);
            let _ = writeln!(out, "      = {}", step.formula);
            let _ = writeln!(out, "      = {}", step.numbers);
            let _ = writeln!(out, "      = {} {}", show(step.value), step.unit);
        }
    }
    out.truncate(out.trim_end().len());
    out
}

/// The result for programs; keys are kept from version to version.
pub fn json(case: &Case, answer: &Assessment, explain: bool) -> Result<String, String> {
    let (array, rates) = (case.array, &case.rates);
    let mut value = json!({
        "probability_of_loss": answer.array.loss,
        "group_probability_of_loss": answer.group.loss,
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
        "lossy_groups_per_1000": answer.lossy_groups_per_1000(),
        "mean_time_to_loss_hours": answer.array_mean_time_to_loss(case),
        "set_mean_time_to_loss_hours": answer.set_mean_time_to_loss,
        "general_group_probability_of_loss": answer.general_group_loss,
        "closed_form_group_probability_of_loss": answer.closed_form_group_loss,
        "classical": answer.classical,
        "times": case.times,
        "spare_wait": case.spare_wait,
    });
    if explain && let Some(object) = value.as_object_mut() {
        object.insert("steps".into(), json!(answer.steps(case)));
    }
    serde_json::to_string_pretty(&value).map_err(|error| error.to_string())
}
