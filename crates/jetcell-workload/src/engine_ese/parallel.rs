//! Runs work on many instances with limited concurrency. Each instance spends most of its time waiting for the disk.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

/// Maximum number of instances that are processed concurrently.
const MAX_CONCURRENT: usize = 8;

/// Runs `work` for each number below `count` and returns the results in order.
pub(super) fn run_in_parallel<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new((0..count).map(|_| None).collect::<Vec<Option<T>>>());
    std::thread::scope(|scope| {
        for _ in 0..count.min(MAX_CONCURRENT) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return;
                    }
                    let outcome = work(number);
                    done.lock()[number] = Some(outcome);
                }
            });
        }
    });
    done.into_inner().into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parallel_outcomes_are_in_order() {
        assert_eq!(
            run_in_parallel(100, |number| number * number),
            (0..100).map(|n| n * n).collect::<Vec<_>>()
        );
        assert!(run_in_parallel(0, |number| number).is_empty());
    }
}
