//! Tests of cancellation.

use jetcell_vfs::SimClock;

use super::*;

#[test]
fn a_part_is_cancelled_with_the_whole() {
    let whole = Cancellation::default();
    let (one, other) = (whole.child(), whole.child());
    one.cancel();
    assert!(one.is_cancelled() && one.child().is_cancelled());
    assert!(!other.is_cancelled() && !whole.is_cancelled());
    whole.clone().cancel();
    assert!(other.is_cancelled());
}

#[test]
fn a_wait_ends_with_the_request() {
    let (clock, cancellation) = (SimClock::new(), Cancellation::default());
    assert!(cancellation.wait(&clock, Duration::from_millis(250)));
    assert_eq!(clock.monotonic(), Duration::from_millis(250));
    cancellation.cancel();
    assert!(!cancellation.wait(&clock, Duration::from_secs(60)));
    assert_eq!(clock.monotonic(), Duration::from_millis(250));
}
