//! Tests snapshots and checkpoint pins under many thread schedules.

use ese_format::LogPosition;
use jetcell_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use jetcell_sync::{Arc, thread};

use super::{ReadView, TransactionTable};
use crate::schedule_tests::explore;
use crate::storage::CheckpointPins;

#[test]
fn a_snapshot_sees_a_commit_completely_or_not_at_all() {
    explore(|| {
        let table = Arc::new(TransactionTable::default());
        let writer = table.begin(1);
        let reader = thread::spawn({
            let (table, writer) = (table.clone(), writer.clone());
            move || {
                let transaction = table.begin(1);
                // One reader with a transaction and one without.
                for snapshot in [transaction.snapshot, table.now()] {
                    let view = ReadView { own: None, snapshot };
                    let first = view.sees(&writer);
                    assert_eq!(
                        view.sees(&writer),
                        first,
                        "a commit became visible to a snapshot taken before"
                    );
                }
                table.end(&transaction);
            }
        });
        table.commit::<()>(&writer, |_| Ok(LogPosition::MIN)).unwrap();
        table.end(&writer);
        reader.join().unwrap();
        assert!(!table.any_running());
    });
}

#[test]
fn history_that_a_snapshot_needs_is_not_reported_as_removable() {
    explore(|| {
        let table = Arc::new(TransactionTable::default());
        let gone = Arc::new(AtomicU64::new(0));
        let sessions = [0, 1].map(|_| {
            let (table, gone) = (table.clone(), gone.clone());
            thread::spawn(move || {
                for _ in 0..2 {
                    let below = gone.load(Ordering::SeqCst);
                    let transaction = table.begin(1);
                    assert!(transaction.snapshot >= below);
                    assert!(table.oldest_snapshot() <= transaction.snapshot);
                    assert!(
                        gone.load(Ordering::SeqCst) <= transaction.snapshot,
                        "history that the snapshot needs can be removed"
                    );
                    table.commit::<()>(&transaction, |_| Ok(LogPosition::MIN)).unwrap();
                    table.end(&transaction);
                }
            })
        });
        for _ in 0..3 {
            gone.fetch_max(table.oldest_snapshot(), Ordering::SeqCst);
        }
        sessions.into_iter().for_each(|session| session.join().unwrap());
    });
}

#[test]
fn a_checkpoint_pin_stays_held_during_handover_between_threads() {
    explore(|| {
        let pins = Arc::new(CheckpointPins::default());
        let position = LogPosition::new(1, 2, 0);
        let pin = thread::spawn({
            let pins = pins.clone();
            move || pins.pin(position)
        });
        let pin = pin.join().unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let checkpoint = thread::spawn({
            let (pins, over) = (pins.clone(), over.clone());
            move || {
                for _ in 0..3 {
                    let oldest = pins.oldest();
                    if !over.load(Ordering::SeqCst) {
                        assert_eq!(oldest, Some(position), "the checkpoint could have passed");
                    }
                }
            }
        });
        // A thread other than the owner takes over the pin, as cleanup does after a rollback.
        let again = pins.pin_again(pin);
        pins.release(pin);
        let last = pins.pin_again(again);
        pins.release(again);
        over.store(true, Ordering::SeqCst);
        pins.release(last);
        checkpoint.join().unwrap();
        assert_eq!(pins.oldest(), None);
    });
}
