//! `jetcell compare --drives`: reads the runs and tests named in a drive list, and summarizes them.

use std::path::Path;

use jetcell_input::json_pretty;
use jetcell_lab::drive::DriveTest;
use jetcell_lab::drives::{DriveEntry, DriveList, DriveSummary, MailLoad, RunFigures};
use jetcell_power::{EnergyEstimate, PowerLog};
use jetcell_report::{StoredRun, drives_csv, drives_html, drives_markdown, drives_text};
use jetcell_workload::result::RunResult;

use super::{ComparisonFormat, ComparisonOutput};
use crate::console;
use crate::outcome::{CommandContext, CommandError, CommandResult};
use crate::shared::stored_drive_result::stored_drive_test;

/// Returns the comparison of the drives in a list.
pub(super) fn compare_drives(path: &Path, format: ComparisonFormat) -> CommandResult<ComparisonOutput> {
    let list = DriveList::read(path)?;
    let tests: Vec<Option<(DriveTest, usize)>> = list.drives.iter().map(test).collect::<Result<_, _>>()?;
    let runs: Vec<Option<RunResult>> = list.drives.iter().map(run).collect::<Result<_, _>>()?;
    let drives = list.drives.iter().zip(&runs);
    let energy: Vec<Option<EnergyEstimate>> =
        drives.map(|(drive, run)| energy(&list, drive, run.as_ref())).collect::<Result<_, _>>()?;
    let of_targets: Vec<_> = tests.iter().map(|found| found.as_ref().map(|(test, at)| (test, *at))).collect();
    let typed = list.drives.iter().map(|drive| drive.mail_load.as_ref().map(MailLoad::figures));
    let figures: Vec<_> =
        runs.iter().zip(typed).map(|(run, typed)| run.as_ref().map(RunFigures::from_run).or(typed)).collect();
    let summary = DriveSummary::new(&list, &of_targets, &figures, &energy);
    if summary.rows.is_empty() {
        return Err(CommandError::new("the first drive and the other drives have no measurement in common")
            .context(path.display())
            .advise("add disk_test, run, mail_load, [[measured]] or [[advantage]]"));
    }
    Ok(match format {
        ComparisonFormat::Text => ComparisonOutput::Terminal(drives_text(&summary, console::width())),
        ComparisonFormat::Html => ComparisonOutput::File(drives_html(&summary)),
        ComparisonFormat::Markdown => ComparisonOutput::File(drives_markdown(&summary)),
        ComparisonFormat::Csv => ComparisonOutput::File(drives_csv(&summary)),
        ComparisonFormat::Json => ComparisonOutput::File(json_pretty(&summary)?),
    })
}

/// Returns the test of a drive, and the drive's index among the test's targets.
fn test(entry: &DriveEntry) -> CommandResult<Option<(DriveTest, usize)>> {
    let Some(directory) = &entry.disk_test else { return Ok(None) };
    let found = stored_drive_test(directory, entry.target.as_deref());
    found.map(Some).context(&entry.name)
}

fn run(entry: &DriveEntry) -> CommandResult<Option<RunResult>> {
    let Some(directory) = &entry.run else { return Ok(None) };
    let run = StoredRun::read(directory)?.result;
    if run.measured_seconds <= 0.0 {
        return Err(CommandError::new(format_args!(
            "{}: the run contains no measurements",
            directory.display()
        )));
    }
    Ok(Some(run))
}

/// Returns the energy use of a drive. It was entered by the user, derived from a log for the measured time of the
/// drive's run, or measured by the run itself.
fn energy(
    list: &DriveList,
    entry: &DriveEntry,
    run: Option<&RunResult>,
) -> CommandResult<Option<EnergyEstimate>> {
    let Some(power) = &entry.power else {
        let measured = run.and_then(|run| run.energy.as_ref());
        return Ok(measured.map(|found| {
            EnergyEstimate::from_watts(found.energy.watts, found.energy.scope, &list.tariff())
        }));
    };
    let Some(path) = &power.log else { return Ok(list.stated_energy(entry)) };
    let log = PowerLog::read(path, power.scope)?;
    let used = match run {
        None => log.total_energy(),
        Some(run) => {
            let (from, to) = run.measured_window()?;
            log.energy_between(from, to)
        }
    };
    Ok(Some(EnergyEstimate::from_watts(used?.watts(), log.scope, &list.tariff())))
}
