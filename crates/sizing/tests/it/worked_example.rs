//! The example configuration, its result, and the worked example in `docs/models.md`.

use sizing::{Catalogue, Config, EXAMPLE, size};

fn sizing() -> sizing::Sizing {
    size(&Config::read("example", EXAMPLE).unwrap(), &Catalogue::built_in()).unwrap()
}

#[test]
fn the_test_configuration_is_one_that_the_test_takes() {
    let sizing = sizing();
    let file = std::env::temp_dir().join(format!("jetcell-sizing-{}.toml", std::process::id()));
    std::fs::write(&file, &sizing.test_config).unwrap();
    let read = workload::profile::Configuration::read(&file, &workload::Options::default());
    std::fs::remove_file(&file).unwrap();
    let read = read.unwrap();
    assert!(read.notes.is_empty(), "{:?}", read.notes);
    let profile = read.options.resolve(1).unwrap();
    let lost = sizing.server.load(sizing::states::State::ServerLost);
    let target = lost.database_reads + lost.database_writes;
    assert!((profile.target_iops.unwrap() - target).abs() < 1e-3);
    assert_eq!(profile.margin, 0.0);
    assert_eq!(profile.databases, Some(sizing.server.database_copies_per_server as usize));
    assert_eq!(profile.thresholds.average_database_read_ms, 20.0);
}
