//! Reads restored files with a separate instance.

use std::path::Path;

use ese_check::{CheckOptions, Severity, check_database};
use ese_engine::internals::cache::{Cache, CacheOptions};
use ese_engine::{BackgroundThreads, Error, Instance, InstanceOptions};
use jetcell_backup::{RestoreResult, StoredDatabase};

use super::EngineSimulation;
use super::model::{ModelState, check_indexes, read_all};

/// Checks restored files, opens an instance on them, and returns its content.
pub(super) fn content(
    simulation: &EngineSimulation,
    to: &Path,
    restored: &RestoreResult,
    stored: &[StoredDatabase],
) -> ModelState {
    let fail =
        |what: &str, error: Error| -> ! { panic!("{}: {to:?}: {what}: {error:?}", simulation.context) };
    // The checks must not change the restored files.
    let disk = simulation.disk.process_kill();
    let files = disk.files();
    for path in &restored.databases {
        let report = check_database(&*files, path, &CheckOptions::default());
        let report = report.unwrap_or_else(|error| panic!("{}: {to:?}: check: {error}", simulation.context));
        // If the log ends before the engine removed a deleted node, the node may remain.
        let findings = report.findings.iter().filter(|finding| finding.severity != Severity::Info);
        let findings: Vec<String> = findings.map(ToString::to_string).collect();
        assert!(report.clean && findings.is_empty(), "{}: {to:?}: {findings:#?}", simulation.context);
    }
    let size = simulation.plan.size;
    let cache = Cache::new(CacheOptions::new(64 * size.bytes(), size, files.clock()));
    let mut options = InstanceOptions::with_cache(files, to.to_path_buf(), cache);
    (options.background, options.seed) = (BackgroundThreads::None, Some(7));
    let instance = Instance::open(options).unwrap_or_else(|error| fail("opening", error));
    let mut found = ModelState::new();
    for (path, stored) in restored.databases.iter().zip(stored) {
        let number = simulation.databases.iter().position(|path| *path == stored.source);
        let number = number.unwrap_or_else(|| database_number(path));
        let db = instance.attach(path, 64).unwrap_or_else(|error| fail("attaching", error));
        let mut session = instance.session();
        let state = read_all(number, &db, &mut session).unwrap_or_else(|error| fail("reading", error));
        for ((_, name), table) in &state {
            check_indexes(&db, &mut session, name, table).unwrap_or_else(|error| fail(name, error));
        }
        found.extend(state);
    }
    found
}

/// Returns the number of a restored database, derived from its file name, because the original path may have changed.
pub(super) fn database_number(path: &Path) -> usize {
    usize::from(path.file_name().is_some_and(|name| name.to_string_lossy().contains("-2")))
}
