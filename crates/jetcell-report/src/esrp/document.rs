//! The sections of the document in order, independent of the output format.

use jetcell_workload::{TestKind, Verdict};

use crate::chart::Chart;
use crate::esrp::Submission;
use crate::esrp::aggregate::of_kind;
use crate::esrp::check::Outcome;
use crate::esrp::tested_server::{Checksums, ServerTest};
use crate::esrp::{results, solution_tables};
use crate::table::{Cell, Column, Table};

/// An ESRP document.
pub(crate) struct Document {
    pub(crate) title: String,
    /// Vendor, authors, and date.
    pub(crate) byline: Vec<String>,
    pub(crate) blocks: Vec<Block>,
    tables: usize,
}

/// A part of a document.
pub(crate) enum Block {
    /// Section with its number, such as `5` or `A`.
    Section(String, String),
    /// Subsection with its number, such as `5.1`.
    Part(String, String),
    /// Text of the vendor.
    Prose(String),
    /// Text that this program generates.
    Sentence(String),
    Table(Table),
    Charts(Vec<Chart>),
}

const ABOUT: &str = "ESRP-Storage gives vendors a common way to test storage for mail servers and to publish the results. It is \
    neither a certification nor a benchmark.";
const DISCLAIMER: &str = "The vendor made this document and ran its tests. The tests do not look for the highest throughput of the \
    storage, and the results of different solutions are not for comparison. Test your own design before you deploy it.";
const WHAT_IT_MEASURES: &str = "Rates are sums over all databases. Latencies are means of the databases; beside them stands the mean \
    of all transfers where it differs. The rows are from the table of total I/O, which has background maintenance.";

const CHECKS: &str = "A statement holds if the results, or the parts that it is made of, give the same value with as many decimals. \
    Statements without evidence may be true, but nothing in the results shows it.";

/// Builds the document.
pub(crate) fn of(submission: &Submission) -> Document {
    let configuration = &submission.configuration;
    let byline =
        [configuration.vendor.clone(), Some(configuration.authors.join(", ")), configuration.date.clone()];
    let mut document = Document {
        title: configuration.title.clone(),
        byline: byline.into_iter().flatten().filter(|line| !line.is_empty()).collect(),
        blocks: Vec::new(),
        tables: 0,
    };
    document.introduction(submission);
    document.solution(submission);
    document.results(submission);
    document.end(submission);
    document.appendices(submission);
    document.checks(submission);
    document
}

impl Document {
    fn section(&mut self, number: &str, title: &str) {
        self.blocks.push(Block::Section(number.into(), title.into()));
    }

    fn part(&mut self, number: String, title: impl Into<String>) {
        self.blocks.push(Block::Part(number, title.into()));
    }

    fn sentence(&mut self, text: impl Into<String>) {
        self.blocks.push(Block::Sentence(text.into()));
    }

    fn prose(&mut self, text: Option<&String>) {
        match text {
            Some(text) => self.blocks.push(Block::Prose(text.clone())),
            None => self.sentence("The vendor supplied no text."),
        }
    }

    /// Adds a table with the next table number.
    fn table(&mut self, table: Table) {
        self.tables += 1;
        let title = format!("Table {}. {}", self.tables, table.title);
        self.blocks.push(Block::Table(Table { title, ..table }));
    }

    fn introduction(&mut self, submission: &Submission) {
        let text = &submission.configuration.text;
        self.section("1", "Executive summary");
        self.prose(text.executive_summary.as_ref());
        self.sentence(ABOUT);
        self.sentence(submission.outcome());
        self.sentence(submission.consistency());
        self.section("2", "Solution");
        self.prose(text.solution.as_ref());
        if let Some(profile) = &text.customer_profile {
            self.part("2.1".into(), "Customer profile");
            self.prose(Some(profile));
        }
    }

    fn solution(&mut self, submission: &Submission) {
        let text = &submission.configuration.text;
        self.section("3", "Tested deployment");
        for table in solution_tables::all(&submission.configuration, &submission.servers) {
            self.table(table);
        }
        self.section("4", "Best practices");
        self.prose(text.best_practices.as_ref());
        if let Some(strategy) = &text.backup_strategy {
            self.part("4.1".into(), "Backup strategy");
            self.prose(Some(strategy));
        }
    }

    fn results(&mut self, submission: &Submission) {
        let servers = &submission.servers;
        self.section("5", "Test results summary");
        self.table(verdicts(submission));
        self.part("5.1".into(), "Reliability");
        self.table(reliability(submission));
        self.part("5.2".into(), "Storage performance");
        let performance = of_kind(servers, TestKind::Performance);
        if performance.is_empty() {
            self.sentence("No performance test is given.");
        } else {
            self.sentence(WHAT_IT_MEASURES);
        }
        for test in &performance {
            self.table(results::performance(&format!("Performance of {}", test.server), &[test]));
        }
        if performance.len() > 1 {
            self.table(results::performance("Performance of all servers together", &performance));
        }
        self.part("5.3".into(), "Database backup");
        self.table(results::backup(&of_kind(servers, TestKind::Backup)));
        self.part("5.4".into(), "Log recovery and replay");
        self.table(results::replay(&of_kind(servers, TestKind::Recovery)));
    }

    fn end(&mut self, submission: &Submission) {
        let text = &submission.configuration.text;
        self.section("6", "Conclusion");
        self.prose(text.conclusion.as_ref());
        self.sentence(DISCLAIMER);
        self.section("7", "Additional resources");
        self.prose(text.additional_resources.as_ref());
        if let Some(contacts) = &text.contacts {
            self.part("7.1".into(), "Contacts");
            self.prose(Some(contacts));
        }
    }

    /// Adds the full reports, one section per test.
    fn appendices(&mut self, submission: &Submission) {
        for (kind, letter) in TestKind::ALL.into_iter().zip('A'..) {
            self.section(&letter.to_string(), &format!("Full reports of the {kind} tests"));
            let tests = of_kind(&submission.servers, kind);
            if tests.is_empty() {
                self.sentence(format!("No {kind} test is given."));
            }
            for (test, number) in tests.into_iter().zip(1..) {
                self.part(format!("{letter}.{number}"), test.server.clone());
                if !test.charts.is_empty() {
                    self.blocks.push(Block::Charts(test.charts.clone()));
                }
                for table in &test.tables {
                    self.table(table.clone());
                }
            }
        }
    }

    /// Adds the results of all checks, for the author and for readers.
    fn checks(&mut self, submission: &Submission) {
        self.section("E", "Checks of this document");
        self.sentence(CHECKS);
        let row = |check: &crate::esrp::check::Check| {
            let tone = match check.outcome {
                Outcome::Holds => Cell::judged(check.outcome.word(), true),
                Outcome::Remark => check.outcome.word().into(),
                _ => Cell::judged(check.outcome.word(), false),
            };
            vec![check.place.as_str().into(), check.stated.as_str().into(), check.found.as_str().into(), tone]
        };
        let columns = ["Place", "Stated", "Found", "Outcome"];
        let (open, holds): (Vec<_>, Vec<_>) =
            submission.checks.all.iter().partition(|check| check.outcome != Outcome::Holds);
        if !open.is_empty() {
            self.table(Table::words("Inconsistencies and remarks", &columns).rows(open.into_iter().map(row)));
        }
        if !holds.is_empty() {
            self.table(Table::words("Statements that hold", &columns).rows(holds.into_iter().map(row)));
        }
    }
}

/// Returns a table of every test of every server.
fn verdicts(submission: &Submission) -> Table {
    let column = |name: &str, number| Column { name: name.into(), number };
    let columns = vec![
        column("Server", false),
        column("Test", false),
        column("Result", false),
        column("Start of measurement", false),
        column("Measured", true),
    ];
    let rows = submission.tests().map(|test| {
        let measured = test.measured_seconds.or(test.window.map(|window| window.seconds()));
        vec![
            test.server.as_str().into(),
            test.kind.name().into(),
            verdict(test),
            test.window
                .map_or("not given".into(), |window| window.start.format("%Y-%m-%d %H:%M:%S").to_string())
                .into(),
            measured.map_or("not given".into(), crate::number::span).into(),
        ]
    });
    Table { columns, ..Table::words("Tests", &[]) }.rows(rows)
}

fn verdict(test: &ServerTest) -> Cell {
    match test.verdict {
        Some(Verdict::Pass) => Cell::judged("Pass", true),
        Some(Verdict::Fail) => Cell { remark: test.reason.clone(), ..Cell::judged("Fail", false) },
        Some(Verdict::Incomplete) => {
            Cell { remark: test.reason.clone(), ..Cell::judged("Incomplete", false) }
        }
        None => "no verdict in the report".into(),
    }
}

/// Returns a table of the reliability statements, to the extent that there is evidence for them.
fn reliability(submission: &Submission) -> Table {
    let list = |tests: Vec<String>| if tests.is_empty() { "none".into() } else { tests.join(", ") };
    let named = |is: &dyn Fn(&ServerTest) -> bool| -> Vec<String> {
        submission.tests().filter(|test| is(test)).map(ServerTest::title).collect()
    };
    let row = |statement: &str, good: Vec<String>, bad: Vec<String>, unknown: Vec<String>| -> Vec<Cell> {
        let bad = if bad.is_empty() { "none".into() } else { Cell::judged(bad.join(", "), false) };
        vec![statement.into(), list(good).into(), bad, list(unknown).into()]
    };
    let load = |test: &ServerTest| matches!(test.kind, TestKind::Performance | TestKind::Stress);
    let clean = |test: &ServerTest| matches!(test.checksums, Checksums::Verified { bad: 0, .. });
    let verified = |test: &ServerTest| test.checksums != Checksums::NotRun;
    Table::words("Reliability", &["Statement", "Holds for", "Does not hold for", "No evidence for"])
        .row(row(
            "No transfer failed",
            named(&|test| test.io_errors == Some(0)),
            named(&|test| test.io_errors.is_some_and(|errors| errors > 0)),
            named(&|test| test.io_errors.is_none()),
        ))
        .row(row(
            "Checksums of databases and logs are right after the load",
            named(&|test| load(test) && clean(test)),
            named(&|test| load(test) && verified(test) && !clean(test)),
            named(&|test| load(test) && !verified(test)),
        ))
        .row(row(
            "The test met its limits",
            named(&|test| test.verdict == Some(Verdict::Pass)),
            named(&|test| test.verdict.is_some_and(|verdict| verdict != Verdict::Pass)),
            named(&|test| test.verdict.is_none()),
        ))
}
