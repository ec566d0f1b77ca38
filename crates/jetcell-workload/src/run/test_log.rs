//! Writes settings and figures to the test log, using Jetstress's wording for lines that Jetstress also logs.

use jetcell_input::number::MIB;

use crate::layout::RunPlan;
use crate::measurement::SaturationSearch;
use crate::observer::Observer;
use crate::profile::Profile;
use crate::result::RunAnalysis;

/// Logs the settings in Jetstress's wording.
pub(crate) fn settings(profile: &Profile, plan: &RunPlan, observer: &mut dyn Observer) {
    let (mix, limits) = (&profile.mix, &profile.thresholds);
    observer.log(&format!("Database cache settings: (maximum: {:.1} MB)", plan.cache_bytes as f64 / MIB));
    observer.log(&format!(
        "Database read latency thresholds: (average: {} msec/read, maximum: {} msec/read)",
        limits.average_database_read_ms, limits.maximum_database_read_ms
    ));
    observer.log(&format!(
        "Log write latency thresholds: (average: {} msec/write, maximum: {} msec/write)",
        limits.average_log_write_ms, limits.maximum_log_write_ms
    ));
    observer.log(
        &(if profile.scan {
            format!(
                "Background database maintenance: on{} (pause: {})",
                if profile.zero { ", with zeroing of deleted data" } else { "" },
                profile.scan_pause
            )
        } else {
            "Background database maintenance: off".to_string()
        }),
    );
    if profile.defrag {
        observer.log(&format!("Online defragmentation: on (pause: {})", profile.scan_pause));
    }
    if profile.layout {
        observer.log(&format!("Sequential layout: on (pause: {})", profile.scan_pause));
    }
    if profile.maintenance_impact {
        observer.log("Maintenance impact: the load alone and the load with each task, alternating");
    }
    if let Some(window) = profile.maintenance_window {
        observer.log(&format!(
            "Maintenance window: {window}, shared by the tasks and by the databases of a directory"
        ));
    }
    observer.log(&format!(
        "Operation mix: Sessions {}, Inserts {}%, Deletes {}%, Replaces {}%, Reads {}%, Lazy Commits {}%",
        profile.threads, mix.insert, mix.delete, mix.replace, mix.read, profile.lazy_percent
    ));
}

/// Logs the analysis of the figures.
pub(crate) fn figures(analysis: &RunAnalysis, observer: &mut dyn Observer) {
    match &analysis.steady_state {
        Some(state) => observer.log(&format!(
            "Steady state: {} (spread {:.1} %, slope {:+.1} % of the mean IOPS of 5 windows)",
            if state.steady { "reached" } else { "not reached" },
            state.spread * 100.0,
            state.slope * 100.0
        )),
        None => observer.log("Steady state: unknown, fewer than 5 samples were taken"),
    }
    if let Some(limit) = &analysis.limit {
        observer.log(&format!("Limited by {}: {}", limit.limiter.title(), limit.reason));
    }
    if let Some(repetitions) = &analysis.repetitions {
        let iops = &repetitions.transactional_iops;
        observer.log(&format!(
            "{} repetitions: {:.1} ± {:.1} transactional I/O per second (95 % confidence)",
            repetitions.each.len(),
            iops.mean,
            iops.half_width
        ));
    }
    if let Some(SaturationSearch { sustained_rate: Some(rate), first_failed_rate, .. }) = &analysis.saturation
    {
        let failed = first_failed_rate.map_or("none".into(), |rate| rate.to_string());
        observer.log(&format!(
            "Highest sustained rate: {rate} operations per second (lowest rate that broke a rule: {failed})"
        ));
    }
    if let Some(open) = analysis.open_loop.filter(|open| !open.kept_rate()) {
        observer.log(&format!(
            "The load did not reach the target rate: of {} operations, {} did not complete and {} did not \
             start. The load was {:.1} s late. Latencies do not include these operations.",
            open.due, open.not_completed, open.waiting, open.behind_seconds
        ));
    }
}
