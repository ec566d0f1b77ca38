//! Tests of pacing.

use jetcell_vfs::{SimVfs, Vfs};

use super::*;

#[test]
fn transfers_are_paced_until_cancelled() {
    let clock = SimVfs::new().clock();
    let cancel = Cancellation::default();
    let pacer = Pacer::new(clock.clone(), Some(Rate::BytesPerSecond(1000)), cancel.clone());
    for _ in 0..5 {
        pacer.wait(500);
    }
    // The time reserved for the last piece may not have passed yet.
    assert_eq!(clock.monotonic(), Duration::from_secs(2));
    cancel.cancel();
    pacer.wait(9000);
    assert_eq!(clock.monotonic(), Duration::from_secs(2));
}

#[test]
fn a_pause_does_not_depend_on_the_size() {
    let clock = SimVfs::new().clock();
    let limit = Some(Rate::Pause(Duration::from_millis(250)));
    let pacer = Pacer::new(clock.clone(), limit, Cancellation::default());
    for bytes in [0, 1 << 30, 7] {
        pacer.wait(bytes);
    }
    assert_eq!(clock.monotonic(), Duration::from_millis(500));
    assert!(pacer.is_limited() && !Pacer::new(clock, None, Cancellation::default()).is_limited());
}
