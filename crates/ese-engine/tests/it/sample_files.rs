//! Tests of the sample files of `testkit` that the engine writes: the same work produces the same bytes in databases
//! of each page size and in a log.

use std::path::Path;

use ese_check::{CheckOptions, check_database};
use ese_format::PageSize;
use jetcell_vfs::{SimVfs, Vfs};
use testkit::{golden, samples};

use super::golden::{DB, InstanceSetup, SETUP, TracedInstance};

#[test]
fn the_engine_writes_the_bytes_of_the_sample_files() {
    // Records grow with the page, so large pages have fewer of them.
    for ((name, size), changes) in samples::ENGINE_DATABASES.into_iter().zip([100, 60, 40, 30]) {
        let mut work = TracedInstance::new(InstanceSetup { size, log_bytes: 512 << 10, ..SETUP });
        work.change(changes, 80, 20);
        work.steps(3);
        work.instance.shutdown().unwrap();
        let content = |path: &str| work.traced.disk().contents(Path::new(path)).unwrap();
        golden::compare_bytes(&samples::path_of(name), &content(DB));
        if size == PageSize::KIB_4 {
            golden::compare_bytes(&samples::path_of(samples::ENGINE_LOG), &content("/log/E00.log"));
        }
    }
}

#[test]
fn the_checker_accepts_the_sample_files() {
    for (name, _) in samples::ENGINE_DATABASES {
        let disk = SimVfs::new();
        disk.create_directory(Path::new("/db")).unwrap();
        disk.put(Path::new(DB), &samples::read(name));
        let options = CheckOptions { structure: true, ..CheckOptions::default() };
        let report = check_database(&disk, Path::new(DB), &options).unwrap();
        assert!(report.is_sound(), "{name}: {:#?}", report.errors().collect::<Vec<_>>());
    }
}
