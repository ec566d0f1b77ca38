//! `jetcell disk fragmentation`: where databases are on their device.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use jetcell_lab::fragmentation::{FileMap, Fragmentation};
use jetcell_report::fragmentation_text;
use jetcell_workload::units::ByteSize;
use serde::Serialize;

use crate::console::{self, print};
use crate::outcome::{Failure, Outcome, print_error};

const EXAMPLES: &str = "\
Examples:
  jetcell disk fragmentation priv1.edb
      extents, pieces and distances, and the share of reads of 32 KiB and 256 KiB that cross a border
  jetcell disk fragmentation --read 8KiB --read 1MiB jetcell-run
      all databases below a directory, with other sizes of reads
  jetcell disk fragmentation --json jetcell-run | jq '.files[].pieces'
      for a script

Nothing is changed. Exit code: 0 shown, 2 could not run.";

/// Extensions of databases, which are searched for in directories.
const DATABASES: [&str; 2] = ["edb", "dit"];
/// Directories within each other that are searched.
const DEEPEST: usize = 64;

/// Shows where databases are on their device: extents, distances, and reads that are split
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ShowFragmentation {
    /// Files, or directories with databases (*.edb, *.dit)
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// Size of a read; repeat it for several [default: 32KiB, a page, and 256KiB, a read of the background scan]
    #[arg(long = "read", value_name = "SIZE", value_parser = read_size)]
    reads: Vec<ByteSize>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What the command prints as JSON.
#[derive(Serialize)]
struct Listing {
    /// Version of this layout.
    schema: u32,
    files: Vec<Fragmentation>,
}

fn read_size(text: &str) -> Result<ByteSize, String> {
    let size: ByteSize = text.parse().map_err(|error| format!("{error}"))?;
    if size.0 == 0 {
        Err("a read of no bytes crosses nothing; write for example 32KiB".into())
    } else {
        Ok(size)
    }
}

impl ShowFragmentation {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        match self.examine() {
            Ok(files) => {
                print(&if self.json {
                    let text = serde_json::to_string_pretty(&Listing { schema: 1, files });
                    text.expect("text and numbers can be written as JSON") + "\n"
                } else {
                    fragmentation_text(&files, console::width())
                });
                Outcome::Good
            }
            Err(failure) => {
                print_error(failure);
                Outcome::CouldNotRun
            }
        }
    }

    fn examine(&self) -> Result<Vec<Fragmentation>, Failure> {
        let mut files = Vec::new();
        for path in &self.paths {
            let before = files.len();
            if path.is_dir() {
                files.extend(databases_below(path)?);
                if files.len() == before {
                    return Err(format!(
                        "{}: no database (*.edb, *.dit) below it; give files",
                        path.display()
                    )
                    .into());
                }
            } else {
                files.push(path.clone());
            }
        }
        let sizes: Vec<u64> = match &self.reads[..] {
            [] => vec![32 << 10, 256 << 10],
            given => given.iter().map(|size| size.0).collect(),
        };
        let examined = files.iter().map(|path| Ok(Fragmentation::of(&FileMap::of(path)?, &sizes)));
        examined
            .collect::<Result<_, jetcell_lab::fragmentation::MapError>>()
            .map_err(|error| error.to_string().into())
    }
}

/// The databases below a directory, in the order of their names.
pub(super) fn databases_below(directory: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    add_databases(directory, DEEPEST, &mut files)
        .map_err(|error| format!("{} cannot be searched: {error}", directory.display()))?;
    Ok(files)
}

/// Adds the databases below a directory in the order of their names. Links to directories are not followed.
fn add_databases(directory: &Path, deepest: usize, found: &mut Vec<PathBuf>) -> io::Result<()> {
    let mut entries = fs::read_dir(directory)?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let (path, kind) = (entry.path(), entry.file_type()?);
        if kind.is_dir() {
            if deepest > 0 {
                add_databases(&path, deepest - 1, found)?;
            }
            continue;
        }
        let extension = path.extension().map(|found| found.to_ascii_lowercase());
        if extension.is_some_and(|found| DATABASES.iter().any(|known| found == *known)) && path.is_file() {
            found.push(path);
        }
    }
    Ok(())
}
