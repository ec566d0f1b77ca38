//! Views of a running test: one shared state and three views of it. The progress line, the terminal view and the metrics
//! read [`State`]. The run never waits for a view.

mod metrics;
mod monitor;
mod progress;
mod screen;
mod view;
mod watcher;

pub use metrics::MetricsServer;
pub use monitor::Monitor;
pub use progress::{Progress, time};
pub use screen::{Screen, restore_terminal};
pub use watcher::Watcher;

use monitor::{Rates, State};
