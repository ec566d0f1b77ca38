//! Database headers and power cuts.

use std::path::Path;
use std::sync::Arc;

use ese_engine::cache::{Cache, CacheOptions};
use ese_engine::{CreateOptions, Instance, InstanceOptions, Result};
use ese_format::PageSize;
use vfs::{CrashOptions, SimVfs, Vfs};

const SIZE: PageSize = PageSize::KIB_4;
const DATABASE: &str = "/db/data.edb";

fn open(disk: &SimVfs) -> Result<Arc<Instance>> {
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let cache = Cache::new(CacheOptions::new(64 * SIZE.bytes(), SIZE, vfs.clock()));
    let mut options = InstanceOptions::new(vfs, "/log".into(), cache);
    options.threads = false;
    Instance::open(options)
}

/// The first copy is written first; if a crash has damaged the shadow before, another one then must not leave none.
#[test]
fn a_damaged_shadow_is_mended_before_the_first_copy_is_written() {
    let disk = SimVfs::new();
    disk.create_directory(Path::new("/db")).unwrap();
    disk.create_directory(Path::new("/log")).unwrap();
    let instance = open(&disk).unwrap();
    let create = CreateOptions { initial_pages: 256, extension_pages: 32 };
    instance.create_database(Path::new(DATABASE), &create).unwrap();
    instance.shutdown().unwrap();
    drop(instance);
    let mut bytes = disk.contents(Path::new(DATABASE)).unwrap();
    bytes[SIZE.bytes() + 100..SIZE.bytes() + 600].fill(0);
    disk.put(Path::new(DATABASE), &bytes);

    for cut in 1..40 {
        for seed in 0..8 {
            let torn = disk.process_kill();
            torn.stop_after(torn.operations() + cut);
            if let Ok(instance) = open(&torn) {
                let _ = instance.attach(Path::new(DATABASE), 32);
            }
            let after = torn
                .crash(seed, CrashOptions { tear_write: 0.6, lose_write: 0.2, ..CrashOptions::default() });
            let instance = open(&after).unwrap_or_else(|error| panic!("cut {cut}, seed {seed}: {error}"));
            let attached = instance.attach(Path::new(DATABASE), 32);
            assert!(attached.is_ok(), "cut {cut}, seed {seed}: {:?}", attached.err());
        }
    }
}
