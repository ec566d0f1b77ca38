//! Checkpoint pins: log positions that the checkpoint must not pass yet.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use ese_format::LogPosition;
use jetcell_sync::Mutex;

use crate::sharded::{ShardIndex, Sharded};

/// A pin that keeps the checkpoint at or below a position until it is released.
#[derive(Clone, Copy, Debug)]
pub struct CheckpointPin {
    position: LogPosition,
    shard: ShardIndex,
}

/// All checkpoint pins in an instance.
#[derive(Debug, Default)]
pub struct CheckpointPins {
    /// Number of pins at each position.
    pinned: Sharded<Mutex<BTreeMap<LogPosition, usize>>>,
}

impl CheckpointPins {
    /// Keeps the checkpoint at or below `position` until the pin is released. The caller must have read the position
    /// before it appends the record that needs it.
    pub fn pin(&self, position: LogPosition) -> CheckpointPin {
        self.pin_again(CheckpointPin { position, shard: self.pinned.own_shard() })
    }

    /// Adds another pin at the position of `pin`, which must still exist.
    pub fn pin_again(&self, pin: CheckpointPin) -> CheckpointPin {
        // Both pins are in the same shard. A search for the oldest pin therefore always finds at least one of them,
        // even while one replaces the other.
        *self.pinned.shard(pin.shard).lock().entry(pin.position).or_default() += 1;
        pin
    }

    /// Releases a pin.
    pub fn release(&self, pin: CheckpointPin) {
        if let Entry::Occupied(mut entry) = self.pinned.shard(pin.shard).lock().entry(pin.position) {
            *entry.get_mut() -= 1;
            if *entry.get() == 0 {
                entry.remove();
            }
        }
    }

    /// Returns the oldest pinned position.
    pub fn oldest(&self) -> Option<LogPosition> {
        self.pinned.iter().filter_map(|shard| shard.lock().keys().next().copied()).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_pin_is_independent_of_the_order_of_pins_and_releases() {
        let segment_position = |segment| LogPosition::new(1, segment, 0);
        let pins = CheckpointPins::default();
        let pin = |segment| pins.pin(segment_position(segment));
        let (fifth, third, again, fourth) = (pin(5), pin(3), pin(3), pin(4));
        let oldest_after = |released| {
            pins.release(released);
            pins.oldest()
        };
        assert_eq!(pins.oldest(), Some(segment_position(3)));
        assert_eq!(oldest_after(third), Some(segment_position(3)), "pinned twice");
        assert_eq!(oldest_after(fourth), Some(segment_position(3)));
        assert_eq!(oldest_after(again), Some(segment_position(5)), "the fourth was released before");
        let elsewhere = jetcell_sync::thread::scope(|scope| scope.spawn(|| pin(2)).join().unwrap());
        assert_eq!(pins.oldest(), Some(segment_position(2)), "pins of other threads count");
        assert_eq!((oldest_after(elsewhere), oldest_after(fifth)), (Some(segment_position(5)), None));
    }
}
