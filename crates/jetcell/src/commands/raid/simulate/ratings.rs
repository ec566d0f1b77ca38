//! Compares each rating in the paper's table 8 with the simulated figure.

use jetcell_disk_simulation::ExperimentResults;
use jetcell_disk_simulation::config::{SimulatedLayout, SimulatedLevel};
use jetcell_disk_simulation::experiment::{LayoutResults, SimulatedState};
use jetcell_disk_simulation::published::TABLE_8;
use jetcell_input::number::decimal;
use jetcell_report::ReportTable;
use serde::Serialize;

use super::layout_figures::figures;

/// A rating published in a paper and the corresponding simulated figure.
#[derive(Serialize)]
pub struct PaperRating {
    pub level: &'static str,
    pub category: &'static str,
    pub published: &'static str,
    /// Simulated figure, with its unit.
    pub figure: String,
    /// Rating of the simulated figure by the category's rule, or `None` if there is no figure.
    pub simulated: Option<&'static str>,
    pub agrees: bool,
    pub why: &'static str,
}

/// Categories in the order of the paper's columns.
const CATEGORIES: [&str; 4] = ["overall", "writes", "degraded", "rebuild"];

/// Rates figures of the categories overall and rebuild by their share of the best of the four levels: at least two
/// thirds, at least one third, or less.
fn rate_share_of_best(share_of_best: f64) -> &'static str {
    match share_of_best {
        share if share >= 2.0 / 3.0 => "Best",
        share if share >= 1.0 / 3.0 => "Good",
        _ => "Poor",
    }
}

/// Rates the number of drive accesses per host write.
fn rate_accesses(accesses: f64) -> &'static str {
    match accesses {
        accesses if accesses <= 2.05 => "Best",
        accesses if accesses <= 3.05 => "Good",
        _ => "Poor",
    }
}

/// Rates the increase in read time after the loss of a drive.
fn rate_slowdown(share: f64) -> &'static str {
    match share {
        share if share <= 0.05 => "Best",
        share if share <= 0.1 => "Good",
        _ => "Poor",
    }
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

/// Returns the simulated figure for a category: the value to rate and its display text.
fn figure(layout: &LayoutResults, category: &str) -> Option<(f64, String)> {
    let normal = figures(layout, SimulatedState::Normal)?;
    match category {
        "overall" => {
            Some((layout.highest_iops, format!("{} IOPS at 20 ms", decimal(layout.highest_iops, 0))))
        }
        "writes" => {
            // Drive reads in excess of one per host read are caused by writes.
            let (reads, writes) = (normal.disk_reads_per_host_read - 1.0, normal.disk_writes_per_host_write);
            let accesses = reads.max(0.0) + writes;
            let latency = decimal(normal.write_ms, 1);
            Some((accesses, format!("{} accesses, {latency} ms", decimal(accesses, 2))))
        }
        "degraded" => {
            let slower = |state| figures(layout, state).map(|figures| figures.read_ms / normal.read_ms - 1.0);
            let (degraded, rebuilding) =
                (slower(SimulatedState::Degraded)?, slower(SimulatedState::Rebuilding)?);
            let text =
                format!("reads {:+.0} %, {:+.0} % during the rebuild", degraded * 100.0, rebuilding * 100.0);
            Some((degraded, text))
        }
        _ => {
            let seconds = layout.timeline.whole_rebuild_seconds?;
            Some((1.0 / seconds, format!("{} h", decimal(seconds / 3600.0, 2))))
        }
    }
}

/// Explains why the model gives a level its rating in a category.
fn explanation(level: &str, category: &str) -> &'static str {
    match (level, category) {
        ("RAID-DP", "overall") => "consistency points leave drive time for reads",
        (_, "overall") => "accesses for each write compete with reads",
        ("RAID 10", "writes") => "two writes, and no parity to read",
        ("RAID 5", "writes") => "old data and parity are read first: two reads, two writes",
        ("RAID 6", "writes") => "three reads, three writes",
        (_, "writes") => "full stripes of a young volume; one command writes many blocks",
        ("RAID 10", "degraded") => "the other copy is read",
        ("RAID 5", "degraded") => "a lost block is read from all other drives of a group of 9",
        ("RAID 6", "degraded") => "a lost block takes 7 reads, and the queues are long even without a loss",
        (_, "degraded") => {
            "a lost block takes 14 reads, more than in smaller groups; writes are as fast as before, which \
             the paper emphasizes"
        }
        ("RAID 10", _) => "one drive is read, and its queue has few writes",
        ("RAID-DP", _) => "14 drives are read; their queues contain only reads and consistency points",
        (_, _) => "all drives of the group are read, between the accesses of writes",
    }
}

/// Returns the paper's ratings for all levels for which the experiment has a layout.
pub fn ratings(experiment: &ExperimentResults) -> Vec<PaperRating> {
    let place = |name: &str| experiment.config.layouts.iter().position(|layout| is_level(name, layout));
    let layout = |name: &str| place(name).and_then(|place| experiment.layouts.get(place));
    let mut all = vec![];
    for (level, published) in TABLE_8 {
        let Some(found) = layout(level) else { continue };
        for (category, published) in CATEGORIES.into_iter().zip(published) {
            let of_all = TABLE_8.iter().filter_map(|(name, _)| figure(layout(name)?, category));
            let best = of_all.map(|(value, _)| value).fold(0.0, f64::max);
            let figure = figure(found, category);
            let simulated = figure.as_ref().map(|(value, _)| match category {
                "writes" => rate_accesses(*value),
                "degraded" => rate_slowdown(*value),
                _ => rate_share_of_best(value / best),
            });
            all.push(PaperRating {
                level,
                category,
                published,
                figure: figure.map_or("-".into(), |(_, text)| text),
                simulated,
                agrees: simulated == Some(published),
                why: explanation(level, category),
            });
        }
    }
    all
}

/// Returns the ratings as a table.
pub fn table(experiment: &ExperimentResults) -> ReportTable {
    let row = |rating: PaperRating| {
        vec![
            format!("{}, {}", rating.level, rating.category),
            rating.published.to_string(),
            rating.simulated.unwrap_or("-").to_string(),
            if rating.agrees { "agrees" } else { "differs" }.to_string(),
            rating.figure,
            rating.why.to_string(),
        ]
    };
    ReportTable::text_columns(
        "Table 8 of the paper in figures",
        &["level, category", "paper", "simulated", "", "figure", "why"],
    )
    .text_rows(ratings(experiment).into_iter().map(row))
    .note(
        "Overall and rebuild: Best at two thirds or more of the best rate of the four levels, Good at \
             one third or more. Writes: Best with up to two drive accesses per write, Good with up to \
             three. Degraded: Best if reads take up to 5 % longer after the loss of a drive, Good up to 10 \
             %.",
    )
}
