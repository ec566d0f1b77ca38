//! Marks the threads of the engine. A session may wait for the work of these threads, so they must not wait for it
//! themselves.

use std::cell::Cell;

thread_local! {
    static IS_BACKGROUND: Cell<bool> = const { Cell::new(false) };
}

/// Marks the current thread as a background thread for the rest of its life.
pub(crate) fn become_background_thread() {
    IS_BACKGROUND.set(true);
}

/// Returns whether the current thread is a background thread.
pub(crate) fn is_background_thread() -> bool {
    IS_BACKGROUND.get()
}
