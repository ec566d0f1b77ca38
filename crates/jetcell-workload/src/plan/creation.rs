//! Records an unfinished database creation. The request is stored in a small file in the first database's directory.
//! The file exists from before the first byte is written until all databases are filled and closed. `--resume` uses it
//! to continue the creation. Other runs are refused, because they must not use incomplete databases.
//!
//! Records are a function of seed, place and key (see [`crate::load`]). A resumed creation therefore adds the same
//! records as an uninterrupted one would.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use jetcell_vfs::Vfs;
use serde::{Deserialize, Serialize};

use crate::layout::InstancePlan;
use crate::profile::{DatabaseSource, Options, Profile};
use crate::start_error::StartError;
use crate::state_file::{StateFile, absolute, with_absolute_paths};

/// Name of the file, in the first database's directory.
pub(crate) const STATE_FILE_NAME: &str = "jetcell-creation.json";

/// Version of the file format and of the record content. All parts of a database must have the same content version.
const VERSION: u32 = 3;

/// The size limit leaves room for a thousand databases with long names.
const STATE_FILE: StateFile =
    StateFile { name: STATE_FILE_NAME, max_bytes: 4 << 20, advice: "start over with --force" };

/// A database creation in progress, as stored in the state file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct DatabaseCreation {
    version: u32,
    profile: Profile,
    instances: Vec<InstancePlan>,
    output: PathBuf,
}

impl DatabaseCreation {
    /// Describes a creation that has not begun.
    pub(crate) fn new(profile: &Profile, instances: &[InstancePlan], output: &Path) -> DatabaseCreation {
        DatabaseCreation {
            version: VERSION,
            profile: with_absolute_paths(profile),
            instances: instances.to_vec(),
            output: absolute(output),
        }
    }

    /// Reads the interrupted creation recorded in `dir`. Returns `None` if there is none.
    pub(crate) fn read(dir: &Path) -> Result<Option<DatabaseCreation>, StartError> {
        let Some(creation) = STATE_FILE.read::<DatabaseCreation>(dir)? else { return Ok(None) };
        if creation.version != VERSION || creation.instances.is_empty() {
            let path = dir.join(STATE_FILE_NAME);
            return Err(StartError::OtherVersion { path, advice: STATE_FILE.advice });
        }
        Ok(Some(creation))
    }

    /// Writes the file.
    pub(crate) fn write(&self, dir: &Path) -> io::Result<()> {
        STATE_FILE.write(dir, self)
    }

    /// Returns the current total size of the databases as a percentage of the requested size.
    pub(crate) fn percent(&self, files: &dyn Vfs) -> u64 {
        let existing_bytes = |one: &InstancePlan| files.file_len(&one.database).unwrap_or(0);
        let (mut done, mut wanted) = (0, 0);
        for instance in &self.instances {
            done += u128::from(existing_bytes(instance).min(instance.initial_bytes));
            wanted += u128::from(instance.initial_bytes);
        }
        (done * 100 / wanted.max(1)) as u64
    }

    /// Returns the error for a run that would use the directory without resuming the creation.
    pub(crate) fn start_error(&self, files: &dyn Vfs, dir: &Path) -> StartError {
        StartError::InterruptedCreation { dir: dir.into(), percent: self.percent(files) }
    }

    /// Returns true if `output` is the results directory of the interrupted run.
    pub(crate) fn has_output(&self, output: &Path) -> bool {
        std::path::absolute(output).is_ok_and(|output| output == self.output)
    }

    /// Copies the database sizes of the interrupted creation to `instances`. Returns an error if the profile requests
    /// different databases.
    pub(crate) fn continue_with(
        &self,
        profile: &Profile,
        instances: &mut [InstancePlan],
    ) -> Result<(), StartError> {
        let was = &self.profile;
        let page = |profile: &Profile| profile.page_size.map_or(32768, |size| size.0);
        let name = |one: &InstancePlan| one.database.file_name().map(OsStr::to_os_string);
        let wrong = if !same_directories(&profile.dirs, &was.dirs) {
            Some("--dir")
        } else if !same_directories(&profile.log_dirs, &was.log_dirs) {
            Some("--log-dir")
        } else if !instances.iter().map(name).eq(self.instances.iter().map(name)) {
            Some("--databases")
        } else if profile.size != was.size {
            Some("--size")
        } else if page(profile) != page(was) {
            Some("--page-size")
        } else if profile.records != was.records {
            Some("the shape of the records")
        } else if profile.seed != was.seed {
            Some("--seed")
        } else {
            None
        };
        if let Some(what) = wrong {
            return Err(StartError::OtherCreation(what));
        }
        for (instance, asked) in instances.iter_mut().zip(&self.instances) {
            instance.initial_bytes = asked.initial_bytes;
        }
        Ok(())
    }

    /// Returns the options of the interrupted creation, which the user need not repeat.
    fn options(&self) -> Options {
        let Options { dirs, log_dirs, databases, size, growth_percent, page_size, records, seed, .. } =
            self.profile.to_options();
        let output = Some(self.output.clone());
        Options {
            dirs,
            log_dirs,
            databases,
            size,
            growth_percent,
            page_size,
            records,
            seed,
            output,
            ..Options::default()
        }
    }
}

/// Removes the file once the databases are complete.
pub(crate) fn remove_file(dir: &Path) -> io::Result<()> {
    STATE_FILE.remove(dir)
}

/// Returns true if both lists refer to the same directories, even by different paths.
fn same_directories(now: &[PathBuf], then: &[PathBuf]) -> bool {
    let place = |path: &PathBuf| fs::canonicalize(path).unwrap_or_else(|_| path.clone());
    now.iter().map(place).eq(then.iter().map(place))
}

/// Fills in missing options from the interrupted creation if `--resume` is set. Otherwise returns the options
/// unchanged.
pub fn with_interrupted_options(options: Options) -> Result<Options, StartError> {
    let (true, Some(first)) = (options.resume == Some(true), options.dirs.first()) else {
        return Ok(options);
    };
    match DatabaseCreation::read(first)? {
        Some(creation) => Ok(options.over(creation.options())),
        None => Err(StartError::NothingToResume(first.clone())),
    }
}

/// Finds the interrupted creation that this profile asks to resume, if any. Returns an error if a creation was
/// interrupted but the profile does not resume or replace it, or if there is nothing to resume.
pub(crate) fn find_interrupted(
    profile: &Profile,
    files: &dyn Vfs,
) -> Result<Option<DatabaseCreation>, StartError> {
    let Some(first) = profile.dirs.first().filter(|_| profile.source != DatabaseSource::Replace) else {
        return Ok(None);
    };
    match (DatabaseCreation::read(first)?, profile.source) {
        (Some(creation), DatabaseSource::Resume) => Ok(Some(creation)),
        (Some(creation), _) => Err(creation.start_error(files, first)),
        (None, DatabaseSource::Resume) => Err(StartError::NothingToResume(first.clone())),
        (None, _) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(dir: &Path) -> (Profile, Vec<InstancePlan>) {
        let options =
            Options { dirs: vec![dir.to_path_buf()], page_size: None, seed: Some(7), ..Options::default() };
        let instance = InstancePlan {
            number: 1,
            database: dir.join("Jetstress001001.edb"),
            log_dir: dir.join("log001"),
            initial_bytes: 1 << 20,
        };
        (options.resolve().unwrap(), vec![instance])
    }

    fn resume(dir: &Path) -> Options {
        Options { dirs: vec![dir.to_path_buf()], resume: Some(true), ..Options::default() }
    }

    #[test]
    fn the_creation_request_is_stored_and_contradictions_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (profile, instances) = asked(dir.path());
        assert!(
            with_interrupted_options(resume(dir.path()))
                .unwrap_err()
                .advice()
                .unwrap()
                .contains("use --open")
        );
        DatabaseCreation::new(&profile, &instances, Path::new("out")).write(dir.path()).unwrap();

        let creation = DatabaseCreation::read(dir.path()).unwrap().unwrap();
        let again = with_interrupted_options(resume(dir.path())).unwrap().resolve().unwrap();
        assert_eq!((again.seed, again.size, again.source), (7, profile.size, DatabaseSource::Resume));
        assert!(creation.has_output(Path::new("out")) && !creation.has_output(Path::new("other")));
        let mut now = vec![InstancePlan { initial_bytes: 0, ..instances[0].clone() }];
        creation.continue_with(&again, &mut now).unwrap();
        assert_eq!(now, instances);

        let wrong = |options: &str| {
            let given: Options = toml::from_str(options).unwrap();
            let profile =
                with_interrupted_options(given.over(resume(dir.path()))).unwrap().resolve().unwrap();
            creation.continue_with(&profile, &mut instances.clone()).unwrap_err().to_string()
        };
        for (options, name) in [
            ("seed = 8", "--seed"),
            ("size = '2GiB'", "--size"),
            ("page_size = '8KiB'", "--page-size"),
            ("records.short_bytes = 100", "the shape"),
            ("log_dirs = ['/']", "--log-dir"),
        ] {
            assert!(wrong(options).starts_with(name), "{options}: {}", wrong(options));
        }
        assert!(creation.continue_with(&again, &mut []).unwrap_err().to_string().starts_with("--databases"));
    }

    #[test]
    fn other_runs_are_refused_until_the_creation_completes() {
        let files = &jetcell_vfs::RealVfs::new(jetcell_vfs::RealOptions::default()).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let (profile, instances) = asked(dir.path());
        assert_eq!(find_interrupted(&profile, files).unwrap(), None);
        DatabaseCreation::new(&profile, &instances, Path::new("out")).write(dir.path()).unwrap();
        fs::write(&instances[0].database, vec![0; 1 << 19]).unwrap();
        let error = find_interrupted(&profile, files).unwrap_err();
        let text = jetcell_input::with_advice(&error, error.advice());
        assert!(
            text.ends_with("was interrupted at 50 %; continue it with --resume, or start over with --force"),
            "{text}"
        );
        assert!(
            find_interrupted(&Profile { source: DatabaseSource::Open, ..profile.clone() }, files).is_err()
        );
        assert_eq!(
            find_interrupted(&Profile { source: DatabaseSource::Replace, ..profile.clone() }, files).unwrap(),
            None
        );
        assert!(
            find_interrupted(&Profile { source: DatabaseSource::Resume, ..profile.clone() }, files)
                .unwrap()
                .is_some()
        );
        remove_file(dir.path()).unwrap();
        assert_eq!(find_interrupted(&profile, files).unwrap(), None);
        assert!(find_interrupted(&Profile { source: DatabaseSource::Resume, ..profile }, files).is_err());
    }

    #[test]
    fn a_damaged_creation_file_gives_a_one_line_error() {
        let dir = tempfile::tempdir().unwrap();
        for garbage in
            ["", "{}", "\u{1b}[2J\n", "[[[[", "{\"version\": 1, \"profile\": {\"dirs\": [\"a\\nb\"]}}"]
        {
            fs::write(dir.path().join(STATE_FILE_NAME), garbage).unwrap();
            let error = DatabaseCreation::read(dir.path()).unwrap_err();
            let text = jetcell_input::with_advice(&error, error.advice());
            assert!(text.contains("--force") && !text.contains(char::is_control), "{text}");
        }
        let (profile, instances) = asked(dir.path());
        DatabaseCreation { version: 9, ..DatabaseCreation::new(&profile, &instances, Path::new("o")) }
            .write(dir.path())
            .unwrap();
        assert!(DatabaseCreation::read(dir.path()).unwrap_err().to_string().contains("different version"));
    }
}
