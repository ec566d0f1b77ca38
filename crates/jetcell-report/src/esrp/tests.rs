//! Tests with the published submission for the servers JS13 and JS14. The tests reproduce its summary to the last digit
//! and find all its errors.

use std::fs;

use super::*;
use crate::example::{result, samples};
use jetcell_workload::TestKind;
use jetcell_workload::measurement::SampleFile;
use jetcell_workload::result::{RunResult, TestPart};

const PAPER: &str = include_str!("../../testdata/esrp-sc4020.toml");

fn testdata(name: &str) -> String {
    format!("{}/testdata/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn configuration(text: &str) -> SubmissionConfiguration {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), text).unwrap();
    SubmissionConfiguration::read(file.path()).unwrap()
}

fn published() -> EsrpSubmission {
    let read = |name: &str| ResultSource::read(testdata(name).as_ref()).unwrap();
    EsrpSubmission::new(configuration(PAPER), vec![read("esrp-js14.json"), read("esrp-js13.json")]).unwrap()
}

/// Stores a run performed on this machine.
fn stored(result: &RunResult) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    result.write(&dir.path().join("result.json")).unwrap();
    let mut file = SampleFile::create(&dir.path().join("samples.csv")).unwrap();
    samples(3).iter().for_each(|sample| file.add(sample).unwrap());
    dir
}

fn of_runs(text: &str, runs: &[&RunResult]) -> Result<EsrpSubmission, ConfigurationError> {
    let dirs: Vec<_> = runs.iter().map(|run| stored(run)).collect();
    let sources = dirs.iter().map(|dir| ResultSource::read(dir.path()).unwrap()).collect();
    EsrpSubmission::new(configuration(text), sources)
}

fn passed() -> RunResult {
    RunResult { verdict: Verdict::Pass, ..result() }
}

#[test]
fn the_published_summary_is_reproduced_to_the_digit() {
    let text = published().markdown();
    let block = |title: &str| {
        let from = text.find(title).unwrap_or_else(|| panic!("{title} is missing"));
        text[from..].split("\n####").next().unwrap().to_string()
    };
    let check_rows = |title: &str, rows: &[(&str, &str)]| {
        let block = block(title);
        for (name, value) in rows {
            let row = block.lines().find(|line| line.starts_with(&format!("| {name} |")));
            let row = row.unwrap_or_else(|| panic!("{name} is missing in {block}"));
            let cell = row.split('|').nth(2).unwrap().trim();
            assert_eq!(cell.split(' ').next().unwrap(), *value, "{title}: {name}");
        }
    };
    let names = [
        "Database Disks Transfers/sec",
        "Database Disks Reads/sec",
        "Database Disks Writes/sec",
        "Average Database Disk Read Latency (ms)",
        "Average Database Disk Write Latency (ms)",
        "Log Disks Writes/sec",
        "Average Log Disk Write Latency (ms)",
        "Achieved Transactional I/O per Second",
    ];
    for (title, values) in [
        (
            "Performance of JS13",
            ["320.837", "218.092", "102.745", "17.662", "2.076", "25.524", "1.293", "285.979"],
        ),
        (
            "Performance of JS14",
            ["295.541", "202.696", "92.845", "15.614", "1.969", "23.101", "1.338", "259.878"],
        ),
        // The paper announces these results but does not contain them.
        (
            "Performance of all servers together",
            ["616.378", "420.788", "195.590", "16.638", "2.022", "48.625", "1.315", "545.857"],
        ),
    ] {
        check_rows(title, &names.into_iter().zip(values).collect::<Vec<_>>());
    }
    let rates = block("Database read-only performance");
    for row in ["| JS13 | 82.16 | 328.65 |", "| JS14 | 85.20 | 340.80 |", "| Mean of all | 83.68 | 334.73 |"]
    {
        assert!(rates.contains(row), "{rates}");
    }
    assert!(rates.contains("669.45 MB/sec in total"), "{rates}");
    let replay = block("Transaction log recovery and replay");
    for row in [
        "| JS13 | 2,017 | 5,868.989 | 2.910 |",
        "| JS14 | 2,013 | 5,619.467 | 2.792 |",
        "| 11,488.456 | 2.851 |",
    ] {
        assert!(replay.contains(row), "{replay}");
    }
}

#[test]
fn the_errors_of_the_published_paper_are_listed() {
    let findings = published().findings();
    // The known errors of the paper, in order.
    for (number, words) in [
        (1, &["contradicted", "play one Log file", "found 2.851", "2.91 is the figure of JS13 alone"][..]),
        (
            2,
            &[
                "missing",
                "all servers",
                "616.378 transfers/s, 545.857",
                "48.625",
                "16.638 ms",
                "2.022 ms",
                "1.315 ms",
            ],
        ),
        (3, &["Test log of the performance test of JS13", "the lines repeat the latency of log writes"]),
        (3, &["Test log of the stress test of JS14", "the lines repeat the latency of log writes"]),
        (4, &["performance test of JS13, average bytes of log reads", "samples without reads as zero"]),
        (4, &["performance test of JS14, average bytes of log reads", "samples without reads as zero"]),
        (4, &["stress test of JS13, average bytes of log reads", "samples without reads as zero"]),
        (4, &["stress test of JS14, average bytes of log reads", "samples without reads as zero"]),
        (4, &["recovery test of JS13, average bytes of log reads", "samples without reads as zero"]),
        (4, &["recovery test of JS14, average bytes of log reads", "samples without reads as zero"]),
        (5, &["Table 4, Total formatted capacity", "20.92 TB", "in other units"]),
        (5, &["Table 4, Storage capacity utilization", "75", "found 28.7"]),
        (5, &["Table 4, Database capacity utilization", "25", "found 18"]),
        (5, &["Table 1, % storage capacity used", "74", "found 62.6"]),
        (5, &["Table 1, Total database size", "5.6 TB", "found 3.43 TiB", "the size of the volumes"]),
        (5, &["Table 4, Total raw storage capacity", "21.43 TB", "found 21.42 TB"]),
        (6, &["Table 1, Number of active mailboxes/server", "1125", "found 2250", "normal operation"]),
        (6, &["Table 1, Number of mailboxes/database", "281 to 282", "found 562.5"]),
        (6, &["Table 2, Storage connectivity", "SAS", "Fiber Channel"]),
        (6, &["Table 2, Maximum bandwidth to host", "32", "found 16"]),
        (7, &["performance test of JS13, description", "6 threads/db", "for all 4 databases"]),
        (8, &["no evidence", "checksums of databases and logs", "no checksum phase", "stress test of JS14"]),
        (9, &["MB read/sec total per server", "334.72", "found 334.725", "the rounded 83.68 × 4"]),
        (10, &["backup test of JS13, database sizes", "31.89 MB more"]),
        (10, &["backup test of JS14, database sizes", "31.89 MB more"]),
    ] {
        let found = findings.iter().any(|line| words.iter().all(|word| line.contains(word)));
        assert!(found, "entry {number} of the register, {words:?}, is not in {findings:#?}");
    }
    let inconsistencies = findings.iter().filter(|line| !line.starts_with("remark: ")).count();
    assert_eq!(inconsistencies, 30, "{findings:#?}");
    assert!(findings.contains(
        &"remark: performance test of JS14, achieved transactional I/O per second: 259.878; found -3.75 % of the target \
          of 270; Jetstress's rule tolerates 5 % less"
            .into()
    ));
}

#[test]
fn sequential_server_runs_are_detected() {
    let file = |name: &str| fs::read_to_string(testdata(name)).unwrap();
    let late = file("esrp-js14.json").replace("2014-03-03T1", "2014-03-04T1");
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("late.json"), late).unwrap();
    let sources = [testdata("esrp-js13.json"), dir.path().join("late.json").display().to_string()];
    let sources = sources.iter().map(|path| ResultSource::read(path.as_ref()).unwrap()).collect();
    let findings = EsrpSubmission::new(configuration(PAPER), sources).unwrap().findings();
    let gap = "contradicted: performance tests, windows: all servers are under load at the same time; found JS13 ended \
               22:00:33 before JS14 began";
    assert!(findings.iter().any(|line| line == gap), "{findings:#?}");
}

#[test]
fn a_jetcell_run_is_reported_with_verdict_and_missing_data() {
    let submission = of_runs("title = 'T'", &[&result()]).unwrap();
    assert!(!submission.is_passed());
    let findings = submission.findings();
    for line in [
        "contradicted: performance test of cell: the test passes; found Fail: Average database read latency: 25",
        "contradicted: performance test of cell, duration: ESRP requires 2:00:00; found 0:01:00",
        "missing: stress test of cell: ESRP requires all four tests; found no run is given",
        "missing: backup test of cell",
        "missing: recovery test of cell",
        "remark: Table 2: rows without a value; found Storage connectivity",
    ] {
        assert!(findings.iter().any(|finding| finding.starts_with(line)), "{line}: {findings:#?}");
    }
    let page = submission.html();
    for part in
        ["1 of the tests did not pass", "<td class=\"failure\">Fail", "1 GiB", "<svg", "I/O Latency (msec)"]
    {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn correct_figures_pass_and_wrong_figures_fail() {
    let text = |transfers: &str, used: &str| {
        format!(
            "title = 'T'\n[exchange]\nvolume_size = '2GiB'\nstorage_capacity_used_percent = {used}\n\
             [claims.servers.cell]\ndatabase_disk_transfers_per_sec = {transfers}"
        )
    };
    let broken = |text: &str| {
        let submission = of_runs(text, &[&passed()]).unwrap();
        let places = submission.inconsistencies().map(|check| check.location.clone());
        places.filter(|place| place.contains("used by") || place.contains("Transfers")).collect::<Vec<_>>()
    };
    // Used space is 1,032 MiB of 2 GiB, and the rate is 100.5 reads plus 100.5 writes.
    assert_eq!(broken(&text("201", "50.4")), [""; 0]);
    assert_eq!(broken(&text("201.0", "50")), [""; 0]);
    assert_eq!(broken(&text("202", "51")).len(), 2);
}

#[test]
fn a_duplicate_server_test_is_refused() {
    let error = of_runs("title = 'T'", &[&result(), &passed()]).unwrap_err();
    let error = jetcell_input::with_advice(&error, error.advice());
    let expected = "are both the performance test of cell; specify only one, or, if two machines have this name, list the \
                    servers under [servers] in the configuration";
    assert!(error.ends_with(expected), "{error}");
}

#[test]
fn servers_with_equal_host_names_are_distinguished_by_directory() {
    let dir = tempfile::tempdir().unwrap();
    for server in ["a", "b"] {
        let run = dir.path().join(server).join("run");
        fs::create_dir_all(&run).unwrap();
        passed().write(&run.join("result.json")).unwrap();
        SampleFile::create(&run.join("samples.csv")).unwrap();
    }
    let read_submission = |servers: &str| {
        let file = dir.path().join("solution.toml");
        fs::write(&file, format!("title = 'T'\n[servers]\n{servers}")).unwrap();
        let sources =
            ["a", "b"].map(|server| ResultSource::read(&dir.path().join(server).join("run")).unwrap());
        EsrpSubmission::new(SubmissionConfiguration::read(&file)?, sources.into())
    };
    let names = |servers: &str| -> Vec<String> {
        read_submission(servers).unwrap().servers.into_iter().map(|server| server.name).collect()
    };
    assert_eq!(names("One = 'a'\n'Server two' = 'b'"), ["One", "Server two"]);
    assert_eq!(names("One = 'a'"), ["One", "cell"]);
    for (servers, expected) in [
        ("", "are both the performance test of cell"),
        ("One = 'a'\nAll = '.'", "is in the directories of both servers \"All\" and \"One\""),
        ("One = 'a'\nThree = 'c'", "the directory c of the server \"Three\" cannot be found"),
        ("One = 'a'\nTwo = 'b'\nThree = 'b/run/samples.csv'", "but its directory"),
    ] {
        let error = read_submission(servers).unwrap_err().to_string();
        assert!(error.contains(expected) && !error.contains('\n'), "{servers}: {error}");
    }
}

#[test]
fn equal_test_names_on_two_machines_are_detected() {
    let mut stress = RunResult { test: TestKind::Stress, ..passed() };
    stress.evidence.machine.memory_bytes += 1 << 30;
    stress.parts = vec![TestPart::default(); 3];
    let found = of_runs("title = 'T'", &[&passed(), &stress]).unwrap().findings();
    assert!(
        found.iter().any(|line| line.starts_with("contradicted: tests of cell: all on the same machine"))
            && found.iter().any(|line| line.ends_with("interruptions: 2")),
        "{found:?}"
    );
}

#[test]
fn vendor_text_is_escaped() {
    let hostile = "title = '<script>alert(1)</script>'\nvendor = '# <b>|x'\n[text]\nsolution = \"\"\"\n<img src=x \
                   onerror=alert(1)>\n\n- a & b\n  more\n- [c](javascript:d)\n\n# no heading\n1. no list\"\"\"\n\
                   [hardware]\nmodel = '\"><script>|'";
    let submission = of_runs(hostile, &[&passed()]).unwrap();
    let page = submission.html();
    assert!(
        !page.contains("<script>alert")
            && !page.contains("<script>|")
            && !page.contains("<img")
            && !page.contains("<b>")
    );
    assert!(page.contains("<ul><li>a &amp; b more</li><li>[c](javascript:d)</li></ul>"), "{page}");
    let text = submission.markdown();
    for line in [
        "# \\<script>alert(1)\\</script>",
        "\\# \\<b>\\|x",
        "- a &amp; b more",
        "- \\[c\\](javascript:d)",
        "\\# no heading 1. no list",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
    let unescaped = text.match_indices('<').filter(|(at, _)| !text[..*at].ends_with('\\'));
    assert_eq!(unescaped.count(), 0, "{text}");
}

#[test]
fn the_same_input_gives_the_same_document_in_any_order() {
    let one = published();
    let read = |name: &str| ResultSource::read(testdata(name).as_ref()).unwrap();
    let other =
        EsrpSubmission::new(configuration(PAPER), vec![read("esrp-js13.json"), read("esrp-js14.json")])
            .unwrap();
    assert_eq!((one.html(), one.markdown()), (other.html(), other.markdown()));
}

#[test]
fn the_page_links_to_its_sections_and_has_no_external_resources() {
    let page = published().html();
    for outside in ["http:", "https:", "<script src", "<link", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    for target in page.split("href=\"#").skip(1) {
        let id = target.split('"').next().unwrap();
        assert!(page.contains(&format!("id=\"{id}\"")), "{id}");
    }
    assert_eq!(page.matches("Table 1. ").count(), 1);
}

#[test]
fn the_example_is_a_configuration_with_every_key() {
    let example = format!("{:?}", configuration(EXAMPLE));
    assert!(!example.contains("None"), "{example}");
    assert!(!example.contains("[]"), "{example}");
}

#[test]
fn configuration_errors_are_one_line() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mistake = |text: &[u8]| {
        fs::write(file.path(), text).unwrap();
        let error = SubmissionConfiguration::read(file.path()).unwrap_err();
        let line = jetcell_input::with_advice(&error, error.advice());
        assert!(line.starts_with("--esrp /") && !line.contains('\n'), "{line}");
        line
    };
    for (text, expected) in [
        ("vendor = 'x'", ", line 1: missing key 'title'"),
        (
            "title = 'x'\n[disks]\ncuont = 3",
            ", line 3: unknown key 'cuont'; the nearest known key is 'count'",
        ),
        ("title = 'x'\n[disks]\ncount = -3", ", line 3: disks.count: expected a number from 0 to 1e15"),
        ("title = 'x'\n[disks]\ncount = nan", ", line 3: disks.count: expected a number from 0 to 1e15"),
        (
            "title = 'x'\n[disks]\nraw_capacity = '1 XB'",
            "'1 XB' does not have a valid unit; try a value such as 256MiB",
        ),
        (
            "title = 'x'\n[exchange]\nmailboxes_per_database = [1]",
            "line 3: exchange.mailboxes_per_database: expected a number, or a list of the minimum",
        ),
        ("title = ", ", line 1: "),
        ("\u{1b}[2J", ", line 1: "),
    ] {
        let line = mistake(text.as_bytes());
        assert!(line.contains(expected), "{text}: {line}");
    }
    mistake(&[0xff; 100]);
    let error = SubmissionConfiguration::read("nowhere.toml".as_ref()).unwrap_err();
    let missing = jetcell_input::with_advice(&error, error.advice());
    assert!(
        missing.starts_with("--esrp nowhere.toml: cannot be read: ")
            && missing.ends_with("prints an example")
    );
}

#[test]
fn a_source_without_a_run_is_refused_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |name: &str, text: &str| {
        fs::write(dir.path().join(name), text).unwrap();
        let line = ResultSource::read(&dir.path().join(name)).unwrap_err().to_string();
        assert!(!line.contains('\n'), "{line}");
        line
    };
    let published = fs::read_to_string(testdata("esrp-js13.json")).unwrap();
    assert!(
        refused("x.json", "{}")
            .contains("neither the result.json file of a run nor a set of published reports")
    );
    assert!(refused("x.json", "[]").contains("neither"));
    assert!(refused("x.json", "").contains("truncated or damaged"));
    assert!(refused("x.json", &published[..published.len() / 2]).contains("truncated or damaged"));
    assert!(
        refused("x.json", &published.replace("\"2014-03-03T13:44:08\"", "\"soon\""))
            .contains("'soon' is not a valid time")
    );
    let other = refused("result.json", "{\"schema_version\": 2, \"test\": \"fill\"}");
    assert!(other.contains("a run of the test \"fill\", which an ESRP document does not include"), "{other}");
    let nowhere = ResultSource::read("nowhere".as_ref()).unwrap_err().to_string();
    assert!(nowhere.starts_with("nowhere: failed to read the stored run"), "{nowhere}");
}

#[test]
fn extreme_figures_do_not_panic() {
    let mut extreme = passed();
    extreme.phases[0].seconds = f64::MAX;
    extreme.final_database_bytes = u64::MAX;
    extreme.database_files = 0;
    extreme.instances[0].database_reads_per_second = f64::MAX;
    let zeros = "title = ''\n[exchange]\nmailboxes = 0\nactive_mailboxes_per_server = 0\nmailboxes_per_database = 0\n\
                 iops_per_mailbox = 0\ntested_iops_per_mailbox = 0\nheadroom_percent = 0\nvolume_size = '0B'\n\
                 total_database_size = '0B'\nstorage_capacity_used_percent = 0\n[disks]\ncount = 0\n\
                 raw_capacity = '0B'\ntotal_raw_capacity = '0B'\nformatted_capacity = '0B'\nraid_level = '5'\n\
                 storage_capacity_utilization_percent = 1e15";
    let submission = of_runs(zeros, &[&extreme]).unwrap();
    assert!(submission.html().contains("Table 4") && submission.markdown().contains("Table 4"));
}
