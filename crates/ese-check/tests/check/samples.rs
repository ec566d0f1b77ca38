//! Sample files of the repository, which are there without the corpus.

use std::path::Path;

use ese_check::{CheckOptions, check_database};
use jetcell_vfs::{SimVfs, Vfs};
use testkit::samples;

#[test]
fn databases_from_an_independent_writer_are_sound() {
    for name in samples::SOUND_DATABASES {
        let disk = SimVfs::new();
        disk.create_directory(Path::new("/d")).unwrap();
        disk.put(Path::new("/d/x.edb"), &samples::read(name));
        let options = CheckOptions { structure: true, ..CheckOptions::default() };
        let report = check_database(&disk, Path::new("/d/x.edb"), &options).unwrap();
        assert!(report.is_sound(), "{name}: {:#?}", report.errors().collect::<Vec<_>>());
    }
}
