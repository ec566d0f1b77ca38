//! Session numbers, which identify sessions in the log. Two open sessions must never have the same number. Otherwise
//! recovery could not distinguish them, and would apply one session's commit to the other's changes.

use std::collections::BTreeSet;

use jetcell_sync::{Arc, Mutex};

use crate::transaction::FIRST_OWN_PROCID;

/// The session numbers in use in an instance.
#[derive(Default)]
pub(crate) struct SessionNumbers(Mutex<UsedNumbers>);

#[derive(Default)]
struct UsedNumbers {
    numbers: BTreeSet<u16>,
    last: u16,
}

impl SessionNumbers {
    /// Allocates an unused number. It is never 0, and never one of the highest numbers, which are reserved for the
    /// engine.
    ///
    /// # Panics
    /// Panics if all numbers are in use.
    pub fn take(self: &Arc<Self>) -> SessionNumber {
        let mut used = self.0.lock();
        let last = used.last;
        let free = (last + 1..FIRST_OWN_PROCID).chain(1..=last).find(|number| !used.numbers.contains(number));
        let number = free.expect("fewer than 65,519 sessions exist at a time");
        used.numbers.insert(number);
        used.last = number;
        SessionNumber { number, numbers: self.clone() }
    }
}

/// Number of one session. Dropping this value frees the number. ESE: `procid`.
#[doc(alias = "procid")]
pub(crate) struct SessionNumber {
    number: u16,
    numbers: Arc<SessionNumbers>,
}

impl SessionNumber {
    pub fn get(&self) -> u16 {
        self.number
    }
}

impl Drop for SessionNumber {
    fn drop(&mut self) {
        self.numbers.0.lock().numbers.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_reused_only_after_its_session_has_ended() {
        let numbers = Arc::<SessionNumbers>::default();
        let kept = [numbers.take(), numbers.take()];
        assert_eq!(kept.each_ref().map(SessionNumber::get), [1, 2]);
        let others: Vec<u16> = (0..2 * u32::from(FIRST_OWN_PROCID)).map(|_| numbers.take().get()).collect();
        assert!(others.iter().all(|number| (3..FIRST_OWN_PROCID).contains(number)));
        drop(kept);
        let later: Vec<u16> = (0..u32::from(FIRST_OWN_PROCID)).map(|_| numbers.take().get()).collect();
        assert!(later.contains(&1) && later.contains(&2));
    }
}
