//! Tests of the example configuration, its result, and the worked example in `docs/internals/sizing-model.md`.

use jetcell_sizing::{Config, DiskCatalogue, EXAMPLE, size};

fn sizing() -> jetcell_sizing::SizingResult {
    size(&Config::read("example", EXAMPLE).unwrap(), &DiskCatalogue::built_in()).unwrap()
}

#[test]
fn the_test_configuration_is_valid() {
    let sizing = sizing();
    let file = std::env::temp_dir().join(format!("jetcell-sizing-{}.toml", std::process::id()));
    std::fs::write(&file, &sizing.test_config).unwrap();
    let read = jetcell_workload::profile::TestConfiguration::read(
        &file,
        jetcell_workload::TestKind::Performance,
        &jetcell_workload::Options::default(),
    );
    std::fs::remove_file(&file).unwrap();
    let read = read.unwrap();
    assert!(read.notes.is_empty(), "{:?}", read.notes);
    let profile = read.options.resolve().unwrap();
    let lost = sizing.server.load(jetcell_sizing::states::SystemState::ServerLost);
    let target = lost.database_reads + lost.database_writes;
    assert!((profile.target_iops.unwrap() - target).abs() < 1e-3);
    assert_eq!(profile.margin, 0.0);
    assert_eq!(profile.databases, Some(sizing.server.database_copies_per_server as usize));
    assert_eq!(profile.thresholds.average_database_read_ms, 20.0);
}

#[test]
fn the_worked_example_of_the_documentation_matches_the_output() {
    let docs = include_str!("../../../../docs/internals/sizing-model.md");
    let example = docs.split("```text sizing\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let sheet = sizing().sheet.to_string();
    let printed: Vec<&str> = sheet.lines().map(str::trim).collect();
    for line in example.lines() {
        assert!(printed.contains(&line.trim()), "not printed: {line}");
    }
    assert!(example.lines().count() > 10);
}
