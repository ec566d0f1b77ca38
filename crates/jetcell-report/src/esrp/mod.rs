//! The document that vendors publish under ESRP-Storage: the tested solution, several servers' results in four tests,
//! and any inconsistencies between them.
//!
//! A [`ResultSource`] brings the results of one run, or a server's published reports, into a common form. An
//! [`EsrpSubmission`] combines them with the author's [`SubmissionConfiguration`], checks every figure that follows
//! from others, and renders the document. The same input always produces the same bytes.

mod aggregate;
mod check;
mod claims;
mod configuration;
mod consistency;
mod document;
mod figure;
mod jetcell_run;
mod page;
mod published_report;
mod results;
mod solution;
mod solution_tables;
mod source;
mod tested_server;
#[cfg(test)]
mod tests;

use std::path::Path;

use jetcell_workload::{ConfigurationError, Verdict};

use aggregate::ServerTests;
use check::{ConsistencyCheck, ConsistencyChecks, StatementOutcome};
use tested_server::ServerTest;

pub use configuration::{EXAMPLE, SubmissionConfiguration};
pub use source::{ResultSource, SourceError};

/// An ESRP document whose figures have been checked.
#[derive(Debug)]
pub struct EsrpSubmission {
    configuration: SubmissionConfiguration,
    /// Servers, sorted by name, which makes them independent of the order of the sources.
    servers: Vec<ServerTests>,
    checks: ConsistencyChecks,
}

impl EsrpSubmission {
    /// Combines the sources and checks them. Each server has at most one test of each kind.
    pub fn new(
        configuration: SubmissionConfiguration,
        sources: Vec<ResultSource>,
    ) -> Result<EsrpSubmission, ConfigurationError> {
        let mut servers: Vec<ServerTests> = Vec::new();
        let mut claims = configuration.claims.clone();
        for source in sources {
            let name = name_of_server(&configuration, &source.path)?;
            claims = claims.or(source.claims);
            for test in source.tests {
                let server = name.clone().unwrap_or(test.server);
                add(&mut servers, ServerTest { server, ..test })?;
            }
        }
        if let Some(name) =
            configuration.servers.keys().find(|name| !servers.iter().any(|one| one.name == **name))
        {
            return Err(ConfigurationError::new(format!(
                "[servers] names the server {name:?}, but its directory {} does not contain a run",
                configuration.servers[name].display()
            )));
        }
        servers.sort_by(|one, other| one.name.cmp(&other.name));
        servers.iter_mut().for_each(|server| server.tests.sort_by_key(|test| test.kind));
        let mut checks = ConsistencyChecks::default();
        solution::check(&configuration, &servers, &mut checks);
        for (number, table) in (1..).zip(solution_tables::all(&configuration, &servers)) {
            let rows = solution_tables::not_stated(&table);
            if !rows.is_empty() {
                checks.add(
                    StatementOutcome::Remark,
                    format!("Table {number}"),
                    "rows without a value",
                    rows.join(", "),
                );
            }
        }
        claims::check(&claims, &servers, &mut checks);
        consistency::check(&servers, &mut checks);
        Ok(EsrpSubmission { configuration, servers, checks })
    }

    /// Renders a self-contained page for screen and print.
    pub fn html(&self) -> String {
        page::html(&document::build(self))
    }

    /// Renders GitHub-flavored Markdown without charts.
    pub fn markdown(&self) -> String {
        page::markdown(&document::build(self))
    }

    /// Returns one line per inconsistency, followed by one line per remark.
    pub fn findings(&self) -> Vec<String> {
        let line = |check: &ConsistencyCheck| {
            format!("{}: {}: {}; found {}", check.outcome.label(), check.location, check.stated, check.found)
        };
        let remarks = self.checks.all.iter().filter(|check| check.outcome == StatementOutcome::Remark);
        self.inconsistencies().chain(remarks).map(line).collect()
    }

    /// Returns true if every test with a verdict passed and there are no inconsistencies.
    pub fn is_passed(&self) -> bool {
        self.inconsistencies().next().is_none() && self.failed_count() == 0
    }

    fn inconsistencies(&self) -> impl Iterator<Item = &ConsistencyCheck> {
        self.checks.all.iter().filter(|check| check.outcome.is_inconsistency())
    }

    fn tests(&self) -> impl Iterator<Item = &ServerTest> {
        self.servers.iter().flat_map(|server| &server.tests)
    }

    fn failed_count(&self) -> usize {
        self.tests().filter(|test| test.verdict.is_some_and(|verdict| verdict != Verdict::Pass)).count()
    }

    /// Summarizes the outcome in one sentence.
    fn outcome(&self) -> String {
        let (tests, servers) = (self.tests().count(), self.servers.len());
        match self.failed_count() {
            0 => format!("This document reports {tests} tests of {servers} servers. No test failed."),
            failed => format!(
                "This document reports {tests} tests of {servers} servers. {failed} of the tests did not pass."
            ),
        }
    }

    /// Summarizes the consistency checks in one sentence.
    fn consistency(&self) -> String {
        let all = self.checks.all.len();
        match self.inconsistencies().count() {
            0 => format!("The program checked {all} statements of this document and found no inconsistency."),
            found => format!(
                "The program checked {all} statements. {found} do not hold, have no evidence or are missing."
            ),
        }
    }
}

/// Returns the server in whose directory a run is located, or `None` if the configuration lists no such directory.
fn name_of_server(
    configuration: &SubmissionConfiguration,
    run: &Path,
) -> Result<Option<String>, ConfigurationError> {
    // The run was read from this path, so the path exists.
    let run = run.canonicalize().unwrap_or_else(|_| run.to_path_buf());
    let mut names = configuration.servers.iter().filter(|(_, directory)| run.starts_with(directory));
    match (names.next(), names.next()) {
        (Some((one, _)), Some((other, _))) => Err(ConfigurationError::new(format!(
            "{} is in the directories of both servers {one:?} and {other:?} under [servers]",
            run.display()
        ))),
        (first, _) => Ok(first.map(|(name, _)| name.clone())),
    }
}

fn add(servers: &mut Vec<ServerTests>, test: ServerTest) -> Result<(), ConfigurationError> {
    if let Some(server) = servers.iter_mut().find(|server| server.name == test.server) {
        if let Some(other) = server.test(test.kind) {
            return Err(ConfigurationError::new(format!(
                "{} and {} are both the {}; specify only one, or, if two machines have this name, list the \
                 servers under [servers] in the configuration",
                other.source,
                test.source,
                test.title()
            )));
        }
        server.tests.push(test);
    } else {
        servers.push(ServerTests { name: test.server.clone(), tests: vec![test] });
    }
    Ok(())
}
