//! Tests of signals.

use jetcell_sync::atomic::{AtomicU32, Ordering};

use super::*;

#[test]
fn only_the_first_signal_cancels() {
    let cancellation = Cancellation::default();
    let counts = [const { AtomicU32::new(0) }; 2].map(Arc::new);
    let [first, second] = counts.clone();
    let interrupt = Interrupt::with_actions(
        &cancellation,
        move || {
            first.fetch_add(1, Ordering::Relaxed);
        },
        move || {
            second.fetch_add(1, Ordering::Relaxed);
        },
    );
    let counted = || counts.each_ref().map(|count| count.load(Ordering::Relaxed));
    interrupt.press();
    assert!(cancellation.is_cancelled() && counted() == [1, 0]);
    interrupt.clone().press();
    interrupt.press();
    assert_eq!(counted(), [1, 2]);
}

#[test]
fn ignored_signals_do_not_extend_the_merge_interval() {
    let start = Instant::now();
    let mut filter = SignalFilter::default();
    let mut times = vec![0, 150, 199, 210, 300, 420];
    times.retain(|milliseconds| filter.accept(start + Duration::from_millis(*milliseconds)));
    assert_eq!(times, [0, 210, 420]);
}
