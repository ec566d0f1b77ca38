//! Tests that every database in the corpus is sound and that its contents match the manifest.

use ese_check::{CheckOptions, Severity, check_database};
use testkit::corpus::Corpus;

use crate::memory::MemoryDirectory;

#[test]
fn real_databases_are_sound() {
    let Some(corpus) = Corpus::locate() else { return };
    let mut problems = Vec::new();
    for file in corpus.databases() {
        let memory = MemoryDirectory::new(corpus.read(&file.name));
        let report = check_database(&memory, &memory.path, &CheckOptions::default()).unwrap();
        problems.extend(report.errors().map(|finding| format!("{}: {finding}", file.name)));
        let pages = report.pages.unwrap();
        assert_eq!(
            (pages.bad, pages.wrong_page, pages.repairable, pages.unreadable),
            (0, 0, 0, 0),
            "{}",
            file.name
        );
        assert_eq!(Some(report.last_owned_page), file.last_owned_page, "{}", file.name);
        for finding in report.findings.iter().filter(|finding| finding.severity == Severity::Warning) {
            println!("{}: {finding}", file.name);
        }
        let structure = report.structure.unwrap();
        assert_eq!(structure.tables.len(), file.tables.len(), "{}", file.name);
        for table in &structure.tables {
            let known = &file.tables[&table.name];
            let place = format!("{}: {}", file.name, table.name);
            assert_eq!((table.rows, table.deleted_nodes), (known.rows, known.deleted_nodes), "{place}");
            assert_eq!(table.indexes, known.secondary_index_entries, "{place}");
        }
    }
    assert!(problems.is_empty(), "{}\n{}", problems.len(), problems.join("\n"));
}
