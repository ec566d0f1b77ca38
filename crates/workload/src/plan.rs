//! The plan: which files a run uses, and whether it can be started at all. Making a plan only looks; nothing on
//! disk changes until [`Plan::prepare`].
//!
//! ```text
//! DIR/Jetstress001001.edb      database of instance 1; instances take the directories in turn
//! LOGDIR/log001/E00*.log       its log stream and checkpoint
//! OUTPUT/result.json, samples.csv, report.html
//! ```

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD};
use serde::{Deserialize, Serialize};

use crate::engine::Engine;
use crate::profile::{Profile, Source, default_cache};
use crate::units::ByteSize;
use crate::volume;

/// The directory used when none is given; the only one that a run creates.
pub const DEFAULT_DIRECTORY: &str = "jetcell-run";

/// Base name of every log stream; each has a directory of its own.
pub const LOG_BASE_NAME: &str = "E00";

/// One database with its log stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstancePlan {
    /// From 1, as in the file names.
    pub number: usize,
    /// The database file.
    pub database: PathBuf,
    /// Directory of logs and checkpoint.
    pub log_dir: PathBuf,
    /// Size to fill it to, or its size now.
    pub initial_bytes: u64,
}

/// Everything decided before the first file is touched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Databases and log streams.
    pub instances: Vec<InstancePlan>,
    /// Page size in bytes.
    pub page_bytes: u32,
    /// Cache limit in bytes, shared by all instances.
    pub cache_bytes: u64,
    /// Tables in each database.
    pub tables: u32,
    /// Whether logs that are no longer needed are removed during the run.
    pub circular_log: bool,
    /// Whether pages are written to a side file first, against torn writes. ESE does not, so neither does the load.
    pub page_protection: bool,
    /// Directory of the results.
    pub output: PathBuf,
    /// Directories to create.
    pub create: Vec<PathBuf>,
    /// Files to remove first.
    pub remove: Vec<PathBuf>,
}

/// Why a run cannot start: one line that says what and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(pub String);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

pub(crate) fn refuse<T>(what: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal(what.into()))
}

impl Plan {
    /// Checks everything that can be checked without changing anything. `stamp` names the default output directory.
    pub fn make(profile: &Profile, engine: &dyn Engine, stamp: &str) -> Result<Plan, Refusal> {
        let mut create = Vec::new();
        for dir in profile.dirs.iter().chain(&profile.log_dirs) {
            volume::check_directory(dir, &mut create)?;
        }
        let output =
            profile.output.clone().unwrap_or_else(|| profile.dirs[0].join(format!("Performance_{stamp}")));
        check_output(&output, profile.source, &mut create)?;

        let mut instances = name_instances(profile)?;
        if profile.source != Source::Open {
            volume::size_databases(profile, &mut instances)?;
        }
        let mut remove = Vec::new();
        let mut page_bytes = profile.page_size.map(|size| size.0 as u32);
        for instance in &mut instances {
            let found = files_of(instance)?;
            match profile.source {
                Source::New => refuse_existing(&found)?,
                Source::Replace => {
                    if !found.is_empty() && engine.in_use(instance) {
                        return refuse(format!(
                            "{} is in use by another process",
                            instance.database.display()
                        ));
                    }
                    remove.extend(found);
                }
                Source::Open => adopt(instance, engine, &mut page_bytes)?,
            }
            if !instance.log_dir.is_dir() {
                create.push(instance.log_dir.clone());
            }
        }
        volume::check_space(profile, &instances, &remove)?;
        let total = instances.iter().map(|instance| instance.initial_bytes).sum();
        Ok(Plan {
            page_bytes: page_bytes.unwrap_or(32768),
            cache_bytes: profile.cache.unwrap_or(default_cache(instances.len(), total)).0,
            tables: profile.records.tables,
            circular_log: profile.circular_log,
            page_protection: false,
            instances,
            output,
            create,
            remove,
        })
    }

    /// Creates the directories and removes the files that are replaced.
    pub fn prepare(&self) -> Result<(), Refusal> {
        for file in &self.remove {
            fs::remove_file(file)
                .or_else(|error| refuse(format!("{}: cannot be removed: {error}", file.display())))?;
        }
        for dir in &self.create {
            fs::create_dir_all(dir)
                .or_else(|error| refuse(format!("{}: cannot be created: {error}", dir.display())))?;
        }
        Ok(())
    }

    /// Bytes in all databases now.
    pub fn initial_bytes(&self) -> u64 {
        self.instances.iter().map(|instance| instance.initial_bytes).sum()
    }
}

/// Names as Jetstress gives them: instance, then database in the instance.
fn name_instances(profile: &Profile) -> Result<Vec<InstancePlan>, Refusal> {
    let instance = |number: usize| InstancePlan {
        number,
        database: profile.dirs[(number - 1) % profile.dirs.len()]
            .join(format!("Jetstress{number:03}001.edb")),
        log_dir: profile.log_dirs[(number - 1) % profile.log_dirs.len()].join(format!("log{number:03}")),
        initial_bytes: 0,
    };
    match profile.databases {
        Some(count) => Ok((1..=count).map(instance).collect()),
        None => {
            let there: Vec<_> =
                (1..=999).map(instance).take_while(|instance| instance.database.exists()).collect();
            if there.is_empty() {
                let first = instance(1).database;
                return refuse(format!(
                    "{} does not exist: without --open (or with --open=false) databases are created",
                    first.display()
                ));
            }
            Ok(there)
        }
    }
}

fn check_output(output: &Path, source: Source, create: &mut Vec<PathBuf>) -> Result<(), Refusal> {
    let shown = output.display();
    let earlier = output.join("result.json");
    if earlier.exists() && source != Source::Replace {
        return refuse(format!(
            "{} exists: give another --output, or --force to replace it",
            earlier.display()
        ));
    }
    match fs::metadata(output) {
        Ok(metadata) if !metadata.is_dir() => return refuse(format!("--output {shown} is not a directory")),
        Ok(_) => {}
        Err(_) => create.push(output.to_path_buf()),
    }
    let nearest = output.ancestors().find(|path| path.exists() || path.as_os_str().is_empty());
    let nearest = nearest.filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !nearest.is_dir() || rustix::fs::accessat(CWD, nearest, Access::WRITE_OK, AtFlags::empty()).is_err() {
        return refuse(format!("--output {shown}: {} is not a writable directory", nearest.display()));
    }
    Ok(())
}

/// Database, logs and checkpoint of the instance that are there now.
fn files_of(instance: &InstancePlan) -> Result<Vec<PathBuf>, Refusal> {
    let mut found = Vec::new();
    if instance.database.symlink_metadata().is_ok() {
        found.push(instance.database.clone());
    }
    let entries = match fs::read_dir(&instance.log_dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
        Err(error) => return refuse(format!("{}: cannot be listed: {error}", instance.log_dir.display())),
    };
    let mut logs: Vec<PathBuf> =
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|p| is_log(p)).collect();
    logs.sort();
    found.extend(logs);
    Ok(found)
}

/// Files of a log stream: logs, reserve logs and the checkpoint.
fn is_log(path: &Path) -> bool {
    let named = path.file_name().and_then(OsStr::to_str).is_some_and(|name| name.starts_with(LOG_BASE_NAME));
    named && ["log", "jrs", "chk"].contains(&path.extension().and_then(OsStr::to_str).unwrap_or(""))
}

fn refuse_existing(found: &[PathBuf]) -> Result<(), Refusal> {
    match found.first() {
        Some(file) => refuse(format!(
            "{} exists: add --open to use the databases, or --force to replace them",
            file.display()
        )),
        None => Ok(()),
    }
}

/// Takes over an existing database; all must have one page size.
fn adopt(
    instance: &mut InstancePlan,
    engine: &dyn Engine,
    page_bytes: &mut Option<u32>,
) -> Result<(), Refusal> {
    let shown = instance.database.display().to_string();
    if !instance.database.exists() {
        return refuse(format!(
            "{shown} does not exist: without --open (or with --open=false) databases are created"
        ));
    }
    if engine.in_use(instance) {
        return refuse(format!("{shown} is in use by another process"));
    }
    let found = engine.inspect(instance).map_err(Refusal)?;
    instance.initial_bytes = found.file_bytes;
    let wanted = *page_bytes.get_or_insert(found.page_bytes);
    if wanted != found.page_bytes {
        let (has, wanted) = (ByteSize(u64::from(found.page_bytes)), ByteSize(u64::from(wanted)));
        return refuse(format!(
            "{shown} has pages of {has}, not {wanted}: give --page-size {has} or other databases"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Mount;
    use crate::model::ModelEngine;
    use crate::profile::Options;
    use crate::units::DatabaseSize;

    struct World(tempfile::TempDir);

    impl World {
        fn new() -> World {
            // Beside the sources: the system's temporary directory may be a tmpfs.
            World(tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap())
        }
        fn dir(&self) -> &Path {
            self.0.path()
        }
        fn options(&self) -> Options {
            Options {
                dirs: vec![self.dir().to_path_buf()],
                size: Some(ByteSize::mib(32).into()),
                output: Some(self.dir().join("out")),
                ..Options::default()
            }
        }
        fn plan(&self, options: Options) -> Result<Plan, String> {
            let before = self.listing();
            let plan = Plan::make(&options.resolve(1).unwrap(), &ModelEngine::default(), "now");
            assert_eq!(self.listing(), before, "planning changed the directory");
            plan.map_err(|refusal| refusal.to_string())
        }
        fn refusal(&self, options: Options) -> String {
            let refusal = self.plan(options).unwrap_err();
            assert!(!refusal.contains('\n'));
            refusal
        }
        fn listing(&self) -> Vec<PathBuf> {
            let mut all: Vec<_> = fs::read_dir(self.dir()).unwrap().map(|e| e.unwrap().path()).collect();
            all.sort();
            all
        }
    }

    #[test]
    fn files_have_the_names_of_jetstress() {
        let world = World::new();
        let log_dir = world.dir().join("logs");
        fs::create_dir(&log_dir).unwrap();
        let options = Options { databases: Some(3), log_dirs: vec![log_dir.clone()], ..world.options() };
        let plan = world.plan(options).unwrap();
        let names: Vec<_> = plan.instances.iter().map(|i| i.database.clone()).collect();
        assert_eq!(names, [1, 2, 3].map(|n| world.dir().join(format!("Jetstress00{n}001.edb"))));
        assert_eq!(plan.instances[2].log_dir, log_dir.join("log003"));
        assert_eq!((plan.page_bytes, plan.cache_bytes), (32768, 192 << 20));
        plan.prepare().unwrap();
        assert!(log_dir.join("log002").is_dir() && world.dir().join("out").is_dir());
    }

    #[test]
    fn a_directory_that_cannot_be_used_is_refused() {
        let world = World::new();
        let missing = world.dir().join("missing");
        let text = world.refusal(Options { dirs: vec![missing.clone()], ..world.options() });
        assert!(text.contains("does not exist: create it"), "{text}");
        assert!(!missing.exists());

        fs::write(world.dir().join("file"), "x").unwrap();
        let text = world.refusal(Options { dirs: vec![world.dir().join("file")], ..world.options() });
        assert!(text.contains("is not a directory"), "{text}");

        if Mount::of(Path::new("/dev/shm")).is_some_and(|mount| mount.file_system == "tmpfs") {
            let text = world.refusal(Options { dirs: vec!["/dev/shm".into()], ..world.options() });
            assert!(text.contains("is on tmpfs, which is memory"), "{text}");
        }
        let text = world.refusal(Options { dirs: vec!["/proc".into()], ..world.options() });
        assert!(text.contains("/proc"), "{text}");
    }

    #[test]
    fn existing_files_are_kept_unless_forced() {
        let world = World::new();
        let database = world.dir().join("Jetstress001001.edb");
        fs::write(&database, "precious").unwrap();
        assert!(world.refusal(world.options()).contains("add --open to use the databases, or --force"));

        let forced = world.plan(Options { force: Some(true), ..world.options() }).unwrap();
        assert_eq!(forced.remove, std::slice::from_ref(&database));
        assert!(database.exists());
        forced.prepare().unwrap();
        assert!(!database.exists());

        let logs = world.dir().join("log001");
        fs::create_dir_all(&logs).unwrap();
        fs::write(logs.join("E00.log"), "precious").unwrap();
        fs::write(logs.join("notes.txt"), "precious").unwrap();
        assert!(world.refusal(world.options()).contains("E00.log exists"));
        let forced = world.plan(Options { force: Some(true), ..world.options() }).unwrap();
        assert_eq!(forced.remove, [logs.join("E00.log")]);
    }

    #[test]
    fn results_are_kept_unless_forced() {
        let world = World::new();
        fs::create_dir(world.dir().join("out")).unwrap();
        fs::write(world.dir().join("out/result.json"), "{}").unwrap();
        assert!(world.refusal(world.options()).contains("give another --output"));
    }

    #[test]
    fn too_little_space_is_refused_with_the_numbers() {
        let world = World::new();
        let text = world.refusal(Options {
            size: Some(ByteSize(60 << 40).into()),
            databases: Some(2),
            ..world.options()
        });
        assert!(text.contains("the run needs 150.00 TiB and "), "{text}");
    }

    #[test]
    fn a_share_of_the_volume_is_split_among_its_databases() {
        let world = World::new();
        let stat = rustix::fs::statvfs(world.dir()).unwrap();
        let volume = stat.f_blocks * stat.f_frsize;
        let size = |percent, databases, growth| {
            let options = Options {
                size: Some(DatabaseSize::VolumePercent(percent)),
                databases: Some(databases),
                growth_percent: Some(growth),
                ..world.options()
            };
            let profile = options.resolve(1).unwrap();
            let mut instances = name_instances(&profile).unwrap();
            volume::size_databases(&profile, &mut instances).map(|()| instances[0].initial_bytes)
        };
        let near =
            |measured: u64, expected: u64| assert!(expected - measured < 2 << 20, "{measured} {expected}");
        near(size(80, 1, 25).unwrap(), volume / 100 * 64);
        near(size(80, 4, 25).unwrap(), volume / 100 * 16);
        near(size(50, 1, 0).unwrap(), volume / 2);
        let refusal = size(1, 999, 1000).unwrap_err().to_string();
        assert!(refusal.contains("is too small: a database needs at least 32MiB"), "{refusal}");
    }

    #[test]
    fn open_takes_what_is_there_and_checks_it() {
        let world = World::new();
        let open = || Options { open: Some(true), ..world.options() };
        assert!(world.refusal(open()).contains("does not exist: without --open"));
        for number in 1..=2 {
            fs::write(world.dir().join(format!("Jetstress00{number}001.edb")), vec![0; 65536]).unwrap();
        }
        let plan = world.plan(open()).unwrap();
        assert_eq!((plan.instances.len(), plan.instances[1].initial_bytes), (2, 65536));
        let text = world.refusal(Options { page_size: Some(ByteSize(8192)), ..open() });
        assert!(text.contains("has pages of 32KiB, not 8KiB"), "{text}");
        fs::write(world.dir().join("Jetstress002001.edb"), "text").unwrap();
        assert!(world.refusal(open()).contains("is not a database"));
    }
}
