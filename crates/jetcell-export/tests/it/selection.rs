//! Selected tables, columns and rows must be the same as in a complete export.

use std::collections::BTreeMap;
use std::path::PathBuf;

use jetcell_export::{
    AdditionalRows, ApplicationProfile, ExportDestination, ExportError, ExportFormat, ExportOptions,
    ExportSummary, ROW_LIMIT, RenderingOptions, Selection, TimeCondition, export,
};
use jetcell_vfs::{RealOptions, RealVfs};
use serde_json::Value as Json;
use testkit::corpus::Corpus;

use crate::common::{JsonRows, json_lines};

const USAGE: &str = "ApplicationResourceUsage";
const TICKS_PER_SECOND: i64 = 10_000_000;

/// The database of a usage monitor.
struct UsageMonitorDatabase {
    directory: tempfile::TempDir,
    database: PathBuf,
}

impl UsageMonitorDatabase {
    fn unpack() -> Option<UsageMonitorDatabase> {
        let corpus = Corpus::locate()?;
        let directory = tempfile::tempdir().unwrap();
        let database = corpus.unpack("logsets/srum-win11-dirty/SRUDB.dat", directory.path());
        Some(UsageMonitorDatabase { directory, database })
    }

    fn to(
        &self,
        name: &str,
        format: ExportFormat,
        selection: Selection,
    ) -> Result<ExportSummary, ExportError> {
        let vfs = RealVfs::new(RealOptions { direct: false, ..RealOptions::default() }).unwrap();
        let options = ExportOptions {
            selection,
            format,
            destination: ExportDestination::Directory(self.directory.path().join(name)),
            additional: AdditionalRows::default(),
            force: false,
            row_limit: ROW_LIMIT,
            rendering: RenderingOptions {
                profile: ApplicationProfile::BySchema,
                ..RenderingOptions::default()
            },
        };
        export(&vfs, &self.database, &options, &mut |_, _| {})
    }

    fn rows(&self, name: &str, selection: Selection) -> BTreeMap<String, JsonRows> {
        self.to(name, ExportFormat::JsonLines, selection).unwrap();
        json_lines(&self.directory.path().join(name))
    }
}

fn tables(names: &[&str]) -> Selection {
    Selection { tables: names.iter().map(|&name| name.to_owned()).collect(), ..Selection::default() }
}

/// Returns the seconds since 1970 for a string such as `2022-07-03T02:22:00`.
fn seconds(time: &Json) -> i64 {
    let text = time.as_str().unwrap().trim_end_matches('Z');
    let numbers: Vec<i64> =
        text.split(['-', 'T', ':']).map(|part| part.split('.').next().unwrap().parse().unwrap()).collect();
    let [year, month, day, hour, minute, second] = numbers[..] else { panic!("{text}") };
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1 - 719_468;
    days * 86_400 + hour * 3600 + minute * 60 + second
}

#[test]
fn patterns_select_tables_by_file_name_or_profile_name() {
    let Some(monitor) = UsageMonitorDatabase::unpack() else { return };
    let all = monitor.rows("all", Selection::default());
    let usage = monitor.rows("usage", tables(&["*usage"]));
    assert!(usage.len() > 1 && usage.contains_key(USAGE));
    assert!(usage.keys().all(|name| name.ends_with("Usage")), "{:?}", usage.keys());
    assert_eq!(all[USAGE], usage[USAGE]);
    let stored = monitor.rows("stored", tables(&["{D10CA2FE-6FCF-4F6D-848E-B2E99266FA89}", "MSysObject?"]));
    assert_eq!(stored.keys().collect::<Vec<_>>(), [USAGE, "MSysObjects"]);
    let error = monitor.to("none", ExportFormat::Csv, tables(&["*Usage", "nothing*"])).unwrap_err();
    assert!(matches!(&error, ExportError::NoTable { name } if name == "nothing*"), "{error}");
}

#[test]
fn patterns_select_columns_and_skip_tables_without_matching_columns() {
    let Some(monitor) = UsageMonitorDatabase::unpack() else { return };
    let all = monitor.rows("all", Selection::default());
    let columns = vec!["appid".to_owned(), "Time*".to_owned()];
    let some = monitor.rows("some", Selection { columns, ..Selection::default() });
    assert!(!some.contains_key("MSysObjects") && some.contains_key(USAGE));
    for (row, whole) in some[USAGE].iter().zip(&all[USAGE]) {
        assert_eq!(row.keys().collect::<Vec<_>>(), ["AppId", "TimeStamp"]);
        assert!(row.iter().all(|(name, value)| whole[name] == *value));
    }
    assert_eq!(some[USAGE].len(), all[USAGE].len());
    let error = monitor.to(
        "none",
        ExportFormat::Csv,
        Selection { columns: vec!["Nothing".into()], ..Selection::default() },
    );
    assert!(matches!(error, Err(ExportError::NoColumn { name }) if name == "Nothing"));
}

#[test]
fn rows_are_selected_by_time_in_every_format() {
    let Some(monitor) = UsageMonitorDatabase::unpack() else { return };
    let all = monitor.rows("all", tables(&[USAGE]));
    let mut times: Vec<i64> = all[USAGE].iter().map(|row| seconds(&row["TimeStamp"])).collect();
    times.sort_unstable();
    let (first, last) = (times[times.len() / 4], times[times.len() / 2]);
    let range = first * TICKS_PER_SECOND..=last * TICKS_PER_SECOND;
    let selection = Selection {
        // The column with the time need not be exported.
        columns: vec!["AutoIncId".into()],
        times: Some(TimeCondition { columns: vec!["TimeStamp".into()], range: range.clone() }),
        ..tables(&[USAGE])
    };
    let expected: Vec<&Json> = all[USAGE]
        .iter()
        .filter(|row| (first..=last).contains(&seconds(&row["TimeStamp"])))
        .map(|row| &row["AutoIncId"])
        .collect();
    assert!(!expected.is_empty() && expected.len() < times.len());
    let found = monitor.rows("found", selection.clone());
    assert_eq!(found[USAGE].iter().map(|row| &row["AutoIncId"]).collect::<Vec<_>>(), expected);
    for (name, format) in
        [("parquet", ExportFormat::Parquet), ("csv", ExportFormat::Csv), ("sqlite", ExportFormat::Sqlite)]
    {
        assert_eq!(monitor.to(name, format, selection.clone()).unwrap().rows, expected.len() as u64);
    }
}

#[test]
fn tables_without_times_are_exported_completely_with_a_note() {
    let Some(monitor) = UsageMonitorDatabase::unpack() else { return };
    let times = |columns: &[&str]| {
        let columns = columns.iter().map(|&name| name.to_owned()).collect();
        Some(TimeCondition { columns, range: 0..=1 })
    };
    let selection = Selection { times: times(&[]), ..tables(&[USAGE, "SruDbIdMapTable"]) };
    let summary = monitor.to("both", ExportFormat::JsonLines, selection).unwrap();
    let both = json_lines(&monitor.directory.path().join("both"));
    assert_eq!((both[USAGE].len(), both["SruDbIdMapTable"].is_empty()), (0, false));
    let notes: Vec<String> = summary.issues.stored().iter().map(ToString::to_string).collect();
    assert!(
        notes
            .iter()
            .any(|note| note.contains("SruDbIdMapTable")
                && note.contains("none of the columns contains times"))
    );
    for columns in [&["AppId"][..], &["TimeStamp", "Nothing"]] {
        let selection = Selection { times: times(columns), ..tables(&[USAGE]) };
        assert!(matches!(monitor.to("none", ExportFormat::Csv, selection), Err(ExportError::NoTimes { .. })));
    }
}
