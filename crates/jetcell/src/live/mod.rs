//! Views of a running test. The progress line, the terminal view and the metrics all read the shared
//! [`MonitorState`]. The run never waits for a view.

mod copy_metrics;
mod metrics;
mod monitor;
mod monitor_observer;
mod progress;
mod run_metrics;
#[cfg_attr(not(feature = "live"), path = "no_screen.rs")]
mod screen;
#[cfg(feature = "live")]
mod view;

pub use copy_metrics::{CopyFigures, CopyMetricsHandle};
pub use metrics::MetricsServer;
pub use monitor::RunMonitor;
pub use monitor_observer::MonitorObserver;
pub use progress::RunProgressDisplay;
pub use run_metrics::RunMetrics;
pub use screen::Screen;

use monitor::{MonitorState, RunIoRates};
