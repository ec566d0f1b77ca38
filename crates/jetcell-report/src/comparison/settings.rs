//! Differences between the runs' configurations and machines, and what they mean for the comparison.

use std::collections::BTreeSet;

use jetcell_host::machine::ArrayStorage;
use jetcell_input::number::human_bytes;
use jetcell_workload::Verdict;
use jetcell_workload::result::RunResult;
use serde_json::Value;

use super::{ComparedRun, DifferingSetting, label};

/// Options that do not affect the load, and options that are compared by their effective value in the plan instead.
const NON_LOAD_OPTIONS: [&str; 8] =
    ["dirs", "log_dirs", "output", "description", "page_size", "cache", "databases", "size"];

/// Returns the load settings that differ between the runs: load options, and values from the plan.
pub(super) fn load(runs: &[&RunResult]) -> Vec<DifferingSetting> {
    let decided = |run: &RunResult| {
        [
            ("page_size", human_bytes(u64::from(run.plan.page_bytes))),
            ("databases", run.database_files.to_string()),
            // Total size before the load, which also covers existing databases and sizes such as `80%`.
            ("size", human_bytes(run.initial_database_bytes)),
            ("cache", human_bytes(run.plan.cache_bytes)),
        ]
        .map(|(name, value)| (name.to_string(), value))
    };
    let load_settings = |run: &&RunResult| {
        let mut all = decided(run).to_vec();
        let profile = serde_json::to_value(&run.configuration).unwrap_or_default();
        if let Value::Object(options) = profile {
            options
                .iter()
                .filter(|(name, _)| !NON_LOAD_OPTIONS.contains(&name.as_str()))
                .for_each(|(name, value)| flatten(name, value, &mut all));
        }
        all
    };
    differing_settings(runs.iter().map(load_settings).collect())
}

/// Returns the properties in which the programs and machines differ.
pub(super) fn environment(runs: &[&RunResult]) -> Vec<DifferingSetting> {
    let environment_settings = |run: &&RunResult| {
        let machine = &run.evidence.machine;
        let mut all: Vec<(String, String)> = [
            ("jetcell", run.evidence.jetcell_version.clone()),
            ("build commit", run.evidence.build.commit.clone()),
            ("build target", run.evidence.build.target.clone()),
            ("build profile", run.evidence.build.profile.clone()),
            ("build features", run.evidence.build.features.join(", ")),
            ("host", machine.host.clone()),
            ("kernel", machine.kernel.clone()),
            ("processor", format!("{} × {}", machine.processors, machine.processor)),
            ("memory", human_bytes(machine.memory_bytes)),
        ]
        .map(|(name, value)| (name.to_string(), value))
        .to_vec();
        let storage = |of: &dyn Fn(&jetcell_host::machine::DirectoryStorage) -> Option<String>| {
            let distinct: BTreeSet<String> = machine.storage.iter().filter_map(of).collect();
            distinct.into_iter().collect::<Vec<_>>().join(", ")
        };
        all.push(("file system".into(), storage(&|one| Some(one.mount.as_ref()?.file_system.clone()))));
        all.push(("mount options".into(), storage(&|one| Some(one.mount.as_ref()?.options.clone()))));
        all.push(("device".into(), storage(&|one| Some(one.device.as_ref()?.name.clone()))));
        let array = |of: fn(&ArrayStorage) -> Option<String>| storage(&|one| of(one.array.as_ref()?));
        all.push(("array".into(), array(|array| Some(array.array.display().to_string()))));
        all.push(("array level".into(), array(|array| Some(array.level_and_members()))));
        all.push(("array members".into(), array(|array| Some(array.member_list()))));
        all.push(("LUN".into(), array(|array| array.lun.clone())));
        all.push(("simulated drive".into(), array(|array| array.simulated_drive.clone())));
        all
    };
    differing_settings(runs.iter().map(environment_settings).collect())
}

/// Appends all leaf values with dotted names, as in a configuration file.
fn flatten(name: &str, value: &Value, out: &mut Vec<(String, String)>) {
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(field, value)| flatten(&format!("{name}.{field}"), value, out));
        }
        Value::String(text) => out.push((name.into(), text.clone())),
        other => out.push((name.into(), other.to_string())),
    }
}

fn differing_settings(runs: Vec<Vec<(String, String)>>) -> Vec<DifferingSetting> {
    let mut names: Vec<&String> = Vec::new();
    for (name, _) in runs.iter().flatten() {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let value = |run: &Vec<(String, String)>, name: &String| {
        run.iter().find(|(other, _)| other == name).map(|(_, value)| value.clone()).unwrap_or_default()
    };
    let setting = |name: &String| DifferingSetting {
        name: name.clone(),
        values: runs.iter().map(|run| value(run, name)).collect(),
    };
    let differs = |setting: &DifferingSetting| setting.values.windows(2).any(|pair| pair[0] != pair[1]);
    names.into_iter().map(setting).filter(differs).collect()
}

/// Returns the limitations that a reader must know before relying on a difference.
pub(super) fn warnings(
    columns: &[ComparedRun],
    runs: &[&RunResult],
    load: &[DifferingSetting],
) -> Vec<String> {
    let mut lines = Vec::new();
    for (number, column) in columns.iter().enumerate() {
        let what = match column.verdict {
            Verdict::Pass => None,
            Verdict::Fail => Some("failed"),
            Verdict::Incomplete if column.measured_seconds == 0.0 => {
                Some("is incomplete and contains no measurement")
            }
            Verdict::Incomplete => Some("is incomplete"),
        };
        lines.extend(what.map(|what| format!("{} {what}: {}", label(number), column.reason)));
        lines.extend(column.doubts.iter().map(|doubt| format!("{} is doubtful: {doubt}", label(number))));
    }
    for (number, run) in runs.iter().enumerate() {
        if let Some(same) = runs.iter().take(number).position(|earlier| earlier == run) {
            lines.push(format!("{} and {} have the same result", label(same), label(number)));
        }
    }
    if !load.is_empty() {
        let names: Vec<&str> = load.iter().map(|setting| setting.name.as_str()).collect();
        lines.push(format!(
            "not the same load: {} {}; each difference below combines all these causes",
            names.join(", "),
            if names.len() == 1 { "differs" } else { "differ" }
        ));
    }
    let (longest, shortest) = runs
        .iter()
        .map(|run| run.tested_seconds())
        .fold((0.0, f64::MAX), |(long, short): (f64, f64), seconds| (long.max(seconds), short.min(seconds)));
    let told = load.iter().any(|setting| matches!(setting.name.as_str(), "duration" | "repeat"));
    if !told && longest > shortest * 1.1 {
        lines.push(format!(
            "measured for {shortest:.0} s to {longest:.0} s: a longer run contains rarer events"
        ));
    }
    let unrepeated: Vec<String> =
        (0..columns.len()).filter(|run| columns[*run].repetitions < 2).map(label).collect();
    if !unrepeated.is_empty() {
        let who = if unrepeated.len() == columns.len() { "no run".into() } else { unrepeated.join(", ") };
        let verb = match unrepeated.len() {
            all if all == columns.len() => "was",
            1 => "was not",
            _ => "were not",
        };
        lines.push(format!(
            "{who} {verb} repeated (--repeat): the effect of random variation on the figures is unknown"
        ));
    }
    lines
}
