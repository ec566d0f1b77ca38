//! Damages pages on purpose, and checks that a scan finds exactly these pages.

use std::collections::BTreeSet;
use std::sync::Arc;

use ese_engine::{BackgroundThreads, Instance, InstanceOptions, MaintenanceThrottle, Result, ScanOptions};
use ese_format::PageNumber;
use ese_format::page::Page;
use jetcell_vfs::SimVfs;
use rand::Rng;

use super::EngineSimulation;

/// Minimum tree id for damage. Trees with smaller ids belong to the catalog, without which a database cannot be
/// attached.
const FIRST_USER_TABLE_ID: u32 = 8;

impl EngineSimulation {
    /// Damages random pages on a copy of the disk, and scans the databases, which were shut down before.
    pub(super) fn find_injected_damage(&mut self) {
        let Some(disk) = self.disk.copy() else { return };
        let mut injected: Vec<BTreeSet<PageNumber>> = Vec::new();
        for (number, created) in self.created.clone().into_iter().enumerate() {
            injected.push(if created { self.damage(&disk, number) } else { BTreeSet::new() });
        }
        for (number, injected) in injected.iter().enumerate().filter(|(number, _)| self.created[*number]) {
            let found = self.scan(&disk, number);
            let found = found.unwrap_or_else(|error| panic!("{}: {error}", self.context));
            assert_eq!(found, *injected, "{}: pages that the scan finds and that were damaged", self.context);
        }
        self.tally.damaged += injected.iter().map(|pages| pages.len() as u64).sum::<u64>();
    }

    /// Returns the bad pages that a scan of a database finds.
    fn scan(&self, disk: &SimVfs, number: usize) -> Result<BTreeSet<PageNumber>> {
        let mut options = InstanceOptions::with_vfs(Arc::new(disk.clone()), self.logs.clone());
        options.background = BackgroundThreads::None;
        options.page_size = self.plan.size;
        options.log.file_size = self.plan.log_bytes;
        options.log.circular = self.plan.circular;
        let instance = Instance::open(options)?;
        let db = instance.attach(&self.db_path(number), 32)?;
        let throttle = MaintenanceThrottle::default();
        let options = ScanOptions { throttle, single_pass: true, ..ScanOptions::default() };
        instance.start_maintenance(&db, options)?;
        while db.scan_progress().running {
            instance.step()?;
        }
        let found = db.scan_progress().findings.into_keys().collect();
        drop(db);
        instance.shutdown()?;
        Ok(found)
    }

    /// Changes bytes in up to four pages of a database. Zeroed pages were never written, so they cannot be damaged.
    fn damage(&mut self, disk: &SimVfs, number: usize) -> BTreeSet<PageNumber> {
        let (path, size) = (self.db_path(number), self.plan.size);
        let file = disk.contents(&path).unwrap_or_default();
        let page_at = |number: PageNumber| {
            let from = usize::try_from(size.offset_of(number)).unwrap_or(usize::MAX);
            file.get(from..from.saturating_add(size.bytes()))
        };
        let pages = (file.len() / size.bytes()).saturating_sub(2) as u32;
        let mut damaged = BTreeSet::new();
        for _ in 0..self.rng.random_range(0..=4) {
            let number = PageNumber::new(self.rng.random_range(1..=pages.max(1)));
            let Some((number, bytes)) = number.and_then(|number| Some((number, page_at(number)?))) else {
                continue;
            };
            if bytes.iter().all(|byte| *byte == 0) || Page::new(bytes, size).tree().0 < FIRST_USER_TABLE_ID {
                continue;
            }
            let len = self.rng.random_range(2..200);
            let at = self.rng.random_range(0..size.bytes() - len);
            let wrong: Vec<u8> =
                bytes[at..at + len].iter().map(|byte| byte ^ self.rng.random_range(1..=255)).collect();
            let offset = size.offset_of(number) + at as u64;
            disk.corrupt(&path, offset, &wrong).unwrap_or_else(|error| panic!("{}: {error}", self.context));
            damaged.insert(number);
        }
        damaged
    }
}
