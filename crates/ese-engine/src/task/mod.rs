//! Maintenance tasks of an open database: passes over its pages that run while sessions use it, step by step.
//!
//! A [`MaintenanceTask`] decides when the next step may run: inside the maintenance window, when the database has the
//! turn, at the rate of the throttle, and while the cache has clean pages. Its [`MaintenancePass`] decides what a step
//! does. Scans and defragmentations are such passes.
//!
//! Invariants:
//! - A step is bounded. The task's lock is held during a step, so at most one step runs at a time.
//! - A failed step is repeated. A failure is reported once, however often the step fails in the same way.
//! - A pass is in progress exactly while it has a position ([`MaintenancePass::is_in_pass`]). An interrupted pass
//!   resumes from the position that was stored last.

mod host;
mod maintenance_pass;
mod maintenance_task;
mod pace;
mod turn;
mod window;

pub(crate) use self::host::TaskHost;
pub(crate) use self::maintenance_pass::{
    MaintenancePass, PassLimits, PassStep, PassTimes, StateStore, TaskEvent, TaskProgress, TaskSchedule,
    TaskStatus,
};
pub(crate) use self::maintenance_task::MaintenanceTask;
pub use self::pace::MaintenanceThrottle;
pub use self::turn::MaintenanceTurn;
pub use self::window::MaintenanceWindow;
