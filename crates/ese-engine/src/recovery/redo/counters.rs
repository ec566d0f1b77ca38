//! Counters that sessions change concurrently without locks (escrow). Jetcell redoes the records of such changes but
//! does not write any.

use ese_format::LogPosition;
use ese_format::log::record::{LogRecord, operation};

use crate::page_misfit::PageMisfit;

/// A change to a counter in a node's data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct CounterChange {
    offset: u16,
    amount: CounterDelta,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CounterDelta {
    Narrow(i32),
    Wide(i64),
}

impl CounterChange {
    /// Returns the change in a Delta or Delta64 record.
    pub fn from_record(record: &LogRecord) -> Option<CounterChange> {
        match record {
            LogRecord::Delta(delta) => {
                Some(CounterChange { offset: delta.offset, amount: CounterDelta::Narrow(delta.delta) })
            }
            LogRecord::Delta64(delta) => {
                Some(CounterChange { offset: delta.offset, amount: CounterDelta::Wide(delta.delta) })
            }
            _ => None,
        }
    }

    /// Returns the change that reverses this one.
    pub fn reversed(self) -> CounterChange {
        let amount = match self.amount {
            CounterDelta::Narrow(amount) => CounterDelta::Narrow(amount.wrapping_neg()),
            CounterDelta::Wide(amount) => CounterDelta::Wide(amount.wrapping_neg()),
        };
        CounterChange { amount, ..self }
    }

    /// Returns the data after the change.
    pub fn changed(self, data: &[u8]) -> Result<Vec<u8>, PageMisfit> {
        let mut data = data.to_vec();
        let place = data.get_mut(usize::from(self.offset)..).ok_or(PageMisfit::CounterOutsideNode)?;
        match self.amount {
            CounterDelta::Narrow(amount) => {
                let place: &mut [u8; 4] = place.first_chunk_mut().ok_or(PageMisfit::CounterOutsideNode)?;
                *place = i32::from_le_bytes(*place).wrapping_add(amount).to_le_bytes();
            }
            CounterDelta::Wide(amount) => {
                let place: &mut [u8; 8] = place.first_chunk_mut().ok_or(PageMisfit::CounterOutsideNode)?;
                *place = i64::from_le_bytes(*place).wrapping_add(amount).to_le_bytes();
            }
        }
        Ok(data)
    }
}

/// A transaction's change to a counter.
pub(super) struct CounterOperation {
    pub id: u32,
    pub change: CounterChange,
    pub undone: bool,
    pub start: LogPosition,
}

/// Returns whether an operation in an Undo record is a change to a counter.
pub(super) fn is_counter(kind: u16) -> bool {
    matches!(kind, operation::DELTA | operation::DELTA64)
}
