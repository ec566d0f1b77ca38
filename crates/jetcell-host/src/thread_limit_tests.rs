//! Tests of thread limits.

use super::*;

#[test]
fn the_number_of_startable_threads_is_measured() {
    assert!(try_threads(40).is_ok());
    let mut left = 7;
    let failed = start_all(9, || {
        left -= 1;
        if left < 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
    });
    assert_eq!(failed.unwrap_err().0, 7);
}
