//! Ctrl-C, SIGTERM and SIGHUP: the first signal cancels the work, and the second one ends the process.

use std::process;
use std::time::{Duration, Instant};

use jetcell_sync::{Arc, Mutex};
use jetcell_vfs::remove_unfinished_outputs;

use crate::Cancellation;

/// Exit code of a process that the user interrupted.
const INTERRUPTED: i32 = 130;

/// A signal within this time after another one is ignored. A shell, a service manager or `timeout` may signal a process
/// and its group.
const SIGNAL_MERGE_INTERVAL: Duration = Duration::from_millis(200);

type Action = Box<dyn Fn() + Send + Sync>;

/// Actions to run before an interrupted process exits.
static AT_EXIT: Mutex<Vec<Box<dyn Fn() + Send>>> = Mutex::new(Vec::new());

/// Adds an action that is run before a second signal ends the process, such as restoring the terminal.
pub fn at_exit(action: impl Fn() + Send + 'static) {
    AT_EXIT.lock().push(Box::new(action));
}

/// Creates a cancellation token, and installs the handler for it with [`cancel_on_signals`].
///
/// # Errors
/// Returns an error if the handler cannot be installed.
pub fn cancelled_by_signals() -> Result<Cancellation, InterruptError> {
    let cancellation = Cancellation::default();
    cancel_on_signals(&cancellation)?;
    Ok(cancellation)
}

/// Makes the first signal cancel the work, and the second one end the process.
///
/// # Errors
/// Returns an error if the handler cannot be installed.
pub fn cancel_on_signals(cancellation: &Cancellation) -> Result<(), InterruptError> {
    Interrupt::new(cancellation).install()
}

/// Handles signals, and a key that acts like Ctrl-C. Clones share their state.
#[derive(Clone)]
pub struct Interrupt(Arc<InterruptActions>);

struct InterruptActions {
    cancellation: Cancellation,
    on_first: Action,
    on_second: Action,
}

impl Interrupt {
    /// Creates an interrupt handler: the first signal cancels the work, and the second one ends the process.
    pub fn new(cancellation: &Cancellation) -> Interrupt {
        Interrupt::with_actions(cancellation, || (), exit)
    }

    /// Like [`Interrupt::new`], but `on_first` also runs at the first signal, after the cancellation.
    pub fn with_first(cancellation: &Cancellation, on_first: impl Fn() + Send + Sync + 'static) -> Interrupt {
        Interrupt::with_actions(cancellation, on_first, exit)
    }

    /// Like [`Interrupt::new`], but later signals run `on_second` and do not end the process, so the work can clean up.
    pub fn without_exit(
        cancellation: &Cancellation,
        on_second: impl Fn() + Send + Sync + 'static,
    ) -> Interrupt {
        Interrupt::with_actions(cancellation, || (), on_second)
    }

    fn with_actions(
        cancellation: &Cancellation,
        on_first: impl Fn() + Send + Sync + 'static,
        on_second: impl Fn() + Send + Sync + 'static,
    ) -> Interrupt {
        let (on_first, on_second) = (Box::new(on_first), Box::new(on_second));
        Interrupt(Arc::new(InterruptActions { cancellation: cancellation.clone(), on_first, on_second }))
    }

    /// Installs the handler for signals.
    ///
    /// # Errors
    /// Returns an error if the handler cannot be installed.
    pub fn install(&self) -> Result<(), InterruptError> {
        let (interrupt, mut filter) = (self.clone(), SignalFilter::default());
        let handler = move || {
            if filter.accept(Instant::now()) {
                interrupt.press();
            }
        };
        ctrlc::set_handler(handler).map_err(InterruptError)
    }

    /// Reacts as if a signal had been received.
    pub fn press(&self) {
        if self.0.cancellation.is_cancelled() {
            return (self.0.on_second)();
        }
        self.0.cancellation.cancel();
        (self.0.on_first)();
    }
}

/// Merges signals that follow an accepted one within [`SIGNAL_MERGE_INTERVAL`]. A merged signal does not extend the
/// interval.
#[derive(Default)]
struct SignalFilter(Option<Instant>);

impl SignalFilter {
    fn accept(&mut self, now: Instant) -> bool {
        let is_new = self.0.is_none_or(|last| now.duration_since(last) >= SIGNAL_MERGE_INTERVAL);
        if is_new {
            self.0 = Some(now);
        }
        is_new
    }
}

/// Runs the actions of [`at_exit`], removes incomplete output files, and ends the process.
fn exit() {
    AT_EXIT.lock().iter().for_each(|action| action());
    remove_unfinished_outputs();
    process::exit(INTERRUPTED);
}

/// Error returned if the signal handler cannot be installed.
#[derive(Debug, thiserror::Error)]
#[error("could not install the Ctrl-C handler: {0}")]
pub struct InterruptError(#[source] ctrlc::Error);

#[cfg(test)]
#[path = "interrupt_tests.rs"]
mod tests;
