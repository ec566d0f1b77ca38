//! Marks the engine's background threads. A session may wait for work that these threads do. A background thread must
//! therefore never wait for such work itself.

use std::cell::Cell;

thread_local! {
    static IS_BACKGROUND: Cell<bool> = const { Cell::new(false) };
}

/// Marks the current thread as a background thread for the rest of its lifetime.
pub(crate) fn become_background_thread() {
    IS_BACKGROUND.set(true);
}

/// Returns whether the current thread is a background thread.
pub(crate) fn is_background_thread() -> bool {
    IS_BACKGROUND.get()
}
