//! Plans a run: which files it uses, and whether it can start. [`RunPlan::make`] only reads. Nothing on disk changes
//! until [`RunPlan::prepare`] is called.

mod backup_target;
mod creation;
mod existing_database;
mod memory;
mod reset;
mod volume;

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use jetcell_copies::ReplayOptions;
use jetcell_vfs::{Vfs, create_private_directory};
use rustix::fs::{Access, AtFlags, CWD};

use self::creation::DatabaseCreation;
use crate::engine::StorageEngine;
use crate::layout::{CopyPlan, InstancePlan, LOG_BASE_NAME, ResetAction, RunPlan};
use crate::prepared;
use crate::profile::{CopyMode, DatabaseSource, Profile, TestKind};
use crate::start_error::StartError;
use crate::units::ByteSize;

#[cfg(test)]
pub(crate) use creation::STATE_FILE_NAME as CREATION_FILE;
pub(crate) use creation::remove_file as end_creation;
pub use creation::with_interrupted_options;
pub(crate) use existing_database::inspect;

impl RunPlan {
    /// Creates a plan. Performs all checks that do not require changes on disk. `stamp` becomes part of the default
    /// output directory's name. If `continued` is set, the output directory may already contain results of this run.
    pub(crate) fn make(
        profile: &Profile,
        engine: &dyn StorageEngine,
        stamp: &str,
        continued: bool,
    ) -> Result<RunPlan, StartError> {
        let mut create = Vec::new();
        for dir in profile.dirs.iter().chain(&profile.log_dirs) {
            volume::check_directory(dir, &mut create)?;
        }
        backup_target::check(profile)?;
        let files = &*engine.files();
        let interrupted = creation::find_interrupted(profile, files)?;
        let output =
            profile.output.clone().unwrap_or_else(|| unused_output(&profile.dirs[0], profile.test, stamp));
        let replaceable = continued
            || profile.source == DatabaseSource::Replace
            || interrupted.as_ref().is_some_and(|creation| creation.has_output(&output));
        check_output(&output, replaceable, &mut create)?;

        let mut instances = name_instances(profile, files)?;
        match &interrupted {
            Some(creation) => creation.continue_with(profile, &mut instances)?,
            None if profile.source != DatabaseSource::Open => {
                volume::size_databases(profile, engine, &mut instances)?;
            }
            None => {}
        }
        let put_back = reset::find(profile, engine, &instances)?;
        let mut remove = Vec::new();
        if profile.source == DatabaseSource::Replace {
            remove.extend(Some(profile.dirs[0].join(creation::STATE_FILE_NAME)).filter(|file| file.exists()));
        }
        let mut page_bytes = profile.page_size.map(|size| size.0 as u32);
        for instance in &mut instances {
            let found = files_of(instance, files)?;
            match profile.source {
                DatabaseSource::New => check_no_existing_files(&found)?,
                DatabaseSource::Replace => {
                    if !found.is_empty() && engine.is_in_use(instance) {
                        return Err(StartError::InUse(instance.database.clone()));
                    }
                    remove.extend(found);
                }
                DatabaseSource::Open => {
                    // If the databases are to be restored, their current files will be overwritten, so the preserved
                    // files are checked instead.
                    let state = put_back.as_ref().map_or(&*instance, |kept| &kept[instance.number - 1]);
                    if engine.is_in_use(instance) {
                        return Err(StartError::InUse(instance.database.clone()));
                    }
                    instance.initial_bytes = check_existing_database(state, engine, &mut page_bytes)?;
                }
                DatabaseSource::Resume if existing_database::is_recreatable(files, &instance.database) => {
                    if !found.is_empty() && engine.is_in_use(instance) {
                        return Err(StartError::InUse(instance.database.clone()));
                    }
                    remove.extend(found);
                }
                DatabaseSource::Resume => {
                    check_existing_database(instance, engine, &mut page_bytes)?;
                }
            }
            // A killed recovery test leaves behind a copy of the database.
            remove.extend(
                Some(instance.state_before_load()).filter(|copy| files.exists(copy).unwrap_or(false)),
            );
            if engine.array_of(&instance.log_dir).is_none() && !instance.log_dir.is_dir() {
                create.push(instance.log_dir.clone());
            }
        }
        volume::check_space(profile, engine, &instances, &remove, put_back.is_some())?;
        let total = instances.iter().map(|instance| instance.initial_bytes).sum();
        let cache_bytes = memory::cache(profile, instances.len(), total)?;
        let copies = copies(profile, instances.len(), cache_bytes);
        create.extend(copy_directories(profile).into_iter().filter(|place| !place.is_dir()));
        memory::check_memory(profile, copies.iter().fold(cache_bytes, |sum, copy| sum + copy.cache_bytes))?;
        memory::check_threads(profile)?;
        let plan = RunPlan {
            page_bytes: page_bytes.unwrap_or(32768),
            cache_bytes,
            threads: profile.threads,
            tables: profile.records.tables,
            circular_log: profile.circular_log,
            waypoint_latency: profile.waypoint_latency,
            zero_at_creation: profile.zero_at_creation,
            event_profile: profile.event_profile,
            page_protection: false,
            reset: profile
                .reset
                .map(|_| if put_back.is_some() { ResetAction::PutBack } else { ResetAction::Keep }),
            instances,
            copies,
            output,
            create,
            remove,
        };
        for of_disk in plan.databases_of_disks() {
            profile.maintenance().windows(of_disk).map_err(StartError::Maintenance)?;
        }
        Ok(plan)
    }

    /// Removes the files to be replaced, creates the directories, and writes the file that records an unfinished
    /// creation.
    pub(crate) fn prepare(&self, profile: &Profile, engine: &dyn StorageEngine) -> Result<(), StartError> {
        let files = engine.files();
        for file in &self.remove {
            let is_creation = file.file_name() == Some(OsStr::new(creation::STATE_FILE_NAME));
            let removed = if is_creation { fs::remove_file(file) } else { files.remove(file) };
            removed.map_err(StartError::io("remove", file))?;
        }
        if let (DatabaseSource::Replace, Some(first)) = (profile.source, profile.dirs.first()) {
            prepared::remove(first, &self.instances)
                .map_err(StartError::io("remove the preserved state in", first))?;
        }
        for dir in &self.create {
            create_private_directory(dir).map_err(StartError::io("create", dir))?;
        }
        if let (true, Some(first)) = (profile.source != DatabaseSource::Open, profile.dirs.first()) {
            let noted = DatabaseCreation::new(profile, &self.instances, &self.output).write(first);
            noted.map_err(StartError::io("write to", first))?;
        }
        Ok(())
    }
}

/// Names the files as Jetstress does: the instance number followed by the number of the database within the instance.
fn name_instances(profile: &Profile, files: &dyn Vfs) -> Result<Vec<InstancePlan>, StartError> {
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
                (1..=999).map(instance).take_while(|instance| exists(files, &instance.database)).collect();
            if there.is_empty() {
                return Err(StartError::NoDatabase(instance(1).database));
            }
            Ok(there)
        }
    }
}

/// Returns the directories for the passive copies.
fn copy_directories(profile: &Profile) -> Vec<PathBuf> {
    match profile.test {
        TestKind::Replication if profile.copy_dirs.is_empty() => {
            profile.dirs.first().map(|dir| dir.join("copies")).into_iter().collect()
        }
        _ => profile.copy_dirs.clone(),
    }
}

/// Plans the passive copies of a replication test. Each copy gets as much cache as its database.
fn copies(profile: &Profile, databases: usize, cache_bytes: u64) -> Vec<CopyPlan> {
    let places = copy_directories(profile);
    if places.is_empty() {
        return Vec::new();
    }
    let wanted = profile.copies as usize;
    let kinds = match profile.keep_instance {
        Some(keep_instance) => vec![keep_instance; wanted],
        None => [vec![true; wanted], vec![false]].concat(),
    };
    let copy = |(database, number, keep_instance): (usize, usize, bool)| CopyPlan {
        database,
        directory: places[number % places.len()].join(format!("copy{:03}{:03}", database + 1, number + 1)),
        keep_instance,
        stream_log: profile.copy_mode == CopyMode::Block,
        cache_bytes: cache_bytes / databases.max(1) as u64,
        checkpoint_depth: ReplayOptions::default().checkpoint_depth,
    };
    let of_database =
        |database| kinds.iter().enumerate().map(move |(number, keep)| (database, number, *keep));
    (0..databases).flat_map(of_database).map(copy).collect()
}

/// Returns the default directory for results. Two runs that start in the same second get different directories.
fn unused_output(dir: &Path, test: TestKind, stamp: &str) -> PathBuf {
    let name = test.directory();
    let numbered_path = |number: u32| match number {
        1 => dir.join(format!("{name}_{stamp}")),
        _ => dir.join(format!("{name}_{stamp}_{number}")),
    };
    (1..).map(numbered_path).find(|path| path.symlink_metadata().is_err()).unwrap_or_else(|| numbered_path(1))
}

fn check_output(output: &Path, replaceable: bool, create: &mut Vec<PathBuf>) -> Result<(), StartError> {
    let earlier = output.join("result.json");
    if earlier.exists() && !replaceable {
        return Err(StartError::ResultExists(earlier));
    }
    match fs::metadata(output) {
        Ok(metadata) if !metadata.is_dir() => {
            return Err(StartError::OutputIsFile(output.into()));
        }
        Ok(_) => {}
        Err(_) => create.push(output.to_path_buf()),
    }
    let nearest = output.ancestors().find(|path| path.exists() || path.as_os_str().is_empty());
    let nearest = nearest.filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !nearest.is_dir() || rustix::fs::accessat(CWD, nearest, Access::WRITE_OK, AtFlags::empty()).is_err() {
        let (path, directory) = (output.into(), nearest.into());
        return Err(StartError::NotWritableDirectory { option: "--output", path, directory });
    }
    Ok(())
}

/// Returns the instance's existing database, log and checkpoint files.
fn files_of(instance: &InstancePlan, files: &dyn Vfs) -> Result<Vec<PathBuf>, StartError> {
    let mut found = Vec::new();
    // A dangling symbolic link also counts as an existing file.
    if exists(files, &instance.database) || instance.database.symlink_metadata().is_ok() {
        found.push(instance.database.clone());
    }
    let entries = match files.list(&instance.log_dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
        Err(error) => return Err(StartError::io("list", &instance.log_dir)(error)),
    };
    found.extend(entries.into_iter().filter(|path| is_log(path)));
    Ok(found)
}

fn exists(files: &dyn Vfs, path: &Path) -> bool {
    files.exists(path).unwrap_or(false)
}

/// Returns true if a file belongs to a log stream: a log, a reserve log or the checkpoint.
fn is_log(path: &Path) -> bool {
    let named =
        path.file_name().and_then(OsStr::to_str).is_some_and(|name| name.starts_with(LOG_BASE_NAME.as_str()));
    named && ["log", "jrs", "chk"].contains(&path.extension().and_then(OsStr::to_str).unwrap_or(""))
}

fn check_no_existing_files(found: &[PathBuf]) -> Result<(), StartError> {
    match found.first() {
        Some(file) => Err(StartError::DatabaseExists(file.clone())),
        None => Ok(()),
    }
}

/// Checks an existing database and returns its size in bytes. All databases must have the same page size.
fn check_existing_database(
    instance: &InstancePlan,
    engine: &dyn StorageEngine,
    page_bytes: &mut Option<u32>,
) -> Result<u64, StartError> {
    let database = || instance.database.clone();
    if !exists(&*engine.files(), &instance.database) {
        return Err(StartError::NoDatabase(database()));
    }
    if engine.is_in_use(instance) {
        return Err(StartError::InUse(instance.database.clone()));
    }
    let found = engine.inspect(instance)?;
    let wanted = *page_bytes.get_or_insert(found.page_bytes);
    if wanted != found.page_bytes {
        let (has, wanted) = (ByteSize(u64::from(found.page_bytes)), ByteSize(u64::from(wanted)));
        return Err(StartError::PageSize { database: database(), has, wanted });
    }
    Ok(found.file_bytes)
}

#[cfg(test)]
mod tests;
