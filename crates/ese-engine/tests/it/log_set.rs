//! Logs and databases that do not belong together.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ese_engine::log::LogNames;
use ese_engine::{Error, Instance, Result};
use ese_format::header::DatabaseHeader;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use vfs::{SimVfs, Vfs};

use super::recovered::{DATABASES, Rows, SIZE, create, open, options, rows, work};

/// Opens the instance whose log is in a directory of its own.
fn open_log(disk: &SimVfs, directory: &str, seed: u64) -> Result<Arc<Instance>> {
    disk.create_directory(Path::new(directory)).unwrap();
    let (mut options, _) = options(Arc::new(disk.clone()), 256, 750);
    (options.log_directory, options.system_directory) = (directory.into(), directory.into());
    options.seed = Some(seed);
    Instance::open(options)
}

fn contents(disk: &SimVfs) -> [Option<Vec<u8>>; 2] {
    DATABASES.map(|path| disk.contents(Path::new(path)))
}

fn header(disk: &SimVfs, path: &str) -> DatabaseHeader {
    let bytes = disk.contents(Path::new(path)).unwrap();
    DatabaseHeader::read_from_start(&bytes[..2 * SIZE.bytes()]).unwrap().0
}

#[test]
fn logs_that_are_gone_from_either_end_are_missed() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let disk = SimVfs::new();
    let (instance, cache) = open(&disk, 1024, 750);
    create(&instance);
    let mut models = [Rows::new(), Rows::new()];
    let mut change = |number: usize, count: usize| {
        let db = instance.attach(Path::new(DATABASES[number]), 32).unwrap();
        let mut session = instance.session();
        work(&mut session, &db, &mut models[number], &mut rng, count);
        session.rollback().unwrap();
    };
    (0..2).for_each(|number| change(number, 300));
    instance.step().unwrap();
    instance.core().databases().iter().for_each(|db| cache.flush_file(db.file_id).unwrap());
    let checkpoint = instance.checkpoint().unwrap();
    // What only the generation of the checkpoint has is of the first database.
    change(0, 20);
    instance.core().log().roll().unwrap();
    change(1, 20);
    instance.core().log().roll().unwrap();
    change(1, 20);
    // Pages with changes of the last generation are in the file.
    instance.core().databases().iter().for_each(|db| cache.flush_file(db.file_id).unwrap());
    change(1, 20);
    instance.flush().unwrap();
    let disk = disk.process_kill();
    let names = LogNames::new(Path::new("/log"), "E00");
    assert!(
        checkpoint.generation.0 > 1 && header(&disk, DATABASES[1]).gen_max_required > checkpoint.generation
    );

    let oldest = disk.list(Path::new("/log")).unwrap().into_iter();
    let oldest =
        oldest.filter(|path| names.generation_of(path).is_some_and(|one| one <= checkpoint.generation));
    for gone in [oldest.collect::<Vec<PathBuf>>(), vec![names.current()]] {
        let disk = disk.clone_disk();
        let (before, logs) = (contents(&disk), gone.iter().map(|path| disk.contents(path).unwrap()));
        let logs: Vec<_> = logs.collect();
        gone.iter().for_each(|path| disk.remove(path).unwrap());
        let error = open_log(&disk, "/log", 1).map(|_| ()).unwrap_err();
        assert!(matches!(error, Error::LogsMissing { .. }), "{gone:?}: {error}");
        assert!(contents(&disk) == before, "{gone:?}: a database was changed");
        // Nothing is lost until they are back.
        let disk = disk.process_kill();
        gone.iter().zip(&logs).for_each(|(path, bytes)| disk.put(path, bytes));
        let instance = open_log(&disk, "/log", 1).unwrap();
        for (path, model) in DATABASES.iter().zip(&models) {
            assert_eq!(rows(&instance, &instance.attach(Path::new(path), 32).unwrap()), *model);
        }
    }
}
