//! Promises to the clients of a killed active side, and the check that the new active side keeps them.

use std::path::Path;

use ese_check::{CheckOptions, check_database};
use jetcell_copies::LogHistory;

use crate::killed::{DurableReports, THREADS, disk, open, read_number};

/// Last transaction of each thread that was found on the active side, and the generation up to which these numbers
/// apply.
pub struct DurablePromises {
    numbers: Vec<i32>,
    last_generation: u32,
}

impl DurablePromises {
    /// Creates an instance without any promises.
    pub fn new() -> DurablePromises {
        DurablePromises { numbers: vec![0; THREADS as usize], last_generation: 0 }
    }

    /// Returns the total number of transactions.
    pub fn total(&self) -> i32 {
        self.numbers.iter().sum()
    }

    /// Opens the new active side and checks it. Every thread must have all transactions of the generations up to
    /// `kept`, completely applied, and at most three more than were reported. The database must be undamaged.
    pub fn check_active_side(
        &mut self,
        directory: &Path,
        kept: u32,
        reports: &DurableReports,
        context: &str,
    ) -> Vec<i32> {
        let (instance, database) = open(directory).unwrap_or_else(|error| panic!("{context}: {error}"));
        let mut session = instance.session();
        let mut found = Vec::new();
        let (least, most) = (reports.last_acknowledged(kept), reports.last_acknowledged(u32::MAX));
        for thread in 0..THREADS {
            let number = read_number(&mut session, &database, thread)
                .unwrap_or_else(|error| panic!("{context}: {error}"));
            let at = thread as usize;
            let before = self.numbers[at];
            let least = if kept >= self.last_generation { least[at].max(before) } else { least[at] };
            // The limit includes the commit whose acknowledgement was interrupted by the kill, and a lazy commit
            // before it.
            let most = most[at].max(before) + 3;
            assert!(
                (least..=most).contains(&number),
                "{context}: thread {thread} has {number}, not {least} to {most}"
            );
            found.push(number);
        }
        drop((session, database));
        instance.shutdown().unwrap_or_else(|error| panic!("{context}: {error}"));
        self.numbers.clone_from(&found);
        self.last_generation = history(directory).newest().0;
        let path = directory.join("killed.edb");
        let vfs = disk().unwrap_or_else(|error| panic!("{context}: {error}"));
        let report = check_database(&*vfs, &path, &CheckOptions::default())
            .unwrap_or_else(|error| panic!("{context}: {error}"));
        let sound = report.clean && report.is_sound();
        assert!(sound, "{context}: {:#?}", report.errors().collect::<Vec<_>>());
        found
    }
}

impl Default for DurablePromises {
    fn default() -> DurablePromises {
        DurablePromises::new()
    }
}

/// Returns the history of the logs in a directory.
pub fn history(directory: &Path) -> LogHistory {
    let vfs = disk().expect("there is a disk");
    let files = vfs.list(directory).expect("the directory exists");
    LogHistory::from_files(&vfs, &files).expect("it has logs")
}
