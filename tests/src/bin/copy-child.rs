//! The process that `tests/copies_killed.rs` kills while it works on a copy:
//! `copy-child seed|replicate|reseed FROM TO`, `copy-child activate DIRECTORY nothing|any|N`.

#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use ese_engine::RecoverySet;
use jetcell_copies::{
    CopyError, CopyState, DirectorySource, LossLimit, ReplayOptions, Replication, Reseed, Result,
    SeedOptions, StreamDirectory, activate, seed_stopped,
};
use jetcell_vfs::Vfs;
use system_tests::killed::disk;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["seed", from, to] => seed(from.as_ref(), to.as_ref(), false),
        ["replicate", from, to] => replicate(from.as_ref(), to.as_ref()),
        ["reseed", from, to] => reseed(from.as_ref(), to.as_ref()),
        ["activate", directory, limit] => take_over(directory.as_ref(), limit),
        _ => {
            eprintln!("usage: copy-child seed|replicate|reseed FROM TO, or activate DIRECTORY nothing|any|N");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn files(vfs: &Arc<dyn Vfs>, directory: &Path) -> Result<Vec<PathBuf>> {
    Ok(vfs.list(directory).map_err(|error| ese_engine::Error::io(directory, &error))?)
}

fn seed(from: &Path, to: &Path, again: bool) -> Result<()> {
    let vfs = disk()?;
    let files = files(&vfs, from)?;
    let source = DirectorySource::new(StreamDirectory::of_set(&vfs, &RecoverySet::find(&vfs, &files)?)?);
    let options = SeedOptions { again, ..SeedOptions::default() };
    seed_stopped(&vfs, &files, to, &source, &options).map(|_| ())
}

fn source_of(vfs: &Arc<dyn Vfs>, state: &CopyState, from: &Path) -> Box<DirectorySource> {
    Box::new(DirectorySource::new(StreamDirectory::new(vfs, from, &state.base_name, state.form())))
}

fn state_of(vfs: &Arc<dyn Vfs>, directory: &Path) -> Result<CopyState> {
    let state = CopyState::read(&**vfs, directory)?;
    state.ok_or_else(|| CopyError::Refused(format!("{}: this is no copy", directory.display())))
}

fn options() -> ReplayOptions {
    ReplayOptions { cache_bytes: 2 << 20, checkpoint_depth: 4 << 20, ..ReplayOptions::default() }
}

/// Follows until it is killed.
fn replicate(from: &Path, to: &Path) -> Result<()> {
    let vfs = disk()?;
    let state = state_of(&vfs, to)?;
    let mut copy = Replication::open(&vfs, to, source_of(&vfs, &state, from), options())?;
    loop {
        if copy.step()?.is_idle() {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn take_over(directory: &Path, limit: &str) -> Result<()> {
    let limit = match limit {
        "nothing" => LossLimit::Nothing,
        "any" => LossLimit::Any,
        number => LossLimit::Generations(
            number.parse().map_err(|_| CopyError::Refused(format!("{number}: no limit")))?,
        ),
    };
    let vfs = disk()?;
    let state = state_of(&vfs, directory)?;
    let source = source_of(&vfs, &state, state.source.as_ref());
    let activated = activate(&vfs, directory, source, limit, &options())?;
    println!("{}", serde_json::json!(activated.lost));
    Ok(())
}

/// By pages if that is possible, or as a whole.
fn reseed(from: &Path, to: &Path) -> Result<()> {
    let vfs = disk()?;
    let patched = Reseed::plan(&vfs, &files(&vfs, from)?, to).and_then(|reseed| reseed.run(&mut |_| ()));
    match patched {
        Ok(_) => Ok(()),
        Err(error) => {
            eprintln!("{error}");
            seed(from, to, true)
        }
    }
}
