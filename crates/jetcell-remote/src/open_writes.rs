//! Files that clients are writing.
//!
//! Invariant: once a file has been renamed to its final name, it has no writer and never gets one again. Its content
//! therefore cannot change after it has been checked. A connection that still has the file open can no longer write to
//! it.

use std::collections::BTreeMap;
use std::io;

use jetcell_sync::Mutex;

use crate::request::RemotePath;

/// Files that have been created but not yet renamed to their final names, each with its writer number.
#[derive(Default)]
pub(crate) struct OpenWrites(Mutex<WriterNumbers>);

#[derive(Default)]
struct WriterNumbers {
    last_writer: u64,
    writers: BTreeMap<(String, String), u64>,
}

fn key(place: &RemotePath) -> (String, String) {
    (place.directory.clone(), place.file.clone())
}

impl OpenWrites {
    /// Creates a file. Returns its writer number.
    pub fn create<T>(
        &self,
        place: &RemotePath,
        create: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<(T, u64)> {
        let mut state = self.0.lock();
        let created = create()?;
        state.last_writer += 1;
        let writer = state.last_writer;
        state.writers.insert(key(place), writer);
        Ok((created, writer))
    }

    /// Writes to a file if `writer` is still its writer. Otherwise returns `None`.
    pub fn write<T>(&self, place: &RemotePath, writer: u64, write: impl FnOnce() -> T) -> Option<T> {
        let state = self.0.lock();
        (state.writers.get(&key(place)) == Some(&writer)).then(write)
    }

    /// Renames a file to its final name, or removes it. Afterwards no client can write to it.
    pub fn end_write<T>(&self, place: &RemotePath, finish: impl FnOnce() -> T) -> T {
        let mut state = self.0.lock();
        state.writers.remove(&key(place));
        finish()
    }

    /// Removes the writer of a closed file.
    pub fn remove_writer(&self, place: &RemotePath, writer: u64) {
        let mut state = self.0.lock();
        if state.writers.get(&key(place)) == Some(&writer) {
            state.writers.remove(&key(place));
        }
    }
}
