//! Tests of plans, using real directories and the model engine.

use super::*;
use crate::model_engine::ModelEngine;
use crate::profile::Options;
use crate::units::DatabaseSize;
use jetcell_host::machine::Mount;

struct TestDirectory(tempfile::TempDir);

impl TestDirectory {
    fn new() -> TestDirectory {
        TestDirectory(crate::run_tests::scratch())
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
    fn plan(&self, options: Options) -> Result<RunPlan, String> {
        let before = self.listing();
        let plan = RunPlan::make(&options.resolve().unwrap(), &ModelEngine::default(), "now", false);
        assert_eq!(self.listing(), before, "planning changed the directory");
        plan.map_err(|error| jetcell_input::with_advice(&error, error.advice()))
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
fn files_have_the_same_names_as_in_jetstress() {
    let workspace = TestDirectory::new();
    let log_dir = workspace.dir().join("logs");
    fs::create_dir(&log_dir).unwrap();
    let options = Options { databases: Some(3), log_dirs: vec![log_dir.clone()], ..workspace.options() };
    let plan = workspace.plan(options.clone()).unwrap();
    let names: Vec<_> = plan.instances.iter().map(|i| i.database.clone()).collect();
    assert_eq!(names, [1, 2, 3].map(|n| workspace.dir().join(format!("Jetstress00{n}001.edb"))));
    assert_eq!(plan.instances[2].log_dir, log_dir.join("log003"));
    assert_eq!((plan.page_bytes, plan.cache_bytes), (32768, 192 << 20));
    plan.prepare(&options.resolve().unwrap(), &ModelEngine::default()).unwrap();
    assert!(log_dir.join("log002").is_dir() && workspace.dir().join("out").is_dir());
}

#[test]
fn a_directory_that_cannot_be_used_is_refused() {
    let workspace = TestDirectory::new();
    let missing = workspace.dir().join("missing/deep");
    let text = workspace.refusal(Options { dirs: vec![missing.clone()], ..workspace.options() });
    assert!(text.contains("does not exist; create it"), "{text}");
    assert!(!missing.exists());

    fs::write(workspace.dir().join("file"), "x").unwrap();
    let text = workspace.refusal(Options { dirs: vec![workspace.dir().join("file")], ..workspace.options() });
    assert!(text.contains("is not a directory"), "{text}");

    if Mount::containing(Path::new("/dev/shm")).is_some_and(|mount| mount.file_system == "tmpfs") {
        let text = workspace.refusal(Options { dirs: vec!["/dev/shm".into()], ..workspace.options() });
        assert!(text.contains("is on tmpfs, which is memory"), "{text}");
    }
    let text = workspace.refusal(Options { dirs: vec!["/proc".into()], ..workspace.options() });
    assert!(text.contains("/proc"), "{text}");
}

#[test]
fn existing_files_are_kept_unless_forced() {
    let workspace = TestDirectory::new();
    let database = workspace.dir().join("Jetstress001001.edb");
    fs::write(&database, "precious").unwrap();
    assert!(workspace.refusal(workspace.options()).contains("add --open to use the databases, or --force"));

    let force = || Options { force: Some(true), ..workspace.options() };
    let forced = workspace.plan(force()).unwrap();
    assert_eq!(forced.remove, std::slice::from_ref(&database));
    assert!(database.exists());
    forced.prepare(&force().resolve().unwrap(), &ModelEngine::default()).unwrap();
    assert!(!database.exists());
    creation::remove_file(workspace.dir()).unwrap();

    let logs = workspace.dir().join("log001");
    fs::create_dir_all(&logs).unwrap();
    fs::write(logs.join("E00.log"), "precious").unwrap();
    fs::write(logs.join("notes.txt"), "precious").unwrap();
    assert!(workspace.refusal(workspace.options()).contains("E00.log exists"));
    let forced = workspace.plan(Options { force: Some(true), ..workspace.options() }).unwrap();
    assert_eq!(forced.remove, [logs.join("E00.log")]);
}

#[test]
fn results_are_kept_unless_forced() {
    let workspace = TestDirectory::new();
    fs::create_dir(workspace.dir().join("out")).unwrap();
    fs::write(workspace.dir().join("out/result.json"), "{}").unwrap();
    assert!(workspace.refusal(workspace.options()).contains("specify a different --output"));
}

#[test]
fn too_little_space_is_refused_with_the_numbers() {
    let workspace = TestDirectory::new();
    let text = workspace.refusal(Options {
        size: Some(ByteSize(60 << 40).into()),
        databases: Some(2),
        ..workspace.options()
    });
    assert!(text.contains("the run needs 150.00 TiB but "), "{text}");
}

#[test]
fn a_volume_share_is_split_among_databases() {
    let workspace = TestDirectory::new();
    let stat = rustix::fs::statvfs(workspace.dir()).unwrap();
    let volume = stat.f_blocks * stat.f_frsize;
    let size = |percent, databases, growth| {
        let options = Options {
            size: Some(DatabaseSize::VolumePercent(percent)),
            databases: Some(databases),
            growth_percent: Some(growth),
            ..workspace.options()
        };
        let profile = options.resolve().unwrap();
        let engine = ModelEngine::default();
        let mut instances = name_instances(&profile, &*engine.files()).unwrap();
        volume::size_databases(&profile, &engine, &mut instances).map(|()| instances[0].initial_bytes)
    };
    let near = |measured: u64, expected: u64| assert!(expected - measured < 2 << 20, "{measured} {expected}");
    near(size(80, 1, 25).unwrap(), volume / 100 * 64);
    near(size(80, 4, 25).unwrap(), volume / 100 * 16);
    near(size(50, 1, 0).unwrap(), volume / 2);
    let error = size(1, 999, 1000).unwrap_err();
    let refusal = jetcell_input::with_advice(&error, error.advice());
    assert!(refusal.contains("is too small; a database needs at least 32MiB"), "{refusal}");
}

#[test]
fn open_uses_all_existing_databases_and_checks_them() {
    let workspace = TestDirectory::new();
    let open = || Options { open: Some(true), ..workspace.options() };
    assert!(workspace.refusal(open()).contains("does not exist; to create databases"));
    for number in 1..=2 {
        fs::write(workspace.dir().join(format!("Jetstress00{number}001.edb")), vec![0; 65536]).unwrap();
    }
    let plan = workspace.plan(open()).unwrap();
    assert_eq!((plan.instances.len(), plan.instances[1].initial_bytes), (2, 65536));
    let text = workspace.refusal(Options { page_size: Some(ByteSize(8192)), ..open() });
    assert!(text.contains("has a page size of 32KiB, but 8KiB is required"), "{text}");
    fs::write(workspace.dir().join("Jetstress002001.edb"), "text").unwrap();
    assert!(workspace.refusal(open()).contains("is not an ESE database"));
}

#[test]
fn runs_started_in_one_second_have_separate_directories() {
    let workspace = TestDirectory::new();
    let options = Options { output: None, ..workspace.options() };
    let first = workspace.plan(options.clone()).unwrap().output;
    assert!(first.ends_with("Performance_now"), "{}", first.display());
    fs::create_dir(&first).unwrap();
    let second = workspace.plan(options.clone()).unwrap().output;
    assert!(second.ends_with("Performance_now_2"), "{}", second.display());
    fs::create_dir(&second).unwrap();
    assert!(workspace.plan(options).unwrap().output.ends_with("Performance_now_3"));
}

#[test]
fn a_directory_is_created_if_its_parent_exists() {
    let workspace = TestDirectory::new();
    let dir = workspace.dir().join("new");
    let options = Options { dirs: vec![dir.clone()], ..workspace.options() };
    let plan = workspace.plan(options.clone()).unwrap();
    assert!(plan.create.contains(&dir), "{:?}", plan.create);
    plan.prepare(&options.resolve().unwrap(), &ModelEngine::default()).unwrap();
    assert!(dir.is_dir());
    let deep = Options { dirs: vec![workspace.dir().join("missing/deep")], ..workspace.options() };
    assert!(workspace.refusal(deep).contains("does not exist; create it (mkdir -p "));
}
