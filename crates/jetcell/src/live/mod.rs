//! What a run shows while it goes on: one shared state, and its faces. The progress line, the terminal view and the
//! metrics all read [`State`]; none of them is asked by the run or can hold it up.

mod metrics;
mod monitor;
mod progress;
mod screen;
mod view;

pub use metrics::MetricsServer;
pub use monitor::{Monitor, Watcher};
pub use progress::Progress;
pub use screen::{Screen, restore_terminal};

use monitor::{Rates, State};
