//! Files that clients are writing.
//!
//! Invariant: a file has no writer when it gets its name, and gets none afterwards. So its content stays as it was judged. A connection
//! that still has the file open cannot write it any more.

use std::collections::BTreeMap;
use std::io;

use jetcell_sync::Mutex;

use crate::request::Place;

/// The files that were created and have not got their names yet, each with the number of its writer.
#[derive(Default)]
pub(crate) struct OpenWrites(Mutex<State>);

#[derive(Default)]
struct State {
    last: u64,
    writers: BTreeMap<(String, String), u64>,
}

fn key(place: &Place) -> (String, String) {
    (place.directory.clone(), place.file.clone())
}

impl OpenWrites {
    /// Creates a file. Returns the number of its writer.
    pub fn create<T>(&self, place: &Place, create: impl FnOnce() -> io::Result<T>) -> io::Result<(T, u64)> {
        let mut state = self.0.lock();
        let created = create()?;
        state.last += 1;
        let writer = state.last;
        state.writers.insert(key(place), writer);
        Ok((created, writer))
    }

    /// Writes a file, if the writer still is the one of the file. `None`: it is not.
    pub fn write<T>(&self, place: &Place, writer: u64, write: impl FnOnce() -> T) -> Option<T> {
        let state = self.0.lock();
        (state.writers.get(&key(place)) == Some(&writer)).then(write)
    }

    /// Gives a file its name, or removes it: from now on no client writes it.
    pub fn end<T>(&self, place: &Place, finish: impl FnOnce() -> T) -> T {
        let mut state = self.0.lock();
        state.writers.remove(&key(place));
        finish()
    }

    /// Forgets a writer that has closed its file.
    pub fn close(&self, place: &Place, writer: u64) {
        let mut state = self.0.lock();
        if state.writers.get(&key(place)) == Some(&writer) {
            state.writers.remove(&key(place));
        }
    }
}
