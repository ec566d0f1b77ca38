//! A pin count and a retired flag in one word. The last user of a retired object frees the object.

use crate::atomic::{AtomicU32, Ordering};

/// Flag that marks a retired object.
const RETIRED: u32 = 1 << 31;

/// The number of pins on an object.
///
/// Everything that a thread does with an object before unpinning it is visible to the thread that frees the object,
/// and to any thread that reads a pin count of zero.
#[derive(Debug)]
pub struct PinCount(AtomicU32);

impl PinCount {
    /// Creates a pin count of zero.
    pub fn new() -> PinCount {
        PinCount(AtomicU32::new(0))
    }

    /// Resets the count to one pin. No other thread may have access to the object.
    pub fn start(&self) {
        self.0.store(1, Ordering::Relaxed);
    }

    /// Adds a pin. The caller must already have a pin, or hold the lock that protects adding the first pin.
    pub fn pin(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Removes a pin. Returns true if it was the last pin of a retired object; the caller then owns the object. If it
    /// returns false, another thread may already have changed the object.
    #[must_use]
    pub fn unpin(&self) -> bool {
        self.0.fetch_sub(1, Ordering::AcqRel) == RETIRED | 1
    }

    /// Retires the object. The thread that removes the last pin frees the object; this may be the caller.
    pub fn retire(&self) {
        self.0.fetch_or(RETIRED, Ordering::AcqRel);
    }

    /// Returns the current number of pins.
    pub fn get(&self) -> u32 {
        self.0.load(Ordering::Acquire) & !RETIRED
    }
}

impl Default for PinCount {
    fn default() -> PinCount {
        PinCount::new()
    }
}

#[cfg(all(test, loom))]
mod tests {
    use ::loom::cell::UnsafeCell;
    use ::loom::model;
    use ::loom::sync::Arc;
    use ::loom::thread;

    use super::*;

    /// An object whose content loom monitors. Loom reports unordered accesses to the content.
    struct Object {
        pins: PinCount,
        content: UnsafeCell<u32>,
    }

    fn object(pins: u32) -> Arc<Object> {
        let object = Object { pins: PinCount::new(), content: UnsafeCell::new(0) };
        object.pins.start();
        (1..pins).for_each(|_| object.pins.pin());
        Arc::new(object)
    }

    #[test]
    fn one_thread_frees_a_retired_object_after_the_last_use() {
        model(|| {
            let object = object(3);
            let users = [0, 1].map(|_| {
                let object = object.clone();
                thread::spawn(move || {
                    object.content.with(|_| ());
                    let frees = object.pins.unpin();
                    if frees {
                        object.content.with_mut(|_| ());
                    }
                    frees
                })
            });
            object.pins.retire();
            let frees = object.pins.unpin();
            if frees {
                object.content.with_mut(|_| ());
            }
            let freed = users.into_iter().map(|user| user.join().unwrap()).filter(|frees| *frees).count();
            assert_eq!(freed + usize::from(frees), 1);
        });
    }

    #[test]
    fn a_thread_that_finds_no_pin_may_change_the_object() {
        model(|| {
            let object = object(1);
            let user = thread::spawn({
                let object = object.clone();
                move || {
                    object.content.with(|_| ());
                    assert!(!object.pins.unpin(), "it is not retired");
                }
            });
            if object.pins.get() == 0 {
                object.content.with_mut(|_| ());
            }
            user.join().unwrap();
        });
    }
}
