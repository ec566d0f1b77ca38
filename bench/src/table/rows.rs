//! From samples to the rows of the table: figures, ratios within rounds, goals.

use std::fmt::Write;

use serde_json::Value;

use super::rounds::{DEPTHS, Rounds, Sample};
use crate::engines::ALL;
use crate::limit::Limit;

/// A figure of a step.
type Figure = fn(&Value) -> Option<f64>;

/// One line of the table.
struct Line {
    row: String,
    what: String,
    ours: Option<f64>,
    peer_name: String,
    peer: Option<f64>,
    ratio: Option<f64>,
    goal: Goal,
    /// Digits after the point of the figures.
    digits: usize,
    quiet: bool,
}

#[derive(Clone, Copy)]
enum Goal {
    AtLeast(f64),
    AtMost(f64),
}

impl Goal {
    fn is_met(self, value: f64) -> bool {
        match self {
            Goal::AtLeast(goal) => value >= goal,
            Goal::AtMost(goal) => value <= goal,
        }
    }
}

fn at(value: &Value, path: &str) -> Option<f64> {
    value.pointer(path).and_then(Value::as_f64)
}

fn ops(value: &Value) -> Option<f64> {
    Some(at(value, "/operations")? / at(value, "/used/seconds")?)
}

fn cpu(value: &Value) -> Option<f64> {
    Some(at(value, "/used/cpu_seconds")? / at(value, "/operations")? * 1e4)
}

fn amplification(value: &Value) -> Option<f64> {
    Some(at(value, "/used/written")? / at(value, "/logical")?)
}

fn database_iops(value: &Value) -> Option<f64> {
    let transfers = at(value, "/transfers/reads")? + at(value, "/transfers/writes")?;
    Some(transfers / at(value, "/used/seconds")?)
}

fn durable_p99(value: &Value) -> Option<f64> {
    at(value, "/durable_us/p99")
}

fn durable_rate(value: &Value) -> Option<f64> {
    Some(at(value, "/durable")? / at(value, "/used/seconds")?)
}

fn load_rate(value: &Value) -> Option<f64> {
    Some(at(value, "/logical")? / at(value, "/used/seconds")? / 1e6)
}

fn redo_rate(value: &Value) -> Option<f64> {
    Some(at(value, "/updates")? / at(value, "/seconds")?)
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        even if even % 2 == 0 => Some((values[middle - 1] + values[middle]) / 2.0),
        _ => Some(values[middle]),
    }
}

/// A step's samples.
fn samples<'r>(rounds: &'r Rounds, step: &str) -> &'r [Sample] {
    rounds.samples.get(step).map_or(&[], Vec::as_slice)
}

fn figure(rounds: &Rounds, step: &str, figure: Figure) -> Option<f64> {
    median(samples(rounds, step).iter().filter_map(|sample| figure(&sample.value)).collect())
}

/// Median of the ratios within rounds.
fn ratio(rounds: &Rounds, ours: (&str, Figure), theirs: (&str, Figure)) -> Option<f64> {
    let of_round = |sample: &Sample| {
        let peer = samples(rounds, theirs.0).iter().find(|peer| peer.round == sample.round)?;
        Some(ours.1(&sample.value)? / theirs.1(&peer.value)?)
    };
    median(samples(rounds, ours.0).iter().filter_map(of_round).collect())
}

fn is_quiet(rounds: &Rounds, steps: &[&str]) -> bool {
    steps.iter().flat_map(|step| samples(rounds, step)).all(|sample| sample.quiet)
}

/// A line that compares two steps.
fn compare(
    rounds: &Rounds,
    (row, what): (&str, &str),
    ours: (&str, Figure),
    (peer_name, theirs): (&str, (&str, Figure)),
    goal: Goal,
    digits: usize,
) -> Line {
    Line {
        row: row.to_string(),
        what: what.to_string(),
        ours: figure(rounds, ours.0, ours.1),
        peer_name: peer_name.to_string(),
        peer: figure(rounds, theirs.0, theirs.1),
        ratio: ratio(rounds, ours, theirs),
        goal,
        digits,
        quiet: is_quiet(rounds, &[ours.0, theirs.0]),
    }
}

/// A line with a goal for the figure itself.
fn alone(
    rounds: &Rounds,
    (row, what): (&str, &str),
    ours: (&str, Figure),
    goal: Goal,
    digits: usize,
) -> Line {
    let value = figure(rounds, ours.0, ours.1);
    Line {
        row: row.to_string(),
        what: what.to_string(),
        ours: value,
        peer_name: String::new(),
        peer: None,
        ratio: value,
        goal,
        digits,
        quiet: is_quiet(rounds, &[ours.0]),
    }
}

fn lines(rounds: &Rounds, row: u8) -> Vec<Line> {
    use Goal::{AtLeast, AtMost};
    const OURS_8: &str = "mix8/jetcell";
    const OURS_4: &str = "mix4x16/jetcell";
    let iops: Figure = |value| at(value, "/iops");
    let rate: Figure = |value| Some(at(value, "/bytes_per_second")? / 1e6);
    match row {
        1 => {
            let line = |depth: &u32| {
                let (ours, fio) = (format!("io/{depth}"), format!("fio/{depth}"));
                let what = format!("page I/O/s, depth {depth}");
                compare(rounds, ("1", &what), (&ours, iops), ("fio", (&fio, iops)), AtLeast(0.95), 0)
            };
            DEPTHS.iter().map(line).collect()
        }
        2 => {
            let line = |what, ours, fio| {
                compare(rounds, ("2", what), (ours, database_iops), ("fio", (fio, iops)), AtLeast(0.75), 0)
            };
            vec![
                line("database I/O/s, every dirty page written", "mix8-all/jetcell", "fio-mix-all"),
                line("database I/O/s, edits kept", OURS_8, "fio-mix"),
            ]
        }
        3 => {
            let ours: (&str, Figure) = (OURS_8, ops);
            let what = ("3", "operations/s, 8 threads, 1 update");
            let wiredtiger: (&str, Figure) = ("mix8/wiredtiger", ops);
            let mut best: Option<(f64, &str)> = None;
            for engine in ALL.iter().skip(1) {
                let value = figure(rounds, &format!("mix8/{engine}"), ops);
                if value.is_some_and(|value| best.is_none_or(|(most, _)| value > most)) {
                    best = value.map(|value| (value, *engine));
                }
            }
            let name = best.map_or("none", |(_, name)| name);
            let step = format!("mix8/{name}");
            let label = format!("best: {name}");
            vec![
                compare(rounds, what, ours, ("WiredTiger", wiredtiger), AtLeast(2.0), 0),
                compare(rounds, what, ours, (&label, (&step, ops)), AtLeast(1.3), 0),
            ]
        }
        4 => {
            let ours: (&str, Figure) = (OURS_4, ops);
            let what = ("4", "operations/s, 4 threads, 16 updates");
            let (wiredtiger, rocksdb): ((&str, Figure), (&str, Figure)) =
                (("mix4x16/wiredtiger", ops), ("mix4x16/rocksdb", ops));
            vec![
                compare(rounds, what, ours, ("WiredTiger", wiredtiger), AtLeast(2.0), 0),
                compare(rounds, what, ours, ("RocksDB", rocksdb), AtLeast(0.85), 0),
            ]
        }
        5 => vec![compare(
            rounds,
            ("5", "CPU s per 10,000 operations"),
            (OURS_8, cpu),
            ("WiredTiger", ("mix8/wiredtiger", cpu)),
            AtMost(0.5),
            2,
        )],
        6 => vec![compare(
            rounds,
            ("6", "bytes written per logical byte"),
            (OURS_8, amplification),
            ("WiredTiger", ("mix8/wiredtiger", amplification)),
            AtMost(0.85),
            1,
        )],
        7 => vec![latency_line(rounds)],
        8 => {
            let sync: (&str, Figure) = ("sync", |value| at(value, "/per_second"));
            let ours: (&str, Figure) = ("commits/jetcell", durable_rate);
            vec![compare(
                rounds,
                ("8", "durable commits/s, cached"),
                ours,
                ("one writer", sync),
                AtLeast(4.0),
                0,
            )]
        }
        9 => {
            let ours: (&str, Figure) = ("load/jetcell", load_rate);
            let what = ("9", "load in key order, MB/s");
            let (wiredtiger, rocksdb): ((&str, Figure), (&str, Figure)) =
                (("load/wiredtiger", load_rate), ("load/rocksdb", load_rate));
            vec![
                compare(rounds, what, ours, ("WiredTiger", wiredtiger), AtLeast(1.3), 0),
                compare(rounds, what, ours, ("RocksDB", rocksdb), AtLeast(1.0), 0),
            ]
        }
        10 => {
            let arithmetic: Figure = |value| Some(at(value, "/bytes_per_second")? / 1e9);
            vec![
                compare(
                    rounds,
                    ("10", "verification, MB/s"),
                    ("check", rate),
                    ("fio", ("fio-check", rate)),
                    AtLeast(0.95),
                    0,
                ),
                alone(rounds, ("10", "checksums, one core, GB/s"), ("checksum", arithmetic), AtLeast(8.0), 1),
            ]
        }
        11 => vec![compare(
            rounds,
            ("11", "redo, records/s"),
            ("redo/jetcell", redo_rate),
            ("WiredTiger", ("redo/wiredtiger", redo_rate)),
            AtLeast(6.0),
            0,
        )],
        12 => {
            let seconds: Figure = |value| at(value, "/seconds");
            vec![alone(rounds, ("12", "open at 20 MiB depth, s"), ("open/jetcell", seconds), AtMost(1.0), 2)]
        }
        13 => {
            let loaded: Figure = |value| Some(at(value, "/largest_file")? / at(value, "/logical")?);
            let mixed: Figure = |value| Some(at(value, "/largest_file")? / at(value, "/live")?);
            vec![
                alone(
                    rounds,
                    ("13", "file per live byte, loaded"),
                    ("load/jetcell", loaded),
                    AtMost(1.08),
                    3,
                ),
                alone(rounds, ("13", "file per live byte, after the mix"), (OURS_8, mixed), AtMost(1.35), 3),
            ]
        }
        _ => Vec::new(),
    }
}

/// Row 7: the yardstick is a sum of two steps.
fn latency_line(rounds: &Rounds) -> Line {
    let ours = samples(rounds, "mix8/jetcell");
    let sum = |round: u32| {
        let find = |step: &str, path: &str| {
            let sample = samples(rounds, step).iter().find(|sample| sample.round == round)?;
            at(&sample.value, path)
        };
        Some(find("fio-mix", "/read_p99_us")? + find("sync", "/us/p99")?)
    };
    let ratios = ours.iter().filter_map(|sample| Some(durable_p99(&sample.value)? / sum(sample.round)?));
    Line {
        row: "7".to_string(),
        what: "p99 of a durable transaction, µs".to_string(),
        ours: figure(rounds, "mix8/jetcell", durable_p99),
        peer_name: "fio read + fdatasync".to_string(),
        peer: median(ours.iter().filter_map(|sample| sum(sample.round)).collect()),
        ratio: median(ratios.collect()),
        goal: Goal::AtMost(3.0),
        digits: 0,
        quiet: is_quiet(rounds, &["mix8/jetcell", "fio-mix", "sync"]),
    }
}

/// The table, then all engines side by side, then what is missing.
pub fn report(rounds: &Rounds, rows: &[u8], machine: &str) -> String {
    let mut text = String::new();
    let count = rounds.samples.values().map(Vec::len).max().unwrap_or(0);
    // Writing to a string does not fail.
    let memory = match limit(rounds) {
        Some(Limit::ControlGroup(bytes)) => format!("memory limit {} MiB", bytes >> 20),
        Some(Limit::None(why)) => format!("memory not limited: {why}"),
        None => "no store used".to_string(),
    };
    let _ = writeln!(
        text,
        "{machine}; {} MiB of records, {memory}; medians of {count} rounds\n",
        rounds.size_mib()
    );
    text.push_str(
        "| # | what | ours | against | theirs | ratio | goal | |\n|---|---|---|---|---|---|---|---|\n",
    );
    for line in rows.iter().flat_map(|row| lines(rounds, *row)) {
        let number =
            |value: Option<f64>, digits| value.map_or("–".to_string(), |value| format!("{value:.digits$}"));
        let goal = match line.goal {
            Goal::AtLeast(goal) => format!("≥ {goal}"),
            Goal::AtMost(goal) => format!("≤ {goal}"),
        };
        let verdict = match line.ratio {
            None => "not measured",
            Some(ratio) if line.goal.is_met(ratio) => "met",
            Some(_) => "missed",
        };
        let verdict = if line.quiet || line.ratio.is_none() {
            verdict.to_string()
        } else {
            format!("{verdict}, not quiet")
        };
        let against = if line.peer_name.is_empty() { "–" } else { &line.peer_name };
        let ratio = if line.peer_name.is_empty() { None } else { line.ratio };
        let (ours, theirs, ratio) =
            (number(line.ours, line.digits), number(line.peer, line.digits), number(ratio, 2));
        let _ = writeln!(
            text,
            "| {} | {} | {ours} | {against} | {theirs} | {ratio} | {goal} | {verdict} |",
            line.row, line.what
        );
    }
    side_by_side(rounds, &mut text);
    for (name, what) in [
        ("", "8 threads, 1 update: the device is the limit"),
        ("-near", "8 threads, lazy replaces of cached records: processors are the limit"),
    ] {
        let steps = ["all-cores", "one-core"].map(|step| format!("{step}{name}/jetcell"));
        if let Some(scaling) = ratio(rounds, (&steps[0], ops), (&steps[1], ops)) {
            let quiet = if is_quiet(rounds, &[&steps[0], &steps[1]]) { "" } else { ", not quiet" };
            let _ = writeln!(
                text,
                "\nFrom one processor to all: {scaling:.2} × the operations/s ({what}){quiet}."
            );
        }
    }
    let settled = |engine: &str| {
        let step = format!("redo/{engine}");
        figure(rounds, &step, |value| at(value, "/settled_seconds"))
    };
    if let Some(ours) = settled("jetcell") {
        let theirs = settled("wiredtiger").map(|theirs| format!(", WiredTiger {theirs:.2} s"));
        let _ = writeln!(
            text,
            "\nRow 11 until every change is in the file and durable: {ours:.2} s{}.",
            theirs.unwrap_or_default()
        );
    }
    for (engine, why) in rounds.missing.iter().filter(|(_, why)| *why != "not asked for") {
        let _ = writeln!(text, "\nMissing: {engine}: {why}");
    }
    for (step, how) in &rounds.failures {
        let _ = writeln!(text, "\nFailed: {step}: {how}");
    }
    text
}

/// How memory was limited; not at all, if one process was not.
fn limit(rounds: &Rounds) -> Option<Limit> {
    let all = rounds.samples.values().flatten();
    let limits = all.filter_map(|sample| serde_json::from_value(sample.value["limit"].clone()).ok());
    limits.max_by_key(|limit| matches!(limit, Limit::None(_)))
}

/// One line per engine and mix.
fn side_by_side(rounds: &Rounds, text: &mut String) {
    let mut body = String::new();
    for (mix, label) in [("mix8", "8 × 1"), ("mix4x16", "4 × 16")] {
        for engine in ALL {
            let step = format!("{mix}/{engine}");
            let Some(rate) = figure(rounds, &step, ops) else { continue };
            let value = |path: Figure| figure(rounds, &step, path).unwrap_or(0.0);
            let _ = writeln!(
                body,
                "| {engine} | {label} | {rate:.0} | {:.2} | {:.1} | {:.0} / {:.0} | {:.0} / {:.0} | {:.0} / {:.0} | {:.0} | {} |",
                value(cpu),
                value(amplification),
                value(|value| at(value, "/lazy_us/p50")),
                value(|value| at(value, "/lazy_us/p99")),
                value(|value| at(value, "/durable_us/p50")),
                value(durable_p99),
                value(|value| at(value, "/read_us/p50")),
                value(|value| at(value, "/read_us/p99")),
                value(|value| Some(at(value, "/peak_memory")? / 1048576.0)),
                if is_quiet(rounds, &[&step]) { "yes" } else { "no" },
            );
        }
    }
    if !body.is_empty() {
        text.push_str("\n| engine | threads × updates | operations/s | CPU s/10k | written/logical | lazy p50 / p99 µs ");
        text.push_str("| durable p50 / p99 µs | read p50 / p99 µs | peak MiB | quiet |\n");
        text.push_str("|---|---|---|---|---|---|---|---|---|---|\n");
        text.push_str(&body);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn goals_point_the_right_way() {
        assert!(Goal::AtLeast(2.0).is_met(2.0) && !Goal::AtLeast(2.0).is_met(1.9));
        assert!(Goal::AtMost(0.5).is_met(0.5) && !Goal::AtMost(0.5).is_met(0.6));
    }
}
