//! Which threads are those of the engine: a session may wait for what they do, and they must not.

use std::cell::Cell;

thread_local! {
    static IS_BACKGROUND: Cell<bool> = const { Cell::new(false) };
}

/// The current thread does background work from now on.
pub(crate) fn become_background_thread() {
    IS_BACKGROUND.set(true);
}

/// Whether the current thread does background work.
pub(crate) fn is_background_thread() -> bool {
    IS_BACKGROUND.get()
}
