//! Holds on log generations. Redo no longer needs the held generations, but a running backup still needs them, or a
//! copy has not received them yet.

use std::collections::BTreeMap;

use ese_format::Generation;
use jetcell_sync::{Arc, Mutex};

/// All holds on the logs of a stream.
#[derive(Default)]
pub(in crate::log) struct LogHolds {
    /// Number of holds that begin at each generation.
    held: Mutex<BTreeMap<Generation, usize>>,
}

/// Guard that retains a stream's logs, from one generation onwards, until it is dropped.
pub struct LogHold {
    holds: Arc<LogHolds>,
    from: Generation,
}

impl LogHolds {
    /// Prevents logs of generation `from` and later from becoming obsolete.
    pub fn hold(self: &Arc<Self>, from: Generation) -> LogHold {
        *self.held.lock().entry(from).or_default() += 1;
        LogHold { holds: self.clone(), from }
    }

    /// Returns the oldest generation that any hold retains.
    pub fn oldest(&self) -> Option<Generation> {
        self.held.lock().keys().next().copied()
    }
}

impl LogHold {
    /// Returns the oldest generation that this hold retains.
    pub fn from(&self) -> Generation {
        self.from
    }

    /// Releases the logs older than `from`.
    pub fn advance(&mut self, from: Generation) {
        if from > self.from {
            *self = self.holds.hold(from);
        }
    }
}

impl Drop for LogHold {
    fn drop(&mut self) {
        let mut held = self.holds.held.lock();
        if let Some(count) = held.get_mut(&self.from) {
            *count -= 1;
            if *count == 0 {
                held.remove(&self.from);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_hold_is_effective_until_it_advances_or_ends() {
        let holds: Arc<LogHolds> = Arc::default();
        assert_eq!(holds.oldest(), None);
        let (mut first, second, third) =
            (holds.hold(Generation(3)), holds.hold(Generation(3)), holds.hold(Generation(9)));
        drop(second);
        assert_eq!(holds.oldest(), Some(Generation(3)));
        first.advance(Generation(2));
        assert_eq!(first.from(), Generation(3), "released logs may be gone");
        first.advance(Generation(12));
        assert_eq!(holds.oldest(), Some(Generation(9)));
        drop(third);
        assert_eq!(holds.oldest(), Some(Generation(12)));
        drop(first);
        assert_eq!(holds.oldest(), None);
    }
}
