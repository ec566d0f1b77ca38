//! Maintenance that runs concurrently with the load.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use ese_engine::MaintenanceWindow;
use jetcell_input::OptionValueError;

use crate::parse_error::ParseError;

/// A set of maintenance tasks. One pass performs both the scan and zeroing. Defragmentation and layout are separate
/// tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Maintenance {
    /// Whether pages are verified.
    pub scan: bool,
    /// Whether the remains of deleted data are overwritten.
    pub zero: bool,
    /// Whether sparse pages are merged.
    pub defrag: bool,
    /// Whether scattered pages are moved into key order.
    pub layout: bool,
}

impl Maintenance {
    /// Returns true if no task is enabled.
    pub fn is_none(&self) -> bool {
        *self == Maintenance::default()
    }

    /// Returns the tasks one at a time. Zeroing is returned together with the scan.
    pub fn individual_tasks(self) -> impl Iterator<Item = Maintenance> {
        let none = Maintenance::default();
        let all = [
            Maintenance { scan: self.scan, ..none },
            Maintenance { scan: self.zero, zero: self.zero, ..none },
            Maintenance { defrag: self.defrag, ..none },
            Maintenance { layout: self.layout, ..none },
        ];
        all.into_iter().filter(|task| !task.is_none())
    }
}

/// Time windows for the maintenance tasks on one database.
pub struct TaskWindows {
    /// Window for the scan and zeroing.
    pub scan: Option<MaintenanceWindow>,
    /// Window for the defragmentation that merges pages.
    pub defrag: Option<MaintenanceWindow>,
    /// Window for the sequential layout.
    pub layout: Option<MaintenanceWindow>,
}

/// Maintenance settings for the databases of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MaintenanceSettings {
    /// Tasks to run.
    pub tasks: Maintenance,
    /// Pause after each read of the scan and each step of defragmentation.
    pub pause: Duration,
    /// Time window in which maintenance may run. It is divided among the tasks, and among the databases in a
    /// directory.
    pub window: Option<MaintenanceWindow>,
}

impl MaintenanceSettings {
    /// Returns the task windows for a database that shares its disk with others. `of_disk` contains the database's
    /// index on the disk and the number of databases there. The enabled tasks get equal parts of the window: first
    /// the scan, then defragmentation, then layout.
    ///
    /// # Errors
    /// Returns [`ese_engine::Error::Usage`] if the window is too short.
    pub fn windows(&self, of_disk: (u32, u32)) -> ese_engine::Result<TaskWindows> {
        let [scan, defrag, layout] = [self.tasks.scan, self.tasks.defrag, self.tasks.layout].map(u32::from);
        let tasks = scan + defrag + layout;
        let share = |wanted: u32, before: u32| match wanted {
            0 => Ok(None),
            _ => self.window.map(|window| window.share((before, tasks), of_disk)).transpose(),
        };
        Ok(TaskWindows {
            scan: share(scan, 0)?,
            defrag: share(defrag, scan)?,
            layout: share(layout, scan + defrag)?,
        })
    }
}

jetcell_input::text_in_serde!(Maintenance);

impl FromStr for Maintenance {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Maintenance, ParseError> {
        if text.trim() == "none" {
            return Ok(Maintenance::default());
        }
        let mut tasks = Maintenance::default();
        for task in text.split(',').map(str::trim) {
            let wanted = match task {
                "scan" => &mut tasks.scan,
                "zero" => &mut tasks.zero,
                "defrag" => &mut tasks.defrag,
                "layout" => &mut tasks.layout,
                _ => {
                    let advice = "use none, or a list of scan,zero,defrag,layout";
                    return Err(OptionValueError::unknown(task, "a maintenance task", advice).into());
                }
            };
            *wanted = true;
        }
        if tasks.zero && !tasks.scan {
            let problem = "zero requires scan, because one pass does both";
            return Err(OptionValueError::new(problem, "use scan,zero").into());
        }
        Ok(tasks)
    }
}

impl fmt::Display for Maintenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tasks =
            [(self.scan, "scan"), (self.zero, "zero"), (self.defrag, "defrag"), (self.layout, "layout")];
        let tasks: Vec<&str> = tasks.iter().filter(|(wanted, _)| *wanted).map(|(_, name)| *name).collect();
        f.write_str(if tasks.is_empty() { "none" } else { "" })?;
        f.write_str(&tasks.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_parsed_in_any_order_and_written_canonically() {
        for (text, written) in [
            ("none", "none"),
            ("scan", "scan"),
            ("zero, scan", "scan,zero"),
            ("defrag", "defrag"),
            ("layout,defrag,zero,scan", "scan,zero,defrag,layout"),
        ] {
            assert_eq!(text.parse::<Maintenance>().unwrap().to_string(), written);
        }
        let each: Vec<String> = "scan,zero,layout"
            .parse::<Maintenance>()
            .unwrap()
            .individual_tasks()
            .map(|tasks| tasks.to_string())
            .collect();
        assert_eq!(each, ["scan", "scan,zero", "layout"]);
        for wrong in ["", "zero", "zero,defrag", "none,scan", "scan;zero"] {
            assert!(wrong.parse::<Maintenance>().is_err(), "{wrong}");
        }
    }
}
