//! Splits files by log stream, and names the files that a set leaves out.

use std::path::PathBuf;

use ese_format::header::DatabaseHeader;
use ese_format::log::header::{LogHeader, SEGMENT_BYTES};
use ese_format::log::{has_log_extension, log_directories};
use ese_format::recognise::EseFileKind;
use ese_format::{LogPosition, LogTime, Signature};
use jetcell_sync::Arc;
use jetcell_vfs::{Vfs, is_unfinished, parent_directory};

use super::{IgnoredReason, RecoverySet, recognise};
use crate::log::{LogChain, LogNames, LogReader};
use crate::{Error, Result, UsageError};

/// Maximum number of file names in an error about files that are missing from a set.
const MAX_NAMED_FILES: usize = 3;

/// Files of one log stream.
struct StreamFiles {
    signature: Signature,
    has_logs: bool,
    databases: Vec<PathBuf>,
    files: Vec<PathBuf>,
}

impl RecoverySet {
    /// Splits files into one list for each log stream. For databases without logs, adds the logs that are in their
    /// usual [directories](log_directories). Files whose stream is unknown, such as lock files, are added to the
    /// streams with logs in the same directory. Databases with unreadable headers are added to all streams, so each
    /// stream's [`RecoverySet::require_complete`] names them.
    ///
    /// Returns a single list if there is at most one stream. Returns an error if a file cannot be read.
    pub fn split_streams(vfs: &Arc<dyn Vfs>, files: &[PathBuf]) -> Result<Vec<Vec<PathBuf>>> {
        let mut streams: Vec<StreamFiles> = Vec::new();
        let mut others: Vec<PathBuf> = Vec::new();
        let mut unreadable: Vec<PathBuf> = Vec::new();
        for path in files.iter().filter(|path| !is_unfinished(path)) {
            match file_stream(&**vfs, path)? {
                FileStream::Log(signature) => {
                    let stream = stream_entry(&mut streams, signature);
                    stream.has_logs = true;
                    stream.files.push(path.clone());
                }
                FileStream::Database(signature) => {
                    let stream = stream_entry(&mut streams, signature);
                    stream.databases.push(path.clone());
                    stream.files.push(path.clone());
                }
                FileStream::UnreadableDatabase => unreadable.push(path.clone()),
                FileStream::Unknown => others.push(path.clone()),
            }
        }
        for stream in streams.iter_mut().filter(|stream| !stream.has_logs) {
            stream.add_nearby_logs(vfs)?;
        }
        if streams.len() < 2 {
            let mut found = files.to_vec();
            found.extend(streams.pop().map(|stream| stream.files).unwrap_or_default());
            found.sort();
            found.dedup();
            return Ok(vec![found]);
        }
        let lists = streams.into_iter().map(|stream| {
            let directories: Vec<PathBuf> =
                stream.files.iter().map(|path| parent_directory(path).to_path_buf()).collect();
            let is_here = |path: &&PathBuf| directories.iter().any(|known| known == parent_directory(path));
            let mut list = stream.files;
            list.extend(others.iter().filter(is_here).cloned());
            list.extend(unreadable.iter().cloned());
            list.sort();
            list.dedup();
            list
        });
        let mut lists: Vec<Vec<PathBuf>> = lists.collect();
        lists.sort();
        Ok(lists)
    }

    /// Fails if databases, or logs of other streams, were found but are not part of the set.
    ///
    /// # Errors
    /// Returns [`UsageError::LeftOut`], which names the files.
    pub fn require_complete(&self) -> Result<()> {
        let mut left_out: Vec<&PathBuf> = self.left_out().collect();
        // Databases come first, because the user is most likely to miss them.
        left_out.sort_by_key(|path| (has_log_extension(path), *path));
        if left_out.is_empty() {
            return Ok(());
        }
        let count = left_out.len();
        let named = left_out.into_iter().take(MAX_NAMED_FILES).cloned().collect();
        Err(UsageError::LeftOut { named, count }.into())
    }

    /// Returns the databases, and the logs of other streams, that are among the files but not part of the set.
    pub fn left_out(&self) -> impl Iterator<Item = &PathBuf> {
        let is_left_out = |reason: &IgnoredReason| {
            matches!(reason, IgnoredReason::OtherStream | IgnoredReason::DatabaseHeader(_))
        };
        self.ignored.iter().filter(move |(_, reason)| is_left_out(reason)).map(|(path, _)| path)
    }

    /// Returns the start time of the segment that contains the last byte before `position`, or `None` if the logs do
    /// not have this segment.
    pub fn time_before(&self, vfs: &Arc<dyn Vfs>, position: LogPosition) -> Result<Option<LogTime>> {
        let reader =
            LogReader::received(vfs.clone(), LogNames::new(std::path::Path::new("."), self.base_name));
        let mut last = None;
        let newest = self.logs.last_key_value().map(|(newest, _)| *newest);
        for (&generation, path) in self.logs.range(..=position.generation).rev().take(2) {
            reader.add(generation, path);
            let log = reader.receive(generation, &LogChain::default(), Some(generation) == newest)?;
            last = log.last_segment_time(position);
            if last.is_some() {
                break;
            }
        }
        Ok(last)
    }
}

impl StreamFiles {
    /// Adds the stream's logs, and the files of unknown formats next to them, from the usual directories.
    fn add_nearby_logs(&mut self, vfs: &Arc<dyn Vfs>) -> Result<()> {
        let mut directories: Vec<PathBuf> =
            self.databases.iter().flat_map(|database| log_directories(database)).collect();
        directories.sort();
        directories.dedup();
        for directory in directories {
            let listed = match vfs.list(&directory) {
                // Most of the usual directories do not exist.
                Err(error) if is_absent(error.kind()) => continue,
                listed => listed.map_err(|error| Error::io(&directory, &error))?,
            };
            let mut found = Vec::new();
            let mut has_logs = false;
            for path in listed.into_iter().filter(|path| !is_unfinished(path)) {
                match file_stream(&**vfs, &path)? {
                    FileStream::Log(signature) if signature == self.signature => {
                        has_logs = true;
                        found.push(path);
                    }
                    FileStream::Unknown => found.push(path),
                    _ => {}
                }
            }
            if has_logs {
                self.has_logs = true;
                self.files.extend(found);
            }
        }
        Ok(())
    }
}

fn is_absent(kind: std::io::ErrorKind) -> bool {
    matches!(kind, std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
}

/// The stream to which a file belongs, according to its header.
enum FileStream {
    Log(Signature),
    Database(Signature),
    UnreadableDatabase,
    /// The file has another format, or is a log with an unreadable header, or no longer exists.
    Unknown,
}

fn file_stream(vfs: &dyn Vfs, path: &std::path::Path) -> Result<FileStream> {
    Ok(match recognise(vfs, path)? {
        Some((EseFileKind::Log, start)) => {
            match LogHeader::decode(&start[..SEGMENT_BYTES.min(start.len())]) {
                Ok(header) => FileStream::Log(header.signature),
                Err(_) => FileStream::Unknown,
            }
        }
        Some((EseFileKind::Database, start)) => match DatabaseHeader::read_from_start(&start) {
            Ok((header, _)) => FileStream::Database(header.log_signature),
            Err(_) => FileStream::UnreadableDatabase,
        },
        _ => FileStream::Unknown,
    })
}

fn stream_entry(streams: &mut Vec<StreamFiles>, signature: Signature) -> &mut StreamFiles {
    let at = streams.iter().position(|stream| stream.signature == signature).unwrap_or_else(|| {
        streams.push(StreamFiles { signature, has_logs: false, databases: Vec::new(), files: Vec::new() });
        streams.len() - 1
    });
    &mut streams[at]
}
