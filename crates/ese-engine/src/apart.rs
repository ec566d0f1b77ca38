//! What threads write independently of each other, and of what others only read, on cache lines of its own.

use std::ops::{Deref, DerefMut};

use jetcell_sync::atomic::{AtomicU8, Ordering};

/// A value that shares no cache line with another; two lines, because they are fetched in pairs.
#[repr(align(128))]
#[derive(Default, Debug)]
pub(crate) struct Apart<T>(T);

impl<T> Apart<T> {
    /// Puts a value apart.
    pub fn new(value: T) -> Apart<T> {
        Apart(value)
    }
}

impl<T> Deref for Apart<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Apart<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

/// How many [`Parts`] there are: more than threads that run at the same time, as a rule.
const PARTS: usize = 16;

/// One value for each of some groups of threads, so that most threads have one for themselves.
#[derive(Debug)]
pub(crate) struct Parts<T>(Box<[Apart<T>]>);

impl<T: Default> Default for Parts<T> {
    fn default() -> Parts<T> {
        Parts((0..PARTS).map(|_| Apart::default()).collect())
    }
}

impl<T> Parts<T> {
    /// The part that the calling thread uses; always the same.
    pub fn mine(&self) -> Part {
        static THREADS: AtomicU8 = AtomicU8::new(0);
        thread_local!(static MINE: u8 = THREADS.fetch_add(1, Ordering::Relaxed) % PARTS as u8);
        Part(MINE.with(|mine| *mine))
    }

    /// One part.
    pub fn part(&self, part: Part) -> &T {
        &self.0[usize::from(part.0) % PARTS]
    }

    /// All parts.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|part| &**part)
    }
}

/// Which of the parts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Part(u8);
