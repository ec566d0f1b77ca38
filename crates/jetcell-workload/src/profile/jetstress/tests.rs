//! Tests of imports: a real configuration, modified copies of it, and hostile text.

use std::path::PathBuf;
use std::time::Duration;

use super::*;
use crate::profile::{DatabaseSource, Mix, Profile, Thresholds};
use crate::units::{ByteSize, DatabaseSize, TimeSpan};

const FIXTURE: &str = include_str!("../../../testdata/JetstressConfig.xml");

fn directory_options() -> Options {
    Options { dirs: vec!["a".into(), "b".into()], ..Options::default() }
}

fn read(text: &str) -> JetstressImport {
    parse(text, TestKind::Performance, &directory_options()).unwrap()
}

fn profile(text: &str) -> Profile {
    directory_options().over(read(text).options).resolve().unwrap()
}

fn mistakes(text: &str, given: &Options) -> String {
    let found = parse(text, TestKind::Performance, given).unwrap_err();
    let text = found.iter().map(|error| match error.advice() {
        // Most mistakes have this advice.
        Some(advice) if advice == "correct this line" => error.to_string(),
        advice => jetcell_input::with_advice(error, advice),
    });
    text.collect::<Vec<_>>().join("\n")
}

fn changed(from: &str, to: &str) -> String {
    assert_eq!(FIXTURE.matches(from).count(), 1, "{from}");
    FIXTURE.replace(from, to)
}

#[test]
fn the_fixture_configures_the_run_from_the_esrp_paper() {
    let profile = profile(FIXTURE);
    assert_eq!((profile.threads, profile.databases, profile.source), (6, Some(4), DatabaseSource::Open));
    assert_eq!(profile.duration.to_string(), "2h");
    assert_eq!(profile.sample_interval.to_string(), "15s");
    assert_eq!((profile.mix, profile.lazy_percent, profile.batch_updates), (Mix::default(), 70, 16));
    assert_eq!((profile.target_iops, profile.margin), (Some(270.0), 0.05));
    assert_eq!(profile.thresholds, Thresholds::default());
    assert_eq!((profile.page_size, profile.circular_log), (Some(ByteSize(32768)), true));
    assert_eq!((profile.records.short_bytes, profile.records.long_bytes), (200, 2000));
    // 2,250 mailboxes of 1,000 MB, less 25 % growth, give 1,800,000 MiB in four databases.
    assert_eq!((profile.size, profile.growth_percent), (ByteSize::mib(450_000).into(), 25));
    assert!(profile.description.unwrap().starts_with("Fixture JS13"));
}

#[test]
fn every_element_has_a_note() {
    let notes = read(FIXTURE).notes;
    let all = notes.join("\n");
    assert!(notes[0].contains("Jetstress 15.0.658.4"), "{}", notes[0]);
    let document = Document::parse(FIXTURE).unwrap();
    let without_note =
        ["configuration", "TestDesignInfo", "ExchangeProfile", "JetSystemParams", "EseInstance", "Path"];
    for node in document.descendants().filter(Node::is_element) {
        let name = node.tag_name().name();
        let explained_elsewhere =
            without_note.contains(&name) || name.ends_with("Latency") || name.ends_with("VersionGenerated");
        let empty = node.text().is_none_or(|text| text.trim().is_empty()) && node.attributes().len() == 0;
        assert!(explained_elsewhere || empty || all.contains(name), "{name} is not in\n{all}");
    }
    assert!(all.contains("  honoured  ThreadCount 6 "), "{all}");
    assert!(all.contains("  honoured  DatabaseCopyCount 2 ") && all.contains("copies = 2"), "{all}");
    assert!(all.contains("  honoured  RunDatabaseMaintenancePerformance true "), "{all}");
    assert!(all.contains("  honoured  DBMThrottling 100 ") && all.contains("scan_pause = 100ms"), "{all}");
    assert!(all.contains("  ignored   Thresholds Lenient "), "{all}");
    assert!(all.contains("  ignored   DatabasePaths "), "{all}");
    assert!(!all.contains("not known"), "{all}");
}

#[test]
fn one_file_configures_every_test() {
    let text = changed("<Type>Performance", "<Type>SoftRecovery");
    let import = parse(&text, TestKind::Recovery, &directory_options()).unwrap();
    assert!(import.notes.join("\n").contains("  honoured  Type SoftRecovery "), "{:?}", import.notes);
    let profile = directory_options().over(import.options).resolve_for(TestKind::Recovery).unwrap();
    assert_eq!(
        (profile.logs, profile.circular_log, profile.copies, profile.target_iops),
        (500, false, 2, None)
    );
    for (test, kind) in [(TestKind::Backup, "backup"), (TestKind::Stress, "stress")] {
        let notes = parse(&text, test, &directory_options()).unwrap().notes.join("\n");
        assert!(notes.contains(&format!("this command runs a {kind} test")), "{notes}");
    }
    let stress = parse(FIXTURE, TestKind::Stress, &directory_options()).unwrap().options;
    let stress = directory_options().over(stress).resolve_for(TestKind::Stress).unwrap();
    assert_eq!(
        (stress.thresholds.maximum_database_read_ms, stress.duration.to_string()),
        (200.0, "2h".into())
    );
    assert!(mistakes(&text, &directory_options()).contains("is not a performance test"));
}

#[test]
fn background_maintenance_is_a_switch_and_a_pause() {
    let text = FIXTURE
        .replace("<RunDatabaseMaintenancePerformance>true", "<RunDatabaseMaintenancePerformance>false")
        .replace("<DBMThrottling>100", "<DBMThrottling>20");
    let options = read(&text).options;
    assert_eq!((options.scan, options.scan_pause), (Some(false), Some(TimeSpan(Duration::from_millis(20)))));
}

#[test]
fn windows_paths_are_refused_and_linux_paths_accepted() {
    let text = mistakes(FIXTURE, &Options::default());
    assert_eq!(
        text,
        "line 67: C:\\DB\\DB1 is a Windows path; specify directories for the 4 databases with --dir (and --log-dir)"
    );
    let linux = FIXTURE.replace("C:\\DB\\", "/db/").replace("<LogPath>/db/", "<LogPath>/logs/");
    let options = parse(&linux, TestKind::Performance, &Options::default()).unwrap().options;
    assert_eq!(options.dirs[3], PathBuf::from("/db/DB4"));
    assert_eq!(options.log_dirs[0], PathBuf::from("/logs/DB1"));
}

#[test]
fn long_runs_and_stress_runs_use_the_lenient_thresholds() {
    let maximum = |text: &str| profile(text).thresholds.maximum_log_write_ms;
    assert_eq!(maximum(FIXTURE), 100.0);
    assert_eq!(maximum(&changed("DT2H0M0S", "DT6H0M1S")), 200.0);
    assert_eq!(maximum(&changed("<Type>Performance", "<Type>Stress")), 200.0);
    let longer = Options { duration: Some("1d".parse().unwrap()), ..directory_options() };
    let options = parse(FIXTURE, TestKind::Performance, &longer).unwrap().options;
    assert_eq!(options.thresholds.maximum_database_read_ms, Some(200.0));
}

#[test]
fn capacity_sizing_is_a_share_of_the_volume() {
    let text = changed("Sizing>Profile<", "Sizing>Capacity<")
        .replace("CapacityPercentage>100", "CapacityPercentage>80");
    let profile = profile(&text);
    assert_eq!((profile.size, profile.target_iops), (DatabaseSize::VolumePercent(80), None));
}

#[test]
fn other_tests_and_invalid_values_are_refused_with_the_line() {
    for (from, to, expected) in [
        (
            "<Type>Performance",
            "<Type>SoftRecovery",
            "line 6: Type SoftRecovery is not a performance test; this command runs only performance tests",
        ),
        ("<Type>Performance", "<Type>Perf", "line 6: unknown Type 'Perf'; use Performance or Stress"),
        ("P0Y0M0DT2H0M0S", "2h", "line 9: could not parse Duration '2h'; try a value such as PT2H0M0S"),
        (
            "<ThreadCount>6",
            "<ThreadCount>six",
            "line 53: ThreadCount 'six' is not a number in its valid range",
        ),
        ("<ThreadCount>6", "<ThreadCount>-6", "line 53: ThreadCount '-6' is not a number in its valid range"),
        ("Source>Open", "Source>Restore", "line 56: unknown DatabaseSource 'Restore'; use New or Open"),
        (
            "DeleteOps=\"20\"",
            "DeleteOps=\"70\"",
            "line 23: OperationMix: the shares add up to 115 percent; the maximum is 100",
        ),
        ("DeleteOps=\"20\"", "", "line 23: OperationMix is missing DeleteOps"),
        (
            "<VerifyChecksum>true",
            "<VerifyChecksum>yes",
            "line 11: VerifyChecksum 'yes' is neither true nor false",
        ),
        (
            "<CircularLog>1</CircularLog>",
            "<CircularLog>1</CircularLog><CircularLog>0</CircularLog>",
            "line 100: CircularLog is specified twice",
        ),
    ] {
        assert_eq!(mistakes(&changed(from, to), &directory_options()), expected);
    }
}

#[test]
fn unknown_elements_are_listed_up_to_a_limit() {
    let unknown: String = (0..1000).map(|n| format!("<Unknown{n}>1</Unknown{n}>")).collect();
    let notes = read(&changed("<CircularLog>1", &format!("{unknown}<CircularLog>1"))).notes;
    assert!(notes.iter().any(|note| note.contains("ignored   Unknown0 1") && note.ends_with("not known")));
    assert!(notes.iter().any(|note| note.contains("980 more")));
    assert!(notes.len() < 100);
}

#[test]
fn hostile_xml_is_refused() {
    let bomb = "<?xml version=\"1.0\"?><!DOCTYPE c [<!ENTITY a \"x\"><!ENTITY b \"&a;&a;&a;&a;\">]><configuration>&b;</configuration>";
    let external =
        "<!DOCTYPE c [<!ENTITY a SYSTEM \"file:///etc/passwd\">]><configuration>&a;</configuration>";
    let deep = format!("<configuration>{}", "<a>".repeat(300_000));
    let balanced =
        format!("<configuration>{}{}</configuration>", "<a>".repeat(40_000), "</a>".repeat(40_000));
    let wide = format!("<configuration>{}</configuration>", "<a/>".repeat(200_000));
    let attributes: String = (0..50_000).map(|n| format!(" a{n}='1'")).collect();
    let attributes = format!("<configuration{attributes}/>");
    let cut = &FIXTURE[..2000];
    for text in [
        bomb,
        external,
        &deep,
        &balanced,
        &wide,
        &attributes,
        cut,
        "<",
        "<a>",
        "<configuration/>",
        "<!-- -->",
        "<\u{1b}[2J>",
    ] {
        let text = mistakes(text, &directory_options());
        assert!(text.starts_with("line ") && text.contains("JetstressConfig.xml"), "{text}");
        assert_eq!(text.lines().count(), 1);
    }
}

#[test]
fn changing_any_byte_does_not_panic() {
    for (number, _) in FIXTURE.char_indices().step_by(7) {
        let mut broken = FIXTURE.to_string();
        broken.replace_range(number..=number, if number % 2 == 0 { "9" } else { "<" });
        if let Ok(configuration) = parse(&broken, TestKind::Performance, &directory_options()) {
            let _ = directory_options().over(configuration.options).resolve();
        }
    }
    let huge = changed("<MailboxCount>2250", "<MailboxCount>18446744073709551615");
    let mistakes =
        directory_options().over(Options { open: Some(false), ..read(&huge).options }).resolve().unwrap_err();
    assert!(mistakes[0].to_string().contains("exceeds the maximum size of a database"), "{}", mistakes[0]);
}
