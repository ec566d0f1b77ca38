//! Views of a running test. The progress line, the terminal view and the metrics all read the shared [`State`]. The
//! run never waits for a view.

mod copy_metrics;
mod metrics;
mod monitor;
mod progress;
mod run_metrics;
#[cfg_attr(not(feature = "live"), path = "no_screen.rs")]
mod screen;
#[cfg(feature = "live")]
mod view;
mod watcher;

pub use copy_metrics::{CopyFigures, CopyMonitor};
pub use metrics::MetricsServer;
pub use monitor::Monitor;
pub use progress::{Progress, time};
pub use run_metrics::RunMetrics;
pub use screen::{Screen, restore_terminal};
pub use watcher::Watcher;

use monitor::{Rates, State};
