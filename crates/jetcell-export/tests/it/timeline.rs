//! Time lines of databases with a profile.

use std::path::{Path, PathBuf};

use jetcell_export::{
    AdditionalRows, ApplicationProfile, ExportDestination, ExportFormat, ExportOptions, ExportSummary,
    ROW_LIMIT, RenderingOptions, Selection, export, export_timeline,
};
use jetcell_vfs::{RealOptions, RealVfs};
use testkit::corpus::Corpus;
use testkit::damage::EditableDatabase;
use testkit::samples;

use crate::common::{JsonRows, json_lines};

fn options(format: ExportFormat, output: PathBuf) -> ExportOptions {
    ExportOptions {
        selection: Selection::default(),
        format,
        destination: ExportDestination::Directory(output),
        additional: AdditionalRows::default(),
        force: false,
        row_limit: ROW_LIMIT,
        rendering: RenderingOptions { profile: ApplicationProfile::BySchema, ..RenderingOptions::default() },
    }
}

fn vfs() -> RealVfs {
    RealVfs::new(RealOptions { direct: false, ..RealOptions::default() }).unwrap()
}

fn timeline(paths: &[PathBuf], output: &Path) -> (ExportSummary, JsonRows) {
    let options = options(ExportFormat::JsonLines, output.to_owned());
    let summary = export_timeline(&vfs(), paths, &options, &mut |_, _| {}).unwrap();
    (summary, json_lines(output).remove("timeline").unwrap())
}

/// Returns a member of a row without the mark of its time zone, because a fraction may precede the mark.
fn time(row: &serde_json::Map<String, serde_json::Value>) -> &str {
    row["time"].as_str().unwrap().trim_end_matches('Z')
}

#[test]
fn times_of_several_databases_are_sorted_and_explained() {
    let Some(corpus) = Corpus::locate() else { return };
    let directory = tempfile::tempdir().unwrap();
    let files = ["logsets/srum-server2022/b/SRUDB.dat", "db/4k/ual-hyperv-Current.mdb"];
    let paths = files.map(|file| corpus.unpack(file, directory.path()));
    let (summary, rows) = timeline(&paths, &directory.path().join("timeline"));
    assert_eq!(summary.rows, rows.len() as u64);
    assert!(rows.is_sorted_by(|one, two| time(one) <= time(two)));
    for path in &paths {
        let source = path.display().to_string();
        assert!(rows.iter().any(|row| row["source"] == source.as_str()), "{source}");
    }
    let usage: Vec<_> = rows.iter().filter(|row| row["table"] == "ApplicationResourceUsage").collect();
    let plain = directory.path().join("plain");
    export(&vfs(), &paths[0], &options(ExportFormat::JsonLines, plain.clone()), &mut |_, _| {}).unwrap();
    assert_eq!(usage.len(), json_lines(&plain)["ApplicationResourceUsage"].len(), "one time in each row");
    let described = |text: &str| rows.iter().any(|row| row["what"] == text && row["key"] != "");
    assert!(described("TimeStamp (use recorded): System, S-1-5-18"), "{:?}", usage[0]);
    assert!(
        described("InsertDate (first access in the year): lab\\dc-1$, ::1, Active Directory Domain Services"),
        "{:?}",
        rows.iter().find(|row| row["table"] == "CLIENTS")
    );
}

#[test]
fn every_format_contains_a_timeline() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("web.dat");
    std::fs::write(&path, samples::read("webcache-cookies.edb")).unwrap();
    let output = directory.path().join("output");
    let (summary, rows) = timeline(std::slice::from_ref(&path), &output);
    let accessed: Vec<_> = rows.iter().filter(|row| row["table"] == "Container_1").collect();
    assert_eq!(accessed.len(), 1, "{rows:?}");
    assert_eq!(accessed[0]["time"], "2022-06-18T04:26:40Z");
    assert_eq!(accessed[0]["what"], "AccessedTime (last access): Cookies");
    for format in [ExportFormat::Csv, ExportFormat::Parquet, ExportFormat::Sqlite] {
        let options = options(format, output.clone());
        let other = export_timeline(&vfs(), std::slice::from_ref(&path), &options, &mut |_, _| {}).unwrap();
        assert_eq!(other.rows, summary.rows, "{format}");
        assert!(output.join(format!("timeline.{format}")).metadata().unwrap().len() > 0, "{format}");
    }
}

#[test]
fn carved_rows_are_marked() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("web.dat");
    let mut database = EditableDatabase::new(samples::read("webcache-cookies.edb"));
    // The time 2022-06-18T04:26:40Z as the application stores it.
    let time = 133_000_000_000_000_000_i64.to_le_bytes();
    let has_time = |data: &[u8]| data.windows(time.len()).any(|part| part == time);
    let leaf = database.find(|page| page.is_leaf() && page.nodes().any(|node| has_time(node.data)))[0];
    let index = database.page(leaf).nodes().position(|node| has_time(node.data)).unwrap();
    database.edit(leaf, |mut page| page.delete_node(index));
    std::fs::write(&path, &database.bytes).unwrap();
    let paths = [path];
    let run = |carved: bool| {
        let output = directory.path().join(carved.to_string());
        let additional = AdditionalRows { carved, ..AdditionalRows::default() };
        let options = ExportOptions { additional, ..options(ExportFormat::JsonLines, output.clone()) };
        let summary = export_timeline(&vfs(), &paths, &options, &mut |_, _| {}).unwrap();
        let mut rows = json_lines(&output).remove("timeline").unwrap();
        rows.retain(|row| row["table"] == "Container_1");
        (rows, summary)
    };
    let (rows, _) = run(false);
    assert!(rows.is_empty(), "{rows:?}");
    let (rows, summary) = run(true);
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!(
        (&rows[0]["time"], &rows[0]["_carved_page"]),
        (&"2022-06-18T04:26:40Z".into(), &leaf.get().into())
    );
    assert!(
        rows[0]["_carved_offset"].as_u64().unwrap() > 0 && rows[0]["_confidence"].is_string(),
        "{rows:?}"
    );
    assert!(summary.issues.stored().iter().any(|note| note.message.contains("1 rows were carved")));
}

#[test]
fn a_pattern_must_match_in_one_of_the_databases() {
    let directory = tempfile::tempdir().unwrap();
    let paths = ["webcache-cookies.edb", "engine-4k.edb"].map(|name| {
        let path = directory.path().join(name);
        std::fs::write(&path, samples::read(name)).unwrap();
        path
    });
    let run = |tables: &[&str]| {
        let output = directory.path().join(tables.join("-"));
        let tables = tables.iter().map(|table| (*table).to_owned()).collect();
        let selection = Selection { tables, ..Selection::default() };
        let options = ExportOptions { selection, ..options(ExportFormat::Csv, output) };
        export_timeline(&vfs(), &paths, &options, &mut |_, _| {})
    };
    let summary = run(&["Container_1"]).unwrap();
    assert_eq!(summary.rows, 1);
    let notes = summary.issues.stored();
    assert!(notes.iter().any(|note| note.message.contains("engine-4k.edb: no selected table has times")));
    // Each database has only one of the tables.
    assert_eq!(run(&["Things", "Container_1"]).unwrap().rows, run(&["Things"]).unwrap().rows + 1);
    assert!(run(&["none"]).unwrap_err().to_string().contains("table none does not exist"));
    assert!(run(&["Container_1", "none"]).unwrap_err().to_string().contains("table none does not exist"));
}
